"""Records of one entity are nobody else's: not in results, counts, statistics, explanations or errors."""

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import InvalidRequestError, PermissionDeniedError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Identity
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc import request_context
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.request_context import RequestContext
from tests.integration.retrieve.library import Library, contents
from tests.manual_clock import ManualClock

_ALPHA, _BETA = "entity:alpha", "entity:beta"


def remember(library: Library, name: str, text: str, scope: str = "global", **fields: Any) -> None:
    record = {"type": "memory", "scope": scope, "timestamp": "2026-01-01T00:00:00+00:00", "importance": 3}
    library.put(f"record:{name}", [text], fields=DocumentFields(record=record, **fields))


@pytest.fixture
def calls() -> Iterator[None]:
    """Forget who called last, as the end of a call does."""
    yield
    request_context.bind(RequestContext(request_id=""))


def call_as(*scopes: str) -> None:
    """Make the calls that follow with a credential of these scopes."""
    request_context.bind(RequestContext(request_id="", identity=Identity(scopes=scopes)))


def fill(library: Library) -> None:
    library.put("handbook.txt", ["the harbour opens at nine"])
    remember(library, "g", "the harbour fee is nine euros")
    remember(library, "a", "the harbour berth of alpha is nine", _ALPHA)
    remember(library, "b", "the harbour berth of beta is twelve", _BETA)


@pytest.mark.parametrize(("exact", "path"), [(False, "approximate"), (True, "exact")])
def test_a_plan_does_not_tell_that_there_are_records_of_others(library: Library, exact: bool, path: str) -> None:
    fill(library)
    response = library.retrieve("harbour nine", explain=True, exact=exact)
    assert [stage.path for stage in response.explain_plan.stages if stage.path] == [path]


@pytest.mark.requirement("S0-11")
@pytest.mark.requirement("S0-32")
@pytest.mark.requirement("C09")
@pytest.mark.parametrize("mode", ["SEARCH_MODE_HYBRID", "SEARCH_MODE_VECTOR", "SEARCH_MODE_LEXICAL"])
def test_a_search_finds_documents_and_the_records_of_the_scopes_that_it_names(
    engine_library: Library, mode: str
) -> None:
    fill(engine_library)

    def found(**options: Any) -> set[str]:
        given = {"mode": search_mode_pb2.SearchMode.Value(mode), **options}
        response = engine_library.retrieve("harbour nine twelve", **given)
        return {hit.chunk.source_uri.removeprefix("record:") for hit in response.results}

    assert found() == {"handbook.txt", "g"}
    assert found(entity="alpha") == {"handbook.txt", "a"}
    assert found(entity="alpha", include_global=True) == {"handbook.txt", "a", "g"}
    assert found(filter=to_filter_message(parse_filter({"scope": _BETA}))) == {"b"}
    assert found(filter=to_filter_message(parse_filter({"entity": {"$in": ["alpha", "beta"]}}))) == {"a", "b"}
    # A condition that also matches records of other scopes names none.
    assert found(filter=to_filter_message(parse_filter({"scope": {"$ne": "global"}}))) == {"handbook.txt"}


@pytest.mark.requirement("C09")
@pytest.mark.parametrize("query", ["?!", "…"])
def test_a_query_without_words_is_answered_where_others_have_records(library: Library, query: str) -> None:
    fill(library)
    for options in ({}, {"entity": "alpha"}):
        assert library.retrieve(query, explain=True, include_report=True, **options).HasField("explain_plan")


def test_scopes_may_be_listed(library: Library) -> None:
    fill(library)
    request = pb.RetrieveRequest(collection="docs", query="harbour")
    request.options.scopes.extend([_ALPHA, _BETA])
    response = library.service.servicer.retrieve(request, 0.0).message()
    assert {hit.chunk.source_uri for hit in response.results} == {"handbook.txt", "record:a", "record:b"}


def everything_told(response: pb.RetrieveResponse) -> dict[str, Any]:
    """Return what a response tells that is the same for equal contents: no ids, numbers, times or positions."""
    return {
        "results": [
            (hit.chunk.content, hit.relevance_score, hit.similarity, hit.lexical_score) for hit in response.results
        ],
        "quality": response.report.quality,
        "stages": [
            (stage.name, stage.candidate_count, stage.path, stage.detail, [*map(str, stage.figures)])
            for stage in response.explain_plan.stages
        ],
        "candidates": [(each.place, each.fate, str(each.score)) for each in response.explain_plan.candidates],
        "count": response.explain_plan.candidate_count,
    }


@pytest.mark.requirement("S0-11")
@pytest.mark.parametrize("query", ["harbour berth", '"harbour fee" nine', "twelve"])
def test_nothing_that_a_search_tells_depends_on_records_of_other_scopes(
    tmp_path_factory: pytest.TempPathFactory, query: str
) -> None:
    """Scores, counts of words and candidates are those of a collection without them, to the last bit."""
    told = []
    for with_others in (False, True):
        library = Library(tmp_path_factory.mktemp("library"), settings=RetrieveSettings())
        library.put("handbook.txt", ["the harbour opens at nine", "berth and fee are told by the harbour"])
        remember(library, "g", "the harbour fee is nine euros")
        if with_others:
            for number in range(30):
                remember(library, f"b{number}", f"the harbour berth {number} of beta is twelve", _BETA)
        told.append(everything_told(library.retrieve(query, explain=True)))
        library.close()
    assert told[0]["results"] or query == "twelve"
    assert told[0] == told[1]


def test_a_search_of_the_past_does_not_decide_what_is_seen_now(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(), clock=ManualClock())
    library.collection = library.create("kept", generation_retention=timedelta(hours=1))
    remember(library, "a", "the harbour berth of alpha", _ALPHA)
    remember(library, "g", "the harbour fee")
    before = library.retrieve("harbour", collection="kept")
    remember(library, "h", "the harbour light")
    for snapshot, found in ((before.snapshot, 1), (0, 2)):
        response = library.retrieve("harbour", collection="kept", **({"snapshot": snapshot} if snapshot else {}))
        assert len(response.results) == found
    library.close()


@pytest.mark.requirement("S0-11")
def test_a_record_that_changes_its_scope_is_found_there_at_once(library: Library) -> None:
    fill(library)
    document = library.documents.find_by_source("default", "docs", "record:g")
    assert document is not None
    record = {"type": "memory", "scope": _ALPHA, "timestamp": "2026-01-01T00:00:00+00:00", "importance": 3}
    library.put("record:g", ["the harbour fee is ten euros"], fields=DocumentFields(record=record), replaces=document)
    assert "the harbour fee is ten euros" not in contents(library.retrieve("harbour fee"))
    assert "the harbour fee is ten euros" in contents(library.retrieve("harbour fee", entity="alpha"))


@pytest.mark.usefixtures("calls")
@pytest.mark.requirement("C09")
def test_a_credential_bounds_what_can_be_named(library: Library) -> None:
    fill(library)
    call_as(_ALPHA)
    assert contents(library.retrieve("harbour")) == ["the harbour opens at nine"]
    assert "the harbour berth of alpha is nine" in contents(library.retrieve("harbour", entity="alpha"))
    for options in (
        {"entity": "beta"},
        {"entity": "alpha", "include_global": True},
        {"filter": to_filter_message(parse_filter({"scope": _BETA}))},
    ):
        with pytest.raises(PermissionDeniedError):
            library.retrieve("harbour", **options)


@pytest.mark.usefixtures("calls")
@pytest.mark.requirement("C09")
def test_a_remembered_response_goes_to_those_of_the_same_scopes_alone(library: Library) -> None:
    fill(library)
    call_as("global")
    allowed = contents(library.retrieve("harbour fee"))
    call_as(_ALPHA)
    assert set(allowed) - set(contents(library.retrieve("harbour fee"))) == {"the harbour fee is nine euros"}


@pytest.mark.requirement("S0-11")
def test_names_and_values_of_others_metadata_are_unknown(library: Library) -> None:
    fill(library)
    remember(library, "secret", "something", _BETA, metadata={"illness": "measles"})
    where = to_filter_message(parse_filter({"illness": "measles"}))
    with pytest.raises(InvalidRequestError, match="illness") as refused:
        library.retrieve("harbour", filter=where)
    with pytest.raises(InvalidRequestError) as unheard:
        library.retrieve("harbour", filter=to_filter_message(parse_filter({"nonsense": "measles"})))
    assert str(refused.value).replace("illness", "nonsense") == str(unheard.value)


@pytest.mark.parametrize("entity", ["x" * 200, " ann", ":ann", "an\nn"])
def test_a_name_that_no_entity_has_is_refused_as_a_name(library: Library, entity: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        library.retrieve("harbour", entity=entity)
    (violation,) = refused.value.violations
    assert violation.field == "options.entity"
    assert "entity:" not in violation.description
    assert "must be a name" in violation.description
