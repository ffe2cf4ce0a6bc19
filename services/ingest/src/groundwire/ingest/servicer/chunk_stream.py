"""The stream of PutChunks: a header, parts that wait on disk for the last one, and one document of them all."""

import asyncio
import hashlib
from collections import Counter
from collections.abc import AsyncIterator, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.protobuf import proto

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.parsing.source_text import check_size
from groundwire.ingest.servicer.calls import CallParts
from groundwire.ingest.uploads import ScratchFile, StagingFolder
from groundwire.ingest.wire.documents import to_ingest_result
from groundwire.ingest.wire.ready_chunks import MAX_CHUNKS, parse_put_chunks, parse_put_chunks_header
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import ExhaustedError, InvalidRequestError
from groundwire.rpc import request_context
from groundwire.rpc.request_context import request_key

MAX_PARTS_BYTES = 256 << 20
"""The most that the parts of one document may have together: 10,000 vectors of 4,096 numbers take 156 MiB."""


class SpooledParts:
    """The parts of one document as they came; used by one thread at a time."""

    def __init__(self, scratch: ScratchFile) -> None:
        self._scratch = scratch
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
            # With its length, so that the borders of chunks count, and those of parts do not.
            encoded = chunk.SerializeToString(deterministic=True)
            self._chunks.update(len(encoded).to_bytes(8) + encoded)
        out: Any = self._scratch  # the library writes to anything, its types want a BytesIO
        proto.serialize_length_prefixed(part, out)
        self.size_bytes += part.ByteSize()

    @property
    def digest(self) -> str:
        """Return what text and chunks are recognised by, however they were cut into parts."""
        return self._text.hexdigest() + self._chunks.hexdigest()

    def read(self, budget: Budget) -> Iterator[pb.PutChunksPart]:
        """Yield the parts, of which only one is in memory.

        Raises:
            CallCancelledError: the budget was cancelled.
            DeadlineError: the budget is used up.
        """
        source: Any = self._scratch.reader()
        while (part := proto.parse_length_prefixed(pb.PutChunksPart, source)) is not None:
            budget.check()
            yield part

    def close(self) -> None:
        """Drop them; a thread whose caller left may still be at them, and fails."""
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
        header = first.header
        parse_put_chunks_header(header, tenant)
        parts = SpooledParts(await self.parts.pools.reads.run(budget, self.staging.scratch))
        received_bytes = 0
        try:
            async for message in messages:
                if message.WhichOneof("message") != "part":
                    raise InvalidRequestError.of("message", "must be a part after the header")
                received_bytes += message.part.ByteSize()
                self._reserve(tenant, message.part.ByteSize())
                await self.parts.pools.reads.run(budget, parts.add, message.part)
            workers = self.parts.pools.of_document(parts.size_bytes)
            return await workers.run(budget, self._store, header, parts, budget)
        finally:
            self.incoming_bytes[tenant] -= received_bytes
            # The call may be cancelled, once and again; to drop a large file takes longer than the event loop has.
            await asyncio.shield(self.parts.pools.reads.run(Budget(), parts.close))

    def _reserve(self, tenant: str, size_bytes: int) -> None:
        self.incoming_bytes[tenant] += size_bytes
        if self.incoming_bytes[tenant] > self.quota_bytes:
            message = f"more than {self.quota_bytes} bytes of chunks are on their way in; send fewer at a time"
            raise ExhaustedError(message, limit_bytes=self.quota_bytes)

    def _store(self, header: pb.PutChunksHeader, parts: SpooledParts, budget: Budget) -> pb.PutChunksResponse:
        tenant = request_context.current().tenant
        described, ready = parse_put_chunks(header, parts.read(budget), tenant)
        encoded = self.parts.once.run(
            tenant,
            request_key("PutChunks", header, parts.digest),
            lambda receipt: self.documents.put_chunks(described, ready, budget, receipt),
            lambda result: pb.PutChunksResponse(result=to_ingest_result(result)).SerializeToString(deterministic=True),
        )
        return self.parts.write_tokens.add(pb.PutChunksResponse.FromString(encoded), described.collection)
