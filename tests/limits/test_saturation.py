"""Four times as many calls as there are workers, while a part is slow or hangs.

Every call ends in a result or a typed error within its deadline, what does not need the hung part goes on, and all is
well again within seconds after the part is back.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Any

import grpc
import pysqlite3
import pytest

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.common.v1 import degraded_stage_pb2, search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.limits.slow_parts import COLLECTION, WORKERS, Limits, running, text_of
from tests.stubs import by_id

pytestmark = pytest.mark.limits

CALLS = 4 * WORKERS
GRACE_S = 10.0
"""What a busy machine may take beyond a deadline to tell about it."""
RECOVERY_S = 20.0
_TYPED = {"DEADLINE_EXCEEDED", "UNAVAILABLE", "RESOURCE_EXHAUSTED"}
_FILTER = to_filter_message(parse_filter({"$and": [{"language": {"$ne": "xx"}}, {"source": {"$like": "%.md"}}]}))
_BY_INDEX = to_filter_message(parse_filter({"title": {"$ne": "nothing"}}))


def search(number: int, **options: Any) -> pb.RetrieveRequest:
    return pb.RetrieveRequest(
        collection=COLLECTION,
        query=f"w{number % 45} rises {number}",
        options=RetrievalOptions(min_relevance=0.0, **options),
    )


async def outcome(call: Awaitable[Any]) -> tuple[str, float, Any]:
    """Return the status code, the seconds, and the response or the error."""
    started = time.monotonic()
    try:
        response = await call
    except grpc.aio.AioRpcError as error:
        return error.code().name, time.monotonic() - started, error
    return "OK", time.monotonic() - started, response


async def outcomes(calls: Iterable[Awaitable[Any]]) -> list[tuple[str, float, Any]]:
    return await asyncio.gather(*map(outcome, calls))


def codes(found: list[tuple[str, float, Any]]) -> Counter[str]:
    return Counter(code for code, _, _ in found)


def failures(found: list[tuple[str, float, Any]]) -> set[str]:
    return {f"{code}: {error.details()}" for code, _, error in found if code != "OK"}


async def soon(attempt: Callable[[], Awaitable[Any]]) -> float:
    """Return the seconds until a call succeeds."""
    started = time.monotonic()
    while (await outcome(attempt()))[0] != "OK":
        assert time.monotonic() - started < RECOVERY_S, "not well again in time"
        await asyncio.sleep(0.1)
    return time.monotonic() - started


async def others_work(limits: Limits) -> None:
    """Make the calls that need neither model nor engine."""
    document = library_pb.GetDocumentRequest(collection=COLLECTION, reference=by_id(limits.document_ids[0]))
    found = await limits.ingest.GetDocument(document, timeout=20)
    assert found.document.source_uri == "0.md"
    listed = await limits.ingest.ListDocuments(library_pb.ListDocumentsRequest(collection=COLLECTION), timeout=20)
    assert len(listed.documents) == len(limits.document_ids)
    session = await limits.answer.CreateSession(answer_pb.CreateSessionRequest(collection=COLLECTION), timeout=20)
    again = answer_pb.GetSessionRequest(session_id=session.session.session_id)
    assert (await limits.answer.GetSession(again, timeout=20)).session.collection == COLLECTION


def ask(limits: Limits, within_s: float) -> Any:
    return limits.answer.Ask(answer_pb.AskRequest(collection=COLLECTION, question="What rises w7?"), timeout=within_s)


def ingest(limits: Limits, name: str, number: int, within_s: float) -> Any:
    text = f"{text_of(number)}\n\nMore of {name}."
    request = ingest_pb.IngestDocumentRequest(collection=COLLECTION, source_uri=name, text=text)
    return limits.ingest.IngestDocument(request, timeout=within_s)


@pytest.mark.parametrize("vectors", ["qdrant-edge:", "memory:"])
async def test_searches_over_a_slow_engine_all_succeed(tmp_path: Path, vectors: str) -> None:
    async with running(tmp_path, vectors=vectors) as limits:
        await limits.fill()
        limits.engine.seconds = 0.05
        limits.model.seconds = 0.01
        shapes: list[dict[str, Any]] = [{"filter": _BY_INDEX}, {"filter": _FILTER}, {}]
        for turn, shape in enumerate(shapes):
            found = await outcomes(
                limits.retrieve.Retrieve(search(turn * CALLS + number, **shape), timeout=30) for number in range(CALLS)
            )
            assert failures(found) == set()
            empty = [number for number, (_, _, response) in enumerate(found) if not response.results]
            assert empty == []
            assert max(seconds for _, seconds, _ in found) < 20
        assert limits.engine.calls >= CALLS, "the engine was not asked"


async def test_ingests_and_questions_over_a_slow_model_all_succeed(tmp_path: Path) -> None:
    async with running(tmp_path) as limits:
        await limits.fill(2)
        limits.model.seconds = 0.02
        ingests = (ingest(limits, f"more-{number}.md", number, 60) for number in range(32))
        searches = (limits.retrieve.Retrieve(search(number), timeout=60) for number in range(CALLS))
        questions = (ask(limits, 60) for _ in range(16))
        found = await outcomes([*ingests, *searches, *questions])
        assert failures(found) == set()


async def test_a_hung_engine_ends_each_search_with_its_deadline_and_nothing_else(tmp_path: Path) -> None:
    async with running(tmp_path) as limits:
        await limits.fill()
        limits.engine.hang()
        modes = (search_mode_pb2.SEARCH_MODE_VECTOR, search_mode_pb2.SEARCH_MODE_HYBRID)
        hung = asyncio.gather(
            *(
                outcome(limits.retrieve.Retrieve(search(number, mode=modes[number % 2]), timeout=4))
                for number in range(CALLS)
            )
        )
        await asyncio.sleep(0.3)
        await others_work(limits)
        words = search(7, mode=search_mode_pb2.SEARCH_MODE_LEXICAL)
        assert (await limits.retrieve.Retrieve(words, timeout=10)).results
        found = await hung
        assert set(codes(found[::2])) <= _TYPED
        assert set(codes(found[1::2])) <= _TYPED | {"OK"}
        by_words = [response for code, _, response in found if code == "OK"]
        assert by_words
        assert all(degraded_stage_pb2.DEGRADED_STAGE_DENSE in each.degraded_stages for each in by_words)
        assert max(seconds for _, seconds, _ in found) < 4 + GRACE_S
        limits.engine.let_go()
        await soon(lambda: limits.retrieve.Retrieve(search(100), timeout=2))
        again = await outcomes(limits.retrieve.Retrieve(search(200 + each), timeout=20) for each in range(CALLS))
        assert failures(again) == set()


async def test_a_hung_model_ends_each_call_with_its_deadline_and_is_gone_round(tmp_path: Path) -> None:
    async with running(tmp_path) as limits:
        await limits.fill()
        limits.model.hang()
        calls = [
            *(limits.retrieve.Retrieve(search(number), timeout=3) for number in range(CALLS)),
            *(ask(limits, 3) for _ in range(WORKERS)),
            *(ingest(limits, f"new-{number}.md", number, 3) for number in range(32)),
        ]
        hung = asyncio.gather(*map(outcome, calls))
        await asyncio.sleep(0.3)
        await others_work(limits)
        found = await hung
        assert set(codes(found)) <= _TYPED
        assert max(seconds for _, seconds, _ in found) < 3 + GRACE_S
        deadline = time.monotonic() + 10
        while limits.embedder.is_responsive:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        # The server knows by now: who needs the model is told at once, words are found without it.
        code, seconds, error = await outcome(limits.retrieve.Retrieve(search(300), timeout=20))
        assert (code, seconds < GRACE_S) == ("UNAVAILABLE", True), error
        words = search(8, mode=search_mode_pb2.SEARCH_MODE_LEXICAL)
        answer = await limits.retrieve.Retrieve(words, timeout=10)
        assert [hit for hit in answer.results if "w8" in hit.chunk.content]
        assert degraded_stage_pb2.DEGRADED_STAGE_DENSE in answer.degraded_stages
        limits.model.let_go()
        await soon(lambda: limits.retrieve.Retrieve(search(301), timeout=2))
        again = await outcomes(limits.retrieve.Retrieve(search(400 + each), timeout=20) for each in range(CALLS))
        assert failures(again) == set()
        assert (await ask(limits, 20)).answer.content


async def test_a_locked_catalog_stops_writes_only(tmp_path: Path) -> None:
    async with running(tmp_path) as limits:
        await limits.fill()
        other = pysqlite3.connect(str(limits.catalog_file), isolation_level=None)
        other.execute("BEGIN EXCLUSIVE")
        sessions = answer_pb.CreateSessionRequest(collection=COLLECTION)
        calls = [
            *(limits.answer.CreateSession(sessions, timeout=2) for _ in range(CALLS)),
            *(ingest(limits, f"new-{number}.md", number, 2) for number in range(32)),
        ]
        hung = asyncio.gather(*map(outcome, calls))
        await asyncio.sleep(0.3)
        searches = await outcomes(limits.retrieve.Retrieve(search(number), timeout=20) for number in range(CALLS))
        assert failures(searches) == set()
        document = library_pb.GetDocumentRequest(collection=COLLECTION, reference=by_id(limits.document_ids[0]))
        assert (await limits.ingest.GetDocument(document, timeout=20)).document.source_uri == "0.md"
        found = await hung
        assert set(codes(found)) <= _TYPED
        assert max(seconds for _, seconds, _ in found) < 2 + GRACE_S
        other.execute("ROLLBACK")
        other.close()
        await soon(lambda: limits.answer.CreateSession(sessions, timeout=2))
        await others_work(limits)
        assert (await ingest(limits, "new-0.md", 0, 20)).result.document.generation >= 1
