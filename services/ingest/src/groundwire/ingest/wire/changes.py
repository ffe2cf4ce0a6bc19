"""Check and translate what is to be changed, by field mask."""

from collections.abc import Collection, Mapping

from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.field_changes import ChunkChange, DocumentChange, MetadataChange
from groundwire.ingest.wire.fields import is_metadata_key, parse_fields, parse_own_fields
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.filters import Value

_ALL = "*"
_METADATA = "metadata"
_KEY = "metadata."
_DOCUMENT_PATHS = (
    *("title", "creators", "subjects", "description", "date_created"),
    *("language", "category", "tags", "project"),
)
_CHUNK_PATHS = ("tags",)


def parse_document_change(request: pb.UpdateDocumentRequest) -> DocumentChange:
    """Return what changes on the document; without a mask everything that is present in `fields`.

    Raises:
        InvalidRequestError: naming the field or path that breaks a rule.
    """
    if not request.HasField("fields"):
        raise InvalidRequestError.of("fields", "must be given")
    fields = parse_fields(request.fields)
    present = {descriptor.name for descriptor, _ in request.fields.ListFields()}
    paths = _paths(request.update_mask, _DOCUMENT_PATHS, present)
    values = {name: getattr(fields, name) for name in _DOCUMENT_PATHS if name in paths}
    return DocumentChange(values, _metadata_change(paths, fields.metadata))


def parse_chunk_change(request: pb.UpdateChunkRequest) -> ChunkChange:
    """Return what changes on the chunk; without a mask everything that is present in `changes`.

    Raises:
        InvalidRequestError: naming the field or path that breaks a rule.
    """
    tags, metadata = parse_own_fields(request.changes.tags, request.changes.metadata, "changes")
    present = {descriptor.name for descriptor, _ in request.changes.ListFields()}
    paths = _paths(request.update_mask, _CHUNK_PATHS, present)
    return ChunkChange(tags if "tags" in paths else None, _metadata_change(paths, metadata))


def _paths(mask: FieldMask, known: Collection[str], present: set[str]) -> set[str]:
    """Return names of fields; `metadata` means all keys, `metadata.KEY` one, `metadata.` those that are present."""
    if not mask.paths:
        return {_KEY if name == _METADATA else name for name in present}
    unknown = [
        FieldViolation(f"update_mask.paths[{number}]", f"unknown path {path!r}")
        for number, path in enumerate(mask.paths)
        if not _is_known(path, known)
    ]
    if unknown:
        raise InvalidRequestError(unknown)
    return {*known, _METADATA} if _ALL in mask.paths else set(mask.paths)


def _is_known(path: str, known: Collection[str]) -> bool:
    return path in {_ALL, _METADATA, *known} or (path.startswith(_KEY) and is_metadata_key(path.removeprefix(_KEY)))


def _metadata_change(paths: set[str], given: Mapping[str, Value]) -> MetadataChange:
    if _METADATA in paths:
        return MetadataChange(given, replaces=True)
    if _KEY in paths:
        return MetadataChange(given)
    named = {path.removeprefix(_KEY) for path in paths if path.startswith(_KEY)}
    values = {key: given[key] for key in sorted(named) if key in given}
    return MetadataChange(values, frozenset(named - values.keys()))
