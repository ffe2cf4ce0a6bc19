"""PutChunks: the stream of chunks cut by the caller, and its checks.

Violations raise InvalidRequestError, which names the field.
"""

import hashlib
import math
import re
from collections import Counter
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise
from tempfile import SpooledTemporaryFile
from typing import Any

import numpy as np
from google.protobuf import proto

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.chunking.ready_chunks import SLACK_CHARS, ReadyChunk, ReadyDocument
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.ingesting import IngestRequest
from groundwire.ingest.parsing.source_text import check_size
from groundwire.ingest.servicer.calls import CallParts
from groundwire.ingest.uploads import StagingFolder, translated_failures
from groundwire.ingest.wire.documents import parse_described, to_ingest_result
from groundwire.ingest.wire.fields import parse_metadata, parse_tags
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import ExhaustedError, InvalidRequestError, refuse_broken
from groundwire.kernel.identifiers import SHA256, has_controls, parse_caller_id, prefixed_chunk_id
from groundwire.rpc import request_context
from groundwire.rpc.request_context import request_key

MAX_CHUNKS = 10_000
_MAX_HEADING_CHARS = 1024
_MAX_PAGES = 10_000
_MAX_PATH = 64
_MAX_LEVEL = 3
# Ids reserved for the server, and numbers, which mean chunk numbers.
_OF_SERVER = re.compile(r".*#chunk_\d{3,}|\d+")
MAX_PARTS_BYTES = 256 << 20
"""The most that the parts of one document may have together: 10,000 vectors of 4,096 numbers take 156 MiB."""


def parse_put_chunks_header(header: pb.PutChunksHeader, tenant: str) -> IngestRequest:
    """Return what is to be stored, without the chunks."""
    if header.HasField("chunk_count") and not 1 <= header.chunk_count <= MAX_CHUNKS:
        raise InvalidRequestError.of("chunk_count", f"must be 1 to {MAX_CHUNKS}")
    return parse_described(header, tenant, "chunks")


def parse_put_chunks(
    header: pb.PutChunksHeader, parts: Iterable[pb.PutChunksPart], tenant: str
) -> tuple[IngestRequest, ReadyDocument]:
    """Return what is to be stored; lengths of vectors and contents are checked once the collection is known."""
    described = parse_put_chunks_header(header, tenant)
    runs, chunks = list[str](), list[ReadyChunk]()
    for part in parts:
        runs.append(part.text)
        for message in part.chunks:
            number = len(chunks)
            path = f"chunks[{number}]"
            refuse_broken(f"{path}.", _rules(message, number))
            if message.chunk_id:
                parse_caller_id(message.chunk_id, f"{path}.chunk_id")
                own_id = described.document_id and prefixed_chunk_id(described.document_id, number)
                if _OF_SERVER.fullmatch(message.chunk_id) and message.chunk_id != own_id:
                    why = "has a form that the server reserves for its own ids and numbers"
                    raise InvalidRequestError.of(f"{path}.chunk_id", why)
            field = f"{path}.page_numbers"
            unique = tuple(dict.fromkeys(message.page_numbers))
            if len(unique) > _MAX_PAGES:
                raise InvalidRequestError.of(field, f"must be at most {_MAX_PAGES} pages")
            if any(page < 1 for page in unique):
                raise InvalidRequestError.of(field, "must be at least 1")
            for before, after in pairwise(unique):
                if after < before:
                    raise InvalidRequestError.of(
                        field, f"must be in ascending order: page {after} follows page {before}"
                    )
                if after > before + 1:
                    raise InvalidRequestError.of(field, f"must not have gaps: page {after} follows page {before}")
            chunks.append(
                ReadyChunk(
                    content=message.content,
                    start=message.char_start if message.HasField("char_start") else None,
                    end=message.char_end if message.HasField("char_end") else None,
                    chunk_id=message.chunk_id or None,
                    chapter=message.chapter or None,
                    section=message.section or None,
                    heading=message.section_heading or None,
                    path=tuple(message.hierarchy_path),
                    level=message.level if message.HasField("level") else _MAX_LEVEL,
                    pages=unique,
                    vector=np.array(message.embedding, dtype=np.float32) if message.embedding else None,
                    tags=parse_tags(message.tags, f"{path}.tags"),
                    metadata=parse_metadata(message.metadata, f"{path}.metadata"),
                )
            )
    if not 1 <= len(chunks) <= MAX_CHUNKS:
        raise InvalidRequestError.of("chunks", f"must have 1 to {MAX_CHUNKS} entries")
    if header.HasField("chunk_count") and header.chunk_count != len(chunks):
        raise InvalidRequestError.of("chunk_count", f"announces {header.chunk_count} chunks, but {len(chunks)} arrived")
    text = "".join(runs) or None
    refuse_broken(
        "", [("text must not be blank", text is None or bool(text.strip())), _without_controls("text", text or "")]
    )
    _check_together(chunks)
    if text is not None:
        described = replace(described, content_field="text")
    return described, ReadyDocument(text, chunks, header.embedding_probe_digest)


def _rules(message: pb.ReadyChunk, number: int) -> Iterator[tuple[str, bool]]:
    start, end = message.char_start, message.char_end
    content, span = len(message.content), end - start
    together = message.HasField("char_start") == message.HasField("char_end")
    spanned = message.HasField("char_start") and message.HasField("char_end")
    computed = hashlib.sha256(message.content.encode()).hexdigest()
    yield f"sequence_num must be {number}: numbers rise from 0 without gaps", message.sequence_num == number
    yield "content must not be blank", bool(message.content.strip())
    yield _without_controls("content", message.content)
    yield "char_start must be given together with char_end", together
    yield "char_start must be at least 0", not spanned or start >= 0
    yield "char_end must be greater than char_start", not spanned or end > start
    yield (
        f"char_end makes the span {span} characters long, the content has {content}; {SLACK_CHARS} may differ",
        not spanned or abs(span - content) <= SLACK_CHARS,
    )
    yield (
        "content_hash must be 64 hexadecimal digits",
        not message.content_hash or bool(SHA256.fullmatch(message.content_hash)),
    )
    yield f"content_hash differs: the content has {computed}", message.content_hash.lower() in {"", computed}
    yield f"level must be 0 to {_MAX_LEVEL}", 0 <= message.level <= _MAX_LEVEL
    numbers = message.embedding
    is_vector = all(map(math.isfinite, numbers)) and any(numbers)
    yield "embedding must have finite numbers that are not all 0", not numbers or is_vector
    for name in ("chapter", "section", "section_heading"):
        value = getattr(message, name)
        yield f"{name} must have at most {_MAX_HEADING_CHARS} characters", len(value) <= _MAX_HEADING_CHARS
        yield f"{name} must not be blank", not value or bool(value.strip())
        yield _without_controls(name, value)
    path = message.hierarchy_path
    yield f"hierarchy_path must have at most {_MAX_PATH} parts", len(path) <= _MAX_PATH
    yield (
        f"hierarchy_path must have parts of 1 to {_MAX_HEADING_CHARS} characters, not blank",
        all(part.strip() and len(part) <= _MAX_HEADING_CHARS for part in path),
    )
    yield _without_controls("hierarchy_path", "".join(path))


def _without_controls(name: str, value: str) -> tuple[str, bool]:
    rule = f"{name} must not contain NUL or control characters except tab, newline and return"
    return rule, not has_controls(value)


def _check_together(chunks: Sequence[ReadyChunk]) -> None:
    for name, given in (
        ("chunk_id", [chunk.chunk_id is not None for chunk in chunks]),
        ("embedding", [chunk.vector is not None for chunk in chunks]),
    ):
        if any(given) and not all(given):
            number = given.index(False)
            raise InvalidRequestError.of(f"chunks[{number}].{name}", "must be given for all chunks or for none")
    seen: set[str] = set()
    lowest = 0
    for number, chunk in enumerate(chunks):
        if chunk.chunk_id in seen:
            raise InvalidRequestError.of(f"chunks[{number}].chunk_id", f"{chunk.chunk_id!r} is given twice")
        if chunk.start is not None and chunk.start < lowest:
            found = f"{chunk.start} is before the start of the previous chunk, {lowest}"
            raise InvalidRequestError.of(f"chunks[{number}].char_start", found)
        lowest = chunk.start if chunk.start is not None else lowest
        seen |= {chunk.chunk_id} if chunk.chunk_id else set()


class SpooledParts:
    """The parts of one document as they arrived; used by one thread at a time."""

    def __init__(self, scratch: "SpooledTemporaryFile[bytes]") -> None:
        self._scratch: Any = scratch  # the types of the library for messages want a BytesIO
        self._text = hashlib.sha256()
        self._chunks = hashlib.sha256()
        self._chunk_count = 0
        self.size_bytes = 0

    def add(self, part: pb.PutChunksPart) -> None:
        """Keep a part.

        Raises:
            InvalidRequestError: there are too many chunks.
            DocumentTooLargeError: there are too many bytes.
            ExhaustedError: no space left.
        """
        self._chunk_count += len(part.chunks)
        if self._chunk_count > MAX_CHUNKS:
            raise InvalidRequestError.of("chunks", f"must have 1 to {MAX_CHUNKS} entries")
        check_size(self.size_bytes + part.ByteSize(), MAX_PARTS_BYTES, "part")
        self._text.update(part.text.encode())
        for chunk in part.chunks:
            # With its length, so that the digest depends on the borders of chunks but not on those of parts.
            encoded = chunk.SerializeToString(deterministic=True)
            self._chunks.update(len(encoded).to_bytes(8) + encoded)
        with translated_failures():
            proto.serialize_length_prefixed(part, self._scratch)
        self.size_bytes += part.ByteSize()

    @property
    def digest(self) -> str:
        """Return a digest of text and chunks that does not depend on how they were split into parts."""
        return self._text.hexdigest() + self._chunks.hexdigest()

    def read(self, budget: Budget) -> Iterator[pb.PutChunksPart]:
        """Yield the parts, of which only one is in memory."""
        with translated_failures():
            self._scratch.seek(0)
        while (part := proto.parse_length_prefixed(pb.PutChunksPart, self._scratch)) is not None:
            budget.check()
            yield part

    def close(self) -> None:
        """Drop the parts; a thread whose caller has left may still read them, and then fails."""
        self._scratch.close()


@dataclass(frozen=True, slots=True)
class ChunkStream:
    """Receives one document in parts and stores it; what is on its way in may have `quota_bytes` for each tenant.

    Parts are written by the threads of the reads. A thread of the documents takes them into memory once all are there:
    how many documents are in memory is bounded by these threads, not by the streams that are open.
    """

    documents: DocumentIngest
    staging: StagingFolder
    parts: CallParts
    quota_bytes: int
    incoming_bytes: Counter[str] = field(default_factory=Counter)

    async def receive(
        self, messages: AsyncIterator[pb.PutChunksRequest], tenant: str, budget: Budget
    ) -> pb.PutChunksResponse:
        """Return what was done, once the client has closed its side.

        Raises:
            InvalidRequestError: header, parts or chunks break a rule.
            DocumentTooLargeError: the parts have too many bytes together.
            ExhaustedError: the tenant has too many bytes on their way in, or the disk is full.
        """
        first = await anext(messages, None)
        if first is None or first.WhichOneof("message") != "header":
            raise InvalidRequestError.of("header", "must be the first message")
        # The header is checked at once: what it breaks is refused before any part is received.
        header, reads = first.header, self.parts.pools.reads
        parse_put_chunks_header(header, tenant)
        received_bytes = 0
        try:
            # Opened and closed in threads: removing a large file would block the event loop.
            async with reads.opened(budget, lambda: SpooledParts(self.staging.scratch())) as parts:
                async for message in messages:
                    if message.WhichOneof("message") != "part":
                        raise InvalidRequestError.of("message", "must be a part after the header")
                    received_bytes += message.part.ByteSize()
                    self.incoming_bytes[tenant] += message.part.ByteSize()
                    if self.incoming_bytes[tenant] > self.quota_bytes:
                        quota = self.quota_bytes
                        refusal = f"more than {quota} bytes of chunks are being received; send fewer at a time"
                        raise ExhaustedError(refusal, limit_bytes=quota)
                    await reads.run(budget, parts.add, message.part)
                workers = self.parts.pools.of_document(parts.size_bytes)
                return await workers.run(budget, self._store, header, parts, budget)
        finally:
            self.incoming_bytes[tenant] -= received_bytes

    def _store(self, header: pb.PutChunksHeader, parts: SpooledParts, budget: Budget) -> pb.PutChunksResponse:
        tenant = request_context.current().tenant
        described, ready = parse_put_chunks(header, parts.read(budget), tenant)
        response = self.parts.answer_once(
            pb.PutChunksResponse,
            tenant,
            request_key("PutChunks", header, parts.digest),
            lambda receipt: self.documents.put_chunks(described, ready, budget, receipt),
            lambda result: pb.PutChunksResponse(result=to_ingest_result(result)),
        )
        return self.parts.with_token(response, described.collection)
