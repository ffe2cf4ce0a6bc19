"""A document that is ingested after its call: stored before the call returns, ingested once, whatever happens then."""

import asyncio
import shutil
import threading
import time
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import closing
from typing import Any

import pytest
from google.longrunning import operations_pb2

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.catalog.uploads import Uploads
from groundwire.client.long_running import metadata_of, response_of
from groundwire.kernel.budget import Budget
from groundwire.kernel.document_errors import DocumentTooLargeError, EmptyDocumentError
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    DocumentNotFoundError,
    ExhaustedError,
    InvalidRequestError,
    RequestIdReusedError,
    StaleSourceVersionError,
    StoreUnavailableError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.ingest.harness import Harness, in_threads
from tests.integration.ingest.test_long_work import calls_of, ended
from tests.manual_clock import ManualClock

Process = Callable[..., Harness]
CREATED, REPLACED = ingest_result_pb2.INGEST_OUTCOME_CREATED, ingest_result_pb2.INGEST_OUTCOME_REPLACED
TEXT = "# Tides\n\nThe moon causes the tides of the sea.\n"


class Gate:
    """Holds the embedder until it is opened."""

    def __init__(self, harness: Harness) -> None:
        self.is_reached, self.is_open = threading.Event(), threading.Event()
        harness.embedder.before_embedding = self._pass

    def _pass(self) -> None:
        self.is_reached.set()
        assert self.is_open.wait(60)


@pytest.fixture
def docs(process: Process) -> Harness:
    harness = process(max_document_bytes=3_000_000)
    harness.create("docs")
    harness.embedder.texts.clear()
    return harness


def request_of(source: str = "tides.md", text: str = TEXT, **fields: Any) -> pb.IngestDocumentRequest:
    return pb.IngestDocumentRequest(collection="docs", source_uri=source, text=text, run_async=True, **fields)


def send(harness: Harness, request: pb.IngestDocumentRequest) -> pb.IngestDocumentResponse:
    return asyncio.run(harness.service.ingest.IngestDocument(request, None))


def begin(harness: Harness, source: str = "tides.md", text: str = TEXT, **fields: Any) -> operations_pb2.Operation:
    response = send(harness, request_of(source, text, **fields))
    assert not response.HasField("result")
    return response.operation


def result(harness: Harness, begun: operations_pb2.Operation) -> ingest_result_pb2.IngestResult:
    return response_of(ended(harness, begun.name), pb.IngestDocumentResponse).result


def staged(harness: Harness) -> list[str]:
    return [path.name for path in (harness.folder / "staging").glob("*")]


def await_no_bytes(harness: Harness) -> None:
    """They are dropped right after the end of the operation."""
    eventually(lambda: not staged(harness))


def eventually(condition: Callable[[], bool]) -> None:
    until = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < until
        time.sleep(0.01)


def uploads_in(harness: Harness) -> int:
    with harness.catalog.read() as connection:
        return int(connection.exec_driver_sql("SELECT count(*) FROM uploads").scalar_one())


def upload(harness: Harness, content: bytes, **fields: Any) -> list[pb.UploadDocumentResponse]:
    header = pb.UploadHeader(
        **{"collection": "docs", "source_uri": "tides.md", "total_bytes": len(content), "run_async": True, **fields}
    )

    async def messages() -> AsyncIterator[pb.UploadDocumentRequest]:
        yield pb.UploadDocumentRequest(header=header)
        for offset in range(0, len(content), 1 << 20):
            part = pb.UploadPart(offset=offset, data=content[offset : offset + (1 << 20)])
            yield pb.UploadDocumentRequest(part=part)

    async def whole() -> list[pb.UploadDocumentResponse]:
        return [event async for event in harness.service.ingest.UploadDocument(messages(), None)]

    return asyncio.run(whole())


def test_the_call_returns_at_once_and_the_operation_gives_the_ordinary_response(docs: Harness) -> None:
    gate, fields = Gate(docs), document_pb2.DocumentFields(title="On tides")
    begun = begin(docs, fields=fields, source_version=7)
    assert not begun.done
    assert gate.is_reached.wait(60)
    assert docs.sources("docs") == []
    metadata = metadata_of(calls_of(docs).get(begun.name))
    assert (metadata.method, metadata.collection) == ("IngestDocument", "docs")
    assert metadata.progress.total_count == 1
    gate.is_open.set()
    found = result(docs, begun)
    assert (found.outcome, found.document.fields.title, found.document.source_version) == (CREATED, "On tides", 7)
    assert found.consistency_token
    assert docs.text("docs", "tides.md") == TEXT
    await_no_bytes(docs)
    alone = docs.ingest("docs", "alone.md", TEXT, fields=fields, source_version=7)
    assert found.counts.chunk_count == alone.counts.chunk_count


def test_what_cannot_begin_is_refused_at_once_and_nothing_stays(docs: Harness) -> None:
    with pytest.raises(CollectionNotFoundError):
        send(docs, pb.IngestDocumentRequest(collection="none", source_uri="a.md", text="A.", run_async=True))
    with pytest.raises(DocumentTooLargeError):
        begin(docs, text="x" * 3_000_001)
    with pytest.raises(InvalidRequestError):
        begin(docs, source="../a.md")
    with pytest.raises(InvalidRequestError):
        begin(docs, source_hash="0" * 64)
    assert calls_of(docs).page(None, 10) == []
    assert staged(docs) == []


@pytest.mark.parametrize("text", ["  \n", ""])
def test_a_document_that_is_refused_ends_its_operation_with_the_error_of_the_call(docs: Harness, text: str) -> None:
    begun = begin(docs, text=text)
    with pytest.raises(EmptyDocumentError) as caught:
        result(docs, begun)
    assert caught.value.violations[0].field == "text"
    await_no_bytes(docs)


def test_what_a_kill_cut_off_is_ingested_by_the_next_process(
    docs: Harness, tmp_path_factory: pytest.TempPathFactory
) -> None:
    gate = Gate(docs)
    small = begin(docs)
    large = upload(docs, b"The tide comes in. " * 60_000)[-1].operation
    assert gate.is_reached.wait(60)
    # What the files hold while the process runs is what a kill leaves of it.
    left = tmp_path_factory.mktemp("left") / "data"
    shutil.copytree(docs.folder, left)
    gate.is_open.set()
    with closing(Harness(left, docs.vectors).without_housekeeping()) as again:
        again.service.recover()
        assert again.sources("docs") == []
        again.service.housekeeping.run_now(("uploads",), Budget(60))
        calls_of(again).resume()
        outcomes = [result(again, small).outcome, result(again, large).outcome]
        assert sorted(outcomes) == [CREATED, REPLACED]  # two of one source, in any order
        assert again.sources("docs") == ["tides.md"]
        await_no_bytes(again)


def test_what_was_done_when_the_process_died_is_not_done_again(docs: Harness) -> None:
    begun = begin(docs, source="a.md", document_id="a")
    first = result(docs, begun)
    docs.ingest("docs", "a.md", "Something newer.")
    operation_id = begun.name.removeprefix("operations/")
    request = request_of(source="a.md", document_id="a")
    request.text = ""
    Uploads(docs.catalog).forget(DEFAULT_TENANT, operation_id)
    docs.service.long_work.uploads.keep(DEFAULT_TENANT, operation_id, TEXT.encode())
    docs.catalog.write(
        lambda connection: connection.exec_driver_sql(
            "UPDATE operations SET outcome = NULL, end_time = NULL, end_steady = NULL, request = ?",
            (request.SerializeToString(),),
        )
    )
    calls_of(docs).resume()
    again = result(docs, begun)
    assert (again.outcome, again.document) == (CREATED, first.document)
    assert docs.text("docs", "a.md") == "Something newer."


def test_a_cancelled_operation_leaves_nothing_also_one_that_has_not_begun(docs: Harness) -> None:
    gate = Gate(docs)
    begun = [begin(docs, source=f"{number}.md", text=f"Tide {number}.") for number in range(10)]
    assert gate.is_reached.wait(60)
    waiting = begun[-1].name
    calls_of(docs).cancel(waiting)
    assert calls_of(docs).get(waiting).done, "it waits for a thread although it was cancelled"
    calls_of(docs).cancel(begun[0].name)
    gate.is_open.set()
    for cancelled in (begun[0], begun[-1]):
        with pytest.raises(CallCancelledError):
            result(docs, cancelled)
    assert [result(docs, each).outcome for each in begun[1:-1]] == [CREATED] * 8
    assert docs.sources("docs") == [f"{number}.md" for number in range(1, 9)]
    await_no_bytes(docs)


def test_operations_that_have_not_ended_are_bounded_for_each_tenant(process: Process) -> None:
    harness = process(max_unfinished_operations=3)
    harness.create("docs")
    gate = Gate(harness)
    request_id = str(uuid.uuid4())
    begun = [begin(harness, source=f"{number}.md", text=f"Tide {number}.") for number in range(2)]
    begun.append(send(harness, request_of(source="2.md", text="Tide 2.", request_id=request_id)).operation)
    assert gate.is_reached.wait(60)
    with pytest.raises(ExhaustedError) as caught:
        begin(harness, source="3.md", text="Tide 3.")
    assert caught.value.metadata == {"limit": "3"}
    with pytest.raises(ExhaustedError):
        harness.calls.check_store(maintenance_pb.CheckStoreRequest(collection="docs"))
    assert len(staged(harness)) == 3, "what is refused leaves no bytes"
    again = send(harness, request_of(source="2.md", text="Tide 2.", request_id=request_id)).operation
    assert again.name == begun[2].name, "a repetition begins nothing"
    gate.is_open.set()
    assert [result(harness, each).outcome for each in begun] == [CREATED] * 3
    for _ in range(4):
        with pytest.raises(CollectionNotFoundError):
            harness.calls.check_store(maintenance_pb.CheckStoreRequest(collection="none"))
    assert result(harness, begin(harness, source="3.md", text="Tide 3.")).outcome == CREATED


def test_an_operation_that_waits_is_cancelled_by_several_at_a_time(docs: Harness) -> None:
    gate = Gate(docs)
    begun = [begin(docs, source=f"{number}.md", text=f"Tide {number}.") for number in range(9)]
    assert gate.is_reached.wait(60)
    operations = docs.service.operations.operations._operations
    both_asked, request_cancel = threading.Barrier(2), operations.request_cancel

    def cancel_together(*args: str) -> None:
        request_cancel(*args)
        both_asked.wait(30)

    operations.request_cancel = cancel_together  # type: ignore[assignment, method-assign]
    assert in_threads(*[lambda: calls_of(docs).cancel(begun[-1].name)] * 2) == [None, None]
    gate.is_open.set()
    with pytest.raises(CallCancelledError):
        result(docs, begun[-1])
    assert [result(docs, each).outcome for each in begun[:-1]] == [CREATED] * 8


def test_a_repeated_request_gets_the_same_operation(process: Process, docs: Harness) -> None:
    request = request_of(request_id=str(uuid.uuid4()))
    first = send(docs, request).operation
    operation = ended(docs, first.name)
    again = process(docs.vectors)
    assert send(again, request).operation == operation
    assert calls_of(again).page(None, 10) == [(operation, (1,))]
    with pytest.raises(RequestIdReusedError):
        send(again, request_of(text="Other.", request_id=request.request_id))
    request.run_async = False
    with pytest.raises(RequestIdReusedError):
        send(again, request)
    assert again.sources("docs") == ["tides.md"]


@pytest.mark.parametrize("request_id", ["", "3f0c9a52-7f0e-4c53-9a39-51d0c8b5e6a7"])
def test_an_upload_ends_with_an_operation_which_its_repetition_gets_too(docs: Harness, request_id: str) -> None:
    content = b"The tide comes in. " * 100_000
    events = upload(docs, content, request_id=request_id)
    assert [events[0].WhichOneof("event"), events[-1].WhichOneof("event")] == ["accepted", "operation"]
    upload_id = events[0].accepted.upload_id
    assert events[-1].operation.name == f"operations/{upload_id}"
    assert metadata_of(events[-1].operation).method == "UploadDocument"
    assert result(docs, events[-1].operation).outcome == CREATED
    await_no_bytes(docs)
    again = upload(docs, content, upload_id=upload_id, request_id=request_id)
    assert again[0].accepted.durable_offset == len(content)
    assert again[-1].operation == ended(docs, events[-1].operation.name)


def test_a_request_that_began_an_operation_before_leaves_no_bytes(docs: Harness) -> None:
    content, request_id = b"The tide comes in. " * 1000, str(uuid.uuid4())
    first = upload(docs, content, request_id=request_id)[-1].operation
    assert result(docs, first).outcome == CREATED
    await_no_bytes(docs)
    assert upload(docs, content, request_id=request_id)[-1].operation.name == first.name
    assert staged(docs) == []
    with pytest.raises(RequestIdReusedError):
        upload(docs, content + b"More.", request_id=request_id)
    assert staged(docs) == []


def test_the_same_request_twice_at_a_time_begins_one_operation_and_leaves_no_bytes(docs: Harness) -> None:
    operations, both_staged = docs.service.operations.operations._operations, threading.Barrier(2)
    begin_stored, request = operations.begin, request_of(request_id=str(uuid.uuid4()))

    def begin_together(*args: Any) -> Any:
        both_staged.wait(30)
        return begin_stored(*args)

    operations.begin = begin_together  # type: ignore[assignment, method-assign]
    first, second = in_threads(*[lambda: send(docs, request).operation.name] * 2)
    assert first == second
    assert result(docs, operations_pb2.Operation(name=first)).outcome == CREATED
    await_no_bytes(docs)
    eventually(lambda: uploads_in(docs) == 0)


def test_bytes_of_an_upload_that_could_not_be_ingested_count(process: Process) -> None:
    harness = process(max_staged_bytes=10_000)
    harness.create("docs")

    def fail() -> None:
        raise StoreUnavailableError("no engine", engine="memory")

    harness.embedder.before_embedding = fail
    content = b"The tide comes in. " * 400
    with pytest.raises(StoreUnavailableError):
        upload(harness, content, run_async=False)
    (upload_id,) = staged(harness)
    with pytest.raises(ExhaustedError):
        upload(harness, content, run_async=False, source_uri="other.md")
    harness.embedder.before_embedding = lambda: None
    assert upload(harness, content, run_async=False, upload_id=upload_id)[-1].result.outcome == CREATED
    assert upload(harness, content, run_async=False, source_uri="other.md")[-1].result.outcome == CREATED
    assert staged(harness) == []


def test_an_upload_that_comes_late_leaves_no_bytes(docs: Harness) -> None:
    docs.ingest("docs", "tides.md", TEXT, source_version=7)
    with pytest.raises(StaleSourceVersionError):
        upload(docs, b"The tide comes in.", run_async=False, source_version=6)
    assert staged(docs) == []


def test_an_outcome_holds_nothing_of_a_document_that_was_purged(docs: Harness) -> None:
    begun = begin(docs, document_id="tides", fields=document_pb2.DocumentFields(title="Secret title"))
    result(docs, begun)
    with docs.catalog.read() as connection:
        assert b"Secret" in b"".join(connection.exec_driver_sql("SELECT outcome FROM operations").scalars().all())
    docs.delete("docs", "tides")
    with pytest.raises(DocumentNotFoundError):
        result(docs, begun)
    with docs.catalog.read() as connection:
        rows = connection.exec_driver_sql("SELECT request, outcome FROM operations").all()
    assert [tuple(map(bytes, row)) for row in rows] == [(b"", b"")]


def test_a_document_that_was_purged_before_its_operation_ended_is_not_told_of(docs: Harness) -> None:
    """Between the last step of the ingest and the end of its operation."""
    operations, gate = docs.service.operations.operations, Gate(docs)
    begun = begin(docs, document_id="tides")
    finish = operations._operations.finish

    def purge_and_finish(*args: Any) -> None:
        docs.delete("docs", "tides")
        finish(*args)

    operations._operations.finish = purge_and_finish  # type: ignore[assignment, method-assign]
    gate.is_open.set()
    with pytest.raises(DocumentNotFoundError):
        result(docs, begun)


def test_staged_bytes_wait_for_their_operation_however_long_and_count(process: Process) -> None:
    clock = ManualClock()
    harness = process(clock=clock, max_staged_bytes=300)
    harness.create("docs")
    gate = Gate(harness)
    begun = begin(harness, text="x" * 200)
    assert gate.is_reached.wait(60)
    with pytest.raises(ExhaustedError):
        begin(harness, source="other.md", text="y" * 200)
    clock.advance(days=2)
    harness.forget()
    assert staged(harness) == [begun.name.removeprefix("operations/")]
    gate.is_open.set()
    assert result(harness, begun).outcome == CREATED
    eventually(lambda: uploads_in(harness) == 0)  # dropped right after the end of the operation
    assert begin(harness, source="other.md", text="y" * 200)


def test_an_engine_that_is_away_for_a_moment_ends_no_operation(docs: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("groundwire.ingest.servicer.operations._PAUSES_S", (0.01,) * 3)
    failures = [StoreUnavailableError("no engine", engine="memory")] * 3

    def fail() -> None:
        if failures:
            raise failures.pop()

    docs.embedder.before_embedding = fail
    assert result(docs, begin(docs)).outcome == CREATED
    failures += [StoreUnavailableError("no engine", engine="memory")] * 4
    with pytest.raises(StoreUnavailableError):
        result(docs, begin(docs, source="other.md", text="Another tide."))
