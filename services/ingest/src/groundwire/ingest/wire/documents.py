"""Converts and checks the messages of calls on documents.

Violations raise InvalidRequestError, which names the field.
"""

import hashlib
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

from groundwire.api.common.v1 import document_format_pb2
from groundwire.api.ingest.v1 import deletion_pb2, ingest_result_pb2, progress_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.changes import MetadataChange
from groundwire.ingest.documents import IngestPlan, PlannedChange
from groundwire.ingest.ingesting import (
    ChunkingOverrides,
    DuplicatePolicy,
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Progress,
    Remarks,
)
from groundwire.ingest.parsing.parsed_document import Original
from groundwire.ingest.parsing.source_text import SourceWarning, check_size
from groundwire.ingest.wire.collections import PROFILES_BY_NUMBER
from groundwire.ingest.wire.fields import known, parse_chunking, parse_fields, parse_metadata, parse_tags
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.errors import FieldViolation, InvalidRequestError, refuse
from groundwire.kernel.filters import Filter, leaves
from groundwire.kernel.identifiers import SHA256, RequestKey, parse_caller_id, parse_collection_name, parse_source_uri
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.messages import to_document_message, to_span
from groundwire.rpc.request_context import request_key
from groundwire.rpc.value_messages import members_by_number, to_timestamp

_FORMATS = members_by_number(document_format_pb2.DocumentFormat, DocumentFormat)
_POLICIES = members_by_number(ingest_result_pb2.DuplicatePolicy, DuplicatePolicy)
_BYTE_ORDER_MARK = "\ufeff"
MAX_PLANNED_CHUNKS = 1000
"""A plan names no more chunks than this; its counts are those of all."""
_UPLOAD = "UploadDocument"
_ALL = "*"
_FIELDS = "fields"
_NAMES = (
    *("title", "creators", "subjects", "description", "date_created"),
    *("language", "category", "tags", "project"),
)
_ELSEWHERE = "is changed by set_metadata and remove_metadata"
_WARNINGS = {
    "CHUNK_UNDERSIZED": "chunks are shorter than the minimum and could not be merged",
    "CHUNK_BEYOND_MODEL": "the model does not read the end of these chunks",
    SourceWarning.PAGE_WITHOUT_TEXT.value: "pages have no text layer and cannot be searched",
    SourceWarning.PROPERTY_IGNORED.value: "values that the source says about itself break a rule: left out or cut",
}


def parse_ingest_document(request: pb.IngestDocumentRequest, tenant: str) -> tuple[IngestRequest, Original]:
    body = request.WhichOneof("body")
    if body is None:
        raise InvalidRequestError.of("body", "must be given: either text or content")
    if body == "text" and request.text.startswith(_BYTE_ORDER_MARK):
        raise InvalidRequestError.of("text", "must not begin with a byte order mark; send the bytes as content")
    content = request.text.encode("utf-8") if body == "text" else request.content
    return parse_described(request, tenant, body), Original(len(content), content)


def parse_upload_header(header: pb.UploadHeader, tenant: str, limit_bytes: int) -> IngestRequest:
    """Return what is to be ingested once its bytes are here.

    Raises:
        DocumentTooLargeError: it announces more bytes than are allowed.
    """
    if header.total_bytes < 1:
        raise InvalidRequestError.of("header.total_bytes", "must be at least 1")
    check_size(header.total_bytes, limit_bytes, "header.total_bytes")
    return parse_described(header, tenant, "part.data")


def parse_staged(message: pb.IngestDocumentRequest | pb.UploadHeader, tenant: str) -> IngestRequest:
    """Return the request for staged bytes; the message was validated before it was stored."""
    body = "part.data" if isinstance(message, pb.UploadHeader) else message.WhichOneof("body") or "body"
    return parse_described(message, tenant, body)


def parse_described(
    message: pb.IngestDocumentRequest | pb.UploadHeader | pb.PutChunksHeader, tenant: str, content_field: str
) -> IngestRequest:
    """Return what a request says about a document, except its content."""
    if message.source_hash and SHA256.fullmatch(message.source_hash) is None:
        raise InvalidRequestError.of("source_hash", "must be 64 hexadecimal digits")
    return IngestRequest(
        tenant=tenant,
        collection=parse_collection_name(message.collection),
        source_uri=parse_source_uri(message.source_uri),
        format=known(_FORMATS, message.format, "format"),
        document_id=parse_caller_id(message.document_id, "document_id") if message.document_id else None,
        source_hash=message.source_hash.lower() or None,
        fields=parse_fields(message.fields) if message.HasField("fields") else None,
        duplicate_policy=known(_POLICIES, message.duplicate_policy, "duplicate_policy") or DuplicatePolicy.ALLOW,
        content_field=content_field,
        # Chunks that the caller has made are not cut by any policy.
        chunking=(
            ChunkingOverrides()
            if isinstance(message, pb.PutChunksHeader)
            else parse_chunking(message.chunking, "chunking")
        ),
        source_version=message.source_version if message.HasField("source_version") else None,
        decoded=content_field == "text",
    )


def header_bytes(header: pb.UploadHeader) -> bytes:
    """Return the header without the id of the upload, the same bytes for the same header."""
    return _without_id(header).SerializeToString(deterministic=True)


def header_differences(header: pb.UploadHeader, first: bytes) -> list[str]:
    """Return the names of the fields, the id left out, in which a header differs from the first one."""
    # Presence counts too: a version of 0 that is given differs from none.
    one = {field.name: value for field, value in _without_id(header).ListFields()}
    other = {field.name: value for field, value in pb.UploadHeader.FromString(first).ListFields()}
    return [field.name for field in pb.UploadHeader.DESCRIPTOR.fields if one.get(field.name) != other.get(field.name)]


def upload_key(header: pb.UploadHeader, upload_id: str, source_hash: str) -> RequestKey:
    """Return what an upload is known by: its request id, else its own id, so that its answer can be given again."""
    digest = hashlib.sha256(header_bytes(header) + source_hash.encode()).hexdigest()
    own = RequestKey(f"upload:{upload_id}", _UPLOAD, digest)
    return request_key(_UPLOAD, _without_id(header), source_hash) or own


def _without_id(header: pb.UploadHeader) -> pb.UploadHeader:
    body = pb.UploadHeader()
    body.CopyFrom(header)
    body.ClearField("upload_id")
    return body


def parse_document_change(request: pb.UpdateDocumentRequest) -> Callable[[DocumentFields], DocumentFields]:
    """Return a function from old fields to new ones; without a mask, every present field is changed."""
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
    metadata = _metadata_change(request, bool(values))
    return lambda before: replace(before, **values, metadata=metadata.apply(before.metadata))


def parse_chunk_change(request: pb.UpdateChunkRequest) -> Callable[[Chunk], Chunk]:
    """Return a function from the old chunk to the new one; without a mask, tags are changed if there are any."""
    mask, given = request.update_mask.paths, request.chunk.tags
    _refuse_unknown(mask, {_ALL, "tags"})
    tags = parse_tags(given, "chunk.tags") if mask or given else None
    metadata = _metadata_change(request, tags is not None)
    return lambda before: replace(
        before, tags=before.tags if tags is None else tags, metadata=metadata.apply(before.metadata)
    )


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
    refuse(
        FieldViolation(
            f"update_mask.paths[{number}]", _ELSEWHERE if "metadata" in path.split(".") else f"unknown path {path!r}"
        )
        for number, path in enumerate(mask)
        if path not in known
    )


def _metadata_change(
    request: pb.UpdateDocumentRequest | pb.UpdateChunkRequest, has_other_changes: bool
) -> MetadataChange:
    values = parse_metadata(request.set_metadata, "set_metadata")
    removed = frozenset(request.remove_metadata)
    refuse(
        FieldViolation(f"remove_metadata[{number}]", f"{key!r} is set as well")
        for number, key in enumerate(request.remove_metadata)
        if key in values
    )
    if not (has_other_changes or values or removed):
        raise InvalidRequestError.of("update_mask", "and the other fields name nothing to change")
    return MetadataChange(values, removed, clears=_ALL in removed)


def parse_plan_ingest(request: pb.PlanIngestRequest, tenant: str) -> tuple[IngestRequest, Original, ProfileName | None]:
    """Return the ingest that is planned, and the profile of its collection if that does not exist."""
    profile = known(PROFILES_BY_NUMBER, request.new_collection_profile, "new_collection_profile")
    given = {field.name: value for field, value in request.ListFields()}
    given.pop("new_collection_profile", None)
    # Parsed like the ingest it plans, so that both are refused and prepared in the same way.
    return *parse_ingest_document(pb.IngestDocumentRequest(**given), tenant), profile


def to_plan_response(plan: IngestPlan) -> pb.PlanIngestResponse:
    return pb.PlanIngestResponse(
        outcome=ingest_result_pb2.IngestOutcome.Value(f"INGEST_OUTCOME_{plan.outcome.name}"),
        added_count=plan.count(PlannedChange.ADDED),
        kept_count=plan.count(PlannedChange.KEPT),
        removed_count=plan.count(PlannedChange.REMOVED),
        embedded_count=plan.embedded,
        embedded_token_count=plan.embedded_tokens,
        chunks=[
            pb.PlannedChunk(
                change=pb.PlannedChange.Value(f"PLANNED_CHANGE_{planned.change.name}"),
                span=to_span(planned.chunk.span),
                section_heading=planned.chunk.section_title,
                token_count=planned.chunk.token_count,
                content_hash=planned.chunk.content_hash,
            )
            for planned in plan.chunks[:MAX_PLANNED_CHUNKS]
        ],
        current=None if plan.current is None else to_document_message(plan.current),
        warnings=to_warnings(plan.remarks),
    )


def to_ingest_result(result: IngestResult) -> ingest_result_pb2.IngestResult:
    wrote = result.outcome in {IngestOutcome.CREATED, IngestOutcome.REPLACED}
    return ingest_result_pb2.IngestResult(
        document=to_document_message(result.document),
        outcome=ingest_result_pb2.IngestOutcome.Value(f"INGEST_OUTCOME_{result.outcome.name}"),
        counts=ingest_result_pb2.IngestCounts(
            chunk_count=result.document.chunk_count,
            embedded_count=result.embedded,
            # Where nothing was written, all chunks keep their vectors.
            reused_embedding_count=result.reused if wrote else result.document.chunk_count,
            skipped_duplicate_count=result.skipped,
        ),
        warnings=to_warnings(result.remarks),
    )


def to_warnings(remarks: Remarks) -> list[ingest_result_pb2.IngestWarning]:
    ignored = remarks.ignored
    counts = {
        "CHUNK_UNDERSIZED": remarks.undersized,
        "CHUNK_BEYOND_MODEL": remarks.beyond_model,
        **{warning.value: count for warning, count in remarks.of_source.items()},
        "FIELD_IGNORED": len(ignored),
    }
    said = _WARNINGS | {"FIELD_IGNORED": f"the source is an alias now, so these have no effect: {', '.join(ignored)}"}
    return [
        ingest_result_pb2.IngestWarning(
            kind=ingest_result_pb2.IngestWarningKind.Value(f"INGEST_WARNING_KIND_{kind}"),
            message=said[kind],
            occurrence_count=count,
        )
        for kind, count in counts.items()
        if count
    ]


def to_progress(progress: Progress) -> progress_pb2.Progress:
    return progress_pb2.Progress(
        stage=progress_pb2.ProgressStage.Value(f"PROGRESS_STAGE_{progress.stage.name}"),
        done_count=progress.done,
        total_count=progress.total,
    )


def to_deletion_receipt(deletion: Deletion) -> deletion_pb2.DeletionReceipt:
    completed = deletion.complete_time
    return deletion_pb2.DeletionReceipt(
        receipt_id=deletion.deletion_id,
        state=deletion_pb2.DELETION_STATE_HIDDEN if completed is None else deletion_pb2.DELETION_STATE_COMPLETE,
        purged=deletion.permanent,
        document_count=deletion.documents,
        chunk_count=deletion.chunks,
        stores=[
            deletion_pb2.StoreDeletion(
                store=each.store, removed_count=each.removed, leftover_count=each.left, complete=each.left == 0
            )
            for each in deletion.stores
        ],
        hide_time=to_timestamp(deletion.hide_time),
        complete_time=None if completed is None else to_timestamp(completed),
    )
