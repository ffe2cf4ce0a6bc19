"""What changing calls ask and return."""

from dataclasses import dataclass

from groundwire.kernel.collection import CollectionSettings, ProfileName


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a collection is to be; the rules are the profile's with the caller's overrides."""

    tenant: str
    name: str
    profile: ProfileName
    settings: CollectionSettings
