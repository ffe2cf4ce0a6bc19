"""Check requests that create and change collections."""

from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as pb
from groundwire.ingest.domain.changing import NewCollection
from groundwire.ingest.wire.collection_settings import SettingsReader, to_settings_message
from groundwire.ingest.wire.settings_mask import masked_settings
from groundwire.kernel.collection import PROFILES, Collection, CollectionSettings, ProfileName
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.identifiers import parse_collection_name

_PROFILES = {
    collection_pb2.PROFILE_UNSPECIFIED: ProfileName.DOCUMENTS,
    collection_pb2.PROFILE_DOCUMENTS: ProfileName.DOCUMENTS,
    collection_pb2.PROFILE_CONVERSATIONS: ProfileName.CONVERSATIONS,
    collection_pb2.PROFILE_MEMORY: ProfileName.MEMORY,
    collection_pb2.PROFILE_WEB: ProfileName.WEB,
    collection_pb2.PROFILE_BOOK: ProfileName.BOOK,
}


def parse_create_collection(request: pb.CreateCollectionRequest, tenant: str, read: SettingsReader) -> NewCollection:
    """Return the collection that is wanted.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    name = parse_collection_name(request.collection)
    if request.profile not in _PROFILES:
        raise InvalidRequestError.of("profile", f"unknown value {request.profile}")
    profile = PROFILES[_PROFILES[request.profile]]
    return NewCollection(tenant, name, profile.name, read(request.settings, profile.settings))


def changed_settings(
    request: pb.UpdateCollectionRequest, current: Collection, read: SettingsReader
) -> CollectionSettings:
    """Return the settings of a collection as the request wants them.

    Raises:
        InvalidRequestError: naming the field that breaks a rule, or the unknown path of the mask.
    """
    wanted = masked_settings(to_settings_message(current.settings), request.collection.settings, request.update_mask)
    try:
        return read(wanted, PROFILES[current.profile].settings)
    except InvalidRequestError as error:
        violations = [FieldViolation(f"collection.{each.field}", each.description) for each in error.violations]
        raise InvalidRequestError(violations) from error
