"""What the files of a data folder hold, read as bytes: while the server runs, after it stopped, and after a kill."""

import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.api.answer.v1 import session_pb2
from groundwire.api.common.v1 import chunk_pb2
from groundwire.api.ingest.v1 import collection_pb2, deletion_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError, SessionNotFoundError
from groundwire.vault import ChunkStore
from groundwire.vault.transfer import export_records
from tests.e2e.server import ServerProcess
from tests.stubs import by_id

QUESTION, SENTENCE = "Where does the zanzaflot sleep?", "The quixmorble nests beneath old frostwenna bridges in winter."
OPTIONS = ("--embedder", "hashing:256", "--vectors", "memory:")
WORDS = ("quixmorble", "frostwenna")


def holding(folder: Path, *words: str) -> dict[str, int]:
    """Return how often the files hold any of the words, whatever the case or the encoding, by file."""
    found = {}
    for path in sorted(path for path in folder.rglob("*") if path.is_file()):
        try:
            content = path.read_bytes().lower()
        except FileNotFoundError:  # an engine that runs writes copies and removes them
            continue
        forms = [form for word in words for form in (word.encode(), word.encode("utf-16-le"))]
        if count := sum(content.count(form) for form in forms):
            found[str(path.relative_to(folder))] = count
    return found


@pytest.fixture
def data(tmp_path: Path) -> Path:
    return tmp_path / "data"


@pytest.fixture
def server(data: Path) -> Iterator[ServerProcess]:
    running = ServerProcess(data, OPTIONS, GROUNDWIRE_ANSWER_MIN_SUPPORT="0.01")
    yield running
    running.stop()


def converse(client: GroundwireClient, collection: str) -> str:
    """Ask in a session, search, and read the session back; return its id."""
    session = client.create_session(collection=collection).session.session_id
    for question in (QUESTION, "Why is that?"):
        client.ask(session_id=session, message_id=str(uuid.uuid4()), question=question)
    client.retrieve(collection=collection, query=QUESTION)
    client.list_query_logs(collection=collection)  # writes what is waiting
    messages = client.get_session(session_id=session).session.messages
    assert messages[0].content == QUESTION
    return str(session)


@pytest.mark.requirement("S4-44")
def test_what_is_asked_about_a_book_is_in_no_file_and_what_is_asked_elsewhere_is(
    server: ServerProcess, data: Path
) -> None:
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="book", profile=collection_pb2.PROFILE_BOOK)
        client.ingest_document(collection="book", source_uri="a.txt", content=b"An owl sleeps in the old barn by day.")
        book = converse(client, "book")
        assert holding(data, "zanzaflot") == {}
        assert [each.session_id for each in client.list_sessions().sessions] == [book]
        assert client.list_query_logs(collection="book").logs[0].query == ""
        client.create_collection(collection="papers")
        client.ingest_document(collection="papers", source_uri="a.txt", content=b"An owl sleeps in the old barn.")
        papers = converse(client, "papers")
        assert holding(data, "zanzaflot"), "or else this test looks in the wrong place"
        assert [each.session_id for each in client.list_sessions(page_size=1).sessions] == [papers]
        client.delete_collection(collection="papers", force=True)
        assert client.end_session(session_id=book).session.state == session_pb2.SESSION_STATE_ENDED


@pytest.mark.requirement("S4-44")
@pytest.mark.parametrize("ends", ["stop", "kill"])
def test_nothing_asked_about_a_book_is_left_by_a_server_that_ended(
    data: Path, server: ServerProcess, ends: str
) -> None:
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="book", profile=collection_pb2.PROFILE_BOOK)
        client.ingest_document(collection="book", source_uri="a.txt", content=b"An owl sleeps in the old barn by day.")
        book = converse(client, "book")
    getattr(server, ends)()
    assert holding(data.parent, "zanzaflot") == {}
    assert holding(data, "barn"), "or else this test looks in the wrong place"
    again = ServerProcess(data, OPTIONS)
    try:
        with GroundwireClient(again.address) as client, pytest.raises(SessionNotFoundError):
            client.get_session(session_id=book)
    finally:
        again.stop()


@pytest.mark.requirement("S1-84")
def test_what_was_deleted_for_good_is_in_no_file_once_the_receipt_says_complete(
    server: ServerProcess, data: Path
) -> None:
    """Its texts stood in rows, pages, the log, the full-text index, sessions and answers of requests."""
    filler = " ".join(f"word{number} stands alone here." for number in range(400))
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="papers")
        client.ingest_document(collection="papers", source_uri="stays.txt", content=filler.encode())
        ingested = client.ingest_document(
            collection="papers",
            source_uri="goes.md",
            content=f"# Quixmorble\n\n{SENTENCE}\n\n{filler}\n\n## Frostwenna\n\n{SENTENCE}".encode(),
            request_id=str(uuid.uuid4()),
        )
        document = ingested.result.document.document_id
        # A generation before, an answer that holds a chunk, a session that quotes it, and a search.
        client.ingest_document(
            collection="papers", source_uri="goes.md", content=f"# Quixmorble\n\n{SENTENCE}".encode()
        )
        chunk = client.list_chunks(collection="papers", reference=by_id(document)).chunks[0]
        changed = pb.UpdateChunkRequest(
            collection="papers",
            chunk=chunk_pb2.Chunk(chunk_id=chunk.chunk_id, tags=["frostwenna"]),
            request_id=str(uuid.uuid4()),
        )
        client.update_chunk.send(changed)
        session = client.create_session(collection="papers").session.session_id
        answer = client.ask(
            session_id=session,
            message_id=str(uuid.uuid4()),
            question="What nests beneath old bridges in winter?",
        ).answer
        assert "quixmorble" in answer.content
        assert holding(data, *WORDS)
        receipt = client.delete_document(collection="papers", reference=by_id(document), purge=True).receipt
        assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
        assert holding(data, *WORDS) == {}
        assert client.get_session(session_id=session).session.messages[1].state == session_pb2.MESSAGE_STATE_REDACTED
        with pytest.raises(DocumentNotFoundError):
            client.update_chunk.send(changed)
        assert client.retrieve(collection="papers", query="word7 stands alone").results
    server.kill()
    assert holding(data, *WORDS) == {}


@pytest.mark.parametrize("vectors", ["qdrant-edge:", "chroma:"])
def test_a_person_who_is_forgotten_is_in_no_file_and_in_no_mirror(tmp_path: Path, vectors: str) -> None:
    """Memories, turns, summaries, what was derived, answers, sessions, logged queries and their traces in an engine."""
    data, vault = tmp_path / "data", tmp_path / "vault"
    settings = {"RAG_SUMMARY_EVERY_N_TURNS": "2", "GROUNDWIRE_ANSWER_CONSOLIDATE": "true"}
    server = ServerProcess(data, (*OPTIONS[:2], "--vectors", vectors), **settings)
    try:
        with GroundwireClient(server.address) as client:
            client.create_collection(collection="coast")
            client.ingest_document(collection="coast", source_uri="barn.txt", text="An owl sleeps in the old barn.")
            coast = client.collection("coast")
            coast.remember("Rosa keeps an owl.", entity="rosa", tags=["quixmorble"], metadata={"bird": "frostwenna"})
            session = client.create_session(collection="coast", user_id="rosa", new_conversation=True).session
            for question in ("My owl is called Quixmorble.", "Where do owls sleep?", "I live in Frostwenna.", "Where?"):
                client.ask(session_id=session.session_id, message_id=str(uuid.uuid4()), question=question)
            deadline = time.monotonic() + 60
            while client.get_session(session_id=session.session_id).session.unrecorded_exchange_count:
                assert time.monotonic() < deadline
                time.sleep(0.05)
            coast.recall("quixmorble", entity="rosa")
            client.list_query_logs(collection="coast")  # writes what is waiting
            store = ChunkStore(vault)
            export_records(client, "coast", store)
            types = {each.record_type for each in coast.records(filter={"entity": "rosa"})}
            assert types == {"memory", "turn", "summary"}
            assert holding(data, *WORDS)
            assert holding(vault, *WORDS)
            assert client.delete_sessions(user_id="rosa").deleted_session_count == 1
            deletion = coast.delete_records(filter={"entity": "rosa"}, permanent=True)
            assert deletion.message.state == deletion_pb2.DELETION_STATE_COMPLETE
            export_records(client, "coast", store)
            assert holding(data, *WORDS) == {}
            assert holding(vault, *WORDS) == {}
            assert client.retrieve(collection="coast", query="Where does the owl sleep?").results
    finally:
        server.kill()
    assert holding(data, *WORDS) == {}


def test_logged_queries_go_with_their_collection(server: ServerProcess, data: Path) -> None:
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="papers")
        client.retrieve(collection="papers", query="Where does the zanzaflot sleep?")
        assert [log.query for log in client.list_query_logs(collection="papers").logs] == [QUESTION]
        receipt = client.delete_collection(collection="papers", force=True).receipt
        assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
        assert holding(data, "zanzaflot") == {}
        client.create_collection(collection="papers")
        assert list(client.list_query_logs(collection="papers").logs) == []
        assert list(client.list_query_logs().logs) == []
