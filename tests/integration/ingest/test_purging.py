"""Documents are purged by a filter: each as a whole, all that match, none that came later, also across a death."""

import shutil
import threading
import time
import uuid
from collections.abc import Callable, Sequence
from contextlib import closing
from typing import Any

import pytest
from google.longrunning import operations_pb2

from groundwire.api.common.v1 import chunk_pb2, document_pb2, filter_pb2, metadata_value_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import progress_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.deletions import Deletions
from groundwire.catalog.documents import Documents
from groundwire.client.long_running import metadata_of, response_of
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    InvalidFilterError,
    InvalidRequestError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_long_work import calls_of, ended
from tests.stubs import by_id, by_source

Process = Callable[..., Harness]
TEXT = "The moon pulls the tide, and the tide pulls the sand. " * 10


def fill(harness: Harness, users: Sequence[str] = ("ann", "bob", "ann", "cyd", "ann")) -> Harness:
    """Store a document for each user, `0.md` to `4.md`."""
    harness.create("docs")
    for number, user in enumerate(users):
        owned(harness, f"{number}.md", user)
    return harness


def owned(harness: Harness, source: str, user: str, text: str = TEXT) -> None:
    fields = document_pb2.DocumentFields(metadata={"user": metadata_value_pb2.MetadataValue(string_value=user)})
    harness.ingest("docs", source, f"{source}. {text}", document_id=f"d-{source}", fields=fields)


def by_json(text: str) -> filter_pb2.Filter:
    return filter_pb2.Filter(json=text)


ANN = by_json('{"user": "ann"}')


def purge(harness: Harness, condition: filter_pb2.Filter, **fields: Any) -> operations_pb2.Operation:
    request = pb.PurgeDocumentsRequest(collection="docs", filter=condition, **fields)
    return harness.calls.purge_documents(request)


def result(harness: Harness, begun: operations_pb2.Operation) -> pb.PurgeDocumentsResponse:
    return response_of(ended(harness, begun.name), pb.PurgeDocumentsResponse)


def all_sources(harness: Harness) -> list[str]:
    """Return the sources of all documents, those that were deleted softly too."""
    listed = harness.library.list_documents(library_pb.ListDocumentsRequest(collection="docs", include_deleted=True))
    return [document.source_uri for document in listed.documents]


def test_without_force_documents_are_counted_and_named_and_stay(process: Process) -> None:
    harness = fill(process())
    counted = result(harness, purge(harness, ANN))
    assert (counted.purge_count, list(counted.purge_sample)) == (3, ["0.md", "2.md", "4.md"])
    assert all_sources(harness) == [f"{number}.md" for number in range(5)]
    assert Deletions(harness.catalog).incomplete(DEFAULT_TENANT, 10) == []


def test_a_count_names_a_hundred_and_counts_all(process: Process) -> None:
    harness = fill(process(), users=["ann"] * 103)
    counted = result(harness, purge(harness, by_json("*")))
    assert (counted.purge_count, len(counted.purge_sample)) == (103, 100)


def test_with_force_what_matches_is_gone_for_good_and_the_rest_is_as_it_was(process: Process) -> None:
    harness = fill(process())
    harness.calls.delete_document(pb.DeleteDocumentRequest(collection="docs", reference=by_source("2.md")))
    begun = purge(harness, ANN, force=True)
    purged = result(harness, begun)
    assert (purged.purge_count, list(purged.purge_sample)) == (3, [])
    assert all_sources(harness) == ["1.md", "3.md"]
    assert metadata_of(calls_of(harness).get(begun.name)).method == "PurgeDocuments"
    harness.sweep()
    assert harness.points("docs") == harness.live_numbers("docs") != []
    with pytest.raises(Exception, match=r"d-2\.md"):
        harness.calls.restore_document(pb.RestoreDocumentRequest(collection="docs", reference=by_id("d-2.md")))


def test_a_star_purges_all_in_more_than_one_page(process: Process) -> None:
    harness = fill(process(), users=["ann"] * 103)
    assert result(harness, purge(harness, by_json("*"), force=True)).purge_count == 103
    assert all_sources(harness) == []


@pytest.mark.parametrize(
    "condition",
    [
        None,
        filter_pb2.Filter(),
        by_json(""),
        by_json("{}"),
        by_json('{"$and": []}'),
        filter_pb2.Filter(all_of=filter_pb2.FilterList()),
        filter_pb2.Filter(negation=filter_pb2.Filter(any_of=filter_pb2.FilterList())),
    ],
)
def test_a_filter_that_says_nothing_is_refused(process: Process, condition: filter_pb2.Filter | None) -> None:
    harness = fill(process())
    with pytest.raises(InvalidRequestError) as caught:
        harness.calls.purge_documents(pb.PurgeDocumentsRequest(collection="docs", filter=condition, force=True))
    assert caught.value.violations[0].field.startswith("filter")
    assert calls_of(harness).page(None, 10) == []
    assert len(all_sources(harness)) == 5


def test_what_cannot_begin_is_no_operation(process: Process) -> None:
    harness = fill(process())
    with pytest.raises(InvalidFilterError):
        purge(harness, by_json('{"owner": "ann"}'), force=True)
    with pytest.raises(CollectionNotFoundError):
        harness.calls.purge_documents(pb.PurgeDocumentsRequest(collection="none", filter=by_json("*")))
    assert calls_of(harness).page(None, 10) == []


class Stop:
    """Holds a purge up before it deletes its third document."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.is_reached, self.may_go_on = threading.Event(), threading.Event()
        self._deleted = 0
        delete = Documents.delete

        def delete_or_wait(documents: Documents, *args: Any, **named: Any) -> Any:
            self._deleted += 1
            if self._deleted == 3:
                self.is_reached.set()
                assert self.may_go_on.wait(60)
            return delete(documents, *args, **named)

        monkeypatch.setattr(Documents, "delete", delete_or_wait)


@pytest.fixture
def stop(monkeypatch: pytest.MonkeyPatch) -> Stop:
    return Stop(monkeypatch)


def test_a_purge_tells_how_far_it_is_and_ends_when_told_to(process: Process, stop: Stop) -> None:
    harness = fill(process(), users=["ann"] * 6)
    begun = purge(harness, by_json("*"), force=True)
    assert stop.is_reached.wait(60)
    progress = metadata_of(calls_of(harness).get(begun.name)).progress
    assert progress.stage == progress_pb2.PROGRESS_STAGE_DELETING
    assert (progress.done_count, progress.total_count) == (2, 6)
    calls_of(harness).cancel(begun.name)
    stop.may_go_on.set()
    with pytest.raises(CallCancelledError):
        result(harness, begun)
    assert all_sources(harness) == [f"{number}.md" for number in range(3, 6)]


def test_what_came_or_changed_meanwhile_is_judged_as_it_is(process: Process, stop: Stop) -> None:
    harness = fill(process(), users=["ann"] * 8)
    begun = purge(harness, ANN, force=True)
    assert stop.is_reached.wait(60)
    time.sleep(0.01)  # ingested later, by the clock
    owned(harness, "new.md", "ann")
    owned(harness, "2.md", "bob")  # the one that is to be deleted next
    owned(harness, "4.md", "bob")
    harness.delete("docs", "d-5.md")
    owned(harness, "6.md", "ann", "Its text is another one now.")
    harness.delete("docs", "d-7.md")
    owned(harness, "7.md", "ann")  # another document of the same id
    stop.may_go_on.set()
    assert result(harness, begun).purge_count == 4
    assert all_sources(harness) == ["2.md", "4.md", "7.md", "new.md"]


def test_documents_that_another_call_deletes_first_are_left_out(process: Process, stop: Stop) -> None:
    harness = fill(process(), users=["ann"] * 5)
    begun = purge(harness, by_json("*"), force=True)
    assert stop.is_reached.wait(60)
    harness.delete("docs", "d-2.md")  # the one that is to be deleted next
    harness.delete("docs", "d-4.md")
    stop.may_go_on.set()
    assert result(harness, begun).purge_count == 3
    assert all_sources(harness) == []


def test_chunks_that_were_changed_meanwhile_are_judged_as_they_are(process: Process, stop: Stop) -> None:
    harness = fill(process(), users=["ann"] * 5)
    chunks = harness.library.list_chunks(library_pb.ListChunksRequest(collection="docs")).chunks

    def tag(chunk_id: str, name: str) -> None:
        chunk = chunk_pb2.Chunk(chunk_id=chunk_id, tags=[name])
        harness.calls.update_chunk(pb.UpdateChunkRequest(collection="docs", chunk=chunk))

    for chunk in chunks:
        tag(chunk.chunk_id, "old")
    begun = purge(harness, by_json('{"tags": "old"}'), force=True)
    assert stop.is_reached.wait(60)
    changed = [chunk.chunk_id for chunk in chunks if chunk.document_id in {"d-2.md", "d-4.md"}]
    assert len(changed) == 2
    for chunk_id in changed:
        tag(chunk_id, "new")
    stop.may_go_on.set()
    assert result(harness, begun).purge_count == 3
    assert all_sources(harness) == ["2.md", "4.md"]


@pytest.mark.parametrize("condition", [ANN, by_json('{"user": {"$ne": "bob"}}')])
def test_the_next_process_finishes_what_a_kill_cut_off(
    process: Process, tmp_path_factory: pytest.TempPathFactory, stop: Stop, condition: filter_pb2.Filter
) -> None:
    harness, request_id = fill(process(), users=["ann"] * 6), str(uuid.uuid4())
    begun = purge(harness, condition, force=True, request_id=request_id)
    assert stop.is_reached.wait(60)
    # What the files hold while the process runs is what a kill leaves of it.
    left = tmp_path_factory.mktemp("left") / "data"
    shutil.copytree(harness.folder, left)
    stop.may_go_on.set()
    with closing(Harness(left, harness.vectors).without_housekeeping()) as again:
        assert len(all_sources(again)) == 4
        again.service.recover()
        calls_of(again).resume()
        assert result(again, begun).purge_count == 6
        assert all_sources(again) == []
        # Nothing has the key `user` any more, and the repeated request is the first one all the same.
        assert purge(again, condition, force=True, request_id=request_id).name == begun.name


def test_a_purge_that_was_done_when_the_process_died_says_so(process: Process) -> None:
    harness = fill(process(), users=["ann"] * 3)
    begun = purge(harness, by_json('{"user": {"$gt": "a"}}'), force=True)
    assert result(harness, begun).purge_count == 3
    asked = pb.PurgeDocumentsRequest(collection="docs", filter=by_json('{"user": {"$gt": "a"}}'), force=True)
    harness.catalog.write(
        lambda connection: connection.exec_driver_sql(
            "UPDATE operations SET outcome = NULL, end_time = NULL, end_steady = NULL, request = ?",
            (asked.SerializeToString(),),
        )
    )
    calls_of(harness).resume()
    assert result(harness, begun).purge_count == 3
