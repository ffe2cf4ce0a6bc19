"""Check requests and translate them into what the use cases take."""

import re
from dataclasses import replace

from groundwire.api.common.v1 import document_format_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.decoding import check_size
from groundwire.ingest.domain.ingesting import DuplicatePolicy, IngestRequest
from groundwire.ingest.ports import Original
from groundwire.ingest.wire.chunking import parse_chunking
from groundwire.ingest.wire.fields import parse_fields
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import parse_caller_id, parse_collection_name, parse_source_uri

FORMATS: dict[int, DocumentFormat | None] = {
    document_format_pb2.DOCUMENT_FORMAT_UNSPECIFIED: None,
    document_format_pb2.DOCUMENT_FORMAT_TEXT: DocumentFormat.TEXT,
    document_format_pb2.DOCUMENT_FORMAT_MARKDOWN: DocumentFormat.MARKDOWN,
    document_format_pb2.DOCUMENT_FORMAT_HTML: DocumentFormat.HTML,
    document_format_pb2.DOCUMENT_FORMAT_PDF: DocumentFormat.PDF,
    document_format_pb2.DOCUMENT_FORMAT_DOCX: DocumentFormat.DOCX,
    document_format_pb2.DOCUMENT_FORMAT_RST: DocumentFormat.RST,
    document_format_pb2.DOCUMENT_FORMAT_CSV: DocumentFormat.CSV,
    document_format_pb2.DOCUMENT_FORMAT_JSONL: DocumentFormat.JSONL,
}
_POLICIES = {
    ingest_result_pb2.DUPLICATE_POLICY_UNSPECIFIED: DuplicatePolicy.ALLOW,
    ingest_result_pb2.DUPLICATE_POLICY_REJECT: DuplicatePolicy.REJECT,
    ingest_result_pb2.DUPLICATE_POLICY_REUSE: DuplicatePolicy.REUSE,
    ingest_result_pb2.DUPLICATE_POLICY_ALLOW: DuplicatePolicy.ALLOW,
}
_SHA256 = re.compile(r"[0-9a-fA-F]{64}")
_BYTE_ORDER_MARK = "\ufeff"


def parse_ingest_document(request: pb.IngestDocumentRequest, tenant: str) -> tuple[IngestRequest, Original]:
    """Return what is to be ingested.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    body = request.WhichOneof("body")
    if body is None:
        raise InvalidRequestError.of("body", "must be given: either text or content")
    if body == "text" and request.text.startswith(_BYTE_ORDER_MARK):
        raise InvalidRequestError.of("text", "must not begin with a byte order mark; send the bytes as content")
    content = request.text.encode("utf-8") if body == "text" else request.content
    wanted = replace(parse_described(request, tenant, body), chunking=parse_chunking(request.chunking, "chunking"))
    return wanted, Original(len(content), content)


def parse_upload_header(header: pb.UploadHeader, tenant: str, limit_bytes: int) -> IngestRequest:
    """Return what is to be ingested once its bytes are here.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
        DocumentTooLargeError: it announces more bytes than are allowed.
    """
    if header.total_bytes == 0:
        raise InvalidRequestError.of("header.total_bytes", "must be at least 1")
    check_size(header.total_bytes, limit_bytes, "header.total_bytes")
    described = parse_described(header, tenant, "part.data")
    return replace(described, chunking=parse_chunking(header.chunking, "chunking"))


def parse_staged(message: pb.IngestDocumentRequest | pb.UploadHeader, tenant: str) -> IngestRequest:
    """Return what is to be ingested of bytes that are staged; the message was parsed before it was stored."""
    body = "part.data" if isinstance(message, pb.UploadHeader) else message.WhichOneof("body") or "body"
    return replace(parse_described(message, tenant, body), chunking=parse_chunking(message.chunking, "chunking"))


def parse_described(
    message: pb.IngestDocumentRequest | pb.UploadHeader | pb.PutChunksHeader,
    tenant: str,
    content_field: str,
) -> IngestRequest:
    """Return what a request says about a document but for its content.

    Raises:
        InvalidRequestError: naming the field that breaks a rule.
    """
    if message.format not in FORMATS:
        raise InvalidRequestError.of("format", f"unknown value {message.format}")
    if message.duplicate_policy not in _POLICIES:
        raise InvalidRequestError.of("duplicate_policy", f"unknown value {message.duplicate_policy}")
    return IngestRequest(
        tenant=tenant,
        collection=parse_collection_name(message.collection),
        source_uri=parse_source_uri(message.source_uri),
        format=FORMATS[message.format],
        document_id=parse_caller_id(message.document_id, "document_id") if message.document_id else None,
        source_hash=_parse_hash(message.source_hash),
        fields=parse_fields(message.fields) if message.HasField("fields") else None,
        duplicate_policy=_POLICIES[message.duplicate_policy],
        content_field=content_field,
        source_version=message.source_version if message.HasField("source_version") else None,
    )


def _parse_hash(value: str) -> str | None:
    if value and _SHA256.fullmatch(value) is None:
        raise InvalidRequestError.of("source_hash", "must be 64 hexadecimal digits")
    return value.lower() or None
