"""Every search is logged and counted, served or failed; what was taken is stored."""

import asyncio
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import grpc
import pysqlite3
import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import degraded_stage_pb2, search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.catalog.query_log import QueryLogs
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import StoreUnavailableError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.query_log import LoggedQuery, QueryLogMode
from groundwire.retrieve.query_log import Pipeline, QueryRecorder, SearchSample
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import to_filter_message
from tests.catalogs import open_database
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.serving import refused, serving
from tests.manual_clock import ManualClock

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub


def _request(query: str, collection: str = "docs") -> pb.RetrieveRequest:
    options = RetrievalOptions(include_report=True)
    return pb.RetrieveRequest(collection=collection, query=query, options=options)


async def _logs(stub: "Stub", **fields: object) -> library_pb.ListQueryLogsResponse:
    return await stub.ListQueryLogs(library_pb.ListQueryLogsRequest(**fields))  # type: ignore[arg-type]  # fields of the request


async def _stats(stub: "Stub", **fields: object) -> library_pb.GetPipelineStatsResponse:
    return await stub.GetPipelineStats(library_pb.GetPipelineStatsRequest(**fields))  # type: ignore[arg-type]  # the same


def _time(moment: datetime) -> Timestamp:
    message = Timestamp()
    message.FromDatetime(moment)
    return message


@pytest.mark.requirement("S3-25")
async def test_one_search_gives_one_entry_with_the_values_of_its_response(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    before = len((await _logs(stub)).logs)
    response = await stub.Retrieve(_request("Why is alpha one?"))
    logs = (await _logs(stub)).logs
    assert len(logs) == before + 1
    entry = logs[0]
    scores = [hit.relevance_score for hit in response.results]
    assert entry.log_id == response.log_id != ""
    assert entry.query == "Why is alpha one?"
    assert entry.query_type == response.report.query_type == search_mode_pb2.QUERY_TYPE_CONCEPTUAL
    assert entry.result_count == response.report.retrieval_count == 2
    assert entry.average_relevance == pytest.approx(sum(scores) / len(scores))
    assert entry.processing_time.ToMicroseconds() == response.report.total_time.ToMicroseconds() > 0
    assert entry.log_time.ToMilliseconds() == response.report.states[0].reach_time.ToMilliseconds()
    assert (entry.collection, entry.mode, entry.error_reason) == ("docs", search_mode_pb2.SEARCH_MODE_HYBRID, "")


@pytest.mark.requirement("S3-25")
async def test_without_a_result_the_average_is_zero(stub: "Stub") -> None:
    await stub.Retrieve(_request("nothing here"))
    (entry,) = (await _logs(stub)).logs
    assert (entry.result_count, entry.average_relevance) == (0, 0.0)


@pytest.mark.requirement("S3-26")
@pytest.mark.requirement("T38")
async def test_the_user_agent_of_the_caller_is_logged(library: Library) -> None:
    async with serving(library, user_agent="readers-app/7.1") as stub:
        await stub.Retrieve(_request("alpha"))
        (entry,) = (await _logs(stub)).logs
    assert entry.user_agent.startswith("readers-app/7.1 ")


@pytest.mark.requirement("S3-27")
async def test_failures_are_logged_with_their_reason_and_counted(library: Library, stub: "Stub") -> None:
    before = await _stats(stub)
    await refused(stub.Retrieve(_request("x" * 501)))
    await refused(stub.Retrieve(_request("alpha", collection="missing")))
    after = await _stats(stub)
    assert (after.request_count, after.error_count) == (before.request_count + 2, before.error_count + 2)
    assert after.empty_count == before.empty_count, "what fails finds nothing, but for another reason"
    # Names that belong to nothing come from callers, and have no figures of their own.
    assert library.service.library_servicer.pipeline.read("default", "missing", None).requests == 0
    logs = (await _logs(stub)).logs
    assert [(entry.collection, entry.error_reason) for entry in logs] == [
        ("missing", "COLLECTION_NOT_FOUND"),
        ("docs", "INVALID_FIELD"),
    ]
    assert logs[1].query == "x" * 501
    assert all(entry.result_count == 0 and entry.processing_time.ToNanoseconds() > 0 for entry in logs)


async def test_a_failure_is_logged_with_the_beginning_of_what_is_too_long(library: Library) -> None:
    async with serving(library, user_agent="reader" * 100) as stub:
        await refused(stub.Retrieve(_request("x" * 10_000)))
        (entry,) = (await _logs(stub)).logs
    assert (entry.query, entry.user_agent) == ("x" * 8192, ("reader" * 100)[:256])


@pytest.mark.requirement("S3-37")
@pytest.mark.requirement("S3-39")
async def test_the_figures_follow_from_the_searches(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    totals, relevances = [], []
    for query in ("alpha", "beta", "alpha beta"):
        response = await stub.Retrieve(_request(query))
        relevances.append(response.report.quality.average_relevance)
        totals.append(response.report.total_time.ToMicroseconds() / 1e6)
    nothing = _request("alpha")
    nothing.options.min_relevance = 1.0
    totals.append((await stub.Retrieve(nothing)).report.total_time.ToMicroseconds() / 1e6)
    stats = await _stats(stub, collection="docs")
    latency = stats.total_latency
    assert (stats.request_count, stats.error_count, stats.empty_count) == (4, 0, 1)
    assert latency.count == 4
    assert latency.mean.ToMicroseconds() / 1e6 == pytest.approx(sum(totals) / 4, rel=0.01)
    assert latency.maximum.ToMicroseconds() / 1e6 == pytest.approx(max(totals), rel=0.01)
    assert latency.p50.ToMicroseconds() / 1e6 == pytest.approx(sorted(totals)[1], rel=0.03)
    assert latency.p95.ToMicroseconds() / 1e6 == pytest.approx(max(totals), rel=0.03)
    assert stats.engine_latency.count > 0
    assert stats.engine_latency.maximum.ToNanoseconds() <= stats.search_latency.maximum.ToNanoseconds()
    assert stats.average_relevance == pytest.approx(sum(relevances) / 3), "only searches with results have one"
    assert stats.vector_engine == "memory"
    assert stats.start_time.ToDatetime(UTC) <= datetime.now(UTC)


async def test_a_remembered_response_counts_like_the_search_that_made_it(library: Library, stub: "Stub") -> None:
    limited = library.create("limited", approved_source_prefixes=("a",))
    library.put("a.txt", ["alpha one"], collection=limited)
    library.put("b.txt", ["alpha two"], collection=limited)
    for times in (1, 2):
        await stub.Retrieve(_request("alpha", collection="limited"))
        stats = await _stats(stub, collection="limited")
        assert (stats.request_count, stats.rejected_count, stats.empty_count) == (times, times, 0)
        assert stats.search_latency.count == 1
    assert [entry.result_count for entry in (await _logs(stub)).logs] == [1, 1]


async def test_figures_are_of_one_collection_or_all_and_of_a_window(library: Library, stub: "Stub") -> None:
    library.create("other")
    await stub.Retrieve(_request("alpha"))
    await stub.Retrieve(_request("alpha", collection="other"))
    assert (await _stats(stub)).request_count == 2
    assert (await _stats(stub, collection="other")).request_count == 1
    assert (await _stats(stub, window=Duration(seconds=60))).request_count == 2
    code, _, _ = await refused(stub.GetPipelineStats(library_pb.GetPipelineStatsRequest(collection="missing")))
    assert code is grpc.StatusCode.NOT_FOUND
    for seconds in (0, -1, 3601):
        request = library_pb.GetPipelineStatsRequest(window=Duration(seconds=seconds))
        _, _, fields = await refused(stub.GetPipelineStats(request))
        assert fields == ["window"]


async def test_entries_come_newest_first_in_pages_that_fit_together(library: Library, stub: "Stub") -> None:
    library.create("other")
    for number in range(7):
        await stub.Retrieve(_request(f"query {number}", collection="other" if number == 3 else "docs"))
    seen: list[str] = []
    token = ""
    while True:
        page = await _logs(stub, collection="docs", page_size=2, page_token=token)
        seen += [entry.query for entry in page.logs]
        if seen[-1] == "query 5":
            await stub.Retrieve(_request("meanwhile"))
        token = page.next_page_token
        if not token:
            break
    assert seen == ["query 6", "query 5", "query 4", "query 2", "query 1", "query 0"]
    first = await _logs(stub, collection="docs", page_size=2)
    _, info, _ = await refused(
        stub.ListQueryLogs(library_pb.ListQueryLogsRequest(collection="other", page_token=first.next_page_token))
    )
    assert info.reason == "INVALID_PAGE_TOKEN"
    _, _, fields = await refused(stub.ListQueryLogs(library_pb.ListQueryLogsRequest(page_size=-1)))
    assert fields == ["page_size"]
    _, info, _ = await refused(stub.ListQueryLogs(library_pb.ListQueryLogsRequest(collection="nowhere")))
    assert info.reason == "COLLECTION_NOT_FOUND"


async def test_entries_can_be_limited_to_a_time(stub: "Stub") -> None:
    await stub.Retrieve(_request("first"))
    await asyncio.sleep(0.01)
    middle = _time(datetime.now(UTC))
    await asyncio.sleep(0.01)
    await stub.Retrieve(_request("second"))
    assert [entry.query for entry in (await _logs(stub, start_time=middle)).logs] == ["second"]
    assert [entry.query for entry in (await _logs(stub, end_time=middle)).logs] == ["first"]
    assert not (await _logs(stub, start_time=middle, end_time=middle)).logs
    late = library_pb.ListQueryLogsRequest(start_time=middle, end_time=_time(datetime(2020, 1, 1, tzinfo=UTC)))
    _, _, fields = await refused(stub.ListQueryLogs(late))
    assert fields == ["end_time"]


@pytest.fixture(params=[("auto", False), ("facts", False), ("off", False), ("full", True)], ids=lambda value: value[0])
def private(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[tuple[Library, str, bool]]:
    mode, keeps_text = request.param
    opened = Library(tmp_path, settings=RetrieveSettings(query_log=QueryLogMode(mode)))
    opened.create("book", profile=ProfileName.BOOK)
    yield opened, mode, keeps_text
    opened.close()


@pytest.mark.requirement("S4-44")
async def test_questions_to_a_book_stay_off_the_disk_unless_wanted(
    private: tuple[Library, str, bool], tmp_path: Path
) -> None:
    library, mode, keeps_text = private
    async with serving(library) as stub:
        await stub.Retrieve(_request("zebrasecret", collection="book"))
        await refused(stub.Retrieve(_request("zebrasecret" + "x" * 500, collection="book")))
        await refused(stub.Retrieve(_request("zebrasecret", collection="nowhere")))
        logs = (await _logs(stub)).logs
    assert len(logs) == (0 if mode == "off" else 3)
    assert any(entry.query for entry in logs) is keeps_text
    library.close()
    assert (b"zebrasecret" in _bytes_in(tmp_path)) is keeps_text


@pytest.mark.parametrize(
    "options",
    [
        {"entity": "ada"},
        {"scopes": ["global", "entity:ada"]},
        {"filter": to_filter_message(parse_filter({"scope": "entity:ada"}))},
    ],
    ids=["entity", "scopes", "filter"],
)
async def test_what_is_asked_about_an_entity_is_logged_without_its_text_unless_wanted(
    private: tuple[Library, str, bool], options: dict[str, Any]
) -> None:
    library, mode, keeps_text = private
    library.create("docs")
    asked = _request("zebrasecret")
    asked.options.MergeFrom(RetrievalOptions(**options))
    async with serving(library) as stub:
        for _ in range(2):  # the second response is remembered
            await stub.Retrieve(asked)
        await stub.BatchRetrieve(pb.BatchRetrieveRequest(requests=[asked]))
        failing = pb.RetrieveRequest()
        failing.CopyFrom(asked)
        failing.options.top_k = 1_000_000
        await refused(stub.Retrieve(failing))
        await stub.BatchRetrieve(pb.BatchRetrieveRequest(requests=[failing]))
        failing.options.filter.json = "{"
        await refused(stub.Retrieve(failing))
        logs = (await _logs(stub)).logs
    assert len(logs) == (0 if mode == "off" else 6)
    assert [entry.query for entry in logs] == ["zebrasecret" if keeps_text else ""] * len(logs)


def _bytes_in(folder: Path) -> bytes:
    return b"".join(path.read_bytes() for path in folder.iterdir() if path.is_file())


def test_a_clean_stop_loses_nothing(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.service.start()
    ids = {library.retrieve(f"query {number}").log_id for number in range(50)}
    library.close()
    connection = pysqlite3.connect(str(tmp_path / "catalog.db"))
    stored = {row[0] for row in connection.execute("SELECT log_id FROM query_logs")}
    connection.close()
    assert len(ids) == 50
    assert stored == ids


class _NoAccesses:
    """No record was found."""

    def flush(self) -> int:
        return 0


class _Store:
    """Fails until it is told to work."""

    def __init__(self) -> None:
        self.works = False
        self.entries: list[LoggedQuery] = []
        self.forgotten: list[timedelta] = []

    def append(self, entries: list[LoggedQuery]) -> None:
        if not self.works:
            raise StoreUnavailableError("disk full", engine="catalog")
        self.entries += entries

    def forget(self, kept: timedelta) -> int:
        self.forgotten.append(kept)
        if not self.works:
            raise StoreUnavailableError("disk full", engine="catalog")
        return 0


def _entry(number: int) -> LoggedQuery:
    return LoggedQuery(
        f"id{number}", "default", "docs", "", "q", None, 0, 0.0, 0.1, datetime(2026, 1, 1, tzinfo=UTC), "", None, "X"
    )


def test_entries_wait_in_order_while_the_catalog_cannot_be_written_and_overflow_is_told() -> None:
    store = _Store()
    recorder = QueryRecorder(store, timedelta(days=30), _NoAccesses(), capacity=3)  # type: ignore[arg-type]  # takes any sequence
    assert [recorder.record(_entry(number)) for number in range(5)] == [True, True, True, False, False]
    with pytest.raises(StoreUnavailableError):
        recorder.flush()
    store.works = True
    recorder.flush()
    assert [entry.log_id for entry in store.entries] == ["id0", "id1", "id2"]
    recorder.close()
    recorder.record(_entry(9))
    assert store.entries[-1].log_id == "id9", "what comes after the end is stored at once"


def test_the_thread_writes_behind_the_calls_and_forgets_what_is_old() -> None:
    store = _Store()
    store.works = True
    recorder = QueryRecorder(store, timedelta(days=30), _NoAccesses())  # type: ignore[arg-type]  # the same
    recorder.start()
    recorder.record(_entry(1))
    deadline = time.monotonic() + 10
    while not store.entries and time.monotonic() < deadline:
        time.sleep(0.01)
    recorder.close()
    assert [entry.log_id for entry in store.entries] == ["id1"]
    assert store.forgotten == [timedelta(days=30)]


def test_the_thread_goes_on_after_the_catalog_has_failed() -> None:
    store = _Store()
    recorder = QueryRecorder(store, timedelta(days=30), _NoAccesses())  # type: ignore[arg-type]  # the same
    recorder.record(_entry(1))
    recorder.start()
    deadline = time.monotonic() + 10
    while not store.forgotten and time.monotonic() < deadline:
        time.sleep(0.01)
    store.works = True
    while not store.entries and time.monotonic() < deadline:
        time.sleep(0.01)
    assert [entry.log_id for entry in store.entries] == ["id1"]
    recorder.close()


def test_a_full_log_is_told_in_the_reply(library: Library) -> None:
    library.service.recorder._capacity = 0
    response = library.retrieve("alpha")
    assert response.log_id == ""
    assert list(response.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_RECORDING]


def test_old_entries_are_forgotten_by_the_time_that_passed_and_not_by_the_clock(tmp_path: Path) -> None:
    clock, kept = ManualClock(), timedelta(days=30)
    database = open_database(tmp_path / "catalog.db", clock)
    logs = QueryLogs(database)
    logs.append([_entry(1)])
    clock.jump(days=31)
    logs.append([_entry(2)])
    assert logs.forget(kept) == 0
    clock.jump(days=-62)
    clock.advance(days=29)
    logs.append([_entry(3)])
    assert logs.forget(kept) == 0
    clock.advance(days=2)
    assert logs.forget(kept) == 2
    assert [entry.log_id for entry, _ in logs.page("default", limit=10)] == ["id3"]
    database.close()
    # A server that is switched off keeps nothing longer.
    clock.advance(days=31)
    database = open_database(tmp_path / "catalog.db", clock)
    assert QueryLogs(database).forget(kept) == 1
    database.close()


def test_a_window_forgets_what_is_older() -> None:
    now = [1000.0]
    pipeline = Pipeline(lambda: now[0])
    pipeline.add("t", "c", SearchSample(failed=False, total_s=0.1, results=1, relevance=0.5))
    now[0] += 100
    pipeline.add("t", "c", SearchSample(failed=True, total_s=0.2))
    assert pipeline.read("t", None, 50.0).requests == 1
    assert pipeline.read("t", "c", 200.0).requests == 2
    now[0] += 4000
    assert pipeline.read("t", None, 3600.0).requests == 0
    everything = pipeline.read("t", None, None)
    assert (everything.requests, everything.errors, everything.average_relevance) == (2, 1, 0.5)
    assert pipeline.read("other", None, None).requests == 0


def test_a_window_holds_more_searches_than_it_has_slices() -> None:
    pipeline = Pipeline(lambda: 1_000_000.0)
    for _ in range(2_000):
        pipeline.add("t", None, SearchSample(failed=False, total_s=0.1))
    assert pipeline.read("t", None, 60.0).requests == 2_000


def test_quantiles_are_right_to_two_hundredths() -> None:
    pipeline = Pipeline()
    for number in range(1, 1001):
        pipeline.add("t", None, SearchSample(failed=False, total_s=number / 1000))
    total = pipeline.read("t", None, None).total
    assert total.quantile_s(0.5) == pytest.approx(0.5, rel=0.02)
    assert total.quantile_s(0.95) == pytest.approx(0.95, rel=0.02)
    assert total.quantile_s(1.0) == total.maximum_s == 1.0
    assert total.mean_s == pytest.approx(0.5005)


def test_bad_limits_of_the_log_are_refused() -> None:
    with pytest.raises(ValueError, match="greater than or equal to 1"):
        RetrieveSettings(query_log_days=0)
