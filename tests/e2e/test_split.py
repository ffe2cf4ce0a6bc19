"""Three services in processes of their own, two replicas of each, on PostgreSQL and a Chroma server."""

import os
import signal
import subprocess
import sys
import threading
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.answer.v1 import citation_pb2
from groundwire.api.common.v1.document_pb2 import Document, DocumentFields, DocumentReference
from groundwire.api.ingest.v1.maintenance_service_pb2 import StoreReport
from groundwire.client import GroundwireClient
from groundwire.client.long_running import wait_for
from groundwire.kernel.errors import ConflictError, DocumentNotFoundError
from tests.e2e.server import ServerProcess
from tests.e2e.split import Deployment, deployment
from tests.tcp_proxy import tcp_proxy

pytestmark = pytest.mark.slow

_TEXT = b"# Tides\n\nThe moon causes the tides of the sea.\n"
_QUESTION = "What causes the tides?"
_WAIT_S = 120.0


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
@pytest.mark.parametrize("times", [1, pytest.param(20, marks=pytest.mark.alone)])
def test_no_call_fails_while_one_replica_after_the_other_is_replaced(
    split: Deployment, collection: str, times: int
) -> None:
    ended = threading.Event()
    calls: Counter[str] = Counter()
    written: set[str] = set()

    def each_until_the_end(name: str, call: Callable[[int], object]) -> None:
        number = 0
        while not ended.is_set():
            call(number)
            calls[name] += 1
            number += 1

    with GroundwireClient(split.address) as client:

        def ingest(number: int) -> None:
            name = f"{number}.md"
            content = f"# Tides\n\nTide {number} of the sea.\n".encode()
            client.ingest_document(collection=collection, source_uri=name, content=content)
            written.add(name)
            time.sleep(0.2)  # a few hundred documents are enough

        def search(_: int) -> None:
            assert client.retrieve(collection=collection, query="tides of the sea").results

        def ask(_: int) -> None:
            assert client.ask(collection=collection, question=_QUESTION).answer.citations

        client.ingest_document(collection=collection, source_uri="tides.md", content=_TEXT)
        with ThreadPoolExecutor(6) as threads:
            named = (("ingest", ingest), ("search", search), ("search", search), ("ask", ask))
            callers = [threads.submit(each_until_the_end, *each) for each in named]
            try:
                threads.submit(split.replace_all, times).result()
            finally:
                ended.set()
            for caller in callers:
                caller.result()
        stored = {document.source for document in client.collection(collection).documents()}
    assert stored == written | {"tides.md"}
    assert min(calls[name] for name in ("ingest", "search", "ask")) > 0
    print(f"{times} rolling restarts of {len(split.replicas)} services: {dict(calls)} calls, none failed")  # noqa: T201 - the figures


def test_ten_replicas_of_ingest_neither_double_nor_lose(split: Deployment, collection: str) -> None:
    replicas = [*split.replicas["ingest"]]
    with ThreadPoolExecutor(10) as threads:
        replicas += threads.map(lambda number: split.start("ingest", number), range(2, 10))
        clients = [GroundwireClient(replica.address) for replica in replicas]
        try:
            _write_everywhere(clients, collection, threads)
        finally:
            for client in clients:
                client.close()
            list(threads.map(ServerProcess.stop, replicas[2:]))
    with GroundwireClient(split.address) as client:
        stored = {each.source: each for each in client.collection(collection).documents()}
        assert set(stored) == {f"{number}.md" for number in range(40)} | {"same.md", "changing.md"}
        assert [each.generation for each in stored.values() if each.source != "changing.md"] == [1] * 41
        assert client.collection(collection).text("changing.md").startswith("# Version")
        found = client.collection(collection).search("sea", k=100, mode="lexical")
        assert sorted(hit.source for hit in found) == sorted(stored)
        checked = wait_for(client, client.check_store(collection=collection), StoreReport)
        assert (checked.checked_count, checked.finding_count) == (42, 0)


def test_what_a_killed_replica_had_still_to_do_in_the_engine_is_done_by_another(
    split: Deployment, collection: str, tmp_path: Path
) -> None:
    """It is killed while it waits for an engine that does not answer it, and others for what it holds."""
    with tcp_proxy(split.vectors_port) as link, ExitStack() as stack:
        ports = (f"127.0.0.1:{split.vectors_port}", f"127.0.0.1:{link.port}")
        arguments = [each.replace(*ports) for each in split.arguments("ingest")]
        dying = ServerProcess(tmp_path / "dying", arguments, **split.variables)
        stack.callback(dying.stop)
        addresses = dying.address, split.address_of("ingest"), split.address_of("retrieve")
        one, others, reading = (stack.enter_context(GroundwireClient(address)) for address in addresses)
        for source in ("changed.md", "deleted.md", "other.md"):
            one.ingest_document(collection=collection, source_uri=source, content=_TEXT + source.encode())
        threads = stack.enter_context(ThreadPoolExecutor(2))
        stack.enter_context(link.frozen())
        document, mask = Document(fields=DocumentFields(language="fr")), FieldMask(paths=["fields.language"])
        changed, deleted = (DocumentReference(source_uri=f"{name}.md") for name in ("changed", "deleted"))
        threads.submit(
            one.update_document, collection=collection, reference=changed, document=document, update_mask=mask
        )
        threads.submit(one.delete_document, collection=collection, reference=deleted, purge=True)
        ends_at = time.monotonic() + _WAIT_S
        while _languages(reading, collection) != {"changed.md": "fr", "other.md": "en"}:
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        dying.kill()
        while (
            others.housekeeping().incomplete_deletions
            or wait_for(others, others.check_store(collection=collection), StoreReport).finding_count
        ):
            assert time.monotonic() < ends_at
            time.sleep(0.2)


def _languages(client: GroundwireClient, collection: str) -> dict[str, str]:
    documents = client.list_documents(collection=collection).documents
    return {each.source_uri: each.fields.language for each in documents}


def _write_everywhere(clients: Sequence[GroundwireClient], collection: str, threads: ThreadPoolExecutor) -> None:
    """Let every replica write its own documents, the same call as all others, and versions of one document."""
    together = threading.Barrier(len(clients))
    request_id = str(uuid.uuid4())

    def write(number: int) -> tuple[str, int]:
        client = clients[number]
        together.wait(120)
        content = b"# Same\n\nThe same of the sea.\n"
        same = client.ingest_document(
            collection=collection, source_uri="same.md", content=content, request_id=request_id
        )
        for each in range(number, 40, len(clients)):
            content = f"# Tides\n\nTide {each} of the sea.\n".encode()
            client.ingest_document(collection=collection, source_uri=f"{each}.md", content=content)
        version = f"# Version\n\nVersion {number} of the sea.\n".encode()
        while True:
            try:
                client.ingest_document(collection=collection, source_uri="changing.md", content=version)
            except ConflictError:  # another replica was faster
                continue
            return same.result.document.document_id, same.result.document.generation

    assert len(set(threads.map(write, range(len(clients))))) == 1


@pytest.mark.parametrize(
    ("service", "ending"),
    [("retrieve", signal.SIGTERM), ("answer", signal.SIGINT), ("answer", signal.SIGKILL)],
)
def test_processes_share_a_port_and_one_that_dies_is_started_anew(
    split: Deployment, collection: str, service: str, ending: signal.Signals, tmp_path: Path
) -> None:
    with GroundwireClient(split.address_of("ingest")) as ingest:
        ingest.ingest_document(collection=collection, source_uri="tides.md", content=_TEXT)
    command = [str(Path(sys.executable).with_name("groundwire")), "serve", *split.arguments(service)]
    options = ("--processes", "2", "--listen", "127.0.0.1:0", "--data", str(tmp_path / "data"))
    with (tmp_path / "log").open("w") as log:
        parent = subprocess.Popen(
            [*command, *options],
            stdout=subprocess.PIPE,
            stderr=log,
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
        os.killpg(parent.pid, ending) if ending is signal.SIGINT else parent.send_signal(ending)
        assert parent.wait(60) == (-ending if ending is signal.SIGKILL else 0)
        parent.communicate(timeout=60)  # until none of them has its output open
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
