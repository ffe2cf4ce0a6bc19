"""Random sequences of public calls against a plain model, on every embedded store.

The model knows documents as texts and markers: words that stand in one paragraph each. After any sequence a search must
find exactly the paragraphs of the documents that the model has visible, whatever was rebuilt, restarted, deleted or
moved to a model of other dimensions; sessions hold what was said in them, but for what quotes deleted documents.

Other sequences, and more of them: GROUNDWIRE_TEST_EXAMPLES=1000 make test-limits
"""

import os
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import timedelta
from typing import ClassVar

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

from groundwire.api.answer.v1 import citation_pb2, session_pb2
from groundwire.api.common.v1 import document_pb2, hit_pb2, search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import collection_pb2, deletion_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1.maintenance_service_pb2 import IndexBuildResult, StoreReport
from groundwire.client.long_running import wait_for
from groundwire.kernel.errors import (
    AlreadyExistsError,
    DocumentNotFoundError,
    RequestIdReusedError,
    SessionExpiredError,
)
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.conformance.memory_folder import memory_folder
from tests.limits.product import MODELS, Product
from tests.manual_clock import ManualClock
from tests.stubs import by_id, by_source

STORES = ("memory:", "qdrant-edge:", "chroma:")
SOURCES = ("one.md", "two.md", "three.md")
PARAGRAPHS = 8
KINDS = ("plain", "levels", "unique", "kept")
TITLES = ("tide", "moon")
_WORDS = "harbour granite yeast comet lantern orchard compass glacier meadow anvil copper walnut".split()  # noqa: SIM905 - easier to read
_IDLE_MINUTES = 30
_RESTARTS = 3
"""Of the servers in one sequence, which take longer than all other calls together."""
_ALL = 20
"""More than a collection of the model can have indexed chunks, so that a vector search returns every one."""

_LEXICAL = search_mode_pb2.SEARCH_MODE_LEXICAL
_VECTOR = search_mode_pb2.SEARCH_MODE_VECTOR
_HYBRID = search_mode_pb2.SEARCH_MODE_HYBRID

kinds = st.sampled_from(KINDS)
sources = st.sampled_from(SOURCES)
titles = st.sampled_from(TITLES)
paragraphs = st.lists(st.integers(0, PARAGRAPHS - 1), min_size=1, max_size=3, unique=True)


def marker(number: int) -> str:
    return f"marker{number}zq"


def paragraph(number: int) -> str:
    words = [_WORDS[(number * 5 + step * step) % len(_WORDS)] for step in range(24)]
    return f"{marker(number).capitalize()} stands beside {' '.join(words)}."


def text_of(numbers: list[int]) -> str:
    sections = [f"## Part {number}\n\n{paragraph(number)}" for number in numbers]
    return "# Notes\n\n" + "\n\n".join(sections) + "\n"


@dataclass
class Doc:
    """A document as the model has it."""

    document_id: str
    numbers: list[int]
    title: str
    generation: int
    is_hidden: bool = False

    @property
    def text(self) -> str:
        return text_of(self.numbers)


@dataclass
class Sent:
    """An ingest that was answered, to be sent again."""

    request: pb.IngestDocumentRequest
    document_id: str
    outcome: int


@dataclass
class Turn:
    """A question and its answer in a session, with the documents that the answer quotes."""

    question_id: str
    question: str
    answer_id: str
    quoted: set[str]


@dataclass
class Talk:
    """A session."""

    session_id: str
    kind: str
    turns: list[Turn] = field(default_factory=list)
    idle_minutes: int = 0
    is_expired: bool = False


class Machine(RuleBasedStateMachine):
    """One product for all examples of a store; each example has collections of its own."""

    product: ClassVar[Product]
    clock: ClassVar[ManualClock]

    def __init__(self) -> None:
        super().__init__()
        self.docs: dict[str, dict[str, Doc]] = {kind: {} for kind in KINDS}
        self.purged: set[str] = set()
        self.purges: list[pb.DeleteDocumentRequest] = []
        self.steps = self.restarts = 0
        self.sent: dict[str, list[Sent]] = {kind: [] for kind in KINDS}
        self.talks: list[Talk] = []
        self.citations: list[citation_pb2.Citation] = []
        run = uuid.uuid4().hex[:12]
        self.names = {kind: f"{kind}-{run}" for kind in KINDS}
        for kind, name in self.names.items():
            self.product.client.create_collection(collection=name, settings=_settings(kind))

    @initialize(kind=kinds, shared=st.integers(0, PARAGRAPHS - 1))
    def begin(self, kind: str, shared: int) -> None:
        """Two documents of each collection share a paragraph, and an answer cites it: little is left to chance."""
        for each in KINDS:
            for source, other in zip(SOURCES, (1, 2), strict=False):
                self.ingest(each, source, [(shared + other) % PARAGRAPHS, shared], TITLES[0])
        self.begin_session(kind)
        self._ask(self.talks[0], shared)
        assert self.citations

    def teardown(self) -> None:
        try:
            for kind in KINDS:
                self.documents_agree(kind)
                self.search_all(kind, 0, _VECTOR)
            self.check_store()
        finally:
            for name in self.names.values():
                self.product.client.delete_collection(collection=name, force=True)
            if self.product.dimensions != MODELS[0]:
                self.product.use_model(MODELS[0])

    # -- writes -------------------------------------------------------------------------------------------------

    @rule(kind=kinds, source=sources, numbers=paragraphs, title=titles)
    def ingest(self, kind: str, source: str, numbers: list[int], title: str) -> None:
        request = pb.IngestDocumentRequest(
            collection=self.names[kind],
            source_uri=source,
            text=text_of(numbers),
            fields=document_pb2.DocumentFields(title=title),
            duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_ALLOW,
            request_id=str(uuid.uuid4()),
        )
        result = self.product.client.ingest_document.send(request).result
        before = self.docs[kind].get(source)
        after = Doc(result.document.document_id, numbers, title, result.document.generation)
        if before is None:
            assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
        else:
            assert after.document_id == before.document_id
            same = (before.numbers, before.title, before.is_hidden) == (numbers, title, False)
            assert (result.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED) == same
            assert after.generation >= before.generation
        self.docs[kind][source] = after
        self.sent[kind].append(Sent(request, after.document_id, result.outcome))

    @precondition(lambda self: any(self.sent.values()))
    @rule(data=st.data(), changed=st.booleans())
    def repeat(self, data: st.DataObject, changed: bool) -> None:
        """An ingest that was answered is answered alike, and does not undo what came after it.

        Of what was deleted for good not even the answer is there any more.
        """
        kind = data.draw(st.sampled_from([kind for kind in KINDS if self.sent[kind]]))
        sent = data.draw(st.sampled_from(self.sent[kind]))
        if changed:
            other = pb.IngestDocumentRequest()
            other.CopyFrom(sent.request)
            other.text += "More.\n"
            with pytest.raises(RequestIdReusedError):
                self.product.client.ingest_document.send(other)
            return
        if sent.document_id in self.purged:
            with pytest.raises(DocumentNotFoundError):
                self.product.client.ingest_document.send(sent.request)
            return
        result = self.product.client.ingest_document.send(sent.request).result
        assert (result.document.document_id, result.outcome) == (sent.document_id, sent.outcome)

    @rule(kind=kinds, source=sources, title=titles)
    def retitle(self, kind: str, source: str, title: str) -> None:
        doc = self.docs[kind].get(source)
        if doc is None:
            return
        request = pb.UpdateDocumentRequest(
            collection=self.names[kind],
            reference=by_id(doc.document_id),
            document=document_pb2.Document(fields=document_pb2.DocumentFields(title=title)),
        )
        request.update_mask.paths.append("fields.title")
        if doc.is_hidden:
            with pytest.raises(DocumentNotFoundError):
                self.product.client.update_document.send(request)
            return
        assert self.product.client.update_document.send(request).document.fields.title == title
        doc.title = title

    @rule(kind=kinds, source=sources, permanent=st.booleans())
    def delete(self, kind: str, source: str, permanent: bool) -> None:
        doc = self.docs[kind].get(source)
        if doc is None or (doc.is_hidden and not permanent):
            return
        request = pb.DeleteDocumentRequest(
            collection=self.names[kind],
            reference=by_id(doc.document_id),
            purge=permanent,
            request_id=str(uuid.uuid4()),
        )
        self.product.client.delete_document.send(request)
        if permanent:
            self.purges.append(request)
            del self.docs[kind][source]
            self.purged.add(doc.document_id)
        else:
            doc.is_hidden = True

    @rule(kind=kinds, source=sources)
    def restore(self, kind: str, source: str) -> None:
        doc = self.docs[kind].get(source)
        if doc is not None and doc.is_hidden:
            self.product.client.restore_document(collection=self.names[kind], reference=by_id(doc.document_id))
            doc.is_hidden = False

    # -- rebuilding, checking, time -----------------------------------------------------------------------------

    @rule(kind=kinds)
    def reindex(self, kind: str) -> None:
        client = self.product.client
        wait_for(client, client.reindex(collection=self.names[kind]), IndexBuildResult)

    @rule(kind=kinds)
    def reembed(self, kind: str) -> None:
        client = self.product.client
        wait_for(client, client.reembed(collection=self.names[kind]), IndexBuildResult)

    @precondition(lambda self: self.restarts < _RESTARTS)
    @rule()
    def move_to_another_model(self) -> None:
        """A server whose model has other dimensions moves every collection to it."""
        self.restarts += 1
        self.product.use_model(sum(MODELS) - self.product.dimensions)
        for kind in KINDS:
            self.reembed(kind)

    @rule()
    def sweep(self) -> None:
        """Once all was done that is done behind the calls, nothing is left anywhere of what was deleted for good."""
        self.product.sweep()
        for request in self.purges:
            receipt = self.product.client.delete_document.send(request).receipt
            assert receipt.state == deletion_pb2.DELETION_STATE_COMPLETE
        self.purges.clear()

    @rule()
    def check_store(self) -> None:
        self.sweep()
        client = self.product.client
        report = wait_for(client, client.check_store(), StoreReport)
        assert list(report.findings) == []
        assert report.consistent

    @precondition(lambda self: self.restarts < _RESTARTS)
    @rule()
    def restart(self) -> None:
        self.restarts += 1
        self.product.restart()

    @rule(minutes=st.sampled_from([12, 31]))
    def let_time_pass(self, minutes: int) -> None:
        self.clock.advance(minutes=minutes)
        for talk in self.talks:
            talk.idle_minutes += minutes
            talk.is_expired |= talk.idle_minutes > _IDLE_MINUTES

    @rule(hours=st.sampled_from([-25, -1, 1, 25]))
    def set_the_clock(self, hours: int) -> None:
        """Somebody sets the clock of the machine: no session expires for it, and no request is forgotten."""
        self.clock.jump(hours=hours)

    # -- reads --------------------------------------------------------------------------------------------------

    @rule(kind=kinds, source=sources)
    def read(self, kind: str, source: str) -> None:
        doc = self.docs[kind].get(source)
        if doc is None or doc.is_hidden:
            with pytest.raises(DocumentNotFoundError):
                self.product.client.get_document(collection=self.names[kind], reference=by_source(source))
            return
        found = self.product.client.get_document(
            collection=self.names[kind], reference=by_source(source), include_text=True
        )
        assert (found.text, found.document.fields.title) == (doc.text, doc.title)
        chunks = self.product.client.list_chunks(
            collection=self.names[kind], reference=by_id(doc.document_id), page_size=1000
        ).chunks
        assert chunks
        assert [chunk.content for chunk in chunks] == [doc.text[chunk.span.start : chunk.span.end] for chunk in chunks]

    @rule(kind=kinds, number=st.integers(0, PARAGRAPHS - 1))
    def search_word(self, kind: str, number: int) -> None:
        self._settle(kind)
        hits = self._search(kind, marker(number), _LEXICAL)
        expected = {source for source, doc in self._visible(kind).items() if number in doc.numbers}
        self._compare(kind, hits, {(source, number) for source in expected}, {number})

    @rule(kind=kinds, number=st.integers(0, PARAGRAPHS - 1), mode=st.sampled_from([_VECTOR, _HYBRID]))
    def search_all(self, kind: str, number: int, mode: "search_mode_pb2.SearchMode.ValueType") -> None:
        """A search by vector ranks every indexed chunk, so it shows them all."""
        self._settle(kind)
        hits = self._search(kind, paragraph(number), mode)
        expected = {(source, each) for source, doc in self._visible(kind).items() for each in doc.numbers}
        self._compare(kind, hits, expected, set(range(PARAGRAPHS)))

    @rule(
        kind=kinds,
        title=titles,
        number=st.integers(0, PARAGRAPHS - 1),
        mode=st.sampled_from([_VECTOR, _LEXICAL]),
    )
    def search_filtered(self, kind: str, title: str, number: int, mode: "search_mode_pb2.SearchMode.ValueType") -> None:
        if kind == "unique":
            return  # which of equal chunks is indexed is not for a model to say
        hits = self._search(kind, marker(number), mode, {"title": title})
        asked = {number} if mode == _LEXICAL else set(range(PARAGRAPHS))
        visible = {source: doc for source, doc in self._visible(kind).items() if doc.title == title}
        expected = {(source, each) for source, doc in visible.items() for each in doc.numbers if each in asked}
        self._compare(kind, hits, expected, asked)

    @rule(number=st.integers(0, PARAGRAPHS - 1))
    def search_from_the_top_down(self, number: int) -> None:
        """Sections are chosen by their vectors: without these nothing is found."""
        options = RetrievalOptions(strategy=search_mode_pb2.RETRIEVAL_STRATEGY_TOP_DOWN)
        hits = self._search("levels", paragraph(number), _VECTOR, options=options)
        holding = {source for source, doc in self._visible("levels").items() if number in doc.numbers}
        found = {source for source, number_found in self._found("levels", hits, {number})}
        assert found <= holding
        assert bool(found) == bool(holding)

    @rule(kind=kinds, number=st.integers(0, PARAGRAPHS - 1))
    def ask(self, kind: str, number: int) -> None:
        answer = self.product.client.ask(
            collection=self.names[kind], question=f"What stands beside {marker(number)}?"
        ).answer
        self._check_citations(kind, answer.citations)
        self.citations += answer.citations

    @rule(kind=kinds)
    def begin_session(self, kind: str) -> None:
        session = self.product.client.create_session(collection=self.names[kind]).session
        self.talks.append(Talk(session.session_id, kind))

    @rule(data=st.data(), number=st.integers(0, PARAGRAPHS - 1))
    def ask_in_session(self, data: st.DataObject, number: int) -> None:
        talk = data.draw(st.sampled_from(self.talks))
        if not talk.is_expired:
            self._ask(talk, number)
            return
        with pytest.raises(SessionExpiredError):
            self.product.client.ask(question="What is this?", session_id=talk.session_id, message_id=str(uuid.uuid4()))

    def _ask(self, talk: Talk, number: int) -> None:
        question, question_id = f"What stands beside {marker(number)}?", str(uuid.uuid4())
        answer = self.product.client.ask(question=question, session_id=talk.session_id, message_id=question_id).answer
        self._check_citations(talk.kind, answer.citations)
        self.citations += answer.citations
        quoted = {citation.document_id for citation in answer.citations}
        # A refusal names where it is best to look, and may quote from there.
        quoted |= {doc.document_id for source, doc in self.docs[talk.kind].items() if source in answer.content}
        talk.turns.append(Turn(question_id, question, answer.message_id, quoted))
        talk.idle_minutes = 0

    @precondition(lambda self: any(talk.turns and not talk.is_expired for talk in self.talks))
    @rule(data=st.data())
    def ask_under_the_id_of_an_answer(self, data: st.DataObject) -> None:
        talk = data.draw(st.sampled_from([talk for talk in self.talks if talk.turns and not talk.is_expired]))
        with pytest.raises(AlreadyExistsError):
            self.product.client.ask(
                question="What is this?", session_id=talk.session_id, message_id=talk.turns[-1].answer_id
            )

    @rule(data=st.data())
    def verify(self, data: st.DataObject) -> None:
        """A citation of a stored document stays exact, whatever was ingested over it; one of a purged one fails."""
        citation = data.draw(st.sampled_from(self.citations))
        known = {doc.document_id: doc for docs in self.docs.values() for doc in docs.values()}
        (verification,) = self.product.client.verify_citations(citations=[citation]).verifications
        if citation.document_id in self.purged:
            assert verification.verdict == citation_pb2.CITATION_VERDICT_FAILED
        elif not known[citation.document_id].is_hidden:
            assert verification.verdict == citation_pb2.CITATION_VERDICT_EXACT
            assert verification.current_generation == known[citation.document_id].generation

    # -- what is always true ------------------------------------------------------------------------------------

    @invariant()
    def documents_are_those_of_the_model(self) -> None:
        """After each step those of another collection are compared, and at the end those of all."""
        self.steps += 1
        self.documents_agree(KINDS[self.steps % len(KINDS)])

    def documents_agree(self, kind: str) -> None:
        listed = self.product.client.list_documents(collection=self.names[kind]).documents
        assert {document.source_uri: (document.document_id, document.fields.title) for document in listed} == {
            source: (doc.document_id, doc.title) for source, doc in self._visible(kind).items()
        }
        found = self.product.client.get_collection(collection=self.names[kind]).collection
        assert found.document_count == len(listed)

    @invariant()
    def sessions_are_those_of_the_model(self) -> None:
        """Whatever was deleted meanwhile, a session can be read; of answers that quote what is gone, that is said."""
        for talk in self.talks:
            session = self.product.client.get_session(session_id=talk.session_id).session
            assert (session.state == session_pb2.SESSION_STATE_EXPIRED) == talk.is_expired
            assert session.message_count == 2 * len(talk.turns)
            window = iter(session.messages)
            for turn, asked, answered in zip(talk.turns[-5:], window, window, strict=True):
                assert (asked.message_id, asked.content) == (turn.question_id, turn.question)
                assert answered.message_id == turn.answer_id
                is_redacted = not turn.quoted.isdisjoint(self.purged)
                assert (answered.state == session_pb2.MESSAGE_STATE_REDACTED) == is_redacted

    def _visible(self, kind: str) -> dict[str, Doc]:
        return {source: doc for source, doc in self.docs[kind].items() if not doc.is_hidden}

    def _settle(self, kind: str) -> None:
        """Of equal chunks another takes the place of one that went, shortly afterwards: now."""
        if kind == "unique":
            self.sweep()

    def _search(
        self,
        kind: str,
        query: str,
        mode: "search_mode_pb2.SearchMode.ValueType",
        where: dict[str, str] | None = None,
        options: RetrievalOptions | None = None,
    ) -> list[hit_pb2.Hit]:
        sent = RetrievalOptions(mode=mode, top_k=_ALL, collapse_duplicates=False, min_relevance=0.0)
        sent.MergeFrom(options or RetrievalOptions())
        if where is not None:
            sent.filter.CopyFrom(to_filter_message(parse_filter(where)))
        response = self.product.client.retrieve(collection=self.names[kind], query=query, options=sent)
        assert not response.degraded_stages
        return list(response.results)

    def _found(self, kind: str, hits: list[hit_pb2.Hit], asked: set[int]) -> set[tuple[str, int]]:
        """Return (source, paragraph) of the hits, of the paragraphs asked for."""
        sources_by_id = {doc.document_id: source for source, doc in self._visible(kind).items()}
        found = set()
        for hit in hits:
            source = sources_by_id[hit.chunk.document_id]  # a KeyError is a hit of a document that is not visible
            doc = self.docs[kind][source]
            assert doc.text[hit.chunk.span.start : hit.chunk.span.end] == hit.chunk.content
            found |= {(source, number) for number in asked if marker(number) in hit.chunk.content.casefold()}
        return found

    def _compare(self, kind: str, hits: list[hit_pb2.Hit], expected: set[tuple[str, int]], asked: set[int]) -> None:
        found = self._found(kind, hits, asked)
        if kind == "unique":
            assert {number for _, number in found} == {number for _, number in expected}
            assert found <= expected
        else:
            assert found == expected

    def _check_citations(self, kind: str, citations: Iterable[citation_pb2.Citation]) -> None:
        by_id = {doc.document_id: doc for doc in self._visible(kind).values()}
        for citation in citations:
            doc = by_id[citation.document_id]
            assert doc.text[citation.span.start : citation.span.end] == citation.quote
            assert citation.generation == doc.generation


def _settings(kind: str) -> collection_pb2.CollectionSettings:
    chunking = collection_pb2.ChunkingPolicy(
        target_size=32, minimum_size=1, maximum_size=64, min_chars=1, overlap_ratio=0.0
    )
    made = collection_pb2.CollectionSettings(chunking=chunking)
    if kind == "levels":
        made.chunking.chunker = collection_pb2.CHUNKER_HIERARCHY
    if kind == "unique":
        made.duplicate_chunk_policy = collection_pb2.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION
    if kind == "kept":
        made.generation_retention.FromTimedelta(timedelta(hours=1))
    return made


@contextmanager
def _machine(vectors: str) -> Iterator[type[Machine]]:
    with memory_folder() as folder:
        clock = ManualClock()
        running = Product(folder, vectors, clock)

        class OnStore(Machine):
            product = running

        OnStore.clock = clock
        try:
            yield OnStore
        finally:
            running.close()


def _run(vectors: str, examples: int, steps: int) -> None:
    with _machine(vectors) as machine:
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                suppress_health_check=list(HealthCheck),
            ),
        )


@pytest.mark.parametrize(
    "vectors", ["qdrant-edge:", *(pytest.param(each, marks=pytest.mark.limits) for each in ("memory:", "chroma:"))]
)
def test_a_few_sequences_agree_with_the_model(vectors: str) -> None:
    _run(vectors, examples=3, steps=20)


@pytest.mark.limits
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("vectors", STORES)
def test_two_hundred_sequences_agree_with_the_model(vectors: str) -> None:
    _run(vectors, examples=int(os.environ.get("GROUNDWIRE_TEST_EXAMPLES", "200")), steps=30)
