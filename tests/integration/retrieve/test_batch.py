"""Several searches in one call: in order, each for itself, embedded together, the same as alone."""

import time
from typing import TYPE_CHECKING, Any

import grpc
import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    DeadlineError,
    DimensionMismatchError,
    InvalidRequestError,
    UnavailableError,
)
from groundwire.retrieve.search import Search
from groundwire.retrieve.search_types import SearchRequest, SearchResult
from groundwire.rpc import request_context
from groundwire.rpc.error_status import from_status
from groundwire.rpc.request_context import RequestContext
from tests.integration.retrieve.library import Library, contents
from tests.integration.retrieve.serving import refused

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub


def _request(query: str, collection: str = "docs", **options: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection=collection, query=query)
    request.options.include_report = True
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


def _batch(*requests: pb.RetrieveRequest) -> pb.BatchRetrieveRequest:
    return pb.BatchRetrieveRequest(requests=requests)


async def test_outcomes_come_in_order_and_fail_one_by_one(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "beta two", "gamma three"])
    requests = (
        _request("alpha"),
        _request("", top_k=0),
        _request("beta"),
        _request("alpha", collection="missing"),
        pb.RetrieveRequest(collection="docs", query="alpha", query_vector=[1.0, 2.0]),
        _request("gamma", mode=search_mode_pb2.SEARCH_MODE_LEXICAL),
    )
    outcomes = (await stub.BatchRetrieve(_batch(*requests))).outcomes
    assert [outcome.WhichOneof("outcome") for outcome in outcomes] == [
        "response",
        "error",
        "response",
        "error",
        "error",
        "response",
    ]
    firsts = [contents(outcome.response)[0] for outcome in outcomes if outcome.HasField("response")]
    assert firsts == ["alpha one", "beta two", "gamma three"]
    invalid, missing, vector = (from_status(outcome.error) for outcome in outcomes if outcome.HasField("error"))
    assert isinstance(invalid, InvalidRequestError)
    assert [violation.field for violation in invalid.violations] == ["query", "options.top_k"]
    assert isinstance(missing, CollectionNotFoundError)
    assert missing.name == "missing"
    assert isinstance(vector, DimensionMismatchError)


async def test_a_batch_gives_what_single_calls_give(engine_library: Library) -> None:
    words = ["alpha", "beta", "gamma", "delta"]
    engine_library.put("a.txt", [f"{first} {second} text" for first in words for second in words])
    requests = [_request(f"{first} and {second}", top_k=7) for first in words for second in words]
    alone = [engine_library.service.servicer.retrieve(request, time.perf_counter()).message() for request in requests]
    batch = engine_library.service.servicer.batch_retrieve(_batch(*requests), time.perf_counter())
    together = [outcome.response for outcome in batch.outcomes]
    assert [contents(response) for response in together] == [contents(response) for response in alone]
    for left, right in zip(together, alone, strict=True):
        scores = [hit.relevance_score for hit in right.results]
        assert [hit.relevance_score for hit in left.results] == pytest.approx(scores)
        assert left.report.query_text == right.report.query_text
        assert left.report.total_time.ToNanoseconds() >= (
            left.report.query_embedding_time.ToNanoseconds() + left.report.search_time.ToNanoseconds() - 2000
        )


async def test_equal_queries_are_embedded_once_and_all_in_one_call(
    library: Library, stub: "Stub", monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.txt", ["alpha one"])
    asked: list[list[str]] = []

    def recording(texts: list[str], _: Budget) -> Vectors:
        asked.append(list(texts))
        return np.ones((len(texts), 64), np.float32)

    def alone(text: str, _: Budget) -> Vectors:
        raise AssertionError(f"{text!r} was embedded alone")

    monkeypatch.setattr(library.embedder, "embed_queries", recording)
    monkeypatch.setattr(library.embedder, "embed_query", alone)
    with_vector = pb.RetrieveRequest(collection="docs", query="own", query_vector=[1.0] * 64)
    outcomes = (await stub.BatchRetrieve(_batch(_request("a"), _request("b"), _request("a"), with_vector))).outcomes
    assert all(outcome.HasField("response") for outcome in outcomes)
    assert asked == [["a", "b"]]


async def test_when_embedding_together_fails_each_search_fails_for_itself(
    library: Library, stub: "Stub", monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.txt", ["alpha one"])

    def broken(*_: object) -> Vectors:
        raise UnavailableError("the model is gone")

    monkeypatch.setattr(library.embedder, "embed_queries", broken)
    embed = library.embedder.embed_query
    alone = lambda text, budget: broken() if text == "bad" else embed(text, budget)  # noqa: E731
    monkeypatch.setattr(library.embedder, "embed_query", alone)
    outcomes = (await stub.BatchRetrieve(_batch(_request("alpha"), _request("bad")))).outcomes
    assert contents(outcomes[0].response) == ["alpha one"]
    failure = from_status(outcomes[1].error)
    assert (type(failure), str(failure)) == (UnavailableError, "the model is gone")


@pytest.mark.parametrize("count", [0, 101])
async def test_none_and_too_many_are_refused(stub: "Stub", count: int) -> None:
    code, _, fields = await refused(stub.BatchRetrieve(_batch(*[_request("a")] * count)))
    assert (code, fields) == (grpc.StatusCode.INVALID_ARGUMENT, ["requests"])


async def test_a_hundred_are_served_and_each_is_logged(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one"])
    outcomes = (await stub.BatchRetrieve(_batch(*[_request(f"query {number}") for number in range(100)]))).outcomes
    ids = {outcome.response.log_id for outcome in outcomes}
    logs = (await stub.ListQueryLogs(library_pb.ListQueryLogsRequest(page_size=1000))).logs
    assert len(ids) == 100
    assert {entry.log_id for entry in logs} == ids


@pytest.mark.parametrize("kind", [CallCancelledError, DeadlineError])
def test_a_batch_stops_between_two_searches(
    library: Library, monkeypatch: pytest.MonkeyPatch, kind: type[Exception]
) -> None:
    library.put("a.txt", ["alpha one"])
    calls = library.service.servicer
    context = RequestContext(request_id="")
    request_context.bind(context)
    done: list[str] = []
    search = Search.search

    def counting(self: Search, request: SearchRequest, budget: Budget, **times: Any) -> SearchResult:
        done.append(request.query)
        if len(done) == 3:
            context.budget.cancel() if kind is CallCancelledError else setattr(context.budget, "_ends_at", 0.0)
        return search(self, request, budget, **times)

    monkeypatch.setattr(Search, "search", counting)
    try:
        with pytest.raises(kind):
            calls.batch_retrieve(_batch(*[_request(f"q{number}") for number in range(50)]), time.perf_counter())
    finally:
        request_context.bind(RequestContext(request_id=""))
    assert done == ["q0", "q1", "q2"]
