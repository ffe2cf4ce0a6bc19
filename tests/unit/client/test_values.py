"""Plain Python values become the messages of the contract, and come back."""

import inspect
from collections.abc import AsyncIterator, Callable
from datetime import UTC, date, datetime, timedelta, timezone
from pathlib import Path
from typing import Any, cast

import numpy as np
import pytest

from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2
from groundwire.client import Answer, AsyncGroundwireClient, Citation, GroundwireClient, SearchResults, Span
from groundwire.client.records import new_record
from groundwire.client.values import (
    Fields,
    FilterJson,
    both_filters,
    enum_name,
    fields_message,
    filter_message,
    plain_metadata,
)
from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError, UnavailableError

WHEN = datetime(2026, 2, 10, tzinfo=UTC)


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": "x", "b": 1, "c": 1.5, "d": True},
        {"texts": ["x", "y"], "numbers": [1, 2], "mixed": [1.0, 2.5], "truths": [True]},
    ],
)
def test_metadata_come_back_as_they_went(metadata: dict[str, Any]) -> None:
    message = fields_message({"metadata": metadata})
    assert message is not None
    found = plain_metadata(message.metadata)
    assert found == dict(sorted(metadata.items()))
    assert [type(value) for value in found.values()] == [type(metadata[key]) for key in sorted(metadata)]


def test_a_date_is_its_first_moment_in_utc() -> None:
    for given in (date(2024, 5, 1), datetime(2024, 5, 1, tzinfo=UTC)):
        message = fields_message({"date_created": given, "metadata": {"at": datetime(2024, 5, 1, tzinfo=UTC)}})
        assert message is not None
        assert message.date_created.ToJsonString() == "2024-05-01T00:00:00Z"
        assert plain_metadata(message.metadata) == {"at": "2024-05-01T00:00:00Z"}


@pytest.mark.parametrize(
    ("fields", "place"),
    [
        ({"metadata": {"a": None}}, "metadata['a']"),
        ({"metadata": {"a": {"b": 1}}}, "metadata['a']"),
        ({"metadata": {1: 2}}, "metadata"),
        ({"metadata": "x"}, "metadata"),
        ({"date_created": "2024-05-01"}, "date_created"),
        ({"creators": "Doe"}, "creators"),
        ({"tags": {"sea": 1}}, "tags"),
        ({"metadata": {"a": 2**63}}, "metadata['a']"),
        ({"date_created": datetime(2024, 5, 1)}, "date_created"),  # noqa: DTZ001 - it lacks a zone on purpose
        ({"title": 7}, "title"),
        ({"titel": "x"}, "titel"),
        ({"tags": [1]}, "tags"),
    ],
)
def test_what_no_message_can_hold_is_named(fields: Any, place: str) -> None:
    given: Fields = fields
    with pytest.raises(InvalidRequestError) as refused:
        fields_message(given)
    assert [violation.field for violation in refused.value.violations] == [place]


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"metadata": {"a": {1, 2}}}, r"must be a text, a number, .* a date or time, or a list .*, not set"),
        ({"metadata": {"a": None}}, r"not None$"),
        ({"date_created": "2024-05-01"}, r"must be a datetime.date, .* not '2024-05-01'"),
        ({"author": "x"}, r"is not a field of a document; these are title, creators, "),
        ({"title": 7}, r"must be a text, not 7"),
        ({"creators": "Doe"}, r"must be a list of texts, not 'Doe'"),
    ],
)
def test_a_refusal_says_what_is_taken(fields: Any, message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        fields_message(fields)


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"tags": "sea"}, r"tags: must be a list of texts, not 'sea'"),
        ({"importance": "high"}, r"importance: must be a whole number, not 'high'"),
        ({"metadata": ["a"]}, r"metadata: must be a mapping"),
        ({"impotance": 3}, r"impotance: is not a field of records of type memory; these are .*importance"),
        ({"timestamp": "now"}, r"timestamp: must be a datetime.date"),
    ],
)
def test_a_record_refuses_as_a_document_does(fields: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidRequestError, match=message):
        new_record("memory", "The tide is high.", fields)


def test_a_date_in_metadata_is_its_first_moment_as_well() -> None:
    message = fields_message({"metadata": {"on": date(2024, 5, 1)}})
    assert message is not None
    assert plain_metadata(message.metadata) == {"on": "2024-05-01T00:00:00Z"}


async def test_an_argument_that_a_method_does_not_have_is_answered_with_those_that_it_has() -> None:
    told = r"unexpected keyword argument 'top_k'; it takes query, k, "
    with GroundwireClient("127.0.0.1:1") as client:
        search: Any = client.collection("handbook").search
        with pytest.raises(TypeError, match=told):
            search("tides", top_k=3)
    async with AsyncGroundwireClient("127.0.0.1:1") as asynchronous:
        search = asynchronous.collection("handbook").search
        assert inspect.iscoroutinefunction(search)
        with pytest.raises(TypeError, match=told):
            await search("tides", top_k=3)


async def test_what_is_no_text_is_named() -> None:
    with GroundwireClient("127.0.0.1:1") as client:
        collection: Any = client.collection("handbook")
        with pytest.raises(TypeError, match="query must be a text, not 5"):
            collection.search(5)
        with pytest.raises(TypeError, match="question must be a text, not b'Why\\?'"):
            list(collection.ask_stream(b"Why?"))
    async with AsyncGroundwireClient("127.0.0.1:1") as asynchronous:
        collection = asynchronous.collection("handbook")
        with pytest.raises(TypeError, match="query must be a text, not None"):
            await collection.search(None)


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (lambda docs: docs.search("tides", k="a"), "k must be a whole number, not 'a'"),
        (lambda docs: docs.search("tides", k=2.5), "k must be a whole number, not 2.5"),
        (lambda docs: docs.search("tides", min_relevance="high"), "min_relevance must be a number, not 'high'"),
        (lambda docs: docs.ask("Why?", session=5), "session must be a Session or its id, not 5"),
        (lambda docs: docs.ask("Why?", keep_for=30), "keep_for must be a timedelta, not 30"),
        (lambda docs: list(docs.ask_stream("Why?", keep_for="30d")), "keep_for must be a timedelta, not '30d'"),
        (lambda docs: list(docs.converse(["Why?"], session=5)), "session must be a Session or its id, not 5"),
        (lambda docs: docs.delete(force="yes"), "force must be true or false, not 'yes'"),
        (lambda docs: docs.read(5), "places must be a list of Hit or Citation, not 5"),
        (lambda docs: docs.read("moon"), "places must be a list of Hit or Citation, not 'moon'"),
        (lambda docs: docs.read([None]), r"places must be a list of Hit or Citation, not \[None\]"),
        (lambda docs: docs.recall("moon", k="a"), "k must be a whole number, not 'a'"),
        (lambda docs: docs.search("tides", k=True), "k must be a whole number, not True"),
        (lambda docs: docs.retrieve_context("moon", sections=["turn"]), "sections must be a mapping of names to .*"),
        (lambda docs: list(docs.converse(None)), "questions must be a list of texts, not None"),
        (lambda docs: docs.wait(5), "operation must be an IngestOperation or its name, not 5"),
        (lambda docs: docs.cancel(None), "operation must be an IngestOperation or its name, not None"),
        (lambda docs: docs.wait(docs), "operation must be an IngestOperation or its name, not .*Collection.*"),
    ],
)
def test_what_an_argument_cannot_be_is_named(call: Callable[[Any], object], told: str) -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client, pytest.raises(TypeError, match=f"^{told}$"):
        call(client.collection("handbook"))


def test_a_field_of_a_request_that_cannot_hold_its_value_is_named() -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        ask: Any = client.ask
        with pytest.raises(TypeError, match=r"^question cannot hold 5: "):
            ask(collection="handbook", question=5)
        with pytest.raises(TypeError, match=r"^options cannot hold 'best': "):
            ask(collection="handbook", question="Why?", options="best")


@pytest.mark.parametrize(
    ("call", "told"),
    [
        (
            lambda docs: docs.search("tides", snapshot=2**63),
            "snapshot: must be a whole number of at most 64 bits, not ",
        ),
        (lambda docs: docs.search("tides", k=2**40), "k: must be a whole number of at most 32 bits, not 1099511627776"),
        (lambda docs: docs.ask("Why?", k=np.int64(-(2**31) - 1)), "k: must be a whole number of at most 32 bits, not "),
        (lambda docs: next(docs.ask_stream("Why?", k=2**31)), "k: must be a whole number of at most 32 bits, not "),
        (lambda docs: docs.retrieve_context("moon", max_tokens=2**31), "max_tokens: must be a whole number of at most"),
        (lambda docs: docs.retrieve_context("moon", sections={"turn": 2**31}), r"sections\['turn'\]: cannot be stored"),
        (
            lambda docs: docs.retrieve_context("moon", sections={"turn": "4"}),
            r"sections\['turn'\]: must be a whole num",
        ),
    ],
)
def test_a_number_that_no_message_can_hold_is_named(call: Callable[[Any], object], told: str) -> None:
    with (
        GroundwireClient("127.0.0.1:1", timeout_s=1) as client,
        pytest.raises(InvalidRequestError, match=f"^{told}"),
    ):
        call(client.collection("handbook"))


@pytest.mark.parametrize(
    ("make", "told"),
    [
        (lambda client: client(None), "address must be a text, not None"),
        (lambda client: client(50051), "address must be a text, not 50051"),
        (lambda client: client(timeout_s="5"), "timeout_s must be a number, not '5'"),
        (lambda client: client().collection(5), "name must be a text, not 5"),
    ],
)
def test_what_a_client_cannot_be_made_of_is_named(make: Callable[[Any], object], told: str) -> None:
    with pytest.raises(TypeError, match=f"^{told}$"):
        make(GroundwireClient)


def test_a_field_that_a_request_does_not_have_is_answered_with_those_that_it_has() -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        get_chunk: Any = client.get_chunk
        with pytest.raises(
            InvalidRequestError, match=r"^chunk: is not a field of the request; these are collection, reference, "
        ):
            get_chunk(collection="handbook", chunk="c-1")


def test_a_number_that_a_field_of_a_request_cannot_hold_is_named() -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        with pytest.raises(InvalidRequestError, match=r"^page_size: cannot hold 1099511627776: "):
            client.list_chunks(collection="handbook", page_size=2**40)
        ask: Any = client.ask
        with pytest.raises(InvalidRequestError, match=r"^options: cannot hold \{'top_k': 2147483648\}: "):
            ask(collection="handbook", question="Why?", options={"top_k": 2**31})


def test_numbers_of_other_libraries_are_numbers() -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        docs: Any = client.collection("handbook")
        with pytest.raises(UnavailableError):
            docs.search("tides", k=np.int64(3), min_relevance=np.float32(0.5))


@pytest.mark.parametrize("k", [-(2**31), 2**31 - 1, None])
def test_what_a_message_can_hold_is_sent_to_the_server(k: int | None) -> None:
    with GroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        docs = client.collection("handbook")
        with pytest.raises(UnavailableError):
            docs.search("tides", k=k)
        with pytest.raises(UnavailableError):
            docs.retrieve_context("moon", entity=None, sections=None)


async def test_questions_may_come_one_after_the_other() -> None:
    async def questions() -> AsyncIterator[str]:
        yield "Why?"

    async with AsyncGroundwireClient("127.0.0.1:1", timeout_s=1) as client:
        with pytest.raises(UnavailableError):
            await anext(client.collection("handbook").converse(questions()))


async def test_half_a_character_is_refused_by_the_name_of_its_text() -> None:
    with GroundwireClient("127.0.0.1:1") as client:
        docs = client.collection("docs")
        calls: dict[str, Callable[[], object]] = {
            "question": lambda: docs.ask("Why \ud83d?"),
            "query": lambda: docs.search("Why \ud83d?"),
            "source": lambda: docs.ingest_text("So.", source="\ud83d.md"),
            "text": lambda: client.ground_text(collection="docs", text="So \ud83d."),
        }
        for name, call in calls.items():
            with pytest.raises(InvalidRequestError, match=rf"^{name}: is not UTF-8: has '\\ud83d' at character \d$"):
                call()
    async with AsyncGroundwireClient("127.0.0.1:1") as asynchronous:
        with pytest.raises(InvalidRequestError, match=r"^question: is not UTF-8"):
            await anext(asynchronous.collection("docs").ask_stream("Why \ud83d?"))


@pytest.mark.parametrize(
    "moment",
    [
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, tzinfo=timezone(timedelta(hours=-14))),
    ],
)
def test_a_time_that_is_in_no_year_in_utc_is_named(moment: datetime) -> None:
    for refused in (
        lambda: fields_message({"date_created": moment}),
        lambda: fields_message({"metadata": {"date_created": moment}}),
        lambda: new_record("memory", "x", {"timestamp": moment}),
    ):
        with pytest.raises(InvalidRequestError, match=r"(date_created|timestamp)('\])?: must be in the years 1 to"):
            refused()


def test_what_is_none_is_left_out_of_a_record() -> None:
    said = {"importance": None, "kind": None, "tags": None, "metadata": None, "entity": None, "timestamp": None}
    assert new_record("memory", "x", said).timestamp.seconds > 0
    assert new_record("memory", "x", {**said, "timestamp": WHEN}) == new_record("memory", "x", {"timestamp": WHEN})


def test_one_question_or_record_is_no_list_of_them() -> None:
    with GroundwireClient("127.0.0.1:1") as client:
        with pytest.raises(InvalidRequestError, match="questions: must be a list of texts, not 'Why"):
            next(client.collection("x").converse("Why?"))
        with pytest.raises(InvalidRequestError, match="records: must be a list of records"):
            client.collection("x").put_records(cast("Any", {"record_type": "memory", "text": "x"}))


@pytest.mark.parametrize("given", ["The moon.", "", {"answer": "The moon."}, ["The moon."], None, 5])
def test_what_is_neither_answer_nor_citations_cannot_be_verified(given: Any) -> None:
    told = rf"an Answer or a list of Citation, not {type(given).__name__}; `ground_text`"
    with GroundwireClient("127.0.0.1:1") as client, pytest.raises(TypeError, match=told):
        client.verify(given)


def test_one_path_is_no_list_of_paths() -> None:
    with GroundwireClient("127.0.0.1:1") as client, pytest.raises(InvalidRequestError, match="a list of paths"):
        client.collection("handbook").ingest_many("spans.md")


def test_of_two_files_of_one_name_neither_replaces_the_other() -> None:
    with GroundwireClient("127.0.0.1:1") as client:
        with pytest.raises(
            InvalidRequestError, match=r"a.md and sub/a.md would both be stored as 'a.md': give a mapping"
        ):
            client.collection("handbook").ingest_many(["a.md", Path("sub/a.md")])
        # It gets as far as the files.
        outcomes = client.collection("handbook").ingest_many({"a.md": "no/a.md", "sub/a.md": "no/sub/a.md"})
        assert [str(each) for each in outcomes] == [
            "files: no/a.md cannot be read: No such file or directory",
            "files: no/sub/a.md cannot be read: No such file or directory",
        ]


def test_nothing_said_is_no_message() -> None:
    assert fields_message({}) is None
    assert filter_message(None) is None
    assert filter_message({"year": 2024}) == filter_message('{"year": 2024}')
    with pytest.raises(InvalidFilterError):
        filter_message({"year": {"$more": 1}})


def test_a_result_names_what_was_left_out() -> None:
    stages = [degraded_stage_pb2.DEGRADED_STAGE_SELF_QUERY, degraded_stage_pb2.DEGRADED_STAGE_RERANK]
    assert SearchResults.of(retrieve_service_pb2.RetrieveResponse(degraded_stages=stages)).degraded == (
        "self_query",
        "rerank",
    )
    assert Answer.of(answer_pb2.Answer(degraded_stages=stages[1:])).degraded == ("rerank",)
    assert Answer.of(answer_pb2.Answer()).degraded == ()


def test_a_result_shows_its_values_and_not_its_message() -> None:
    message = answer_pb2.Answer(content="Yes.", grounded=True, refusal_reason=answer_pb2.REFUSAL_REASON_NO_RESULTS)
    answer = Answer.of(message)
    assert str(answer) == "Yes."
    assert repr(answer).startswith("Answer(text='Yes.', citations=(), grounded=True, ")
    assert "message=" not in repr(answer)
    assert (answer.refusal, answer.message) == ("no_results", message)
    assert answer == Answer.of(answer_pb2.Answer.FromString(message.SerializeToString()))
    assert enum_name(answer_pb2.RefusalReason.DESCRIPTOR, 0) == ""
    assert enum_name(answer_pb2.RefusalReason.DESCRIPTOR, 99) == "99"


@pytest.mark.parametrize("text", ["The moon", "Ebbe und Flöße", "🌊🌙 e\u0301 tide 🏴\u200d☠️ 海\r\n"])
def test_a_span_is_given_in_the_units_of_other_languages(text: str) -> None:
    units = text.encode("utf-16-le")
    for start in range(len(text)):
        for end in range(start + 1, len(text) + 1):
            first, last = Span(start, end, 0, 0).in_utf_16(text)
            assert units[2 * first : 2 * last].decode("utf-16-le") == text[start:end]


def test_a_citation_can_be_made_from_plain_data() -> None:
    citation = Citation("doc_1", 2, "quote", Span(3, 8, 3, 8))
    message = citation.to_message()
    assert Citation.of(message) == citation
    assert (message.document_id, message.generation, message.span.end_byte) == ("doc_1", 2, 8)


@pytest.mark.parametrize(
    ("condition", "both"),
    [
        (None, {"scope": "global"}),
        ({"topic": "sea"}, {"scope": "global", "topic": "sea"}),
        ('{"scope": {"$foo": 1}}', {"scope": {"$foo": 1}, "$and": [{"scope": "global"}]}),
        (
            {"scope": "a", "$and": [{"b": 1}, {"c": {"$foo": 2}}]},
            {"scope": "a", "$and": [{"b": 1}, {"c": {"$foo": 2}}, {"scope": "global"}]},
        ),
        ({"$and": 7}, {"$and": [{"scope": "global"}, {"$and": 7}]}),
        ("[]", {"$and": [{"scope": "global"}, []]}),
    ],
)
def test_what_somebody_filters_by_stays_where_it_was_written(
    condition: FilterJson | None, both: dict[str, object]
) -> None:
    assert both_filters({"scope": "global"}, condition) == both
