"""Answer as a process of its own: it searches and reads through the retrieve service of another."""

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from grpc_health.v1 import health_pb2

from groundwire.api.answer.v1 import citation_pb2, grounding_pb2
from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.client import Answer, AsyncGroundwireClient, GroundwireClient
from groundwire.kernel.errors import (
    CollectionNotFoundError,
    InvalidRequestError,
    RetrieverUnavailableError,
    SessionNotFoundError,
)
from tests.e2e.server import HASHING, ServerProcess, groundwire
from tests.tcp_proxy import tcp_proxy

_QUESTION = "What causes the tides?"
_ANSWER_SERVICE = "groundwire.api.answer.v1.AnswerService"


def _answer(data: Path, retrieve: str, **variables: str) -> ServerProcess:
    return ServerProcess(data, ("answer", "--retrieve", retrieve), GROUNDWIRE_ANSWER_MIN_SUPPORT="0.05", **variables)


@pytest.fixture(scope="module")
def retrieve(notes: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """Everything in one process, of which the answer service is not asked."""
    with ServerProcess(tmp_path_factory.mktemp("retrieve") / "data") as running:
        assert groundwire("ingest", str(notes), "-c", "notes", address=running.address).returncode == 0
        yield running


@pytest.fixture(scope="module")
def answer(retrieve: ServerProcess, tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with _answer(tmp_path_factory.mktemp("answer") / "data", f"dns:///{retrieve.address}") as running:
        yield running


@pytest.fixture(scope="module")
def client(answer: ServerProcess) -> Iterator[GroundwireClient]:
    with GroundwireClient(answer.address) as opened:
        yield opened


def _is_serving(client: GroundwireClient, service: str) -> bool:
    return bool(client.health(service=service).status == health_pb2.HealthCheckResponse.SERVING)


def _until(holds: Callable[[], bool], seconds: float) -> None:
    ends = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < ends
        time.sleep(0.05)


def test_a_question_is_answered_with_citations_that_verify(client: GroundwireClient) -> None:
    reply = client.ask(collection="notes", question=_QUESTION).answer
    assert "The moon causes the tides" in reply.content
    checked = client.verify_citations(citations=reply.citations)
    verdicts = [each.verdict for each in checked.verifications]
    assert verdicts
    assert set(verdicts) == {citation_pb2.CITATION_VERDICT_EXACT}
    changed = citation_pb2.Citation()
    changed.CopyFrom(reply.citations[0])
    changed.quote = changed.quote.upper()
    (refuted,) = client.verify_citations(citations=[changed]).verifications
    assert refuted.verdict != citation_pb2.CITATION_VERDICT_EXACT


async def test_one_client_calls_each_service_where_it_is(retrieve: ServerProcess, answer: ServerProcess) -> None:
    address = f"retrieve={retrieve.address},ingest=ipv4:{retrieve.address},answer=ipv4:{answer.address}"
    with GroundwireClient(address) as client:
        tides = client.collection("three-services")
        tides.create()
        tides.ingest_text("The moon causes the tides of the sea.", source="tides.txt")
        assert [hit.source for hit in tides.search("tides")] == ["tides.txt"]
        assert client.verify(tides.ask(_QUESTION)).verified
        session_id = tides.start_session().session_id
        assert [type(event) for event in tides.converse([_QUESTION], session=session_id)][-1] is Answer
        assert client.list_operations().operations == []
        assert "groundwire.api.retrieve.v1.RetrieveService" in client.server_info().services
    async with AsyncGroundwireClient(address) as asynchronous:
        assert (await asynchronous.get_session(session_id=session_id)).session.message_count == 2
    with GroundwireClient(retrieve.address) as embedded, pytest.raises(SessionNotFoundError):
        embedded.get_session(session_id=session_id)
    done = groundwire("health", address=address)
    assert (done.returncode, done.stdout.count("SERVING")) == (0, 9), done.stdout


def test_an_address_that_lacks_a_service_is_refused_with_its_name(answer: ServerProcess) -> None:
    with GroundwireClient(f"answer={answer.address}") as client:
        assert client.list_sessions().sessions is not None
        with pytest.raises(InvalidRequestError, match="ingest"):
            client.list_collections()
    for address in ("ingest=", "127.0.0.1:1,ingest=127.0.0.1:2", "answer=127.0.0.1:1,answer=127.0.0.1:2"):
        with pytest.raises(InvalidRequestError, match="address"):
            GroundwireClient(address)


def test_a_text_is_compared_with_a_collection(client: GroundwireClient) -> None:
    grounded = client.ground_text(collection="notes", text="The moon causes the tides of the sea.")
    assert [claim.verdict for claim in grounded.claims] == [grounding_pb2.CLAIM_VERDICT_SUPPORTED]
    assert grounded.citations


def test_errors_of_retrieve_keep_their_reason(client: GroundwireClient) -> None:
    with pytest.raises(CollectionNotFoundError):
        client.ask(collection="missing", question=_QUESTION)
    with pytest.raises(InvalidRequestError):
        client.ask(collection="notes", question="a " * 300)


def test_it_offers_and_tells_of_its_own_calls_alone(client: GroundwireClient) -> None:
    info = client.server_info()
    assert [name.rpartition(".")[2] for name in info.services] == ["AnswerService", "ServerService"]
    assert (info.vector_engine, list(info.generators)) == ("", ["extractive"])
    assert info.limits.max_question_chars == 8192


def test_the_log_of_retrieve_has_the_request_id_of_the_question(
    answer: ServerProcess, retrieve: ServerProcess, client: GroundwireClient
) -> None:
    request_id = f"question-{uuid.uuid4()}"
    with GroundwireClient(answer.address, metadata={"x-request-id": request_id}) as asking:
        asking.ask(collection="notes", question=_QUESTION)
    log = Path(retrieve._log.name)
    _until(lambda: log.read_text(encoding="utf-8").count(request_id) >= 3, 10)


def test_sessions_outlive_their_process_and_lose_texts_of_purged_documents(
    retrieve: ServerProcess, tmp_path: Path
) -> None:
    data = tmp_path / "data"

    def started() -> ServerProcess:
        return _answer(data, retrieve.address, GROUNDWIRE_ANSWER_PURGED_SOURCES_EVERY_S="3600")

    with GroundwireClient(retrieve.address) as writing:
        writing.create_collection(collection="passing")
        stored = writing.ingest_document(
            collection="passing", source_uri="a.txt", content=b"The moon causes the tides of the sea."
        )
        with started() as running, GroundwireClient(running.address) as asking:
            session_id = asking.create_session(collection="passing").session.session_id
            asking.ask(session_id=session_id, question=_QUESTION, message_id=str(uuid.uuid4()))
        with started() as running, GroundwireClient(running.address) as asking:
            told = asking.get_session(session_id=session_id).session.messages
            assert "moon causes" in told[1].content
            reference = DocumentReference(document_id=stored.result.document.document_id)
            writing.delete_document(collection="passing", reference=reference, purge=True)
            told = asking.get_session(session_id=session_id).session.messages
            assert (len(told), told[1].content) == (2, "")
            listed = asking.list_answers().answers
            assert [each.answer.content for each in listed] == [""]


def test_a_sweep_takes_texts_of_purged_documents_off_the_disk(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as retrieve,
        _answer(tmp_path / "answer", retrieve.address, GROUNDWIRE_ANSWER_PURGED_SOURCES_EVERY_S="0.2") as running,
        GroundwireClient(retrieve.address) as writing,
        GroundwireClient(running.address) as asking,
    ):
        writing.create_collection(collection="passing")
        stored = writing.ingest_document(
            collection="passing", source_uri="a.txt", content=b"The moon causes the tides of the sea."
        )
        session_id = asking.create_session(collection="passing").session.session_id
        asking.ask(session_id=session_id, question=_QUESTION, message_id=str(uuid.uuid4()))
        reference = DocumentReference(document_id=stored.result.document.document_id)
        writing.delete_document(collection="passing", reference=reference, purge=True)
        time.sleep(3)  # sweeps, also of a busy machine: nothing that can be waited for tells of them meanwhile
        retrieve.stop()
        # What the sweep has been through holds no text any more, so that reading it asks nobody.
        told = asking.get_session(session_id=session_id).session.messages
        assert (len(told), told[1].content) == (2, "")


def test_an_answer_that_quotes_what_was_purged_before_it_is_recorded_is_left_out(
    retrieve: ServerProcess, tmp_path: Path
) -> None:
    with ExitStack() as stack:
        proxy = stack.enter_context(tcp_proxy(int(retrieve.address.rpartition(":")[2])))
        peers = ("answer", "--retrieve", retrieve.address, "--ingest", f"127.0.0.1:{proxy.port}")
        running = stack.enter_context(ServerProcess(tmp_path / "data", peers, GROUNDWIRE_ANSWER_MIN_SUPPORT="0.05"))
        records, answers = (stack.enter_context(GroundwireClient(each)) for each in (retrieve.address, running.address))
        records.create_collection(collection="late")
        stored = records.ingest_document(collection="late", source_uri="a.md", text="The moon causes the tides.")
        session = answers.create_session(collection="late", user_id="ada", new_conversation=True).session

        def waiting() -> int:
            return answers.get_session(session_id=session.session_id).session.unrecorded_exchange_count

        with proxy.cut():
            answers.ask(session_id=session.session_id, question=_QUESTION, message_id=str(uuid.uuid4()))
            assert waiting() == 1
            reference = DocumentReference(document_id=stored.result.document.document_id)
            records.delete_document(collection="late", reference=reference, purge=True)
        _until(lambda: waiting() == 0, 60)
        assert [each.text for each in records.collection("late").records()] == [_QUESTION]


@pytest.mark.requirement("S0-42")
def test_ten_exchanges_are_found_from_a_new_session_of_the_conversation(
    retrieve: ServerProcess, tmp_path: Path
) -> None:
    said = [
        "I live in Bonn.",
        _QUESTION,
        "I prefer short answers.",
        "What is the highest tide?",
        "The launch of Atlas is on 3 March 2026.",
        "Who wrote the notes?",
        "My manager is called Priya.",
        _QUESTION,
        "We decided to use Rust for the gateway.",
        "Thank you!",
    ]
    peers = ("answer", "--retrieve", retrieve.address, "--ingest", retrieve.address)
    settings = {"RAG_SUMMARY_EVERY_N_TURNS": "5", "GROUNDWIRE_ANSWER_CONSOLIDATE": "true"}
    settings["GROUNDWIRE_ANSWER_MIN_SUPPORT"] = "0.05"
    with (
        ServerProcess(tmp_path / "data", peers, **settings) as running,
        GroundwireClient(retrieve.address) as records,
        GroundwireClient(running.address) as answers,
    ):
        records.create_collection(collection="talks")
        records.ingest_document(collection="talks", source_uri="tides.md", text="The moon causes the tides.")
        first = answers.create_session(collection="talks", user_id="ada", new_conversation=True).session
        for question in said:
            answers.ask(session_id=first.session_id, question=question, message_id=str(uuid.uuid4()))
        _until(lambda: not answers.get_session(session_id=first.session_id).session.unrecorded_exchange_count, 60)
        stored = list(records.collection("talks").records(order_by="turn-asc"))
        turns = [each for each in stored if each.record_type == "turn"]
        assert [each.text for each in turns if each.role == "user"] == said
        assert [each.turn_index for each in turns] == [number for number in range(1, 11) for _ in "ab"]
        assert {each.turn_range for each in stored if each.record_type == "summary"} == {"1-5", "6-10"}
        memories = {each.text for each in stored if each.record_type == "memory"}
        assert {said[0], said[2], said[4], said[6], said[8]} <= memories
        second = answers.create_session(
            collection="talks", user_id="ada", conversation_id=first.conversation_id
        ).session
        reply = answers.ask(
            session_id=second.session_id, question="Where do I live?", message_id=str(uuid.uuid4())
        ).answer
        assert said[0] in reply.content
        kinds = {record_pb2.RecordType.Name(each.record_type) for each in reply.records}
        assert kinds == {"RECORD_TYPE_MEMORY", "RECORD_TYPE_SUMMARY", "RECORD_TYPE_TURN"}
        assert answers.verify_citations(citations=reply.citations).all_verified


def test_it_starts_without_retrieve_and_follows_it(tmp_path: Path) -> None:
    with (
        ServerProcess(tmp_path / "data") as first,
        _answer(tmp_path / "answer", first.address) as running,
        GroundwireClient(running.address) as client,
    ):

        def is_ready() -> bool:
            return _is_serving(client, _ANSWER_SERVICE)

        _until(is_ready, 10)
        first.kill()
        _until(lambda: not is_ready(), 5)
        assert _is_serving(client, "liveness")
        with pytest.raises(RetrieverUnavailableError):
            client.ask(collection="notes", question=_QUESTION)
        with ServerProcess(tmp_path / "data", (*HASHING, "--listen", first.address)):
            _until(is_ready, 10)
            with pytest.raises(CollectionNotFoundError):
                client.ask(collection="notes", question=_QUESTION)


def test_it_is_not_ready_before_retrieve_is_there(tmp_path: Path) -> None:
    with _answer(tmp_path / "answer", "127.0.0.1:1") as running, GroundwireClient(running.address) as client:
        _until(lambda: not _is_serving(client, _ANSWER_SERVICE), 5)
        assert _is_serving(client, "liveness")


@pytest.mark.parametrize(
    ("arguments", "setting"),
    [
        (["answer"], "retrieve"),
        (["answer", "--retrieve", "127.0.0.1:1", "--processes", "2"], "sessions"),
        (["all", "--retrieve", "127.0.0.1:1"], "retrieve"),
        (["all", "--sessions", "memory:"], "sessions"),
        (["all", "--processes", "2"], "processes"),
        (["ingest", "--processes", "2"], "processes"),
        (["retrieve"], "catalog"),
        (["ingest"], "vectors"),
    ],
)
def test_what_does_not_fit_a_service_is_said_before_it_starts(
    tmp_path: Path, arguments: list[str], setting: str
) -> None:
    done = groundwire("serve", *arguments, "--data", str(tmp_path / "data"))
    assert (done.returncode, setting in done.stderr) == (2, True), done.stderr
    assert not (tmp_path / "data").exists()
