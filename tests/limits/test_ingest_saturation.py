"""More ingests and changes than there are threads, parsers and slots, and parsers that hang."""

import asyncio
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Coroutine, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.rpc.error_status import from_rpc_error
from tests.conformance.processes import freeze
from tests.integration.ingest.harness import Harness
from tests.integration.rpc.fake_ingest import connected
from tests.stubs import by_id

pytestmark = pytest.mark.limits

DEADLINE_S = 20.0
TYPED = {"OVERLOADED", "DEADLINE_EXCEEDED"}


@pytest.fixture
def harness(tmp_path: Path) -> Iterator[Harness]:
    running = Harness(tmp_path, concurrent_documents=2, parser_processes=3, parser_stall_s=1.0).start()
    running.create("sea")
    yield running
    running.embedder.before_embedding = lambda: None
    running.close()


@pytest.fixture
async def stub(harness: Harness) -> AsyncIterator[Any]:
    async with connected(harness.services()) as (_, connection):
        yield connection


@pytest.fixture
async def crowd(harness: Harness) -> AsyncIterator[list[Any]]:
    """Two connections: one takes no more than 100 calls at a time."""
    async with connected(harness.services()) as (_, one), connected(harness.services()) as (_, other):
        yield [one, other]


async def outcome(call: Coroutine[Any, Any, Any] | Any) -> str:
    """Return `OK` or the reason of the error, after checking that the call kept its deadline."""
    started = time.monotonic()
    try:
        await call
        reason = "OK"
    except grpc.aio.AioRpcError as error:
        reason = from_rpc_error(error).reason
    assert time.monotonic() - started < DEADLINE_S + 2
    return reason


def rename(document_id: str, number: int) -> pb.UpdateDocumentRequest:
    renamed = document_pb2.Document(fields=document_pb2.DocumentFields(title=f"Title {number}"))
    return pb.UpdateDocumentRequest(collection="sea", reference=by_id(document_id), document=renamed)


def text_of(source: str, text: str) -> pb.IngestDocumentRequest:
    return pb.IngestDocumentRequest(collection="sea", source_uri=source, text=text)


async def test_changes_that_wait_for_a_document_keep_no_read_and_no_other_change_waiting(
    stub: Any, crowd: list[Any], harness: Harness, record_property: Callable[[str, object], None]
) -> None:
    busy = harness.ingest("sea", "busy.md", "The first text of a document.").document.document_id
    free = harness.ingest("sea", "free.md", "The text of another document.").document.document_id
    embedding, may_go_on = threading.Event(), threading.Event()

    def hang() -> None:
        embedding.set()
        may_go_on.wait(60)

    harness.embedder.before_embedding = hang
    long = asyncio.create_task(outcome(stub.IngestDocument(text_of("busy.md", "A second text."), timeout=DEADLINE_S)))
    await asyncio.to_thread(embedding.wait, 10)
    changes = [
        asyncio.create_task(outcome(crowd[number % 2].UpdateDocument(rename(busy, number), timeout=DEADLINE_S)))
        for number in range(128)
    ]
    await asyncio.sleep(0.5)
    started = time.monotonic()
    request = library_pb.GetDocumentRequest(collection="sea", reference=by_id(free))
    reads = [await outcome(stub.GetDocument(request, timeout=DEADLINE_S)) for _ in range(20)]
    others = [await outcome(stub.UpdateDocument(rename(free, number), timeout=DEADLINE_S)) for number in range(20)]
    record_property("seconds_of_40_calls_beside", time.monotonic() - started)
    assert reads == others == ["OK"] * 20
    assert not long.done()
    may_go_on.set()
    assert await long == "OK"
    ends = Counter(await asyncio.gather(*changes))
    assert ends["OK"] >= 8
    assert ends.keys() <= {"OK", *TYPED}
    assert ends["OVERLOADED"] > 0


async def test_documents_end_in_time_while_parsers_hang(
    stub: Any, harness: Harness, record_property: Callable[[str, object], None]
) -> None:
    await asyncio.gather(*(outcome(stub.IngestDocument(text_of(f"{n}.md", f"Text {n}."))) for n in range(8)))
    for process_id in harness.service.parser.process_ids:
        freeze(process_id)
    started = time.monotonic()
    calls = [
        outcome(stub.IngestDocument(text_of(f"many-{number}.md", f"Document {number}."), timeout=DEADLINE_S))
        for number in range(4 * 8)
    ]
    ends = Counter(await asyncio.gather(*calls))
    record_property("seconds_with_all_parsers_stopped", time.monotonic() - started)
    assert ends == {"OK": 32}
    started = time.monotonic()
    assert await outcome(stub.IngestDocument(text_of("after.md", "After all."), timeout=DEADLINE_S)) == "OK"
    assert time.monotonic() - started < 15


async def test_pages_of_too_many_attributes_delay_nobody(
    stub: Any, harness: Harness, record_property: Callable[[str, object], None]
) -> None:
    page = f"<html><p {' '.join(f'a{number}' for number in range(80_000))}>Tides rise.</p>".encode()
    hostile = [
        asyncio.create_task(
            outcome(
                stub.IngestDocument(
                    pb.IngestDocumentRequest(collection="sea", source_uri=f"{number}.html", content=page),
                    timeout=DEADLINE_S,
                )
            )
        )
        for number in range(10)
    ]
    await asyncio.sleep(0.2)
    started = time.monotonic()
    assert await outcome(stub.IngestDocument(text_of("ordinary.md", "Ordinary text."), timeout=DEADLINE_S)) == "OK"
    record_property("seconds_of_an_ordinary_ingest", time.monotonic() - started)
    assert Counter(await asyncio.gather(*hostile)) == {"DOCUMENT_LIMIT": 10}
