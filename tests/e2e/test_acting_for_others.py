"""Answer as a process of its own among services that ask for credentials: for whom it acts, and who else may not."""

import json
import sqlite3
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import closing, suppress
from dataclasses import dataclass
from pathlib import Path

import grpc
import pytest
import yaml
from google.protobuf.duration_pb2 import Duration

from groundwire.api.answer.v1 import answer_service_pb2 as pb
from groundwire.api.common.v1 import record_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import record_service_pb2 as records_pb
from groundwire.client import GroundwireClient, tls_from_files
from groundwire.kernel.errors import (
    GroundwireError,
    InvalidRequestError,
    PermissionDeniedError,
    RequestIdReusedError,
    SessionNotFoundError,
)
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Right
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.request_context import ACTS_FOR_KEY
from tests.credentials import Authority, bearer, call, make_key, methods_of
from tests.e2e.server import ServerProcess

NAME, SCOPES = "handbook", ("global", "entity:ada")
TIDES = "# Tides\n\nThe moon causes the tides of the sea.\n"
QUESTION = "What causes the tides of the sea?"
MEMORY = ("--embedder", "hashing:64", "--vectors", "memory:")
SETTINGS = {
    "RAG_SUMMARY_EVERY_N_TURNS": "2",
    "GROUNDWIRE_ANSWER_CONSOLIDATE": "true",
    "GROUNDWIRE_ANSWER_PURGED_SOURCES_EVERY_S": "0.2",
    "GROUNDWIRE_ANSWER_MIN_SUPPORT": "0.05",
}


@dataclass
class Split:
    """A process with ingest and retrieve and one that answers, with keys by the names of their owners."""

    stored: ServerProcess
    answer: ServerProcess
    keys: dict[str, str]
    folder: Path

    def at(self, server: ServerProcess, owner: str, **metadata: str) -> GroundwireClient:
        return GroundwireClient(server.address, metadata=dict(bearer(self.keys[owner])) | metadata)


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Split]:
    folder = tmp_path_factory.mktemp("acting")
    file = folder / "keys.yaml"
    keys = {
        "boss": make_key(file, "boss", Right.ADMIN, tenant="acme"),
        "other": make_key(file, "boss", Right.ADMIN, tenant="other"),
        "ada": make_key(file, "ada", Right.WRITE, tenant="acme", scopes=SCOPES),
        "ada of fewer scopes": make_key(file, "ada", Right.READ, tenant="acme", scopes=SCOPES[:1]),
        "ben": make_key(file, "ben", Right.WRITE, tenant="acme", scopes=("entity:ben",)),
        "boss of few scopes": make_key(file, "few", Right.ADMIN, tenant="acme", scopes=SCOPES),
        "reader": make_key(file, "reader", Right.READ, tenant="acme"),
        "answer": make_key(file, "answer", Right.SERVICE),
    }
    stored = ServerProcess(folder / "stored", (*MEMORY, "--keys", str(file)))
    peers = ("--retrieve", stored.address, "--ingest", stored.address, "--keys", str(file))
    answer = ServerProcess(folder / "answer", ("answer", *peers), GROUNDWIRE_SERVICE_KEY=keys["answer"], **SETTINGS)
    running = Split(stored, answer, keys, folder)
    for owner in ("boss", "other"):
        with running.at(stored, owner) as client:
            client.create_collection(collection=NAME)
            client.ingest_document(collection=NAME, source_uri="tides.md", text=TIDES)
    yield running
    assert answer.stop() == 0
    stored.stop()


def until(holds: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 60
    while not holds():
        assert time.monotonic() < ends_at, "it did not come"
        time.sleep(0.05)


def acting(tenant: str = "acme", subject: str = "ada", **said: object) -> str:
    """Return the value of the metadata by which a service says for whom it acts."""
    return json.dumps({"tenant": tenant, "subject": subject, "rights": ["write"], "scopes": None} | said)


def records(client: GroundwireClient, **where: object) -> list[record_pb2.Record]:
    return list(
        client.list_records(collection=NAME, filter=to_filter_message(parse_filter(where)), page_size=99).records
    )


def test_a_conversation_is_recorded_for_its_owner_in_its_tenant_and_scope_and_forgotten(split: Split) -> None:
    with (
        split.at(split.answer, "ada") as asking,
        split.at(split.stored, "ada") as ada,
        split.at(split.stored, "other") as other,
    ):
        session = asking.create_session(collection=NAME, user_id="ada", new_conversation=True).session
        for said in ("I live in Bonn and I work at Globex.", QUESTION):
            asking.ask(session_id=session.session_id, question=said, message_id=str(uuid.uuid4()))

        def is_recorded() -> bool:
            stored = asking.get_session(session_id=session.session_id).session
            return not stored.unrecorded_exchange_count and stored.message_count == 4

        until(is_recorded)
        kinds = [each.record_type for each in records(ada, entity="ada")]
        assert kinds.count(record_pb2.RECORD_TYPE_TURN) == 4
        assert kinds.count(record_pb2.RECORD_TYPE_SUMMARY) == 1
        (memory,) = records(ada, entity="ada", record_type="memory")
        assert "Bonn" in memory.text
        with closing(sqlite3.connect(split.folder / "stored" / "catalog.db")) as catalog:
            rows = catalog.execute("SELECT DISTINCT tenant, subject FROM audit WHERE action LIKE '%record%'").fetchall()
        assert rows == [("acme", "ada")]
        assert records(other, entity="ada") == []
        consolidated = asking.consolidate_conversation(
            collection=NAME, conversation_id=session.conversation_id, scope=session.scope
        )
        assert [each.record_id for each in consolidated.memories] == [memory.record_id]
        ada.delete_records(collection=NAME, filter=to_filter_message(parse_filter({"entity": "ada"})))
        assert records(ada, entity="ada") == []


def test_what_is_said_while_the_key_of_answer_is_wrong_is_recorded_once_it_is_right(split: Split) -> None:
    key = make_key(split.folder / "keys.yaml", "late", Right.READ)
    peers = ("answer", "--retrieve", split.stored.address, "--ingest", split.stored.address)
    folder, file = split.folder / "late", split.folder / "keys.yaml"
    answer = ServerProcess(folder, (*peers, "--keys", str(file)), GROUNDWIRE_SERVICE_KEY=key, **SETTINGS)
    try:
        with split.at(answer, "ada") as asking, split.at(split.stored, "ada") as ada:
            session = asking.create_session(collection=NAME, user_id="ada", new_conversation=True).session
            asking.ask(session_id=session.session_id, question=QUESTION, message_id=str(uuid.uuid4()))
            until(lambda: "cannot be recorded" in (split.folder / "late.log").read_text(encoding="utf-8"))
            assert asking.get_session(session_id=session.session_id).session.unrecorded_exchange_count == 1
            told = yaml.safe_load(file.read_text(encoding="utf-8"))
            next(each for each in told["keys"] if each["subject"] == "late")["rights"] = ["service"]
            file.write_text(yaml.safe_dump(told), encoding="utf-8")
            until(lambda: len(records(ada, conversation_id=session.conversation_id)) == 2)
    finally:
        answer.stop()


def test_texts_that_any_tenant_deletes_for_good_leave_the_disk_of_answer(split: Split) -> None:
    for owner in ("boss", "other"):
        with split.at(split.stored, owner) as client, split.at(split.answer, owner) as asking:
            source = f"{owner}.md"
            text = f"# {owner}\n\nThe {owner}lantern burns at night.\n"
            stored = client.ingest_document(collection=NAME, source_uri=source, text=text)
            session_id = asking.create_session(collection=NAME).session.session_id
            question = f"What does the {owner}lantern do?"
            told = asking.ask(session_id=session_id, question=question, message_id=str(uuid.uuid4())).answer
            assert f"{owner}lantern" in told.content
            reference = DocumentReference(document_id=stored.result.document.document_id)
            client.delete_document(collection=NAME, reference=reference, purge=True)
    until(lambda: count_redacted(split.folder / "answer" / "sessions.db") == 2)


def count_redacted(path: Path) -> int:
    with closing(sqlite3.connect(path)) as sessions:
        (count,) = sessions.execute("SELECT count(*) FROM messages WHERE state = 'REDACTED'").fetchone()
    return int(count)


@pytest.mark.parametrize("owner", ["boss", "ada", "reader"])
def test_no_credential_but_a_service_acts_for_others(split: Split, owner: str) -> None:
    with grpc.insecure_channel(split.stored.address) as channel:
        metadata = (*bearer(split.keys[owner]), (ACTS_FOR_KEY, acting("other", "boss")))
        paths = [path for path in methods_of(channel, bearer(split.keys["reader"])) if not path.startswith("/grpc.")]
        codes = {call(channel, path, b"", metadata, most=1)[0].name for path in paths}
    assert codes == {"PERMISSION_DENIED"}
    assert len(paths) > 50


def test_a_service_has_no_right_of_its_own_and_none_to_delete_for_good(split: Split) -> None:
    with (
        split.at(split.stored, "answer") as alone,
        split.at(split.stored, "answer", **{ACTS_FOR_KEY: acting("acme", rights=["admin"])}) as for_an_admin,
        split.at(split.stored, "answer", **{ACTS_FOR_KEY: acting("acme", rights=["read"])}) as for_a_reader,
        split.at(split.stored, "answer", **{ACTS_FOR_KEY: acting("acme", scopes=["entity:ada"])}) as for_ada,
    ):
        with pytest.raises(PermissionDeniedError):
            alone.list_collections()
        assert [each.name for each in for_an_admin.list_collections().collections] == [NAME]
        with pytest.raises(PermissionDeniedError):
            for_an_admin.delete_collection(collection=NAME, force=True)
        said = record_pb2.Record(record_type=record_pb2.RECORD_TYPE_FAQ, text="Q: Who? A: Ada.", scope="entity:ada")
        said.timestamp.GetCurrentTime()
        kept = for_an_admin.batch_upsert_records(collection=NAME, records=[said]).outcomes[0].result.record_id
        ids = records_pb.RecordIds(record_ids=[kept])
        with pytest.raises(PermissionDeniedError, match="'admin'"):
            for_an_admin.delete_records(collection=NAME, ids=ids, permanent=True)
        reference = DocumentReference(source_uri=f"record:{kept}")
        with pytest.raises(PermissionDeniedError, match="'admin'"):
            for_an_admin.delete_document(collection=NAME, reference=reference, purge=True)
        assert for_an_admin.get_record(collection=NAME, record_id=kept).record.text == said.text
        assert for_an_admin.delete_records(collection=NAME, ids=ids).receipt.document_count == 1
        with pytest.raises(PermissionDeniedError):
            for_a_reader.create_collection(collection="x")
        with pytest.raises(PermissionDeniedError):
            for_ada.retrieve(collection=NAME, query="x", options=RetrievalOptions(entity="ben"))


@pytest.mark.parametrize(
    "value",
    [
        "x",
        "[]",
        '"acme"',
        "{}",
        acting("a\nb"),
        acting(tenant=""),
        acting(subject="x" * 300),
        acting(rights=["service"]),
        acting(rights=[]),
        acting(scopes=["everything"]),
        "[" * 5000,
    ],
)
def test_whom_a_service_acts_for_has_to_be_said_in_full(split: Split, value: str) -> None:
    with split.at(split.stored, "answer", **{ACTS_FOR_KEY: value}) as client, pytest.raises(InvalidRequestError):
        client.list_collections()


def test_a_server_that_asks_for_no_credential_lets_nobody_act_for_others(server: ServerProcess) -> None:
    with (
        GroundwireClient(server.address, metadata={ACTS_FOR_KEY: acting("default")}) as client,
        pytest.raises(PermissionDeniedError),
    ):
        client.list_collections()


@pytest.mark.parametrize(
    ("arguments", "variables", "named"),
    [
        ((), {"GROUNDWIRE_SERVICE_KEY": "gw_x"}, "service_key"),
        (("--keys", "{keys}"), {}, "service_key: .*`groundwire keys create answer --right service`"),
        ((), {"GROUNDWIRE_TLS_CLIENT_CA": "{ca}"}, "retrieve_tls_ca"),
    ],
)
def test_answer_does_not_start_where_it_could_not_act_for_callers_or_would_for_anybody(
    tmp_path: Path, arguments: tuple[str, ...], variables: dict[str, str], named: str
) -> None:
    authority = Authority(tmp_path, "ours")
    make_key(tmp_path / "keys.yaml", "ada", Right.READ)
    certificate, key = authority.issue("server")
    places = {"keys": str(tmp_path / "keys.yaml"), "ca": str(authority.path)}
    given = {name: value.format(**places) for name, value in variables.items()}
    tls = {"GROUNDWIRE_TLS_CERTIFICATE": str(certificate), "GROUNDWIRE_TLS_KEY": str(key)}
    options = ("answer", "--retrieve", "127.0.0.1:1", *(each.format(**places) for each in arguments))
    with pytest.raises(AssertionError, match=named):
        ServerProcess(tmp_path / "data", options, **given, **tls)


def test_where_certificates_are_the_credential_answer_shows_its_own_and_says_who_asks(tmp_path: Path) -> None:
    authority = Authority(tmp_path, "ours")

    def files(name: str) -> dict[str, str]:
        certificate, key = authority.issue(name)
        return {
            "GROUNDWIRE_TLS_CERTIFICATE": str(certificate),
            "GROUNDWIRE_TLS_KEY": str(key),
            "GROUNDWIRE_TLS_CLIENT_CA": str(authority.path),
        }

    stored = ServerProcess(tmp_path / "stored", MEMORY, GROUNDWIRE_TLS_SERVICES="x, answer", **files("stored"))
    peers = ("answer", "--retrieve", stored.address, "--ingest", stored.address)
    answer = ServerProcess(
        tmp_path / "answer", peers, GROUNDWIRE_RETRIEVE_TLS_CA=str(authority.path), **files("answer"), **SETTINGS
    )
    try:
        ada, ben = (tls_from_files(authority.path, *authority.issue(name)) for name in ("ada", "ben"))
        with (
            GroundwireClient(stored.address, credentials=ada) as client,
            GroundwireClient(answer.address, credentials=ada) as asking,
        ):
            client.create_collection(collection=NAME)
            client.ingest_document(collection=NAME, source_uri="tides.md", text=TIDES)
            session = asking.create_session(collection=NAME, user_id="ada", new_conversation=True).session
            asking.ask(session_id=session.session_id, question=QUESTION, message_id=str(uuid.uuid4()))
            until(lambda: len(records(client, entity="ada", record_type="turn")) == 2)
        junk = {"authorization": "Bearer of no meaning here"}

        def searchers() -> list[str]:
            said, _, _ = (tmp_path / "stored.log").read_text("utf-8").rpartition("\n")
            lines = [json.loads(line) for line in said.splitlines()]
            return [each["subject"] for each in lines if "/Retrieve" in str(each.get("method"))]

        before = len(searchers())
        with GroundwireClient(answer.address, credentials=ada, metadata=junk) as asking:
            asking.ask(collection=NAME, question=QUESTION, message_id=str(uuid.uuid4()))
        until(lambda: len(searchers()) > before)
        assert set(searchers()) == {"ada"}
        with closing(sqlite3.connect(tmp_path / "stored" / "catalog.db")) as catalog:
            rows = catalog.execute("SELECT DISTINCT tenant, subject FROM audit WHERE action LIKE '%record%'").fetchall()
        assert rows == [("default", "ada")]
        with (
            GroundwireClient(stored.address, credentials=ben, metadata={ACTS_FOR_KEY: acting("default")}) as stranger,
            pytest.raises(PermissionDeniedError),
        ):
            stranger.list_collections()
    finally:
        answer.stop()
        stored.stop()


def test_answer_reads_the_certificates_that_are_exchanged_while_it_runs(tmp_path: Path) -> None:
    def exchanged() -> dict[str, dict[str, str]]:
        """Issue everything anew by an authority of the same name, at the same places."""
        authority = Authority(tmp_path, "ours")
        made = {}
        for name in ("answer", "stored", "ada"):
            certificate, key = authority.issue(name)
            made[name] = {
                "GROUNDWIRE_TLS_CERTIFICATE": str(certificate),
                "GROUNDWIRE_TLS_KEY": str(key),
                "GROUNDWIRE_TLS_CLIENT_CA": str(authority.path),
            }
        return made

    files, authority = exchanged(), str(tmp_path / "ours.ca.pem")
    stored = ServerProcess(tmp_path / "stored", MEMORY, GROUNDWIRE_TLS_SERVICES="answer", **files["stored"])
    peers = ("answer", "--retrieve", stored.address, "--sessions", "memory:")
    answer = ServerProcess(tmp_path / "answer", peers, GROUNDWIRE_RETRIEVE_TLS_CA=authority, **files["answer"])

    def ask() -> str:
        ada = tls_from_files(tmp_path / "ours.ca.pem", tmp_path / "ada.pem", tmp_path / "ada.key")
        with GroundwireClient(answer.address, credentials=ada) as asking:
            return asking.ask(collection=NAME, question=QUESTION, message_id=str(uuid.uuid4())).answer.content

    def fill() -> None:
        ada = tls_from_files(tmp_path / "ours.ca.pem", tmp_path / "ada.pem", tmp_path / "ada.key")
        with GroundwireClient(stored.address, credentials=ada) as client:
            client.create_collection(collection=NAME)
            client.ingest_document(collection=NAME, source_uri="tides.md", text=TIDES)

    try:
        fill()
        told = ask()
        exchanged()
        stored.stop()
        # Another process at the address: a connection from before would prove nothing.
        place = ("--listen", stored.address)
        stored = ServerProcess(
            tmp_path / "other", (*MEMORY, *place), GROUNDWIRE_TLS_SERVICES="answer", **files["stored"]
        )
        fill()

        def is_answered() -> bool:
            with suppress(GroundwireError):
                return ask() == told
            return False

        until(is_answered)
    finally:
        answer.stop()
        stored.stop()


def test_nobody_deletes_for_good_what_records_of_foreign_scopes_quote(split: Split) -> None:
    with (
        split.at(split.stored, "boss") as boss,
        split.at(split.stored, "boss of few scopes") as narrow,
        split.at(split.stored, "ben") as ben,
    ):
        text = "# Kelp\n\nKelp grows fast.\n"
        stored = boss.ingest_document(collection=NAME, source_uri="kelp.md", text=text).result.document
        said = record_pb2.Record(
            record_type=record_pb2.RECORD_TYPE_FAQ,
            text="Q: Kelp? A: Kelp grows fast.",
            scope="entity:ben",
            quoted_document_ids=[stored.document_id],
        )
        said.timestamp.GetCurrentTime()
        kept = ben.batch_upsert_records(collection=NAME, records=[said]).outcomes[0].result.record_id
        reference = DocumentReference(document_id=stored.document_id)
        with pytest.raises(PermissionDeniedError, match="records of scopes"):
            narrow.delete_document(collection=NAME, reference=reference, purge=True)
        assert ben.get_record(collection=NAME, record_id=kept).record.text == said.text
        assert narrow.get_document(collection=NAME, reference=reference).document.chunk_count == 1
        assert boss.delete_document(collection=NAME, reference=reference, purge=True).receipt.document_count == 2


# Sessions of others


def test_the_sessions_of_another_subject_are_not_there_but_for_who_administrates(split: Split) -> None:
    with (
        split.at(split.answer, "ada") as ada,
        split.at(split.answer, "reader") as reader,
        split.at(split.answer, "boss") as boss,
    ):
        session_id = ada.create_session(collection=NAME, user_id="ada").session.session_id

        def question() -> pb.AskRequest:
            return pb.AskRequest(session_id=session_id, question=QUESTION, message_id=str(uuid.uuid4()))

        answer = ada.ask.send(question()).answer
        calls: list[Callable[[GroundwireClient], object]] = [
            lambda client: client.get_session(session_id=session_id),
            lambda client: client.list_messages(session_id=session_id),
            lambda client: client.get_answer(session_id=session_id, answer_id=answer.message_id),
            lambda client: client.ask.send(question()),
            lambda client: list(client.ask_stream(ask=question())),
            lambda client: client.end_session(session_id=session_id),
        ]
        for make in calls:
            with pytest.raises(SessionNotFoundError):
                make(reader)
        for make in calls[:3]:
            make(boss)
        with pytest.raises(PermissionDeniedError, match="the credential that began the session"):
            calls[3](boss)
        assert session_id not in str(reader.list_sessions()) + str(reader.list_answers())
        assert session_id in str(boss.list_sessions())
        assert session_id in str(ada.list_answers())
        calls[3](ada)
        assert boss.delete_sessions(user_id="ada").deleted_session_count >= 1


def test_owners_that_choose_the_same_message_id_do_not_meet(split: Split) -> None:
    message_id, told = str(uuid.uuid4()), []
    for owner in ("ada", "reader", "ada of fewer scopes"):
        with split.at(split.answer, owner) as client:
            asked = client.ask(
                collection=NAME, question=QUESTION, message_id=message_id, keep_for=Duration(seconds=3600)
            )
            told.append(asked.answer.session_id)
    assert len(set(told)) == 3


def test_what_others_send_again_is_not_answered_with_what_was_told_first(split: Split) -> None:
    request_id = str(uuid.uuid4())
    with split.at(split.answer, "ada") as ada, split.at(split.answer, "boss") as boss:
        mine = ada.create_session(collection=NAME, request_id=request_id)
        assert ada.create_session(collection=NAME, request_id=request_id) == mine
        with pytest.raises(RequestIdReusedError):
            boss.create_session(collection=NAME, request_id=request_id)
    said = record_pb2.Record(record_type=record_pb2.RECORD_TYPE_FAQ, text="Q: Where? A: In Bonn.", scope="entity:ada")
    said.timestamp.GetCurrentTime()
    with split.at(split.stored, "ada") as ada, split.at(split.stored, "ben") as ben:
        ada.batch_upsert_records(collection=NAME, records=[said], request_id=request_id)
        with pytest.raises((PermissionDeniedError, RequestIdReusedError)):
            ben.batch_upsert_records(collection=NAME, records=[said], request_id=request_id)
