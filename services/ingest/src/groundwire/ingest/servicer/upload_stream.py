"""The stream of an upload: header, parts, progress, result."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.ingesting import IngestRequest, Progress, Report, Stage
from groundwire.ingest.servicer.calls import CallParts
from groundwire.ingest.servicer.operations import OperationRunner
from groundwire.ingest.uploads import SYNC_EVERY_S, IncomingUpload, UploadReceiver
from groundwire.ingest.wire.documents import (
    header_bytes,
    header_differences,
    parse_upload_header,
    to_progress,
    upload_key,
)
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import AlreadyExistsError, ConflictError, InvalidRequestError, StaleSourceVersionError

Events = AsyncGenerator[pb.UploadDocumentResponse, None]

# The older stream ends by itself once it notices that this one has taken the upload over.
_POLL_S = 0.05


class UploadClaims:
    """The uploads that have a stream; used on the event loop only."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], asyncio.Event] = {}

    @asynccontextmanager
    async def hold(self, upload_id: str, tenant: str, budget: Budget) -> AsyncIterator[asyncio.Event]:
        """Hold the claim to an upload, and give what is set when a newer stream wants it; wait for the older to leave.

        A client that lost its connection comes back before the server has noticed. Its old stream must not keep it out.
        """
        key = tenant, upload_id  # guessing the id of another tenant's upload must not interrupt it
        while (other := self._held.get(key)) is not None:
            other.set()
            await asyncio.sleep(_POLL_S)
            budget.check()
        lost = self._held[key] = asyncio.Event()
        try:
            yield lost
        finally:
            del self._held[key]


@dataclass(frozen=True, slots=True)
class UploadStream:
    """Receives one document and ingests it.

    Parts are written to disk by the threads of the reads; so an upload that waits for its turn to be ingested holds up
    no other that is still coming in.
    """

    documents: DocumentIngest
    uploads: UploadReceiver
    operations: OperationRunner
    parts: CallParts
    claims: UploadClaims = field(default_factory=UploadClaims)

    async def receive(self, messages: AsyncIterator[pb.UploadDocumentRequest], tenant: str, budget: Budget) -> Events:
        """Yield the responses; the last one holds the result.

        Raises:
            InvalidRequestError: header or parts break a rule, or the header differs from the first one.
            NotFoundError: the upload to go on with is unknown.
            ConflictError: a newer stream took the upload over.
            ExhaustedError: the tenant has too many bytes on their way in.
        """
        first = await anext(messages, None)
        if first is None or first.WhichOneof("message") != "header":
            raise InvalidRequestError.of("header", "must be the first message")
        header = first.header
        request = parse_upload_header(header, tenant, self.documents.max_bytes)
        upload_id = header.upload_id or str(uuid.uuid4())
        async with self.claims.hold(upload_id, tenant, budget) as lost:
            known = await self.parts.pools.reads.run(budget, self._known, header, request, upload_id)
            if known is not None:
                yield _accepted(header.upload_id, header.total_bytes)
                yield known
                return
            with self.uploads.announced(tenant, upload_id, header.total_bytes):
                opening = self.parts.pools.reads.opened(budget, partial(self._open, header, request, upload_id))
                async with opening as incoming:
                    yield _accepted(upload_id, incoming.durable_bytes)
                    async for event in self._receive(messages, incoming, lost, budget):
                        yield event
                    if header.run_async:
                        # Beginning an operation ingests nothing, so it takes no thread from those that do.
                        final = await self.parts.pools.reads.run(budget, self._begin, header, request, incoming)
                    else:
                        async for event in self._ingest(header, request, incoming, budget):
                            if event.HasField("progress"):
                                yield event
                            else:
                                final = event
        yield final  # after the upload has been cleaned up, so that a client with the result finds nothing left of it

    def _known(
        self, header: pb.UploadHeader, request: IngestRequest, upload_id: str
    ) -> pb.UploadDocumentResponse | None:
        """Return the result, or with `run_async` the operation, if it is known without any part."""
        source_hash = request.source_hash or ""
        if header.upload_id:
            stored = self.uploads.uploads.get(request.tenant, upload_id)
            if different := header_differences(header, stored.header):
                raise InvalidRequestError.of(f"header.{different[0]}", "must repeat the first header of the upload")
            source_hash = stored.source_hash or source_hash
        key = upload_key(header, upload_id, source_hash)
        if not source_hash:
            return None
        earlier = self.parts.catalog.ledger.find(request.tenant, key)
        if earlier is not None and header.run_async:
            return pb.UploadDocumentResponse(operation=self.operations.get(earlier.decode()))
        if earlier is not None:
            return self._answer(ingest_result_pb2.IngestResult.FromString(earlier), request.collection)
        # A resumed upload has bytes to ingest, and an operation begins only after the parts.
        unchanged = None if header.upload_id or header.run_async else self.documents.unchanged(request)
        if unchanged is None:
            return None
        result = self.parts.ingest_once(request.tenant, key if header.request_id else None, lambda _: unchanged)
        return self._answer(result, request.collection)

    def _open(self, header: pb.UploadHeader, request: IngestRequest, upload_id: str) -> IncomingUpload:
        tenant = request.tenant
        if not header.upload_id:
            self.documents.admit(request, header.total_bytes)
            self.uploads.begin(tenant, upload_id, header_bytes(header), header.total_bytes)
        try:
            return self.uploads.open(tenant, upload_id)
        except BaseException:
            if not header.upload_id:
                # No client knows its id, and what it announced would count against the quota for a day. Its file,
                # if there is one, is swept: the folder may be what failed.
                self.uploads.uploads.forget(tenant, upload_id)
            raise

    async def _receive(
        self,
        messages: AsyncIterator[pb.UploadDocumentRequest],
        incoming: IncomingUpload,
        lost: asyncio.Event,
        budget: Budget,
    ) -> Events:
        reads, total = self.parts.pools.reads, incoming.stored.total_bytes
        taken_over = asyncio.ensure_future(lost.wait())
        coming: asyncio.Future[pb.UploadDocumentRequest | None] | None = None
        try:
            while True:
                # A message that takes long is waited for again: cancelling the read would lose it.
                coming = coming or asyncio.ensure_future(anext(messages, None))
                waiting: set[asyncio.Future[Any]] = {coming, taken_over}
                done, _ = await asyncio.wait(waiting, timeout=SYNC_EVERY_S, return_when=asyncio.FIRST_COMPLETED)
                if taken_over in done:
                    raise ConflictError("the upload was taken over by a newer stream")
                if coming not in done:  # the client may be waiting for its last part to be acknowledged
                    is_news = await reads.run(budget, incoming.sync)
                else:
                    message, coming = coming.result(), None
                    if message is None:
                        return
                    if message.WhichOneof("message") != "part":
                        raise InvalidRequestError.of("message", "must be a part after the header")
                    is_news = await reads.run(budget, incoming.take, message.part.offset, message.part.data)
                if is_news:
                    received = Progress(Stage.RECEIVING, incoming.durable_bytes, total)
                    yield _progress(received, incoming.durable_bytes)
        finally:
            for task in (taken_over, coming):
                if task is not None:
                    task.cancel()
                    await asyncio.gather(task, return_exceptions=True)

    async def _ingest(
        self, header: pb.UploadHeader, request: IngestRequest, incoming: IncomingUpload, budget: Budget
    ) -> Events:
        upload_id = incoming.stored.upload_id

        def run(report: Report) -> pb.UploadDocumentResponse:
            with incoming.complete() as original:
                try:
                    result = self.parts.ingest_once(
                        request.tenant,
                        upload_key(header, upload_id, original.sha256()),
                        lambda receipt: self.documents.ingest(request, original, budget, report, receipt),
                    )
                except (InvalidRequestError, AlreadyExistsError, StaleSourceVersionError):
                    self.uploads.forget(request.tenant, upload_id)  # a retry would fail the same way
                    raise
                self.uploads.finish(request.tenant, upload_id)
                return self._answer(result, request.collection)

        workers = self.parts.pools.of_document(header.total_bytes)
        async with aclosing(workers.stream(budget, run, is_passing=lambda _: True)) as events:
            async for event in events:
                yield _progress(event, header.total_bytes) if isinstance(event, Progress) else event

    def _begin(
        self, header: pb.UploadHeader, request: IngestRequest, incoming: IncomingUpload
    ) -> pb.UploadDocumentResponse:
        """Begin an operation that ingests the complete upload."""
        upload_id = incoming.stored.upload_id
        with incoming.complete() as original:
            key = upload_key(header, upload_id, original.sha256())
            operation = self.operations.begin("UploadDocument", key, request.collection, lambda _: header, upload_id)
            return pb.UploadDocumentResponse(operation=operation)

    def _answer(self, result: ingest_result_pb2.IngestResult, collection: str) -> pb.UploadDocumentResponse:
        return pb.UploadDocumentResponse(result=self.parts.with_token(result, collection))


def _accepted(upload_id: str, durable_bytes: int) -> pb.UploadDocumentResponse:
    return pb.UploadDocumentResponse(accepted=pb.UploadAccepted(upload_id=upload_id, durable_offset=durable_bytes))


def _progress(progress: Progress, durable_bytes: int) -> pb.UploadDocumentResponse:
    return pb.UploadDocumentResponse(
        progress=pb.UploadProgress(progress=to_progress(progress), durable_offset=durable_bytes)
    )
