"""Public calls in any order, over a real port, while the model of the server changes under its collections.

`test_state_machine.py` compares every search with its model, on a server whose model stays. This one moves collections
between models of different dimensions, keeps sessions in its model, and sweeps only when told to.
"""

import asyncio
import os
import shutil
import tempfile
import threading
import uuid
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from groundwire.answer import bootstrap as answer_bootstrap
from groundwire.answer.settings import AnswerSettings, SessionStoreName
from groundwire.api.answer.v1 import answer_service_pb2_grpc, session_pb2
from groundwire.api.common.v1 import retrieval_options_pb2, search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2, deletion_pb2, ingest_service_pb2_grpc
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2_grpc
from groundwire.client import GroundwireClient
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import AlreadyExistsError, SessionExpiredError
from groundwire.kernel.filter_json import parse_filter
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.in_process import InProcessStub
from groundwire.rpc.server import GrpcServer, ServerOptions, Service
from groundwire.vectorstores.factory import open_vector_store
from tests.integration.ingest.harness import CountingEmbedder, Harness
from tests.manual_clock import LaterClock

MODES = {
    "vector": search_mode_pb2.SEARCH_MODE_VECTOR,
    "lexical": search_mode_pb2.SEARCH_MODE_LEXICAL,
    "hybrid": search_mode_pb2.SEARCH_MODE_HYBRID,
}
SENTENCES = [
    "Copper kettles whistle loudly.",
    "Velvet curtains gather dust.",
    "Marble statues outlive kings.",
    "Amber lanterns guide sailors.",
    "Cedar forests smell sweetly.",
    "Silver rivers freeze slowly.",
]
WORDS = [sentence.split()[0].lower() for sentence in SENTENCES]
_SENTENCE, _LEVELS = collection_pb2.CHUNKER_SENTENCE, collection_pb2.CHUNKER_HIERARCHY
KINDS = {
    "plain": collection_pb2.CollectionSettings(),
    "levels": collection_pb2.CollectionSettings(
        chunking=collection_pb2.ChunkingPolicy(chunker=_LEVELS, min_chars=1, minimum_size=1)
    ),
    "skips": collection_pb2.CollectionSettings(
        chunking=collection_pb2.ChunkingPolicy(chunker=_SENTENCE),
        duplicate_chunk_policy=collection_pb2.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION,
    ),
    "keeps": collection_pb2.CollectionSettings(),
}
KINDS["keeps"].generation_retention.FromSeconds(3600)
collections_, sources = st.sampled_from(sorted(KINDS)), st.sampled_from(["a.md", "b.md", "c.md"])
choices = st.lists(st.integers(0, len(SENTENCES) - 1), min_size=1, max_size=3, unique=True)
projects = st.sampled_from(["apollo", "gemini"])


@dataclass
class Doc:
    """A document as the model has it."""

    document_id: str
    text: str
    project: str
    hidden: bool = False


@dataclass
class Talk:
    """A session as the model has it: for each answer its id, and the documents that it quotes."""

    collection: str
    questions: list[tuple[str, str]] = field(default_factory=list)
    answers: list[tuple[str, set[str]]] = field(default_factory=list)
    expired: bool = False


class Running:
    """All three services on one port, as one process has them, without what runs by itself behind the calls."""

    def __init__(self, folder: Path, vectors: VectorStore, dimensions: int, clock: LaterClock) -> None:
        self.harness = Harness(folder, vectors, CountingEmbedder(dimensions), clock=clock).without_housekeeping()
        self.harness.service.sweep.recover()
        parts: dict[str, Any] = {
            "catalog": self.harness.catalog,
            "embedder": self.harness.embedder,
            "workers": self.harness.workers,
            "clock": clock,
        }
        self.retrieve = retrieve_bootstrap.build(vectors=vectors, settings=RetrieveSettings(), **parts)
        self.answer = answer_bootstrap.build(
            retriever_stub=InProcessStub(self.retrieve.servicer),
            settings=AnswerSettings(min_support=0.01, session_store=SessionStoreName.CATALOG),
            **parts,
        )
        self.retrieve.start()
        name = "groundwire.api.{0}.v1.{1}Service".format
        services = [
            Service(
                name("ingest", "Ingest"),
                self.harness.service.servicer,
                ingest_service_pb2_grpc.add_IngestServiceServicer_to_server,
            ),
            Service(
                name("retrieve", "Retrieve"),
                self.retrieve.servicer,
                retrieve_service_pb2_grpc.add_RetrieveServiceServicer_to_server,
            ),
            Service(
                name("answer", "Answer"),
                self.answer.servicer,
                answer_service_pb2_grpc.add_AnswerServiceServicer_to_server,
            ),
        ]
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True)
        self._thread.start()

        async def start() -> int:
            self._server = GrpcServer(ServerOptions(listen="127.0.0.1:0", drain_notice_s=0), services)
            return await self._server.start()

        port = asyncio.run_coroutine_threadsafe(start(), self._loop).result(60)
        self.client = GroundwireClient(f"127.0.0.1:{port}")

    def close(self) -> None:
        self.client.close()
        asyncio.run_coroutine_threadsafe(self._server.stop(0), self._loop).result(60)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()
        self.answer.close()
        self.retrieve.close()
        self.harness.close()


class Library(RuleBasedStateMachine):
    """The product beside its model."""

    url = "memory:"

    @initialize()
    def begin(self) -> None:
        self.folder = Path(tempfile.mkdtemp(prefix="state-machine-"))
        self.clock, self.dimensions = LaterClock(), 32
        self.vectors = self._open_vectors()
        self.running = Running(self.folder, self.vectors, self.dimensions, self.clock)
        for name, each in KINDS.items():
            self.client.create_collection(collection=name, settings=each)
        self.docs: dict[str, dict[str, Doc]] = {name: {} for name in KINDS}
        self.talks: dict[str, Talk] = {}
        self.last_ingest: tuple[str, ingest_pb.IngestDocumentRequest] | None = None
        # Two documents that share a sentence behind their headings, so that repeated chunks are not left to chance.
        for name in KINDS:
            self.ingest(name, "a.md", [1, 0], "apollo")
            self.ingest(name, "b.md", [2, 0], "gemini")

    def _open_vectors(self) -> VectorStore:
        return open_vector_store(self.url, data_dir=self.folder)

    @property
    def client(self) -> GroundwireClient:
        return self.running.client

    def teardown(self) -> None:
        if not hasattr(self, "running"):
            return
        try:
            self.check()
        finally:
            self.running.close()
            self.vectors.close()
            shutil.rmtree(self.folder, ignore_errors=True)

    @rule(name=collections_, source=sources, chosen=choices, project=projects)
    def ingest(self, name: str, source: str, chosen: list[int], project: str) -> None:
        text = f"# {source[0].upper()} title\n\n" + " ".join(SENTENCES[each] for each in chosen)
        request = ingest_pb.IngestDocumentRequest(
            collection=name, source_uri=source, content=text.encode(), request_id=str(uuid.uuid4())
        )
        request.fields.project = project
        document = self.client.ingest_document.send(request).result.document
        known = self.docs[name].get(source)
        if known is not None:
            assert document.document_id == known.document_id
        self.docs[name][source] = Doc(document.document_id, text, project)
        self.last_ingest = (name, request)

    @precondition(lambda self: self.last_ingest is not None)
    @rule()
    def repeat_the_last_ingest(self) -> None:
        """It has its effect once: what came after it stays."""
        assert self.last_ingest is not None
        name, request = self.last_ingest
        doc = self.docs[name].get(request.source_uri)
        if doc is not None and not doc.hidden:
            answer = self.client.ingest_document.send(request)
            assert answer.result.document.document_id == doc.document_id

    @rule(name=collections_, source=sources, project=projects)
    def update(self, name: str, source: str, project: str) -> None:
        doc = self._live(name, source)
        if doc is None:
            return
        request = ingest_pb.UpdateDocumentRequest(collection=name, document_id=doc.document_id)
        request.fields.project = project
        request.update_mask.paths.append("project")
        self.client.update_document.send(request)
        doc.project = project

    @rule(name=collections_, source=sources)
    def hide(self, name: str, source: str) -> None:
        doc = self._live(name, source)
        if doc is not None:
            self.client.delete_document(collection=name, document_id=doc.document_id, permanent=False)
            doc.hidden = True

    @rule(name=collections_, source=sources)
    def restore(self, name: str, source: str) -> None:
        doc = self.docs[name].get(source)
        if doc is not None:
            self.client.restore_document(collection=name, document_id=doc.document_id)
            doc.hidden = False

    @rule(name=collections_, source=sources)
    def delete(self, name: str, source: str) -> None:
        doc = self.docs[name].pop(source, None)
        if doc is not None:
            gone = self.client.delete_document(collection=name, document_id=doc.document_id, permanent=True)
            assert gone.receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
            if self.last_ingest is not None and self.last_ingest[0] == name:
                self.last_ingest = None

    @rule(name=collections_)
    def reindex(self, name: str) -> None:
        list(self.client.reindex(collection=name))

    @rule()
    def move_to_another_model(self) -> None:
        self.dimensions = 80 - self.dimensions
        self._restart()
        for name in KINDS:
            list(self.client.reembed(collection=name))

    @rule()
    def restart(self) -> None:
        self._restart()

    @rule()
    def sweep(self) -> None:
        self.running.harness.sweep()

    @rule()
    def check(self) -> None:
        self.running.harness.sweep()
        found = list(self.client.check_store())
        assert found[-1].report.consistent, found
        assert found[-1].report.finding_count == 0, found
        assert list(self.client.housekeeping().failures) == []

    @rule(name=collections_, word=st.integers(0, len(WORDS) - 1), mode=st.sampled_from(sorted(MODES)))
    def search(self, name: str, word: int, mode: str) -> None:
        self._search(name, word, mode, None)

    @rule(name=collections_, word=st.integers(0, len(WORDS) - 1), mode=st.sampled_from(sorted(MODES)), project=projects)
    def search_with_a_filter(self, name: str, word: int, mode: str, project: str) -> None:
        self._search(name, word, mode, project)

    @rule(word=st.integers(0, len(WORDS) - 1))
    def search_from_the_top_down(self, word: int) -> None:
        """Sections are chosen by their vectors: without these nothing is found."""
        options = retrieval_options_pb2.RetrievalOptions(strategy=search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN)
        found = self.client.retrieve(collection="levels", query=SENTENCES[word], options=options)
        holding = {doc.document_id for doc in self._visible("levels") if SENTENCES[word] in doc.text}
        assert not holding or {hit.document_id for hit in found.results} & holding

    @rule(name=collections_)
    def open_session(self, name: str) -> None:
        session = self.client.create_session(collection=name).session
        self.talks[session.session_id] = Talk(name)

    @precondition(lambda self: bool(self.talks))
    @rule(data=st.data(), word=st.integers(0, len(WORDS) - 1))
    def ask(self, data: st.DataObject, word: int) -> None:
        session = data.draw(st.sampled_from(sorted(self.talks)))
        talk, message_id, question = self.talks[session], str(uuid.uuid4()), f"What about {SENTENCES[word].lower()}?"
        if talk.expired:
            with pytest.raises(SessionExpiredError):
                self.client.ask(session_id=session, message_id=message_id, question=question)
            return
        answer = self.client.ask(session_id=session, message_id=message_id, question=question).answer
        texts = {doc.document_id: doc.text for doc in self._visible(talk.collection)}
        for citation in answer.citations:
            assert citation.quote in texts[citation.document_id]
        talk.questions.append((message_id, question))
        talk.answers.append((answer.message_id, {citation.document_id for citation in answer.citations}))
        taken = answer.message_id
        with pytest.raises(AlreadyExistsError):
            self.client.ask(session_id=session, message_id=taken, question=question)

    @rule()
    def let_time_pass(self) -> None:
        self.clock.ahead += timedelta(minutes=31)
        for talk in self.talks.values():
            talk.expired = True
        self.running.harness.service.housekeeping.run_now(("retention",), Budget(60))

    @rule(hours=st.sampled_from([-1, 25]))
    def set_the_clock(self, hours: int) -> None:
        self.clock.jumped += timedelta(hours=hours)
        self.running.harness.forget()

    @invariant()
    def documents_are_those_of_the_model(self) -> None:
        for name in self.docs if hasattr(self, "docs") else ():
            listed = self.client.list_documents(collection=name, page_size=100).documents
            seen = {each.source_uri: (each.document_id, each.fields.project) for each in listed}
            expected = {
                source: (doc.document_id, doc.project) for source, doc in self.docs[name].items() if not doc.hidden
            }
            assert seen == expected, name

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        if not hasattr(self, "talks"):
            return
        there = {doc.document_id for docs in self.docs.values() for doc in docs.values()}
        for session_id, talk in self.talks.items():
            session = self.client.get_session(session_id=session_id).session
            assert (session.state == session_pb2.SESSION_STATE_EXPIRED) == talk.expired
            assert session.message_count == 2 * len(talk.answers)
            window = list(session.messages)
            for (question_id, question), (answer_id, quoted), asked, answered in zip(
                talk.questions[-5:], talk.answers[-5:], window[::2], window[1::2], strict=True
            ):
                assert (asked.message_id, asked.content) == (question_id, question)
                assert answered.message_id == answer_id
                assert (answered.state == session_pb2.MESSAGE_STATE_REDACTED) == (not quoted <= there)

    def _search(self, name: str, word: int, mode: str, project: str | None) -> None:
        options = retrieval_options_pb2.RetrievalOptions(mode=MODES[mode], top_k=20)
        if project is not None:
            options.filter.CopyFrom(to_filter_message(parse_filter({"project": project})))
        query = WORDS[word] if mode == "lexical" else SENTENCES[word]
        found = self.client.retrieve(collection=name, query=query, options=options)
        visible = {doc.document_id: doc for doc in self._visible(name) if project in {None, doc.project}}
        for hit in found.results:
            assert hit.document_id in visible
            assert hit.content in visible[hit.document_id].text
        holding = {key for key, doc in visible.items() if SENTENCES[word] in doc.text}
        seen = {hit.document_id for hit in found.results if WORDS[word] in hit.content.lower()}
        if name != "skips":
            assert seen == holding
        elif project is None:
            # Of equal sentences one is indexed; the next takes its place when the sweep comes by.
            self.running.harness.sweep()
            again = self.client.retrieve(collection=name, query=query, options=options)
            assert bool(holding) == any(WORDS[word] in hit.content.lower() for hit in again.results)

    def _live(self, name: str, source: str) -> Doc | None:
        doc = self.docs[name].get(source)
        return None if doc is None or doc.hidden else doc

    def _visible(self, name: str) -> list[Doc]:
        return [doc for doc in self.docs[name].values() if not doc.hidden]

    def _restart(self) -> None:
        self.running.close()
        if self.url != "memory:":
            self.vectors.close()
            self.vectors = self._open_vectors()
        self.running = Running(self.folder, self.vectors, self.dimensions, self.clock)


def _run(url: str, examples: int, steps: int) -> None:
    machine = type("Library", (Library,), {"url": url})
    run_state_machine_as_test(
        machine,
        settings=settings(
            max_examples=examples,
            stateful_step_count=steps,
            deadline=None,
            derandomize="GROUNDWIRE_TEST_RANDOM" not in os.environ,
            suppress_health_check=list(HealthCheck),
            print_blob=True,
        ),
    )


def test_a_few_calls_in_any_order_leave_what_the_model_says() -> None:
    _run("memory:", 3, 15)


@pytest.mark.limits
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("url", ["memory:", "qdrant-edge:", "chroma:"])
def test_calls_in_any_order_leave_what_the_model_says(url: str) -> None:
    _run(url, int(os.environ.get("GROUNDWIRE_TEST_EXAMPLES", "200")), 30)
