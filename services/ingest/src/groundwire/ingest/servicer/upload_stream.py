"""The conversation of an upload: header, parts, progress, result."""

import uuid
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from dataclasses import dataclass
from typing import Protocol

from groundwire.api.ingest.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.domain.changing import RequestKey
from groundwire.ingest.domain.ingesting import IngestRequest, IngestResult, Progress, Report, Stage
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.ports import Original
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.wire.requests import parse_upload_header, request_key
from groundwire.ingest.wire.responses import to_ingest_result, to_progress
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import InvalidRequestError, NotFoundError
from groundwire.rpc.workers import Workers

_REPORT_EVERY_BYTES = 1 << 20


class Staging(Protocol):
    """Where the bytes of one upload are kept until the document is ingested."""

    received_bytes: int

    def take(self, offset: int, data: bytes) -> None:
        """Add a part."""
        ...

    def finish(self) -> Original:
        """Return the document."""
        ...

    def discard(self) -> None:
        """Forget the bytes."""
        ...


@dataclass(frozen=True, slots=True)
class UploadStream:
    """Receives one document and ingests it.

    `io_workers` write parts to disk, `ingest_workers` ingest; so an upload that waits for its turn to be ingested
    holds up no other that is still coming in.
    """

    ingest_document: IngestDocument
    remember: RememberRequest
    open_staging: Callable[[int], Staging]
    io_workers: Workers
    ingest_workers: Workers

    async def __call__(
        self, messages: AsyncIterator[pb.UploadDocumentRequest], tenant: str, budget: Budget
    ) -> AsyncGenerator[pb.UploadDocumentResponse, None]:
        """Yield what the client is told; the last message holds the result.

        Raises:
            InvalidRequestError: header or parts break a rule.
            NotFoundError: the upload to go on with is unknown; uploads do not outlive their connection yet.
        """
        header = await _header(messages)
        request = parse_upload_header(header, tenant, self.ingest_document.max_bytes)
        if header.upload_id:
            raise NotFoundError(header.upload_id)
        yield pb.UploadDocumentResponse(accepted=pb.UploadAccepted(upload_id=str(uuid.uuid4()), durable_offset=0))
        early = await self.io_workers.run(budget, self._without_bytes, header, request)
        if early is not None:
            yield _result(early)
            return
        staged = await self.io_workers.run(budget, self.open_staging, header.total_bytes)
        try:
            async for event in self._receive(messages, staged, header.total_bytes, budget):
                yield event
            async for event in self._ingest(header, request, staged, budget):
                yield event
        finally:
            staged.discard()

    def _without_bytes(self, header: pb.UploadHeader, request: IngestRequest) -> bytes | None:
        """Return the result if the announced hash tells it."""
        if request.source_hash is None:
            return None
        key = _key(header, request.source_hash)
        earlier = self.remember.find(request.tenant, key)
        unchanged = self.ingest_document.unchanged(request) if earlier is None else None
        if unchanged is None:
            return earlier
        return self.remember(request.tenant, key, lambda _: unchanged, _encode)

    async def _receive(
        self, messages: AsyncIterator[pb.UploadDocumentRequest], staged: Staging, total: int, budget: Budget
    ) -> AsyncGenerator[pb.UploadDocumentResponse, None]:
        reported = 0
        async for message in messages:
            if message.WhichOneof("message") != "part":
                raise InvalidRequestError.of("message", "must be a part after the header")
            await self.io_workers.run(budget, staged.take, message.part.offset, message.part.data)
            received = staged.received_bytes
            if received - reported >= _REPORT_EVERY_BYTES or received == total > reported:
                reported = received
                yield _progress(Progress(Stage.RECEIVING, received, total))

    async def _ingest(
        self, header: pb.UploadHeader, request: IngestRequest, staged: Staging, budget: Budget
    ) -> AsyncGenerator[pb.UploadDocumentResponse, None]:
        def work(report: Callable[[Progress], None]) -> bytes:
            return self._run(header, request, staged, budget, report)

        async with aclosing(self.ingest_workers.stream(budget, work)) as events:
            async for event in events:
                yield _progress(event) if isinstance(event, Progress) else _result(event)

    def _run(
        self, header: pb.UploadHeader, request: IngestRequest, staged: Staging, budget: Budget, report: Report
    ) -> bytes:
        original = staged.finish()
        return self.remember(
            request.tenant,
            _key(header, original.sha256()),
            lambda receipt: self.ingest_document(request, original, budget, report, receipt),
            _encode,
        )


async def _header(messages: AsyncIterator[pb.UploadDocumentRequest]) -> pb.UploadHeader:
    async for message in messages:
        if message.WhichOneof("message") == "header":
            return message.header
        break
    raise InvalidRequestError.of("header", "must be the first message")


def _key(header: pb.UploadHeader, source_hash: str) -> RequestKey | None:
    body = pb.UploadHeader()
    body.CopyFrom(header)
    body.ClearField("upload_id")
    return request_key("UploadDocument", body, source_hash)


def _encode(result: IngestResult) -> bytes:
    return to_ingest_result(result).SerializeToString(deterministic=True)


def _result(encoded: bytes) -> pb.UploadDocumentResponse:
    return pb.UploadDocumentResponse(result=document_pb2.IngestResult.FromString(encoded))


def _progress(progress: Progress) -> pb.UploadDocumentResponse:
    # Nothing is durable yet: the bytes of an upload do not outlive its connection.
    return pb.UploadDocumentResponse(progress=pb.UploadProgress(progress=to_progress(progress), durable_offset=0))
