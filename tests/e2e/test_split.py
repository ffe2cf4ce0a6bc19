"""Three services in processes of their own, two replicas of each, on PostgreSQL and a Chroma server."""

import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DocumentNotFoundError
from tests.e2e.split import Deployment, deployment

pytestmark = pytest.mark.slow

_TEXT = b"# Tides\n\nThe moon causes the tides of the sea.\n"
_QUESTION = "What causes the tides?"


@pytest.fixture(scope="module")
def split(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Deployment]:
    with deployment(tmp_path_factory.mktemp("split")) as running:
        yield running


@pytest.fixture
def collection(split: Deployment) -> Iterator[str]:
    name = f"c{uuid.uuid4().hex[:12]}"
    with GroundwireClient(split.address_of("ingest")) as ingest:
        ingest.create_collection(collection=name)
        yield name
        ingest.delete_collection(collection=name, force=True)


def _clients(split: Deployment, service: str) -> list[GroundwireClient]:
    return [GroundwireClient(replica.address) for replica in split.replicas[service]]


def test_what_one_replica_writes_all_read_at_once(split: Deployment, collection: str) -> None:
    writers, readers = _clients(split, "ingest"), _clients(split, "retrieve")
    written: set[str] = set()
    for writer, moon in zip(writers, ("Titan", "Phobos"), strict=True):
        content = f"# Tides\n\n{moon} causes the tides of a sea.\n".encode()
        stored = writer.ingest_document(collection=collection, source_uri=f"{moon}.md", content=content)
        written.add(stored.result.document.document_id)
        for reader in readers:
            # The second time they have an answer of their own for it, which is no longer true.
            found = reader.retrieve(collection=collection, query="tides of the sea").results
            assert {hit.chunk.document_id for hit in found} == written
    for opened in (*writers, *readers):
        opened.close()


def test_a_question_is_answered_with_citations_that_verify(split: Deployment, collection: str) -> None:
    with GroundwireClient(split.address_of("ingest")) as ingest, GroundwireClient(split.address_of("answer")) as answer:
        ingest.ingest_document(collection=collection, source_uri="tides.md", content=_TEXT)
        reply = answer.ask(collection=collection, question=_QUESTION).answer
        assert "The moon causes the tides" in reply.content
        checked = answer.verify_citations(citations=reply.citations).verifications
        assert [each.verdict for each in checked] == [citation_pb2.CITATION_VERDICT_EXACT] * len(reply.citations)
        assert checked


def test_a_session_goes_on_at_the_other_replica_and_loses_what_is_deleted(split: Deployment, collection: str) -> None:
    one, other = _clients(split, "answer")
    with GroundwireClient(split.address_of("ingest")) as ingest:
        stored = ingest.ingest_document(collection=collection, source_uri="tides.md", content=_TEXT)
        session_id = one.create_session(collection=collection).session.session_id
        for client in (one, other):
            client.ask(session_id=session_id, question=_QUESTION, message_id=str(uuid.uuid4()))
        told = [client.get_session(session_id=session_id).session.messages for client in (one, other)]
        assert [len(messages) for messages in told] == [4, 4]
        page = one.list_messages(session_id=session_id, page_size=2)
        rest = other.list_messages(session_id=session_id, page_size=2, page_token=page.next_page_token)
        assert len({each.message_id for each in (*page.messages, *rest.messages)}) == 4
        reference = DocumentReference(document_id=stored.result.document.document_id)
        ingest.delete_document(collection=collection, reference=reference, purge=True)
        for client in (one, other):
            messages = client.get_session(session_id=session_id).session.messages
            assert [message.content for message in messages][1::2] == ["", ""]
    with GroundwireClient(split.address_of("retrieve")) as retrieve, pytest.raises(DocumentNotFoundError):
        retrieve.get_document(collection=collection, reference=reference)
    one.close()
    other.close()


@pytest.mark.requirement("R13")
def test_no_call_fails_while_one_replica_after_the_other_is_replaced(split: Deployment, collection: str) -> None:
    asked, stop_at = 0, time.monotonic() + 120
    with (
        GroundwireClient(split.address_of("ingest")) as ingest,
        GroundwireClient(split.address_of("retrieve")) as retrieve,
        GroundwireClient(split.address_of("answer")) as answer,
        ThreadPoolExecutor(1) as beside,
    ):
        ingest.ingest_document(collection=collection, source_uri="tides.md", content=_TEXT)
        replacing = beside.submit(split.replace_all)
        while not replacing.done() or asked < 10:
            assert time.monotonic() < stop_at
            ingest.ingest_document(collection=collection, source_uri=f"{asked % 5}.md", content=_TEXT)
            assert retrieve.retrieve(collection=collection, query="tides of the sea").results
            assert answer.ask(collection=collection, question=_QUESTION).answer.citations
            asked += 1
        replacing.result()


@pytest.mark.parametrize(("service", "ending"), [("retrieve", signal.SIGTERM), ("answer", signal.SIGINT)])
def test_processes_share_a_port_and_one_that_dies_is_started_anew(
    split: Deployment, collection: str, service: str, ending: signal.Signals, tmp_path: Path
) -> None:
    with GroundwireClient(split.address_of("ingest")) as ingest:
        ingest.ingest_document(collection=collection, source_uri="tides.md", content=_TEXT)
    command = [str(Path(sys.executable).with_name("groundwire")), "serve", *split.arguments(service)]
    options = ("--processes", "2", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    parent = subprocess.Popen(
        [*command, *options],
        stdout=subprocess.PIPE,
        stderr=(tmp_path / "log").open("w"),
        text=True,
        start_new_session=True,
        env={**os.environ, **split.variables},
    )
    try:
        assert parent.stdout is not None
        address = parent.stdout.readline().strip().removeprefix("listening on ")
        serving = _listening(address)
        assert len(serving) == 2
        _ask(service, address, collection)
        os.kill(min(serving), signal.SIGKILL)
        _ask(service, address, collection)
        ends_at = time.monotonic() + 60
        while len(_listening(address) - {min(serving)}) < 2:
            assert time.monotonic() < ends_at
            time.sleep(0.1)
    finally:
        # A terminal sends Ctrl-C to all of them.
        os.killpg(parent.pid, ending) if ending is signal.SIGINT else parent.terminate()
        assert parent.wait(60) == 0
        parent.communicate()
    assert not _listening(address)
    assert "Traceback" not in (tmp_path / "log").read_text(encoding="utf-8")


def _ask(service: str, address: str, collection: str) -> None:
    with GroundwireClient(address) as client:
        if service == "retrieve":
            assert client.retrieve(collection=collection, query="tides of the sea").results
        else:
            assert client.ask(collection=collection, question=_QUESTION).answer.citations


def _listening(address: str) -> set[int]:
    """Return the processes that listen on a port."""
    port = f":{int(address.rpartition(':')[2]):04X}"
    tables = [Path("/proc/net", name).read_text(encoding="ascii") for name in ("tcp", "tcp6")]
    rows = [line.split() for table in tables for line in table.splitlines()[1:]]
    sockets = {f"socket:[{row[9]}]" for row in rows if row[1].endswith(port) and row[3] == "0A"}
    found = set()
    for link in Path("/proc").glob("[0-9]*/fd/*"):
        try:
            if str(link.readlink()) in sockets:
                found.add(int(link.parts[2]))
        except OSError:  # closed meanwhile
            continue
    return found
