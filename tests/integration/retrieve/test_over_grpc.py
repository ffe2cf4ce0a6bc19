"""The service behind a real server: statuses, details, and calls that are not there yet."""

from typing import TYPE_CHECKING

import grpc
import pytest

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.in_process import InProcessStub
from tests.integration.retrieve.library import Library, contents
from tests.integration.retrieve.serving import refused

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub


@pytest.mark.requirement("S3-23")
async def test_one_request_gives_one_response(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    response = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query="alpha"))
    assert contents(response)[0] == "alpha one"


async def test_every_violation_is_in_the_details(stub: "Stub") -> None:
    request = pb.RetrieveRequest(collection="docs", query="")
    request.options.top_k = 0
    code, info, fields = await refused(stub.Retrieve(request))
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FIELD")
    assert fields == ["query", "options.top_k"]


@pytest.mark.requirement("S1-34")
async def test_an_unknown_field_is_named_by_its_path(stub: "Stub") -> None:
    request = pb.RetrieveRequest(collection="docs", query="alpha")
    request.options.filter.CopyFrom(to_filter_message(parse_filter({"$and": [{"title": "x"}, {"colour": "red"}]})))
    code, info, fields = await refused(stub.Retrieve(request))
    assert (code, info.reason) == (grpc.StatusCode.INVALID_ARGUMENT, "INVALID_FILTER")
    assert fields == ["options.filter.all_of.filters[1].condition.field"]


@pytest.mark.requirement("S3-29")
async def test_a_failed_search_tells_how_far_it_came(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one"])
    library.vectors.drop_collection(library.collection.engine_name, Budget())
    code, info, _ = await refused(stub.Retrieve(pb.RetrieveRequest(collection="docs", query="alpha")))
    assert code is not grpc.StatusCode.UNKNOWN
    assert info.metadata["last_state"] == "SEARCHING"


async def test_a_remembered_response_arrives_whole_over_grpc_and_in_process(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "alpha two"])
    request = pb.RetrieveRequest(collection="docs", query="alpha")
    request.options.include_report = True
    first = await stub.Retrieve(request)
    over_grpc = await stub.Retrieve(request)
    in_process = await InProcessStub(library.service.servicer).Retrieve(request, timeout=5)
    assert len({each.log_id for each in (first, over_grpc, in_process)}) == 3
    for repeated in (over_grpc, in_process):
        assert repeated.report.from_cache
        assert len(repeated.report.states) == 2
        assert (list(repeated.results), list(repeated.documents)) == (list(first.results), list(first.documents))
        assert (repeated.snapshot, repeated.consistency_token) == (first.snapshot, first.consistency_token)
        assert repeated.report.quality == first.report.quality


async def test_a_neighbour_in_the_same_process_gets_the_same(library: Library) -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    stub = InProcessStub(library.service.servicer)
    response = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query="alpha"), timeout=5)
    assert contents(response)[0] == "alpha one"
    request = pb.RetrieveRequest(collection="docs", query="alpha")
    request.options.filter.SetInParent()
    with pytest.raises(InvalidFilterError):
        await stub.Retrieve(request)
