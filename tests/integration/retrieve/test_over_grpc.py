"""The service behind a real server: statuses, details, and calls that are not there yet."""

from collections.abc import AsyncIterator
from typing import TYPE_CHECKING, Any, TypeAlias

import grpc
import pytest
from google.rpc import error_details_pb2
from grpc_status import rpc_status

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc as pb_grpc
from groundwire.kernel.errors import InvalidFilterError, NotAvailableError
from groundwire.kernel.filter_json import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from tests.integration.retrieve.library import Library, contents

if TYPE_CHECKING:
    Stub: TypeAlias = pb_grpc.RetrieveServiceAsyncStub  # exists for type checkers only

_NAME = "groundwire.api.retrieve.v1.RetrieveService"


@pytest.fixture
async def stub(library: Library) -> "AsyncIterator[Stub]":
    service = Service(_NAME, library.service.servicer, pb_grpc.add_RetrieveServiceServicer_to_server)
    server = GrpcServer(ServerOptions(listen="127.0.0.1:0"), [service])
    port = await server.start()
    async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
        yield pb_grpc.RetrieveServiceStub(channel)
    await server.stop(0)


async def _refused(
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


@pytest.mark.requirement("S3-23")
async def test_one_request_gives_one_response(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    response = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query="alpha"))
    assert contents(response)[0] == "alpha one"


async def test_every_violation_is_in_the_details(stub: "Stub") -> None:
    request = pb.RetrieveRequest(collection="docs", query="")
    request.options.top_k = 0
    code, info, fields = await _refused(stub.Retrieve(request))
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert fields == ["query", "options.top_k"]


@pytest.mark.requirement("S1-34")
async def test_an_unknown_field_is_named_by_its_path(stub: "Stub") -> None:
    request = pb.RetrieveRequest(collection="docs", query="alpha")
    request.options.filter.CopyFrom(to_filter_message(parse_filter({"$and": [{"title": "x"}, {"colour": "red"}]})))
    code, info, fields = await _refused(stub.Retrieve(request))
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FILTER")
    assert fields == ["options.filter.$and[1].colour"]


@pytest.mark.requirement("S3-29")
async def test_a_failed_search_tells_how_far_it_came(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one"])
    library.vectors.drop_collection(library.collection.engine_name)
    code, info, _ = await _refused(stub.Retrieve(pb.RetrieveRequest(collection="docs", query="alpha")))
    assert code is not grpc.StatusCode.UNKNOWN
    assert info.metadata["last_state"] == "SEARCHING"


async def test_calls_of_later_versions_are_unimplemented(stub: "Stub") -> None:
    for call in (
        stub.RetrieveContext(pb.RetrieveContextRequest()),
        stub.RetrieveMemories(pb.RetrieveMemoriesRequest()),
    ):
        code, info, _ = await _refused(call)
        assert (code, info.reason) == (grpc.StatusCode.UNIMPLEMENTED, "NOT_AVAILABLE")


async def test_a_neighbour_in_the_same_process_gets_the_same(library: Library) -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    stub = InProcessStub(library.service.servicer)
    response = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query="alpha"), timeout=5)
    assert contents(response)[0] == "alpha one"
    request = pb.RetrieveRequest(collection="docs", query="alpha")
    request.options.filter.SetInParent()
    with pytest.raises(InvalidFilterError):
        await stub.Retrieve(request)
    with pytest.raises(NotAvailableError):
        await stub.RetrieveMemories(pb.RetrieveMemoriesRequest())
