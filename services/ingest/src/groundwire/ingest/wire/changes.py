"""Check and translate what is to be changed on documents and chunks, and what is to be purged."""

from collections.abc import Collection, Sequence

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.field_changes import ChunkChange, DocumentChange, MetadataChange
from groundwire.ingest.wire.fields import parse_fields, parse_metadata, parse_tags
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.filters import Filter, leaves
from groundwire.rpc.filter_messages import parse_filter_message

_ALL = "*"
_FIELDS = "fields"
_NAMES = (
    *("title", "creators", "subjects", "description", "date_created"),
    *("language", "category", "tags", "project"),
)
_ELSEWHERE = "is changed by set_metadata and remove_metadata"


def parse_document_change(request: pb.UpdateDocumentRequest) -> DocumentChange:
    """Return what changes on the document; without a mask every field that is present.

    Raises:
        InvalidRequestError: naming the field or path that breaks a rule.
    """
    mask, given = request.update_mask.paths, request.document.fields
    _refuse_unknown(mask, {_ALL, _FIELDS, *(f"{_FIELDS}.{name}" for name in _NAMES)})
    whole = _ALL in mask or _FIELDS in mask
    if given.metadata and (whole or not mask):
        raise InvalidRequestError.of("document.fields.metadata", _ELSEWHERE)
    if mask:
        names = {name for name in _NAMES if whole or f"{_FIELDS}.{name}" in mask}
    else:
        names = {field.name for field, _ in given.ListFields()}
    fields = parse_fields(given, "document.fields")
    values = {name: getattr(fields, name) for name in _NAMES if name in names}
    return DocumentChange(values, _metadata_change(request, bool(values)))


def parse_chunk_change(request: pb.UpdateChunkRequest) -> ChunkChange:
    """Return what changes on the chunk; without a mask its tags, if there are any.

    Raises:
        InvalidRequestError: naming the field or path that breaks a rule.
    """
    mask, given = request.update_mask.paths, request.chunk.tags
    _refuse_unknown(mask, {_ALL, "tags"})
    tags = parse_tags(given, "chunk.tags") if mask or given else None
    return ChunkChange(tags, _metadata_change(request, tags is not None))


def parse_purge_filter(request: pb.PurgeDocumentsRequest) -> Filter | None:
    """Return which documents are to be purged, None for all.

    Raises:
        InvalidRequestError: there is no filter, or it has no condition, which would match everything.
    """
    if request.filter.json == _ALL:
        return None
    where = parse_filter_message(request.filter) if request.HasField("filter") else None
    if where is None or not any(leaves(where)):
        raise InvalidRequestError.of("filter", f"must have a condition; its JSON form {_ALL!r} matches all documents")
    return where


def _refuse_unknown(mask: Sequence[str], known: Collection[str]) -> None:
    unknown = [
        FieldViolation(
            f"update_mask.paths[{number}]", _ELSEWHERE if "metadata" in path.split(".") else f"unknown path {path!r}"
        )
        for number, path in enumerate(mask)
        if path not in known
    ]
    if unknown:
        raise InvalidRequestError(unknown)


def _metadata_change(
    request: pb.UpdateDocumentRequest | pb.UpdateChunkRequest, has_other_changes: bool
) -> MetadataChange:
    values = parse_metadata(request.set_metadata, "set_metadata")
    removed = frozenset(request.remove_metadata)
    both = [
        FieldViolation(f"remove_metadata[{number}]", f"{key!r} is set as well")
        for number, key in enumerate(request.remove_metadata)
        if key in values
    ]
    if both:
        raise InvalidRequestError(both)
    if not (has_other_changes or values or removed):
        raise InvalidRequestError.of("update_mask", "and the other fields name nothing to change")
    return MetadataChange(values, removed, clears=_ALL in removed)
