"""Caches: an equal search gives the same bytes except for times, until its collection changes; never another's."""

import asyncio
import contextvars
import gc
import time
from contextlib import AbstractContextManager
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
from sqlalchemy import Connection

from groundwire.api.common.v1 import hit_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.retrieve.v1 import retrieve_report_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1.library_service_pb2 import GetDocumentRequest
from groundwire.catalog.collections import Collections
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError, InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Identity
from groundwire.retrieve.filters import FilterCache, FilterMatches
from groundwire.retrieve.search import QueryVectors
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc import request_context
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.library import Library, WordBagEmbedder, contents


def _timeless(response: pb.RetrieveResponse) -> bytes:
    copy = pb.RetrieveResponse()
    copy.CopyFrom(response)
    copy.ClearField("log_id")
    copy.report.ClearField("query_embedding_time")
    copy.report.ClearField("search_time")
    copy.report.ClearField("total_time")
    copy.report.ClearField("query_time")
    copy.report.ClearField("process_time")
    copy.report.ClearField("states")
    copy.report.ClearField("from_cache")
    return copy.SerializeToString(deterministic=True)


def _request(query: str = "alpha", collection: str = "docs") -> pb.RetrieveRequest:
    return pb.RetrieveRequest(collection=collection, query=query, options=RetrievalOptions(include_report=True))


def _repeat(library: Library, request: pb.RetrieveRequest) -> pb.RetrieveResponse | None:
    ready = library.service.servicer.repeat(request, time.perf_counter())
    return None if ready is None else pb.RetrieveResponse.FromString(ready.raw)


def test_a_repeated_search_gives_the_same_bytes_as_a_new_one(tmp_path: Path) -> None:
    (tmp_path / "without").mkdir()
    library = Library(tmp_path)
    without = Library(tmp_path / "without", settings=RetrieveSettings(result_cache_mib=0, query_cache_entries=0))
    for each in (library, without):
        each.put("a.txt", ["alpha one", "alpha two"], fields=DocumentFields(title="A", metadata={"n": 1}))
    first = library.retrieve("alpha")
    repeated = _repeat(library, _request())
    assert repeated is not None
    assert _timeless(repeated) == _timeless(first)
    assert _repeat(without, _request()) is None
    again = without.retrieve("alpha")
    assert [hit.chunk.content for hit in again.results] == [hit.chunk.content for hit in repeated.results]
    assert repeated.report.process_time.ToNanoseconds() >= repeated.report.query_time.ToNanoseconds()
    library.close()
    without.close()


def test_a_remembered_response_says_so_and_names_only_the_states_it_went_through(library: Library) -> None:
    library.put("a.txt", ["alpha one"])
    new = library.retrieve("alpha")
    assert not new.report.from_cache
    assert len(new.report.states) == 6
    assert new.report.search_time.ToNanoseconds() > 0
    time.sleep(0.5)
    began = time.time_ns()
    repeated = _repeat(library, _request())
    ended = time.time_ns()
    assert repeated is not None
    library.put("x.txt", ["alpha other"], collection=library.create("other"))
    looked = library.retrieve("alpha")
    for response in (repeated, looked):
        assert response.report.from_cache
        received, completed = response.report.states
        both = (retrieve_report_pb2.QUERY_STATE_RECEIVED, retrieve_report_pb2.QUERY_STATE_COMPLETED)
        assert (received.state, completed.state) == both
        assert completed.reach_time.ToNanoseconds() > received.reach_time.ToNanoseconds()
        assert response.report.process_time == completed.reach_time
        assert response.report.total_time.ToNanoseconds() > 0
        assert response.report.query_embedding_time.ToNanoseconds() == 0
        assert response.report.search_time.ToNanoseconds() == 0
    assert began - 400_000_000 <= repeated.report.states[0].reach_time.ToNanoseconds() <= ended, (
        "of this call, not the first"
    )


def test_a_time_that_a_new_search_refuses_is_refused_of_a_remembered_one(library: Library) -> None:
    library.put("a.txt", ["alpha one"])
    library.retrieve("alpha")
    late, impossible = _request(), _request()
    late.query_time.FromSeconds(int(time.time()) + 3600)
    impossible.query_time.seconds = 2**60
    for request in (late, impossible):
        assert _repeat(library, request) is None
        with pytest.raises(InvalidRequestError, match="query_time"):
            library.service.servicer.retrieve(request, time.perf_counter())


def test_every_change_of_the_collection_ends_what_was_remembered(library: Library) -> None:
    library.put("a.txt", ["alpha one"])
    assert contents(library.retrieve("alpha")) == ["alpha one"]
    second = library.put("b.txt", ["alpha two"])
    assert _repeat(library, _request()) is None
    assert set(contents(library.retrieve("alpha"))) == {"alpha one", "alpha two"}
    third = library.put("b.txt", ["alpha three"], replaces=second)
    assert set(contents(library.retrieve("alpha"))) == {"alpha one", "alpha three"}
    library.documents.delete("default", "docs", third.document_id)
    assert contents(library.retrieve("alpha")) == ["alpha one"]
    Collections(library.database).delete("default", "docs")
    assert _repeat(library, _request()) is None
    with pytest.raises(CollectionNotFoundError):
        library.retrieve("alpha")


def test_a_change_elsewhere_costs_one_look_and_moves_the_snapshot(library: Library) -> None:
    library.put("a.txt", ["alpha one"])
    first = library.retrieve("alpha")
    library.put("x.txt", ["alpha other"], collection=library.create("other"))
    assert _repeat(library, _request()) is None, "without a look nobody knows what has changed"
    looked = library.retrieve("alpha")
    assert looked.report.query_embedding_time.nanos == 0, "it was not searched again"
    assert looked.snapshot == first.snapshot + 1
    renewed = _repeat(library, _request())
    assert renewed is not None
    assert _timeless(renewed) == _timeless(looked)


def test_requests_that_differ_in_anything_are_searched_apart(library: Library) -> None:
    library.put("a.txt", ["alpha one", "alpha two"])
    library.retrieve("alpha")
    for query, options in (("alpha ", {}), ("Alpha", {}), ("alpha", {"top_k": 1}), ("alpha", {"min_relevance": 0.0})):
        request = _request(query)
        for name, value in options.items():
            setattr(request.options, name, value)
        assert _repeat(library, request) is None, (query, options)
    timed = _request()
    timed.query_time.GetCurrentTime()
    assert _repeat(library, timed) is not None, "the time it was asked changes no result"


@pytest.mark.requirement("S3-27")
def test_nothing_remembered_crosses_tenants(library: Library) -> None:
    library.put("a.txt", ["alpha secret"])
    assert contents(library.retrieve("alpha")) == ["alpha secret"]

    def ask_as_another() -> None:
        request_context.bind(request_context.RequestContext("r", Identity("other")))
        assert _repeat(library, _request()) is None
        with pytest.raises(CollectionNotFoundError):
            library.retrieve("alpha")

    contextvars.copy_context().run(ask_as_another)


@pytest.mark.parametrize("options", [{"explain": True}, {"snapshot": 1}])
def test_what_tells_times_or_expires_is_not_remembered(library: Library, options: dict[str, int]) -> None:
    library.put("a.txt", ["alpha"])
    request = _request()
    for name, value in options.items():
        setattr(request.options, name, value)
    library.service.servicer.retrieve(request, time.perf_counter()).message()
    assert _repeat(library, request) is None


def test_memory_is_bounded(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(result_cache_mib=1))
    library.put("a.txt", [f"alpha {number} " + "x" * 2000 for number in range(20)])
    for number in range(100):
        library.retrieve(f"alpha {number}", top_k=20)
    held = library.service.servicer.results._held
    assert 0 < held.weight <= 1 << 20
    assert len(held) < 100
    assert _repeat(library, _request("alpha 0")) is None
    library.close()


def test_a_remembered_response_holds_no_chunks(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(result_cache_mib=1, chunk_cache_mib=0))
    library.put("a.txt", [f"alpha {number} " + "x" * 10_000 for number in range(20)])
    for number in range(30):
        request = _request(f"alpha {number}")
        request.options.view, request.options.top_k = hit_pb2.HIT_VIEW_IDS, 10
        library.service.servicer.retrieve(request, time.perf_counter()).message()
    held = [each for each, _ in library.service.servicer.results._held._held.values()]
    assert len(held) == 30, "a response of ids is small"
    assert not _reachable_chunks(held)
    library.close()


def _reachable_chunks(held: list[Any]) -> list[StoredChunk]:
    """Follow references of objects of ours; not those of modules and classes, from which everything can be reached."""
    seen, waiting = set[int](), list(held)
    chunks = []
    while waiting:
        each = waiting.pop()
        if id(each) in seen or isinstance(each, (type, ModuleType)):
            continue
        seen.add(id(each))
        if isinstance(each, StoredChunk):
            chunks.append(each)
        waiting += gc.get_referents(each)
    return chunks


class CountingEmbedder(WordBagEmbedder):
    def __init__(self) -> None:
        self.count = 0

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        self.count += 1
        return super().embed_query(text, budget)


def test_the_vector_of_a_query_is_made_once_while_it_is_remembered() -> None:
    embedder = CountingEmbedder()
    vectors = QueryVectors(embedder, entries=2)
    first = vectors.of("alpha", Budget()).vector
    again = vectors.of("alpha", Budget()).vector
    assert embedder.count == 1
    assert (first == again).all()
    with pytest.raises(ValueError, match="read-only"):
        again[0] = 1.0
    vectors.of("beta", Budget())
    vectors.of("gamma", Budget())
    vectors.of("alpha", Budget())
    assert embedder.count == 4


def test_the_memory_of_filters_does_not_keep_their_texts(library: Library) -> None:
    library.put("a.txt", [f"alpha {number}" for number in range(20)])
    sets = library.service.search.filter_cache
    for number in range(40):
        names = [f"{number}-{place}-{'x' * 900}" for place in range(250)]
        library.retrieve("alpha", filter=to_filter_message(parse_filter({"title": {"$in": names}})))
    keys = [key for cache in (sets.shares, sets.asked, sets.numbers, sets.vectors) for key in cache._held]
    assert len(keys) >= 40
    assert max(len(part) for key in keys for part in key if isinstance(part, str | bytes)) < 100


def test_what_passes_a_filter_is_worked_out_anew_after_a_change(library: Library) -> None:
    where = to_filter_message(parse_filter({"title": "tides"}))
    tides = DocumentFields(title="tides")

    def found() -> list[str]:
        return sorted(contents(library.retrieve("alpha", filter=where, exact=True)))

    library.put("a.txt", ["alpha one"], fields=tides)
    for _ in range(3):  # it is worked out when the filter comes for the second time
        assert found() == ["alpha one"]
    library.put("b.txt", ["alpha two"], fields=tides)
    assert found() == ["alpha one", "alpha two"]


def test_what_was_judged_of_one_filter_is_not_taken_for_another(library: Library) -> None:
    for title, count in (("many", 30), ("few", 10)):
        texts = [f"alpha {title} {number}" for number in range(count)]
        library.put(f"{title}.txt", texts, fields=DocumentFields(title=title))
    view, cache = library.service.search.views.open("default", "docs", None), FilterCache(1 << 20)
    shares = [FilterMatches(view, parse_filter({"title": title}), cache).share() for title in ("many", "few", "none")]
    assert shares == pytest.approx([0.75, 0.25, 0.0], abs=0.1)


@pytest.mark.parametrize("mebibytes", [1, 0])
def test_the_memory_of_filters_is_bounded_and_switched_off_by_zero(tmp_path: Path, mebibytes: int) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(filter_cache_mib=mebibytes))
    library.put("a.txt", [f"alpha {number}" for number in range(700)])
    where = to_filter_message(parse_filter({"title": {"$exists": False}}))
    for number in range(4):
        assert library.retrieve(f"alpha {number}", filter=where).results
    remembered = library.service.search.filter_cache
    for cache, share in ((remembered.numbers, 0.25), (remembered.vectors, 0.75)):
        assert cache.weight <= share * (mebibytes << 20)
        assert (cache.weight > 0) is (mebibytes > 0)
    library.close()


def test_a_view_of_a_catalog_that_has_not_changed_is_opened_without_reading_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    library = Library(tmp_path)
    library.put("a.txt", ["alpha"])
    views = library.service.search.views
    first = views.open("default", "docs")
    reads, read = list[float](), library.database.read

    def counted() -> AbstractContextManager[Connection]:
        reads.append(time.monotonic())
        return read()

    monkeypatch.setattr(library.database, "read", counted)
    again = views.open("default", "docs")
    assert (again.position, again.changed_position, reads) == (first.position, first.changed_position, [])
    library.put("b.txt", ["beta"])
    reads.clear()
    changed = views.open("default", "docs")
    assert changed.changed_position > first.changed_position
    assert len(reads) == 1
    library.close()


def test_a_document_is_shown_with_the_sources_and_the_version_that_it_has_now(library: Library) -> None:
    document = library.put("a.txt", ["alpha one"])
    request = _request()
    request.options.view = hit_pb2.HIT_VIEW_FULL

    def shown() -> tuple[list[str], int]:
        library.service.servicer.retrieve(request, time.perf_counter()).message()  # what it reads is remembered
        response = _repeat(library, request)
        assert response is not None
        (found,) = response.documents
        reference = DocumentReference(document_id=document.document_id)
        get_document = GetDocumentRequest(collection="docs", reference=reference)
        read = asyncio.run(library.service.library_servicer.GetDocument(get_document, None))
        assert found == read.document
        return list(found.alias_uris), found.source_version

    assert shown() == ([], 0)
    library.documents.add_alias("default", "docs", document.document_id, "b.txt")
    assert shown() == (["b.txt"], 0)
    library.documents.raise_source_version(document, "default", 7)
    assert shown() == (["b.txt"], 7)
    assert library.documents.drop_source("default", "docs", "b.txt", permanent=False)
    assert shown() == ([], 7)
