"""What changing calls ask and return."""

from dataclasses import dataclass

from groundwire.kernel.collection import CollectionSettings, ProfileName


@dataclass(frozen=True, slots=True)
class RequestKey:
    """What a call is known by: its request id, its method, and a SHA-256 of its body without the id."""

    request_id: str
    method: str
    body_digest: str


@dataclass(frozen=True, slots=True)
class NewCollection:
    """What a collection is to be; the rules are the profile's with the caller's overrides."""

    tenant: str
    name: str
    profile: ProfileName
    settings: CollectionSettings
