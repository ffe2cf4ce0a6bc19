"""A changing call that is sent again has one effect and one answer, whatever became of the server in between.

One server is played through for all calls: each is sent and sent again; then what it had to do with is changed, so that
doing it anew would have another answer; the process is killed, started, stopped and started, and at last a day passes.
"""

import sqlite3
import uuid
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from copy import deepcopy
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import grpc
import pytest
from google.longrunning import operations_pb2
from google.protobuf.descriptor import FieldDescriptor

from groundwire.api.answer.v1 import answer_service_pb2 as answer_pb
from groundwire.api.common.v1 import document_pb2, filter_pb2, metadata_value_pb2, record_pb2
from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.ingest.v1 import record_service_pb2 as records_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel.errors import GroundwireError
from groundwire.rpc.error_status import from_rpc_error, from_status
from groundwire.rpc.methods import INFRASTRUCTURE, METHODS, is_read, work_of
from tests.e2e.server import ServerProcess
from tests.stubs import METHOD_PATHS, SERVICES, Stubs, by_id, by_source, put_chunks_messages

QUESTION: Final = "What pulls the tide?"
TEXT: Final = "The moon pulls the tide, and the tide pulls the sand of the beach. "
DAY_MS: Final = 24 * 60 * 60 * 1000
MARK: Final = bytes([0xF8, 0x7F, 0x01])
"""A field that no message of the contract has: number 2047, value 1."""
REPETITIONS: Final = ("at once", "after a change", "after SIGKILL", "after a restart")


@dataclass(frozen=True)
class Row:
    """A request, another one with the same id, and a change after which the first would have another answer."""

    request: Any
    other: Any
    change: Callable[[], Any]
    request_id: str = field(default_factory=lambda: str(uuid.uuid4()))


AFTER_A_DAY: Final[Mapping[str, str]] = {
    "IngestDocument": "done anew",
    "BatchIngestDocuments": "done anew",
    "UploadDocument": "done anew",
    "PutChunks": "done anew",
    "UpdateDocument": "done anew",
    "DeleteDocument": "done anew",
    "RestoreDocument": "done anew",
    "UpdateChunk": "done anew",
    "PurgeDocuments": "done anew",
    "BatchUpsertRecords": "done anew",
    "UpdateRecord": "done anew",
    "DeleteRecords": "done anew",
    "RestoreRecords": "done anew",
    "AddLinks": "done anew",
    "RemoveLinks": "done anew",
    "CreateCollection": "ALREADY_EXISTS",  # it has other settings now
    "UpdateCollection": "done anew",
    "DeleteCollection": "done anew",
    "Reindex": "done anew",
    "Reembed": "done anew",
    "CheckStore": "done anew",
    "CreateSession": "done anew",
    "EndSession": "the first answer",  # a session that has ended is returned as it is
    "DeleteSession": "SESSION_NOT_FOUND",
    "DeleteSessions": "done anew",
    "Ask": "the first answer",  # it is kept with its session
    "AskStream": "the first answer",
    "Converse": "the first answer",
}
"""What a request gets that is repeated when its id has been forgotten."""
WITHOUT_ID: Final[Mapping[str, str]] = {"CancelOperation": "the first answer", "DeleteOperation": "OPERATION_NOT_FOUND"}
"""Calls of the standard service of operations, which knows no request ids, and what a repetition gets."""


def changing_calls() -> set[str]:
    """Return the calls that change something by the table of methods, and those whose requests have an id to repeat."""
    by_table = {name for name in METHODS if not is_read(name) and work_of(name) not in INFRASTRUCTURE}
    return by_table | {
        method.name
        for service in SERVICES.values()
        for method in service.methods
        if {"request_id", "message_id"} & {each.name for each in reached(method.input_type.fields)}
    }


def reached(fields: Any) -> list[FieldDescriptor]:
    """Return the fields of a request, and those of the messages that are its first or only content."""
    inner = [each.message_type for each in fields if each.name in {"header", "ask"}]
    return [*fields, *(deeper for message in inner for deeper in message.fields)]


def test_every_changing_call_has_a_row() -> None:
    assert changing_calls() == {*AFTER_A_DAY, *WITHOUT_ID}
    assert {*AFTER_A_DAY} <= {*METHOD_PATHS}


def rows(stubs: Stubs) -> dict[str, Row]:  # noqa: C901, PLR0915 - one table
    """Fill a server with a collection for each call, and return what is sent to it."""

    def collection(name: str, *sources: str) -> str:
        stubs.CreateCollection(collections_pb.CreateCollectionRequest(collection=name))
        for source in sources:
            ingest(name, source, f"{source} of {name}. {TEXT * 3}", document_id=f"{name}-{source}")
        return name

    def ingest(name: str, source: str, text: str, **fields: Any) -> None:
        stubs.IngestDocument(pb.IngestDocumentRequest(collection=name, source_uri=source, text=text, **fields))

    def update(name: str, source: str, **fields: Any) -> pb.UpdateDocumentRequest:
        document = document_pb2.Document(fields=document_pb2.DocumentFields(**fields))
        return pb.UpdateDocumentRequest(collection=name, reference=by_source(source), document=document)

    def update_collection(name: str, **retrieval: Any) -> collections_pb.UpdateCollectionRequest:
        settings = collection_pb2.CollectionSettings()
        for key, value in retrieval.items():
            setattr(settings.retrieval, key, value)
        changed = collection_pb2.Collection(name=name, settings=settings)
        return collections_pb.UpdateCollectionRequest(collection=changed)

    def session(**fields: Any) -> str:
        request = answer_pb.CreateSessionRequest(collection="asking", **fields)
        created: str = stubs.CreateSession(request).session.session_id
        return created

    def ask(session_id: str, question: str = QUESTION, message_id: str = "") -> answer_pb.AskRequest:
        own_id = message_id or str(uuid.uuid4())
        return answer_pb.AskRequest(question=question, session_id=session_id, message_id=own_id)

    def conversation(asked: answer_pb.AskRequest) -> list[answer_pb.ConverseRequest]:
        opening = answer_pb.ConverseOpening(session_id=asked.session_id)
        return [answer_pb.ConverseRequest(opening=opening), answer_pb.ConverseRequest(ask=asked)]

    def ended_operation(name: str) -> str:
        begun = stubs.Reindex(maintenance_pb.ReindexRequest(collection=collection(name)))
        wait(stubs, begun.name)
        ended: str = begun.name
        return ended

    def upload(text: str) -> list[pb.UploadDocumentRequest]:
        content = text.encode()
        header = pb.UploadHeader(collection="uploading", source_uri="a.md", total_bytes=len(content))
        part = pb.UploadPart(offset=0, data=content)
        return [pb.UploadDocumentRequest(header=header), pb.UploadDocumentRequest(part=part)]

    def batch(*sources: str) -> pb.BatchIngestDocumentsRequest:
        items = [pb.IngestDocumentRequest(source_uri=source, text=f"Of {source}. {TEXT}") for source in sources]
        return pb.BatchIngestDocumentsRequest(collection="batching", requests=items)

    def chunks(content: str) -> list[pb.PutChunksRequest]:
        header = pb.PutChunksHeader(collection="putting", source_uri="a.md")
        return list(put_chunks_messages(header, [pb.ReadyChunk(content=content)], 1))

    def note(number: int, text: str = TEXT) -> record_pb2.Record:
        name = f"chunk-2026-02-10-{number:08x}"
        made = record_pb2.Record(record_id=name, record_type=record_pb2.RECORD_TYPE_MEMORY, text=text)
        made.timestamp.FromJsonString("2026-02-10T12:00:00Z")
        return made

    def put(*notes: record_pb2.Record) -> records_pb.BatchUpsertRecordsRequest:
        return records_pb.BatchUpsertRecordsRequest(collection="recording", records=notes)

    def rewrite(number: int, text: str) -> records_pb.UpdateRecordRequest:
        request = records_pb.UpdateRecordRequest(collection="recording", record=note(number, text))
        request.update_mask.paths.append("text")
        return request

    def forget(number: int, *, permanent: bool = False) -> records_pb.DeleteRecordsRequest:
        ids = records_pb.RecordIds(record_ids=[note(number).record_id])
        return records_pb.DeleteRecordsRequest(collection="recording", ids=ids, permanent=permanent)

    def bring_back(number: int) -> records_pb.RestoreRecordsRequest:
        return records_pb.RestoreRecordsRequest(collection="recording", record_ids=[note(number).record_id])

    def linking(request: Any, number: int, target: "records_pb.LinkKind.ValueType") -> Any:
        link = records_pb.RecordLink(kind=target, target_record_id=note(number + 1).record_id)
        return request(collection="recording", record_id=note(number).record_id, links=[link])

    def nothing() -> None:
        """Leave what nothing can change as it is."""

    collection("recording")
    stubs.BatchUpsertRecords(put(*(note(number, f"{number}. {TEXT}") for number in range(2, 10))))
    stubs.DeleteRecords(forget(4))
    stubs.AddLinks(linking(records_pb.AddLinksRequest, 7, records_pb.LINK_KIND_SUPPORTS))
    collection("asking", "tides.md")
    for name in ("ingesting", "batching", "uploading", "putting"):
        collection(name)
    for name in ("updating", "deleting", "restoring", "chunking", "purging"):
        collection(name, "a.md", "b.md")
    for name in ("settling", "dropping", "reindexing", "reembedding", "checking"):
        collection(name)
    stubs.DeleteDocument(pb.DeleteDocumentRequest(collection="restoring", reference=by_source("a.md")))
    first_chunk = Chunk(chunk_id="chunking-a.md#chunk_000", tags=["first"])
    of_chunk = {"key": metadata_value_pb2.MetadataValue(string_value="value")}
    (stays, ending, leaving, asking, streaming, beside) = [session(user_id="ann") for _ in range(6)]
    stubs.Ask(ask(leaving))
    asked, streamed, talking = ask(asking), ask(streaming), ask(session(user_id="ann"))
    cancelled, deleted = ended_operation("cancelling"), ended_operation("forgetting")
    of_user = [session(user_id="ben") for _ in range(2)]
    assert of_user[0] != of_user[1]
    titled = filter_pb2.Filter(json='{"source_uri": "a.md"}')
    return {
        "IngestDocument": Row(
            pb.IngestDocumentRequest(collection="ingesting", source_uri="a.md", text=TEXT),
            pb.IngestDocumentRequest(collection="ingesting", source_uri="a.md", text="Another text."),
            lambda: ingest("ingesting", "a.md", "A later text."),
        ),
        "BatchIngestDocuments": Row(
            batch("a.md", "b.md"), batch("a.md", "c.md"), lambda: ingest("batching", "b.md", "A later text.")
        ),
        "UploadDocument": Row(
            upload(TEXT), upload(f"Another {TEXT}"), lambda: ingest("uploading", "a.md", "A later text.")
        ),
        "PutChunks": Row(
            chunks("The moon pulls the sea."),
            chunks("The wind moves the sea."),
            lambda: ingest("putting", "a.md", "A later text."),
        ),
        "UpdateDocument": Row(
            update("updating", "a.md", title="First"),
            update("updating", "a.md", title="Other"),
            lambda: stubs.UpdateDocument(update("updating", "a.md", category="later")),
        ),
        "DeleteDocument": Row(
            pb.DeleteDocumentRequest(collection="deleting", reference=by_source("a.md")),
            pb.DeleteDocumentRequest(collection="deleting", reference=by_source("a.md"), purge=True),
            lambda: stubs.RestoreDocument(
                pb.RestoreDocumentRequest(collection="deleting", reference=by_source("a.md"))
            ),
        ),
        "RestoreDocument": Row(
            pb.RestoreDocumentRequest(collection="restoring", reference=by_source("a.md")),
            pb.RestoreDocumentRequest(collection="restoring", reference=by_id("restoring-a.md")),
            lambda: stubs.UpdateDocument(update("restoring", "a.md", title="Later")),
        ),
        "UpdateChunk": Row(
            pb.UpdateChunkRequest(collection="chunking", chunk=first_chunk),
            pb.UpdateChunkRequest(collection="chunking", chunk=Chunk(chunk_id=first_chunk.chunk_id, tags=["other"])),
            lambda: stubs.UpdateChunk(
                pb.UpdateChunkRequest(
                    collection="chunking", chunk=Chunk(chunk_id=first_chunk.chunk_id), set_metadata=of_chunk
                )
            ),
        ),
        "BatchUpsertRecords": Row(
            put(note(1)), put(note(1, "Another text.")), lambda: stubs.BatchUpsertRecords(put(note(1, "A later text.")))
        ),
        "UpdateRecord": Row(
            rewrite(2, "First."), rewrite(2, "Other."), lambda: stubs.UpdateRecord(rewrite(2, "A later text."))
        ),
        "DeleteRecords": Row(forget(3), forget(3, permanent=True), lambda: stubs.RestoreRecords(bring_back(3))),
        "RestoreRecords": Row(bring_back(4), bring_back(5), lambda: stubs.UpdateRecord(rewrite(4, "A later text."))),
        "AddLinks": Row(
            linking(records_pb.AddLinksRequest, 5, records_pb.LINK_KIND_SUPPORTS),
            linking(records_pb.AddLinksRequest, 5, records_pb.LINK_KIND_CONTRADICTS),
            lambda: stubs.AddLinks(linking(records_pb.AddLinksRequest, 5, records_pb.LINK_KIND_CONTRADICTS)),
        ),
        "RemoveLinks": Row(
            linking(records_pb.RemoveLinksRequest, 7, records_pb.LINK_KIND_SUPPORTS),
            linking(records_pb.RemoveLinksRequest, 7, records_pb.LINK_KIND_CONTRADICTS),
            lambda: stubs.AddLinks(linking(records_pb.AddLinksRequest, 7, records_pb.LINK_KIND_CONTRADICTS)),
        ),
        "PurgeDocuments": Row(
            pb.PurgeDocumentsRequest(collection="purging", filter=titled, force=True),
            pb.PurgeDocumentsRequest(collection="purging", filter=filter_pb2.Filter(json="*"), force=True),
            lambda: ingest("purging", "a.md", "A later text."),
        ),
        "CreateCollection": Row(
            collections_pb.CreateCollectionRequest(collection="created"),
            collections_pb.CreateCollectionRequest(collection="other"),
            lambda: stubs.UpdateCollection(update_collection("created", top_k=9)),
        ),
        "UpdateCollection": Row(
            update_collection("settling", top_k=7),
            update_collection("settling", top_k=8),
            lambda: stubs.UpdateCollection(update_collection("settling", min_relevance=0.25)),
        ),
        "DeleteCollection": Row(
            collections_pb.DeleteCollectionRequest(collection="dropping", force=True),
            collections_pb.DeleteCollectionRequest(collection="asking", force=True),
            lambda: collection("dropping", "a.md"),
        ),
        "Reindex": Row(
            maintenance_pb.ReindexRequest(collection="reindexing"),
            maintenance_pb.ReindexRequest(collection="checking"),
            nothing,
        ),
        "Reembed": Row(
            maintenance_pb.ReembedRequest(collection="reembedding"),
            maintenance_pb.ReembedRequest(collection="checking"),
            nothing,
        ),
        "CheckStore": Row(
            maintenance_pb.CheckStoreRequest(collection="checking"),
            maintenance_pb.CheckStoreRequest(collection="checking", repair=True),
            nothing,
        ),
        "CreateSession": Row(
            answer_pb.CreateSessionRequest(collection="asking", user_id="carl"),
            answer_pb.CreateSessionRequest(collection="asking", user_id="dora"),
            nothing,
        ),
        "EndSession": Row(
            answer_pb.EndSessionRequest(session_id=ending), answer_pb.EndSessionRequest(session_id=stays), nothing
        ),
        "DeleteSession": Row(
            answer_pb.DeleteSessionRequest(session_id=leaving),
            answer_pb.DeleteSessionRequest(session_id=stays),
            nothing,
        ),
        "DeleteSessions": Row(
            answer_pb.DeleteSessionsRequest(user_id="ben"),
            answer_pb.DeleteSessionsRequest(user_id="ann"),
            lambda: session(user_id="ben"),
        ),
        "Ask": Row(
            asked,
            ask(asking, "What pulls the sand?", asked.message_id),
            # Without the document that it quotes, the question is refused.
            lambda: stubs.DeleteDocument(
                pb.DeleteDocumentRequest(collection="asking", reference=by_source("tides.md"))
            ),
        ),
        "AskStream": Row(
            answer_pb.AskStreamRequest(ask=streamed),
            answer_pb.AskStreamRequest(ask=ask(streaming, "What pulls the sand?", streamed.message_id)),
            nothing,
        ),
        "Converse": Row(
            conversation(talking),
            conversation(ask(talking.session_id, "What pulls the sand?", talking.message_id)),
            nothing,
        ),
        "CancelOperation": Row(operations_pb2.CancelOperationRequest(name=cancelled), None, nothing),
        "DeleteOperation": Row(operations_pb2.DeleteOperationRequest(name=deleted), None, nothing),
        "asked anew": Row(ask(beside), None, nothing),
    }


def send(stubs: Stubs, method: str, request: Any, request_id: str) -> Any:
    """Send a request under an id; return what its answer says for good, or the reason of the error."""
    try:
        return lasting(_answer(stubs, method, request, request_id))
    except grpc.RpcError as error:
        return from_rpc_error(error).reason
    except GroundwireError as error:
        return error.reason


def _answer(stubs: Stubs, method: str, request: Any, request_id: str) -> Any:
    call = getattr(stubs, method)
    holder = request
    if isinstance(request, list):
        holder = request[0].opening if method == "Converse" else request[0].header
    if "request_id" in holder.DESCRIPTOR.fields_by_name:
        holder.request_id = request_id
    match method:
        case "UploadDocument":
            return list(call(iter(request)))[-1].result
        case "PutChunks":
            return call(iter(request)).result
        case "AskStream":
            return list(call(request))[-1].event.final.answer
        case "Converse":
            last = list(call(iter(request)))[-1]
            if last.HasField("error"):
                raise from_status(last.error)
            return last.answer_event.final.answer
        case _:
            return call(request)


def lasting(answer: Any) -> Any:
    """Return an answer without what is of the moment: tokens, how far a deletion or an operation is."""
    if isinstance(answer, operations_pb2.Operation):
        return answer.name
    if "receipt" in answer.DESCRIPTOR.fields_by_name:
        return answer.receipt.receipt_id
    for holder in (answer, getattr(answer, "result", None)):
        if holder is not None and "consistency_token" in holder.DESCRIPTOR.fields_by_name:
            holder.ClearField("consistency_token")
    return answer


def wait(stubs: Stubs, operation: str) -> None:
    """Return when an operation has ended."""
    assert stubs.WaitOperation(operations_pb2.WaitOperationRequest(name=operation), timeout=60).done


def stored(stubs: Stubs) -> list[Any]:
    """Return everything that calls can change, as readers see it."""
    collections = stubs.ListCollections(collections_pb.ListCollectionsRequest(page_size=100)).collections
    found: list[Any] = [list(collections)]
    for each in collections:
        documents = library_pb.ListDocumentsRequest(collection=each.name, include_deleted=True)
        found += [list(stubs.ListDocuments(documents).documents)]
        found += [list(stubs.ListChunks(library_pb.ListChunksRequest(collection=each.name)).chunks)]
    sessions = stubs.ListSessions(answer_pb.ListSessionsRequest(page_size=100)).sessions
    messages = [answer_pb.ListMessagesRequest(session_id=each.session_id) for each in sessions]
    return [*found, list(sessions), [list(stubs.ListMessages(each).messages) for each in messages]]


class Played:
    """What every call got in every case."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.first: dict[str, Any] = {}
        self.repeated: dict[str, dict[str, Any]] = {}
        self.others: dict[str, dict[str, Any]] = {}
        self.marked: Any = None
        with self._serving(ending="kill") as stubs:
            self.rows = rows(stubs)
            self.asked_anew = self.rows.pop("asked anew")
            self.first = self._send_all(stubs)
            for name in self.first.values():
                if isinstance(name, str) and name.startswith("operations/"):
                    wait(stubs, name)
            self._repeat(stubs, "at once")
            for row in self.rows.values():
                row.change()
            self.before = stored(stubs)
            self._repeat(stubs, "after a change")
        with self._serving(ending="stop") as stubs:
            self._repeat(stubs, "after SIGKILL")
        self._edit("UPDATE requests SET response = CAST(response || ? AS BLOB) WHERE method = 'EndSession'", MARK)
        with self._serving(ending="stop") as stubs:
            self._repeat(stubs, "after a restart")
            self.after = stored(stubs)
            self.of_another_question = send(stubs, "Ask", self.asked_anew.request, "")
        self._edit("UPDATE requests SET create_time = create_time - ?", DAY_MS)
        with self._serving(ending="stop") as stubs:
            self.after_a_day = self._send_all(stubs)

    def _serving(self, *, ending: str) -> Any:
        return _Serving(self.folder, ending)

    def _send_all(self, stubs: Stubs) -> dict[str, Any]:
        return {name: send(stubs, name, row.request, row.request_id) for name, row in self.rows.items()}

    def _repeat(self, stubs: Stubs, case: str) -> None:
        self.repeated[case] = self._send_all(stubs)
        self.others[case] = {
            name: send(stubs, name, row.other, row.request_id) for name, row in self.rows.items() if row.other
        }

    def _edit(self, statement: str, value: Any) -> None:
        with closing(sqlite3.connect(self.folder / "catalog.db")) as catalog:
            assert catalog.execute(statement, (value,)).rowcount > 0
            catalog.commit()


class _Serving:
    """A server for the time of a block, which ends it by SIGKILL or SIGTERM."""

    def __init__(self, folder: Path, ending: str) -> None:
        self._server = ServerProcess(folder, ("--embedder", "hashing:64", "--vectors", "memory:"))
        self._ending = ending
        self._channel = grpc.insecure_channel(self._server.address)

    def __enter__(self) -> Stubs:
        return Stubs(self._channel)

    def __exit__(self, kind: type[BaseException] | None, *_: object) -> None:
        if kind is None and self._ending == "kill":
            self._server.kill()
        else:
            assert self._server.stop() == 0
        with suppress(ValueError):
            self._channel.close()


@pytest.fixture(scope="module")
def played(tmp_path_factory: pytest.TempPathFactory) -> Played:
    return Played(tmp_path_factory.mktemp("repeated") / "data")


def is_reason(answer: Any) -> bool:
    """Tell an error from an answer, and from the id of a receipt or an operation."""
    return isinstance(answer, str) and answer.isupper()


def as_expected(played: Played, method: str, expected: str, answer: Any) -> bool:
    first = played.first[method]
    if expected == "done anew":
        return bool(answer != first) and not is_reason(answer)
    return bool(answer == (first if expected == "the first answer" else expected))


@pytest.mark.parametrize("case", REPETITIONS)
@pytest.mark.parametrize("method", [*AFTER_A_DAY, *WITHOUT_ID])
def test_a_repeated_request_gets_the_first_answer(played: Played, method: str, case: str) -> None:
    answer = deepcopy(played.repeated[case][method])
    if method == "EndSession" and case == "after a restart":
        answer.DiscardUnknownFields()  # the mark of `test_the_answer_about_an_ended_session_is_looked_up`
    assert as_expected(played, method, WITHOUT_ID.get(method, "the first answer"), answer), answer
    assert not is_reason(played.first[method])


@pytest.mark.parametrize("case", REPETITIONS)
@pytest.mark.parametrize("method", AFTER_A_DAY)
def test_another_body_under_the_same_id_is_refused(played: Played, method: str, case: str) -> None:
    reused = "ALREADY_EXISTS" if method in {"Ask", "AskStream", "Converse"} else "REQUEST_ID_REUSED"
    assert played.others[case][method] == reused


def test_no_repetition_and_no_refusal_has_an_effect(played: Played) -> None:
    assert len(played.before) > 20
    assert played.after == played.before


@pytest.mark.parametrize("method", AFTER_A_DAY)
def test_after_a_day_the_id_is_forgotten(played: Played, method: str) -> None:
    """Where the request is done anew, its answer differs: so the answers before were looked up, not made again."""
    answer = played.after_a_day[method]
    assert as_expected(played, method, AFTER_A_DAY[method], answer), answer


def test_the_answer_about_an_ended_session_is_looked_up(played: Played) -> None:
    """Nothing changes a session that has ended, so the stored answer itself is changed while the server is down."""
    answered = played.repeated["after a restart"]["EndSession"]
    assert answered != played.first["EndSession"]


def test_a_question_would_have_another_answer_now(played: Played) -> None:
    assert played.first["Ask"].answer.citations
    assert played.first["AskStream"].citations
    assert not played.of_another_question.answer.citations
