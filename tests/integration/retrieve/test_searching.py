"""Searching a real catalog and engine: what comes back, in which order, with which figures."""

import dataclasses
import time
from collections import Counter
from datetime import UTC, datetime, timedelta

import numpy as np
import pytest

from groundwire.api.common.v1 import degraded_stage_pb2, hit_pb2, search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_report_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    DimensionMismatchError,
    EmbeddingMismatchError,
    GroundwireError,
    InvalidFilterError,
    InvalidRequestError,
    PreconditionError,
    UnavailableError,
)
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.retrieve.search import Progress
from groundwire.retrieve.search_types import SearchRequest, SearchState
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.library import DIMENSIONS, IDENTITY, Library, contents
from tests.manual_clock import ManualClock

_VECTOR = search_mode_pb2.SEARCH_MODE_VECTOR
_LEXICAL = search_mode_pb2.SEARCH_MODE_LEXICAL


@pytest.mark.requirement("S0-55")
@pytest.mark.requirement("S3-18")
@pytest.mark.requirement("S3-22")
@pytest.mark.requirement("S3-24")
@pytest.mark.requirement("S3-40")
def test_results_are_distinct_ranked_from_one_and_fall_in_relevance(engine_library: Library) -> None:
    engine_library.put("a.txt", [f"the borrow checker rule {number}" for number in range(30)])
    engine_library.put("b.txt", [f"bread needs flour {number}" for number in range(30)])
    response = engine_library.retrieve("borrow checker")
    assert response.report.retrieval_count == len(response.results) == 5
    assert [hit.rank for hit in response.results] == [1, 2, 3, 4, 5]
    assert len({hit.chunk.chunk_id for hit in response.results}) == 5
    assert all(hit.chunk.source_uri == "a.txt" for hit in response.results)
    scores = [hit.relevance_score for hit in response.results]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)


@pytest.mark.requirement("S1-27")
@pytest.mark.requirement("S1-28")
@pytest.mark.requirement("S3-35")
@pytest.mark.requirement("T05")
@pytest.mark.requirement("S3-40")
def test_equal_vectors_score_one_and_opposite_ones_zero(engine_library: Library) -> None:
    axis = np.eye(DIMENSIONS, dtype=np.float32)[0]
    engine_library.put("a.txt", ["same", "across", "opposite"], vectors=np.stack([axis, np.roll(axis, 1), -axis]))
    request = SearchRequest("default", "docs", "zzz", mode=SearchMode.VECTOR, vector=axis * 3)
    hits = engine_library.search(request).hits
    assert [hit.stored.chunk.content for hit in hits] == ["same", "across", "opposite"]
    assert [hit.score.relevance for hit in hits] == pytest.approx([1.0, 0.0, 0.0], abs=1e-6)


@pytest.mark.requirement("S1-41")
@pytest.mark.requirement("S1-42")
def test_hybrid_finds_the_rare_token_that_vectors_do_not(engine_library: Library) -> None:
    texts = [f"ticket about printers number {number}" for number in range(200)]
    far = -engine_library.embedder.embed_query("ticket about printers", Budget())
    vectors = engine_library.embedder.embed_documents([*texts, "x"], Budget())
    vectors[-1] = far
    engine_library.put("tickets.txt", [*texts, "see OPS-306 for the cause"], vectors=vectors)
    query = "ticket about printers OPS-306"
    assert "see OPS-306 for the cause" not in contents(engine_library.retrieve(query, mode=_VECTOR, top_k=20))
    assert contents(engine_library.retrieve("OPS-306", mode=_LEXICAL))[0] == "see OPS-306 for the cause"
    assert "see OPS-306 for the cause" in contents(engine_library.retrieve("OPS-306"))[:1]


@pytest.mark.parametrize("error", [UnavailableError("the model is away"), PreconditionError("the key is refused")])
def test_words_are_found_while_the_model_does_not_answer(
    library: Library, monkeypatch: pytest.MonkeyPatch, error: GroundwireError
) -> None:
    def fail(_text: str, _budget: Budget) -> Vectors:
        raise error

    library.put("a.txt", ["grey wolves eat deer", "red foxes eat mice"])
    monkeypatch.setattr(library.embedder, "embed_query", fail)
    response = library.retrieve("foxes", mode=_LEXICAL)
    assert contents(response) == ["red foxes eat mice"]
    assert list(response.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_DENSE]
    with pytest.raises(type(error)):
        library.retrieve("foxes")


def test_a_diverse_selection_looks_far_beyond_the_results(library: Library) -> None:
    axis = np.eye(DIMENSIONS, dtype=np.float32)
    alike = [axis[0] + (0.5 + 0.01 * number) * axis[1] for number in range(30)]
    library.put(
        "a.txt",
        [f"alike {number}" for number in range(30)] + ["other"],
        vectors=np.stack([*alike, axis[0] - axis[1]]),
    )
    request = SearchRequest(
        "default", "docs", "zzz", mode=SearchMode.VECTOR, vector=axis[0], top_k=2, min_relevance=0.0
    )
    assert [hit.stored.chunk.content for hit in library.search(request).hits] == ["alike 0", "alike 1"]
    diverse = library.search(dataclasses.replace(request, diversity=0.9)).hits
    assert [hit.stored.chunk.content for hit in diverse] == ["alike 0", "other"]


@pytest.mark.requirement("S1-43")
def test_words_of_a_heading_are_found(library: Library) -> None:
    library.put("a.txt", ["first text", "second text"], headings=["Kittens", "Quarterly figures"])
    assert contents(library.retrieve("quarterly", mode=_LEXICAL)) == ["second text"]


@pytest.mark.requirement("S3-16")
@pytest.mark.requirement("S3-23")
@pytest.mark.requirement("S3-30")
@pytest.mark.requirement("S3-40")
def test_the_threshold_withholds_and_counts_and_no_result_is_not_an_error(engine_library: Library) -> None:
    engine_library.put("a.txt", ["alpha beta", "gamma delta"])
    response = engine_library.retrieve("nothing of the kind", min_relevance=0.99)
    assert response.report.retrieval_count == 0
    assert not response.results
    assert response.report.quality.below_threshold_count == 2
    assert response.report.quality.average_relevance == 0.0
    assert len(engine_library.retrieve("nothing of the kind", min_relevance=0.0).results) == 2


def test_a_result_that_just_passes_the_threshold_does_not_count_as_below_it(library: Library) -> None:
    library.put("a.txt", ["alpha beta", "gamma delta"])
    response = library.retrieve("alpha beta", mode=_VECTOR, min_relevance=1.0)
    assert contents(response) == ["alpha beta"]
    assert response.report.quality.below_threshold_count == 1


def test_a_vector_that_only_the_engine_has_is_compared_by_it(engine_library: Library) -> None:
    engine_library.put("a.txt", ["alpha beta", "gamma delta"])
    engine_library.database.write(lambda connection: connection.exec_driver_sql("DELETE FROM embeddings"))
    response = engine_library.retrieve("alpha beta", mode=_VECTOR, min_relevance=0.9, exact=True)
    assert contents(response) == ["alpha beta"]


def test_a_chunk_without_a_vector_has_the_lowest_similarity_of_what_is_found(library: Library) -> None:
    library.put("a.txt", ["alpha beta", "alpha beta gamma"])
    library.documents.publish(library.begin("b.txt", ["alpha beta gamma delta"]))
    response = library.retrieve("alpha", min_relevance=0.0)
    similarities = {hit.chunk.content: hit.similarity for hit in response.results}
    assert similarities["alpha beta gamma delta"] == similarities["alpha beta gamma"] < similarities["alpha beta"]


@pytest.mark.parametrize("scale", [1e-30, 1e30])
def test_the_length_of_a_vector_of_the_caller_changes_nothing(engine_library: Library, scale: float) -> None:
    engine_library.put("a.txt", ["alpha beta", "alpha delta", "gamma delta"])
    vector = engine_library.embedder.embed_query("alpha", Budget())
    found = []
    for factor in (scale, 1.0):
        request = pb.RetrieveRequest(collection="docs", query="alpha", query_vector=(factor * vector).tolist())
        request.options.mode = _VECTOR
        hits = engine_library.service.servicer.retrieve(request, time.perf_counter()).message().results
        found.append([(hit.chunk.content, round(hit.relevance_score, 4)) for hit in hits])
    assert found[0] == found[1]


@pytest.mark.requirement("S3-16")
@pytest.mark.requirement("S3-40")
def test_what_the_request_leaves_open_comes_from_the_collection(engine_library: Library) -> None:
    engine_library.put("a.txt", [f"alpha beta {number}" for number in range(9)])
    result = engine_library.search(SearchRequest("default", "docs", "alpha"))
    defaults = engine_library.collection.settings.retrieval
    assert (result.plan.mode, result.plan.top_k) == (defaults.mode, defaults.top_k)
    weight = defaults.dense_weight + result.plan.rules.weight_shift
    assert result.plan.min_relevance == defaults.min_relevance
    assert result.plan.dense_weight == pytest.approx(weight)
    assert len(result.hits) == defaults.top_k


@pytest.mark.requirement("S3-20")
@pytest.mark.requirement("S3-21")
@pytest.mark.requirement("S3-28")
@pytest.mark.requirement("S3-40")
def test_the_response_tells_times_states_and_the_query_as_it_was(engine_library: Library) -> None:
    engine_library.put("a.txt", ["alpha beta"])
    query = "  Alpha\tβeta 🦀 "
    response = engine_library.retrieve(query)
    assert response.report.query_text == query
    assert response.report.embedding_model == "word-bag"
    parts = response.report.query_embedding_time.ToTimedelta() + response.report.search_time.ToTimedelta()
    assert response.report.total_time.ToTimedelta() >= parts > response.report.search_time.ToTimedelta()
    names = [
        retrieve_report_pb2.QueryState.Name(change.state).removeprefix("QUERY_STATE_")
        for change in response.report.states
    ]
    assert names == ["RECEIVED", "EMBEDDING", "SEARCHING", "RANKED", "VALIDATED", "COMPLETED"]
    times = [change.reach_time.ToNanoseconds() for change in response.report.states]
    assert times == sorted(times)
    assert abs(times[0] / 1e9 - time.time()) < 60
    assert response.report.process_time.ToNanoseconds() >= response.report.query_time.ToNanoseconds()


def test_the_time_of_a_search_is_counted_apart_from_that_of_the_model_and_from_the_arrival_of_the_call(
    library: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    library.put("a.txt", ["alpha beta"])
    embed_query = library.embedder.embed_query

    def slowly(text: str, budget: Budget) -> Vectors:
        time.sleep(0.2)
        return embed_query(text, budget)

    monkeypatch.setattr(library.embedder, "embed_query", slowly)
    started = time.perf_counter() - 60
    times = library.service.search.search(SearchRequest("default", "docs", "alpha"), Budget(), started=started).times
    assert times.embedding_s >= 0.2
    assert times.total_s >= 60 + times.embedding_s + times.search_s
    own = library.service.search.search(SearchRequest("default", "docs", "beta"), Budget()).times
    assert own.total_s == pytest.approx(own.embedding_s + own.search_s)


def test_times_of_states_never_fall_where_the_clock_is_set_back(library: Library) -> None:
    library.put("a.txt", ["alpha beta"])
    clock = ManualClock()
    received = clock.now()
    clock.jump(minutes=-1)
    search = dataclasses.replace(library.service.search, clock=clock)
    states = search.search(SearchRequest("default", "docs", "alpha"), Budget(), received=received).times.states
    assert {moment for _, moment in states} == {clock.now()}
    progress = Progress(clock, None)
    clock.jump(minutes=-1)
    progress.enter(SearchState.EMBEDDING)
    assert [moment for _, moment in progress.reached] == [clock.now() + timedelta(minutes=1)] * 2


@pytest.mark.requirement("S3-05")
@pytest.mark.requirement("S3-40")
def test_a_query_time_slightly_ahead_is_not_overtaken_by_the_processing_time(engine_library: Library) -> None:
    request = pb.RetrieveRequest(collection="docs", query="alpha")
    request.options.include_report = True
    request.query_time.FromSeconds(int(time.time()) + 30)
    response = engine_library.service.servicer.retrieve(request, time.perf_counter()).message()
    assert response.report.query_time == request.query_time
    assert response.report.process_time.ToNanoseconds() >= response.report.query_time.ToNanoseconds()


@pytest.mark.requirement("S1-103")
@pytest.mark.requirement("S3-19")
@pytest.mark.requirement("S3-36")
@pytest.mark.requirement("T15")
@pytest.mark.requirement("S3-40")
def test_every_hit_carries_its_own_chunk_and_document(engine_library: Library) -> None:
    fields = DocumentFields(
        title="Handbook",
        creators=("Ada", "Bob"),
        subjects=("ops",),
        description="about ops",
        date_created=datetime(2024, 7, 1, tzinfo=UTC),
        category="guide",
        tags=("red", "blue"),
        project="atlas",
        metadata={"department": "finance", "pages": 7, "ratio": 0.5, "final": True, "codes": ("a", "b"), "n": (1, 2)},
    )
    stored = engine_library.put("one.txt", ["alpha one 🦀", "alpha two", "alpha three"], fields=fields)
    engine_library.put("two.txt", ["alpha four"])
    response = engine_library.retrieve("alpha", top_k=20, view=hit_pb2.HIT_VIEW_FULL)
    assert len(response.results) == 4
    by_content = {hit.chunk.content: hit for hit in response.results}
    text = "alpha one 🦀\nalpha two\nalpha three"
    for number, content in enumerate(text.split("\n")):
        hit = by_content[content]
        assert text[hit.chunk.span.start : hit.chunk.span.end] == content
        assert text.encode()[hit.chunk.span.start_byte : hit.chunk.span.end_byte].decode() == content
        assert (hit.chunk.sequence_num, hit.chunk.document_id, hit.chunk.source_uri) == (
            number,
            stored.document_id,
            "one.txt",
        )
        assert hit.chunk.chunk_id == f"{stored.document_id}#chunk_{number:03d}"
    hit = by_content["alpha two"]
    assert list(hit.chunk.tags) == ["red", "blue"]
    assert (hit.chunk.prev_chunk_id, hit.chunk.next_chunk_id) == (
        f"{stored.document_id}#chunk_000",
        f"{stored.document_id}#chunk_002",
    )
    assert (by_content["alpha one 🦀"].chunk.prev_chunk_id, by_content["alpha three"].chunk.next_chunk_id) == ("", "")
    assert hit.chunk.metadata["department"].string_value == "finance"
    assert hit.chunk.metadata["pages"].int64_value == 7
    assert hit.chunk.metadata["ratio"].double_value == 0.5
    assert hit.chunk.metadata["final"].bool_value is True
    assert list(hit.chunk.metadata["codes"].string_list.values) == ["a", "b"]
    assert list(hit.chunk.metadata["n"].int64_list.values) == [1, 2]
    assert (hit.chunk.section_heading, hit.chunk.chapter, hit.chunk.level) == ("Start", "Chapter 1", 3)
    assert by_content["alpha four"].chunk.source_uri == "two.txt"
    documents = {each.document_id: each for each in response.documents}
    assert len(documents) == len(response.documents) == 2
    one = documents[stored.document_id]
    assert (one.display_title, one.source_hash) == ("Handbook", stored.source_hash)
    assert (one.fields.project, one.fields.category, one.fields.description) == ("atlas", "guide", "about ops")
    assert (list(one.fields.creators), list(one.fields.subjects)) == (["Ada", "Bob"], ["ops"])
    assert one.fields.date_created.ToDatetime(UTC) == fields.date_created
    assert documents[by_content["alpha four"].chunk.document_id].display_title == "two.txt"


@pytest.mark.requirement("S3-38")
@pytest.mark.requirement("S3-40")
def test_quality_figures_match_the_results(engine_library: Library) -> None:
    engine_library.put("a.txt", ["alpha beta", "alpha gamma", "delta"])
    response = engine_library.retrieve("alpha unheard", min_relevance=0.2)
    scores = [hit.relevance_score for hit in response.results]
    quality = response.report.quality
    assert quality.average_relevance == pytest.approx(sum(scores) / len(scores))
    assert (quality.minimum_relevance, quality.maximum_relevance) == (min(scores), max(scores))
    assert quality.candidate_count == 3
    assert quality.below_threshold_count == 3 - len(scores)
    assert quality.coverage == 0.5


@pytest.mark.requirement("C06")
def test_equal_texts_are_returned_once_unless_asked_otherwise(library: Library) -> None:
    library.put("a.txt", ["alpha beta"])
    library.put("b.txt", ["alpha beta", "alpha gamma"])
    response = library.retrieve("alpha beta")
    assert contents(response) == ["alpha beta", "alpha gamma"]
    assert response.report.quality.duplicate_count == 1
    assert len(library.retrieve("alpha beta", collapse_duplicates=False).results) == 3


@pytest.mark.parametrize("mode", [search_mode_pb2.SEARCH_MODE_HYBRID, _VECTOR, _LEXICAL])
def test_one_document_takes_no_more_than_its_share(library: Library, mode: int) -> None:
    # A flood of texts made for one query, all of them different and none far from it.
    library.put("flood.txt", [f"alpha beta gamma filler{number}" for number in range(300)])
    for number in range(6):
        library.put(f"honest{number}.txt", [f"alpha beta note{number} words{number}", f"beta other{number}"])

    def sources(most: int | None = None) -> list[str]:
        limit = {} if most is None else {"max_per_document": most}
        response = library.retrieve("alpha beta gamma", "docs", top_k=8, mode=mode, **limit)
        return [hit.chunk.source_uri for hit in response.results]

    assert set(sources()) == {"flood.txt"}
    limited = library.retrieve("alpha beta gamma", top_k=8, mode=mode, max_per_document=2, explain=True)
    found = Counter(hit.chunk.source_uri for hit in limited.results)
    assert sum(found.values()) == 8
    assert max(found.values()) <= 2
    assert found["flood.txt"] == 2
    assert limited.results[0].chunk.source_uri == "flood.txt"
    limits = {each.name: each.value for each in limited.explain_plan.stages[-1].figures}
    assert (limits["top_k"], limits["max_per_document"]) == (8, 2)
    fates = {each.fate for each in limited.explain_plan.candidates if each.place.startswith("flood.txt")}
    assert fates == {"returned", "beyond_document"}
    assert sources(8) == ["flood.txt"] * 8
    for wrong in (0, 101):
        with pytest.raises(InvalidRequestError, match=r"options\.max_per_document: must be 1 to 100"):
            sources(wrong)


def test_results_may_be_shown_by_time(library: Library) -> None:
    for name in ("old", "middle", "new"):
        library.put(f"{name}.txt", [f"alpha {name}"])
        time.sleep(0.002)
    newest_first = library.retrieve("alpha old", order_by=search_mode_pb2.ORDER_BY_TIMESTAMP_DESC)
    assert contents(newest_first) == ["alpha new", "alpha middle", "alpha old"]
    assert [hit.rank for hit in newest_first.results] == [1, 2, 3]
    assert newest_first.report.order_by == search_mode_pb2.ORDER_BY_TIMESTAMP_DESC
    oldest_first = library.retrieve("alpha new", order_by=search_mode_pb2.ORDER_BY_TIMESTAMP_ASC)
    assert contents(oldest_first) == ["alpha old", "alpha middle", "alpha new"]
    assert contents(library.retrieve("alpha old"))[0] == "alpha old"


@pytest.mark.requirement("C21")
@pytest.mark.parametrize(
    ("alias", "field"),
    [
        ("doc_id", "document_id"),
        ("source_path", "source"),
        ("source_uri", "source"),
        ("source_url", "source"),
        ("url", "source"),
        ("doc_type", "format"),
        ("doc_title", "title"),
        ("author", "creators"),
        ("creator", "creators"),
        ("subject", "subjects"),
        ("date", "date_created"),
        ("section_heading", "section_title"),
        ("chunk_index", "sequence_num"),
        ("page", "page_numbers"),
        ("pages", "page_numbers"),
        ("timestamp", "ingested_at"),
        ("created", "ingested_at"),
        ("created_at", "ingested_at"),
        ("ingestion_date", "ingested_at"),
        ("ingestion_time", "ingested_at"),
    ],
)
def test_every_name_of_a_source_design_means_its_field(library: Library, alias: str, field: str) -> None:
    fields = DocumentFields(title="T", creators=("A",), subjects=("S",), date_created=datetime(2024, 7, 1, tzinfo=UTC))
    library.put("a.txt", ["alpha one"], fields=fields, pages=[(3,)])
    for is_there, expected in ((True, ["alpha one"]), (False, [])):
        where = to_filter_message(parse_filter({alias: {"$exists": is_there}}))
        response = library.retrieve("alpha", filter=where)
        assert response.report.applied_filter == to_filter_message(parse_filter({field: {"$exists": is_there}}))
        assert contents(response) == expected


def test_the_filter_that_was_applied_is_told_in_canonical_names(library: Library) -> None:
    library.put("a.txt", ["alpha"])
    response = library.retrieve("alpha", filter=to_filter_message(parse_filter({"url": "a.txt"})))
    assert response.report.applied_filter == to_filter_message(parse_filter({"source": "a.txt"}))
    assert contents(response) == ["alpha"]


@pytest.mark.requirement("S3-29")
@pytest.mark.requirement("S3-40")
def test_a_collection_of_another_model_is_refused_even_with_equal_dimensions(engine_library: Library) -> None:
    engine_library.create("foreign", dataclasses.replace(IDENTITY, probe_digest="1" * 64))
    with pytest.raises(EmbeddingMismatchError) as caught:
        engine_library.retrieve("alpha", collection="foreign")
    assert caught.value.metadata["last_state"] == "EMBEDDING"
    assert caught.value.metadata["expected"] != caught.value.metadata["got"]
    # Both have one name, which would tell nothing apart.
    assert f"by {IDENTITY.model_name}@{'1' * 12}, this server has {IDENTITY.label};" in caught.value.message


def test_an_unknown_collection_is_not_found(library: Library) -> None:
    with pytest.raises(CollectionNotFoundError) as caught:
        library.retrieve("alpha", collection="nowhere")
    assert caught.value.metadata["last_state"] == "RECEIVED"


def test_an_empty_collection_gives_no_result(engine_library: Library) -> None:
    for mode in (_VECTOR, _LEXICAL, search_mode_pb2.SEARCH_MODE_HYBRID):
        assert engine_library.retrieve("alpha", mode=mode).report.retrieval_count == 0


@pytest.mark.requirement("S3-33")
@pytest.mark.requirement("S3-40")
def test_a_vector_of_another_length_is_refused(engine_library: Library) -> None:
    engine_library.put("a.txt", ["alpha"])
    request = pb.RetrieveRequest(collection="docs", query="alpha", query_vector=[1.0] * 3)
    with pytest.raises(DimensionMismatchError) as caught:
        engine_library.service.servicer.retrieve(request, time.perf_counter())
    assert (caught.value.metadata["got"], caught.value.metadata["expected"]) == ("3", str(DIMENSIONS))


def test_a_field_that_no_document_has_is_refused_until_one_has_it(library: Library) -> None:
    where = to_filter_message(parse_filter({"department": "finance"}))
    with pytest.raises(InvalidFilterError, match="unknown field 'department'"):
        library.retrieve("alpha", filter=where)
    library.put("a.txt", ["alpha"], fields=DocumentFields(metadata={"department": "finance"}))
    assert contents(library.retrieve("alpha", filter=where)) == ["alpha"]


def test_a_cancelled_call_stops(library: Library) -> None:
    budget = Budget()
    budget.cancel()
    with pytest.raises(CallCancelledError) as caught:
        library.service.search.search(SearchRequest("default", "docs", "alpha"), budget)
    assert caught.value.metadata["last_state"] == "EMBEDDING"
