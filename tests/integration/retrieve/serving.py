"""The service behind a real server on loopback."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from groundwire.api.retrieve.v1 import library_service_pb2_grpc as library_grpc
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as pb_grpc
from groundwire.rpc.server import GrpcServer, ServerOptions
from tests.integration.retrieve.library import Library

if TYPE_CHECKING:

    class Stub(pb_grpc.RetrieveServiceAsyncStub, library_grpc.LibraryServiceAsyncStub):
        """The calls of both services."""

else:

    class Stub(pb_grpc.RetrieveServiceStub, library_grpc.LibraryServiceStub):
        def __init__(self, channel: grpc.aio.Channel) -> None:
            pb_grpc.RetrieveServiceStub.__init__(self, channel)
            library_grpc.LibraryServiceStub.__init__(self, channel)


@asynccontextmanager
async def serving(library: Library, user_agent: str = "") -> AsyncIterator[Stub]:
    """Give a stub of the library's service behind a server of its own."""
    server = GrpcServer(ServerOptions(listen="127.0.0.1:0", drain_notice_s=0), library.service.services())
    port = await server.start()
    options = [("grpc.primary_user_agent", user_agent)] if user_agent else []
    try:
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}", options=options) as channel:
            yield Stub(channel)
    finally:
        await server.stop(0)


async def refused(
    call: "grpc.aio.UnaryUnaryCall[Any, Any]",
) -> tuple[grpc.StatusCode, error_details_pb2.ErrorInfo, list[str]]:
    """Return code, ErrorInfo and the violated fields of a call that must fail."""
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    details = rpc_status.from_call(caught.value).details
    info, bad = error_details_pb2.ErrorInfo(), error_details_pb2.BadRequest()
    assert next(detail for detail in details if detail.Is(info.DESCRIPTOR)).Unpack(info)
    fields = [detail for detail in details if detail.Is(bad.DESCRIPTOR) and detail.Unpack(bad)]
    return caught.value.code(), info, [violation.field for violation in bad.field_violations] if fields else []
