"""A servicer of the real contract whose behaviour is chosen by the name of the collection, and servers that run it."""
# ruff: noqa: N802 - the names of the methods are the contract's

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import grpc

from groundwire.api.answer.v1 import answer_service_pb2_grpc as answer_grpc
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as pb_grpc
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc as library_grpc
from groundwire.kernel.errors import (
    DataLossError,
    DocumentNotFoundError,
    ExhaustedError,
    InvalidRequestError,
    PreconditionError,
    StoreUnavailableError,
)
from groundwire.rpc import request_context
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from tests.stubs import Stubs

NAME = "groundwire.api.ingest.v1.IngestService"
LIBRARY = "groundwire.api.retrieve.v1.LibraryService"
ANSWER = "groundwire.api.answer.v1.AnswerService"


class Unwritten(answer_grpc.AnswerServiceServicer):
    """Leaves every method to the generated base class."""


class FakeIngest(pb_grpc.IngestServiceServicer, library_grpc.LibraryServiceServicer):
    """One method of each shape. The collections that it treats otherwise are those of `behave`."""

    def __init__(self) -> None:
        self.seen: list[request_context.RequestContext] = []
        self.requests: list[Any] = []
        self.entered = asyncio.Event()
        self.cancelled = asyncio.Event()
        self.release = asyncio.Event()
        self.upload_ended = asyncio.Event()

    async def behave(self, collection: str, context: Any) -> None:
        self.seen.append(request_context.current())
        if collection == "missing":
            raise DocumentNotFoundError("doc_1")
        if collection == "invalid":
            raise InvalidRequestError.of("collection", "must be nice", limit=3)
        if collection == "down":
            error = StoreUnavailableError("the store is down", engine="memory")
            error.retry_after_s = 0.1
            raise error
        if collection == "full":
            raise ExhaustedError("no space is left on the disk of '/srv/my data/it.db'", what="disk")
        if collection == "crowded":
            raise ExhaustedError("no space is left for vectors", what="disk")
        if collection == "locked":
            raise PreconditionError("another process has locked /srv/data/it.lock")
        if collection == "lost":
            raise DataLossError("a chunk contradicts its checksum", what="chunk")
        if collection == "bug":
            raise ValueError("password=hunter2")
        if collection == "abort":
            await context.abort(grpc.StatusCode.OUT_OF_RANGE, "the method's own")
        if collection == "slow":
            self.entered.set()
            try:
                await self.release.wait()
            except asyncio.CancelledError:
                self.cancelled.set()
                raise

    async def GetDocument(self, request: library_pb.GetDocumentRequest, context: Any) -> library_pb.GetDocumentResponse:
        self.requests.append(request)
        await self.behave(request.collection, context)
        return library_pb.GetDocumentResponse(text=request_context.current().request_id)

    async def IngestDocument(self, request: pb.IngestDocumentRequest, context: Any) -> pb.IngestDocumentResponse:
        self.requests.append(request)
        await self.behave(request.collection, context)
        return pb.IngestDocumentResponse()

    async def GetDocumentText(
        self, request: library_pb.GetDocumentTextRequest, context: Any
    ) -> AsyncIterator[library_pb.GetDocumentTextResponse]:
        for number in range(3):
            yield library_pb.GetDocumentTextResponse(text=f"part {number}")
        await self.behave(request.collection, context)

    async def PutChunks(
        self, request_iterator: AsyncIterator[pb.PutChunksRequest], context: Any
    ) -> pb.PutChunksResponse:
        async for request in request_iterator:
            self.requests.append(request)
            await self.behave(request.header.collection, context)
        return pb.PutChunksResponse()

    async def UploadDocument(
        self, request_iterator: AsyncIterator[pb.UploadDocumentRequest], context: Any
    ) -> AsyncIterator[pb.UploadDocumentResponse]:
        try:
            async for request in request_iterator:
                self.requests.append(request)
                if request.HasField("header"):
                    yield pb.UploadDocumentResponse(accepted=pb.UploadAccepted(upload_id="u1"))
                    await self.behave(request.header.collection, context)
                else:
                    yield pb.UploadDocumentResponse(progress=pb.UploadProgress(durable_offset=len(request.part.data)))
        finally:
            self.upload_ended.set()
        yield pb.UploadDocumentResponse(result=ingest_result_pb2.IngestResult())


def fake_services(servicer: Any) -> list[Service]:
    """Return what a server of the fake offers."""
    unwritten = Unwritten()  # type: ignore[abstract]  # what happens to its calls is tested
    return [
        Service(NAME, servicer, pb_grpc.add_IngestServiceServicer_to_server),
        Service(LIBRARY, servicer, library_grpc.add_LibraryServiceServicer_to_server),
        Service(ANSWER, unwritten, answer_grpc.add_AnswerServiceServicer_to_server),
    ]


def fake_ingest() -> FakeIngest:
    """Make a servicer that leaves most methods to the generated base class."""
    return FakeIngest()  # type: ignore[abstract]  # what happens to such methods is part of the tests


@asynccontextmanager
async def serving(servicer: Any, **options: Any) -> AsyncIterator[tuple[GrpcServer, int]]:
    """Run a server with the fake, or with a list of services, on a free port unless `listen` names one."""
    defaults: dict[str, Any] = {"listen": "127.0.0.1:0", "drain_notice_s": 0.0}
    chosen = ServerOptions(**defaults | options)
    server = GrpcServer(chosen, servicer if isinstance(servicer, list) else fake_services(servicer))
    port = await server.start()
    try:
        yield server, port
    finally:
        await server.stop(0)


@asynccontextmanager
async def connected(servicer: Any, **options: Any) -> AsyncIterator[tuple[GrpcServer, Any]]:
    """Run a server and give the generated stubs on a plain channel."""
    async with (
        serving(servicer, **options) as (server, port),
        grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel,
    ):
        yield server, Stubs(channel)
