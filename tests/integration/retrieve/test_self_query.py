"""Filters derived from questions over gRPC: by rules, by a model, and without when the model fails."""

import time
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pytest
from google.protobuf.timestamp_pb2 import Timestamp
from pydantic import SecretStr

from groundwire.api.common.v1 import degraded_stage_pb2, search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import CollectionLimits, FieldDescription, FieldType
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filter_parsing import filter_to_json, parse_filter
from groundwire.kernel.filters import MAX_TERMS
from groundwire.retrieve.self_query.extractors import open_extractor
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import parse_filter_message, to_filter_message
from tests.integration.retrieve.chat_endpoint import ChatEndpoint
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.serving import refused, serving

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

SENTENCE = "Show me finance reports from Q3 2024"
FIELDS = (
    FieldDescription("department", "Department that created the document", FieldType.STRING, ("finance", "legal")),
    FieldDescription("date", "Document creation date", FieldType.TIME),
)
EXPECTED = {
    "$and": [
        {"department": {"$eq": "finance"}},
        {"$and": [{"date": {"$gte": "2024-07-01"}}, {"date": {"$lt": "2024-10-01"}}]},
    ]
}


def _fill(library: Library) -> None:
    company = library.create(
        "company", field_descriptions=FIELDS, content_description="Company documents", limits=CollectionLimits(60)
    )
    for name, department, day in (
        ("q3-finance", "finance", datetime(2024, 8, 15, tzinfo=UTC)),
        ("q3-end", "finance", datetime(2024, 9, 30, 23, 59, tzinfo=UTC)),
        ("q4-finance", "finance", datetime(2024, 10, 1, tzinfo=UTC)),
        ("q3-legal", "legal", datetime(2024, 8, 15, tzinfo=UTC)),
    ):
        fields = DocumentFields(date_created=day, metadata={"department": department})
        library.put(name, [f"finance reports of {name}"], collection=company, fields=fields)


@pytest.fixture
def filled(library: Library) -> Library:
    _fill(library)
    return library


@pytest.fixture
def endpoint() -> Iterator[ChatEndpoint]:
    with ChatEndpoint() as opened:
        yield opened


@pytest.fixture
def modelled(tmp_path: Path, endpoint: ChatEndpoint) -> Iterator[Library]:
    settings = RetrieveSettings(
        self_query=endpoint.url, self_query_api_key=SecretStr("s3cret"), self_query_timeout_s=30
    )
    opened = Library(tmp_path, settings=settings)
    _fill(opened)
    yield opened
    opened.close()


def _search(**fields: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection="company", query=SENTENCE, **fields)  # type: ignore[arg-type]  # its fields
    request.options.include_report = True
    request.options.self_query = True
    request.options.top_k = 10
    return request


def _json(message: object) -> object:
    return filter_to_json(parse_filter_message(message))  # type: ignore[arg-type]  # a filter


def _sources(response: pb.RetrieveResponse) -> set[str]:
    return {hit.chunk.source_uri for hit in response.results}


@pytest.mark.requirement("S1-38")
@pytest.mark.requirement("S1-39")
async def test_a_question_is_split_into_query_filter_and_field_names(filled: Library, stub: "Stub") -> None:
    parsed = await stub.ParseQuery(pb.ParseQueryRequest(collection="company", question=SENTENCE))
    assert parsed.semantic_query == "finance reports"
    assert _json(parsed.filter) == EXPECTED
    assert list(parsed.field_names) == ["department", "date"]
    assert (parsed.extractor, parsed.fell_back) == ("rules", False)
    assert parsed.query_type == search_mode_pb2.QUERY_TYPE_CONCEPTUAL


async def test_a_question_without_a_condition_gives_none(filled: Library, stub: "Stub") -> None:
    parsed = await stub.ParseQuery(pb.ParseQueryRequest(collection="company", question="why is the sky blue"))
    assert not parsed.HasField("filter")
    assert (parsed.semantic_query, list(parsed.field_names)) == ("why is the sky blue", [])


async def test_relative_times_count_from_when_the_question_was_asked(filled: Library, stub: "Stub") -> None:
    asked = Timestamp()
    asked.FromDatetime(datetime(2020, 6, 1, tzinfo=UTC))
    request = pb.ParseQueryRequest(collection="company", question="papers of last year", question_time=asked)
    parsed = await stub.ParseQuery(request)
    assert _json(parsed.filter) == {"$and": [{"date": {"$gte": "2019-01-01"}}, {"date": {"$lt": "2020-01-01"}}]}


@pytest.mark.requirement("S1-118")
@pytest.mark.requirement("S1-38")
async def test_a_search_applies_the_derived_filter_and_says_so(filled: Library, stub: "Stub") -> None:
    response = await stub.Retrieve(_search())
    assert _sources(response) == {"q3-finance", "q3-end"}
    assert response.report.query_text == SENTENCE
    applied = str(_json(response.report.applied_filter))
    assert "finance" in applied
    assert "date_created" in applied
    assert not response.degraded_stages


async def test_given_and_derived_filters_hold_together(filled: Library, stub: "Stub") -> None:
    request = _search()
    request.options.filter.json = '{"source": "q3-end"}'
    assert _sources(await stub.Retrieve(request)) == {"q3-end"}


async def test_relative_times_of_a_search_count_from_when_it_was_asked(filled: Library, stub: "Stub") -> None:
    request = _search()
    request.query = "finance reports of last quarter"
    request.query_time.FromDatetime(datetime(2024, 12, 1, tzinfo=UTC))
    assert _sources(await stub.Retrieve(request)) == {"q3-finance", "q3-end"}


async def test_a_derived_filter_holds_below_chosen_sections(filled: Library, stub: "Stub") -> None:
    request = _search()
    request.options.strategy = search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN
    response = await stub.Retrieve(request)
    # Each document is a chapter of its own, and the best three are searched.
    chosen = {section.document_id for section in response.report.chosen_sections}
    assert len(chosen) == 3
    assert _sources(response)
    assert _sources(response) <= {"q3-finance", "q3-end"}
    assert {hit.chunk.document_id for hit in response.results} < chosen


async def test_a_field_that_no_document_has_is_left_out_of_searches_only(library: Library, stub: "Stub") -> None:
    empty = library.create("company", field_descriptions=FIELDS)
    library.put("x", ["finance reports of old"], collection=empty)
    response = await stub.Retrieve(_search())
    assert "department" not in str(_json(response.report.applied_filter))
    parsed = await stub.ParseQuery(pb.ParseQueryRequest(collection="company", question=SENTENCE))
    assert list(parsed.field_names) == ["department", "date"]


@pytest.mark.requirement("C15")
async def test_the_limit_of_the_collection_holds_for_questions_and_queries(filled: Library, stub: "Stub") -> None:
    long = "x" * 61
    _, _, fields = await refused(stub.ParseQuery(pb.ParseQueryRequest(collection="company", question=long)))
    assert fields == ["question"]
    for self_query in (False, True):
        request = pb.RetrieveRequest(collection="company", query=long)
        request.options.self_query = self_query
        _, _, fields = await refused(stub.Retrieve(request))
        assert fields == ["query"]
    _, _, fields = await refused(stub.ParseQuery(pb.ParseQueryRequest(collection="No!", question=" ")))
    assert fields == ["collection", "question"]
    code, _, _ = await refused(stub.ParseQuery(pb.ParseQueryRequest(collection="missing", question="q")))
    assert code is grpc.StatusCode.NOT_FOUND


@pytest.mark.requirement("S1-40")
async def test_a_model_behind_an_endpoint_makes_the_filter(modelled: Library, endpoint: ChatEndpoint) -> None:
    endpoint.say(
        query="reports",
        conditions=[
            {"field": "department", "operator": "eq", "value": "Legal"},
            {"field": "date", "operator": "gte", "value": "2024-08-01"},
        ],
    )
    async with serving(modelled) as stub:
        parsed = await stub.ParseQuery(pb.ParseQueryRequest(collection="company", question=SENTENCE))
        response = await stub.Retrieve(_search())
    assert (parsed.extractor, parsed.fell_back, parsed.semantic_query) == ("openai#tiny", False, "reports")
    assert _json(parsed.filter) == {"$and": [{"department": {"$eq": "legal"}}, {"date": {"$gte": "2024-08-01"}}]}
    assert _sources(response) == {"q3-legal"}
    sent = endpoint.requests[0]
    assert endpoint.headers["path"] == "/v1/chat/completions"
    assert endpoint.headers["Authorization"] == "Bearer s3cret"
    assert (sent["model"], sent["temperature"], sent["stream"]) == ("tiny", 0, False)
    told = sent["messages"][1]["content"]
    values = '"allowed_values": ["finance", "legal"]'
    for fact in (SENTENCE, "Company documents", "Department that created the document", values):
        assert fact in told


BROKEN = {
    "no JSON": "I think you want finance reports.",
    "half a JSON": '{"query": "reports", "conditions": [{"field"',
    "an unknown field": '{"query": "q", "conditions": [{"field": "salary", "operator": "gt", "value": 1}]}',
    "a forbidden value": '{"query": "q", "conditions": [{"field": "department", "operator": "eq", "value": "it"}]}',
    "an injected operator": '{"query": "q", "conditions": [{"field": "department", "operator": "$where", "value": 1}]}',
    "a deep nest": "[" * 100_000,
    "nothing": "",
}


@pytest.mark.requirement("S1-40")
@pytest.mark.parametrize("kind", [*BROKEN, "500", "404", "302", "hang", "drip", "drip-headers", "flood", "cut"])
async def test_when_the_model_fails_the_search_runs_unfiltered_and_says_so(
    modelled: Library, endpoint: ChatEndpoint, kind: str
) -> None:
    endpoint.content = BROKEN.get(kind, "{}")
    endpoint.behaviour = "reply" if kind in BROKEN else kind
    if kind in {"hang", "drip", "drip-headers"}:
        object.__setattr__(modelled.service.extractor, "_timeout_s", 0.5)
    async with serving(modelled) as stub:
        started = time.perf_counter()
        response = await stub.Retrieve(_search())
        assert time.perf_counter() - started < 20
        assert _sources(response) == {"q3-finance", "q3-end", "q4-finance", "q3-legal"}
        assert list(response.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_SELF_QUERY]
        assert not response.report.HasField("applied_filter")
        parsed = await stub.ParseQuery(pb.ParseQueryRequest(collection="company", question=SENTENCE))
    assert (parsed.fell_back, parsed.semantic_query, parsed.HasField("filter")) == (True, SENTENCE, False)
    assert endpoint.flooded < 500  # it is left long before the end, apart from what the connection holds


async def test_a_fence_around_the_json_does_no_harm(modelled: Library, endpoint: ChatEndpoint) -> None:
    endpoint.content = '```json\n{"query": "reports", "conditions": []}\n```'
    async with serving(modelled) as stub:
        parsed = await stub.ParseQuery(pb.ParseQueryRequest(collection="company", question=SENTENCE))
    assert (parsed.semantic_query, parsed.fell_back) == ("reports", False)


async def test_an_endpoint_that_is_not_there_is_a_failure_like_any_other(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(self_query="openai+http://127.0.0.1:9/v1"))
    _fill(library)
    try:
        async with serving(library) as stub:
            response = await stub.Retrieve(_search())
        assert list(response.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_SELF_QUERY]
    finally:
        library.close()


@pytest.mark.alone
async def test_the_deadline_of_the_call_comes_before_the_patience_with_the_model(
    modelled: Library, endpoint: ChatEndpoint
) -> None:
    endpoint.behaviour = "hang"
    async with serving(modelled) as stub:
        started = time.perf_counter()
        response = await stub.Retrieve(_search(), timeout=4)
        assert time.perf_counter() - started < 4
    assert len(response.results) == 4


@pytest.mark.parametrize("url", ["", "rules", "http://host/v1", "openai+ftp://host", "openai+http://", "grpc://x"])
def test_other_extractors_are_refused_at_start(url: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        open_extractor(url, None, 1.0)
    assert caught.value.violations[0].field == "self_query"


async def test_what_the_server_adds_to_a_filter_does_not_count_towards_its_limit(
    library: Library, stub: "Stub"
) -> None:
    library.put("rust.md", ["finance reports"], fields=DocumentFields(tags=("rust",)))
    tags = ["rust", *(f"t{number}" for number in range(MAX_TERMS - 1))]
    condition = parse_filter({"$or": [{"tags": tag} for tag in tags]})
    options = RetrievalOptions(filter=to_filter_message(condition), self_query=True)
    query = "finance reports tagged rust"
    found = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query=query, options=options))
    options.strategy = search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN
    from_the_top = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query=query, options=options))
    context = await stub.RetrieveContext(pb.RetrieveContextRequest(collection="docs", query=query, options=options))
    for hits in (found.results, from_the_top.results, context.document_results):
        assert [hit.chunk.content for hit in hits] == ["finance reports"]


@pytest.mark.parametrize(
    "options", [{"self_query": True}, {"strategy": search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN}], ids=str
)
async def test_a_search_that_fails_before_it_begins_says_how_far_it_came(stub: "Stub", options: dict[str, Any]) -> None:
    request = pb.RetrieveRequest(collection="missing", query="x", options=RetrievalOptions(**options))
    code, info, _ = await refused(stub.Retrieve(request))
    assert (code, info.metadata["last_state"]) == (grpc.StatusCode.NOT_FOUND, "RECEIVED")
