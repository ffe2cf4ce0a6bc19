"""A batch of documents: each succeeds or fails for itself, all of them are worked on together, none twice."""

import asyncio
import shutil
import threading
import uuid
from collections.abc import Callable
from contextlib import closing
from typing import Any

import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    DocumentNotFoundError,
    DuplicateDocumentError,
    InvalidRequestError,
    RequestIdReusedError,
    StoreUnavailableError,
)
from groundwire.rpc.error_status import from_status
from tests.integration.ingest.harness import Harness

Process = Callable[..., Harness]
CREATED = ingest_result_pb2.INGEST_OUTCOME_CREATED


def item(source: str, text: str = "", **fields: Any) -> pb.IngestDocumentRequest:
    return pb.IngestDocumentRequest(source_uri=source, text=text or f"The tide of {source}.", **fields)


def send(
    harness: Harness, *items: pb.IngestDocumentRequest, collection: str = "docs", request_id: str = ""
) -> pb.BatchIngestDocumentsResponse:
    request = pb.BatchIngestDocumentsRequest(collection=collection, requests=items, request_id=request_id)
    return asyncio.run(harness.service.ingest.BatchIngestDocuments(request, None))


def said(outcome: pb.BatchIngestDocumentsOutcome) -> Any:
    """Return the source of a document that was created, or the class of the error."""
    if outcome.HasField("error"):
        return type(from_status(outcome.error))
    assert outcome.result.outcome == CREATED
    return outcome.result.document.source_uri


@pytest.fixture
def docs(process: Process) -> Harness:
    harness = process()
    harness.create("docs")
    harness.embedder.texts.clear()
    return harness


def test_each_document_succeeds_or_fails_for_itself_in_order(docs: Harness) -> None:
    docs.ingest("docs", "known.md", "Known bytes.")
    reject = ingest_result_pb2.DUPLICATE_POLICY_REJECT
    response = send(
        docs,
        item("b.md"),
        item("empty.md", " "),
        item("../a.md"),
        item("a.md"),
        item("twin.md", "Known bytes.", duplicate_policy=reject),
        pb.IngestDocumentRequest(source_uri="nothing.md"),
    )
    expected = ["b.md", EmptyDocumentError, InvalidRequestError, "a.md", DuplicateDocumentError, InvalidRequestError]
    assert [said(outcome) for outcome in response.outcomes] == expected
    refused = from_status(response.outcomes[2].error)
    assert isinstance(refused, InvalidRequestError)
    assert refused.violations[0].field == "source_uri"
    assert response.consistency_token
    assert docs.sources("docs") == ["a.md", "b.md", "known.md"]


def test_a_document_of_a_batch_is_stored_like_one_alone(docs: Harness) -> None:
    fields = document_pb2.DocumentFields(title="Tides", tags=["sea"])
    given = item("a.md", "# Tides\n\nThe moon.\n", document_id="tides", fields=fields, source_version=7)
    together = send(docs, item("z.md"), given).outcomes[1].result
    docs.create("alone")
    given.collection, given.document_id = "alone", "tides-alone"
    alone = docs.calls.ingest_document(given).result
    for result in (together, alone):
        result.consistency_token = result.document.collection = result.document.document_id = result.document.etag = ""
        result.document.ClearField("ingest_time")
        result.document.ClearField("update_time")
    assert together == alone
    assert docs.text("docs", "a.md") == "# Tides\n\nThe moon.\n"


@pytest.mark.parametrize(
    ("items", "field"),
    [
        ([], "requests"),
        ([item(f"{number}.md") for number in range(101)], "requests"),
        ([item("a.md"), item("b.md"), item("a.md", "Other.")], "requests[2].source_uri"),
        ([item("a.md", document_id="one"), item("b.md", document_id="one")], "requests[1].document_id"),
        ([item("a.md"), item("b.md", collection="spare")], "requests[1].collection"),
        ([item("a.md", request_id=str(uuid.uuid4()))], "requests[0].request_id"),
        ([item("a.md"), item("b.md", run_async=True)], "requests[1].run_async"),
    ],
)
def test_a_batch_that_breaks_a_rule_as_a_whole_stores_nothing(
    docs: Harness, items: list[pb.IngestDocumentRequest], field: str
) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        send(docs, *items)
    assert caught.value.violations[0].field == field
    assert docs.sources("docs") == []


def test_a_batch_for_no_collection_fails_as_a_whole(docs: Harness) -> None:
    with pytest.raises(CollectionNotFoundError):
        send(docs, item("a.md"), collection="none")


def test_a_hundred_documents_are_one_batch(docs: Harness) -> None:
    sources = [f"{number:03}.md" for number in range(100)]
    response = send(docs, *(item(source, collection="docs") for source in sources))
    assert [said(outcome) for outcome in response.outcomes] == sources
    assert docs.sources("docs") == sources


def test_the_first_of_equal_documents_is_the_one_that_others_stand_for(docs: Harness) -> None:
    reuse = ingest_result_pb2.DUPLICATE_POLICY_REUSE
    equal = [item(f"{letter}.md", "Equal bytes.", duplicate_policy=reuse) for letter in "zyxwvuts"]
    outcomes = send(docs, *equal).outcomes
    assert [outcome.result.document.source_uri for outcome in outcomes] == ["z.md"] * 8
    assert outcomes[0].result.outcome == CREATED
    assert docs.sources("docs") == ["z.md"]


def test_the_model_gets_the_texts_of_several_documents_at_a_time(docs: Harness) -> None:
    together = threading.Barrier(8)

    def wait_for_the_others() -> None:
        together.wait(30)

    docs.embedder.before_embedding = wait_for_the_others
    outcomes = send(docs, *(item(f"{number}.md") for number in range(8))).outcomes
    assert [said(outcome) for outcome in outcomes] == [f"{number}.md" for number in range(8)]


def test_a_repeated_batch_gives_its_first_results_and_tries_what_failed_again(docs: Harness) -> None:
    request_id, items = str(uuid.uuid4()), [item("a.md"), item("b.md"), item("empty.md", " ")]
    fail = [True]

    def fail_once() -> None:
        if fail and fail.pop():
            raise StoreUnavailableError("no embedder", engine="embedder")

    docs.embedder.before_embedding = fail_once
    first = send(docs, *items, request_id=request_id)
    failed = [number for number in range(2) if first.outcomes[number].HasField("error")]
    assert len(failed) == 1
    assert isinstance(from_status(first.outcomes[failed[0]].error), StoreUnavailableError)
    again = send(docs, *items, request_id=request_id)
    assert [said(outcome) for outcome in again.outcomes] == ["a.md", "b.md", EmptyDocumentError]
    assert again.outcomes[1 - failed[0]] == first.outcomes[1 - failed[0]]
    third = send(docs, *items, request_id=request_id)
    assert list(third.outcomes) == list(again.outcomes)
    assert [outcome.result.document.generation for outcome in third.outcomes[:2]] == [1, 1]
    assert len(docs.embedder.texts) == 2
    with pytest.raises(RequestIdReusedError):
        send(docs, *items[:2], request_id=request_id)
    with pytest.raises(RequestIdReusedError):
        docs.ingest("docs", "a.md", "Alone.", request_id=request_id)


def test_a_batch_that_a_kill_cut_off_is_finished_when_it_is_sent_again(
    docs: Harness, tmp_path_factory: pytest.TempPathFactory
) -> None:
    request_id, items = str(uuid.uuid4()), [item(f"{number}.md") for number in range(12)]
    halfway, may_go_on, lock, done = threading.Event(), threading.Event(), threading.Lock(), [0]

    def hold_the_second_half() -> None:
        with lock:
            done[0] += 1
            is_late = done[0] > 6
        if is_late:
            halfway.set()
            assert may_go_on.wait(60)

    docs.embedder.before_embedding = hold_the_second_half
    sent = threading.Thread(target=send, args=(docs, *items), kwargs={"request_id": request_id})
    sent.start()
    assert halfway.wait(60)
    while len(docs.sources("docs")) < 6:
        assert sent.is_alive()
    # What the files hold while the process runs is what a kill leaves of it.
    left = tmp_path_factory.mktemp("left") / "data"
    shutil.copytree(docs.folder, left)
    may_go_on.set()
    sent.join(60)
    with closing(Harness(left, docs.vectors).without_housekeeping()) as again:
        again.service.recover()
        before = set(again.sources("docs"))
        assert len(before) == 6
        with pytest.raises(RequestIdReusedError):
            send(again, *items[:-1], request_id=request_id)
        again.embedder.texts.clear()
        outcomes = send(again, *items, request_id=request_id).outcomes
        # Not UNCHANGED: those that were ingested before the kill have the answer of that time.
        assert [said(outcome) for outcome in outcomes] == [f"{number}.md" for number in range(12)]
        assert [outcome.result.document.generation for outcome in outcomes] == [1] * 12
        assert len(again.embedder.texts) <= 6
        assert len(again.live_numbers("docs")) == 12


def test_the_answer_of_a_batch_holds_nothing_of_a_document_that_was_purged(docs: Harness) -> None:
    fields = document_pb2.DocumentFields(title="Secret title")
    request_id, items = str(uuid.uuid4()), [item("a.md", document_id="a", fields=fields), item("b.md")]
    send(docs, *items, request_id=request_id)
    docs.delete("docs", "a")
    outcomes = send(docs, *items, request_id=request_id).outcomes
    assert [said(outcome) for outcome in outcomes] == [DocumentNotFoundError, "b.md"]
    with docs.catalog.read() as connection:
        answers = connection.exec_driver_sql("SELECT response FROM requests").scalars().all()
    assert len(answers) == 3
    assert not any(b"Secret" in bytes(answer) for answer in answers)
