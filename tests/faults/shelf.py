"""What one client of the kill test knows about its documents: what was acknowledged, and what may have happened."""

import random
import uuid
from collections.abc import Callable
from dataclasses import dataclass, field, replace

from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import document_pb2, search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import DeadlineError, DocumentNotFoundError, UnavailableError
from tests.stubs import by_id, by_source

COLLECTION = "killed"
SOURCES = 12
_WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read
_RETRIED_SHARE = 0.6


@dataclass(frozen=True)
class State:
    """A document as it may be: absent (no text), visible, or deleted softly. `marker` is a word of this text alone."""

    text: str = ""
    title: str = ""
    marker: str = ""
    is_deleted: bool = False

    @property
    def is_visible(self) -> bool:
        return bool(self.text) and not self.is_deleted


@dataclass
class Operation:
    """A change that was sent: what it makes of a document, and how to send it again."""

    name: str
    after: State
    send: Callable[[GroundwireClient], object]


@dataclass
class Shelf:
    """The documents of one client. A source has several possible states while the outcome of a change is unknown."""

    worker: int
    chance: random.Random
    possible: dict[str, set[State]] = field(default_factory=dict)
    ids: dict[str, str] = field(default_factory=dict)
    unfinished: dict[str, Operation] = field(default_factory=dict)
    gone_markers: list[str] = field(default_factory=list)
    acknowledged: int = 0
    unknown: int = 0
    failures: list[str] = field(default_factory=list)

    def step(self, client: GroundwireClient) -> None:
        """Make one change, or repeat one whose outcome is unknown."""
        source = f"w{self.worker}/{self.chance.randrange(SOURCES)}.md"
        if source in self.unfinished:
            if self.chance.random() < _RETRIED_SHARE:
                self._send(client, source, self.unfinished[source])
                return
            self.verify(client, source)
        states = self.possible.setdefault(source, {State()})
        if len(states) == 1:
            (state,) = states
            self._send(client, source, self._choose(source, state))

    def verify(self, client: GroundwireClient, source: str) -> None:
        """Compare what the server shows with what may be; afterwards only what was seen is possible."""
        seen = self._seen(client, source)
        states = self.possible.get(source, {State()})
        if seen is None:
            matching = {state for state in states if not state.is_visible}
        else:
            matching = {state for state in states if state.is_visible and (state.text, state.title) == seen}
        if not matching:
            said = "nothing" if seen is None else f"{len(seen[0])} characters, title {seen[1]!r}"
            expected = [(len(state.text), state.title, state.is_deleted) for state in states]
            self.failures.append(f"{source}: the server shows {said}, possible are {expected}")
            return
        for lost in states - matching:
            self._forget(lost, matching)
        self.possible[source] = matching
        if len(matching) == 1:
            self.unfinished.pop(source, None)

    def verify_all(self, client: GroundwireClient) -> None:
        for source in list(self.possible):
            self.verify(client, source)
        for marker in self.chance.sample(self.gone_markers, min(5, len(self.gone_markers))):
            found = client.retrieve(
                collection=COLLECTION,
                query=marker,
                options=RetrievalOptions(mode=search_mode_pb2.SEARCH_MODE_LEXICAL, top_k=1),
            )
            if any(marker in hit.chunk.content for hit in found.results):
                self.failures.append(f"{marker}: a text that was replaced or deleted is found")

    def visible(self) -> dict[str, State]:
        """Return the sources that must be visible; all outcomes are known."""
        return {
            source: next(iter(states))
            for source, states in self.possible.items()
            if all(state.is_visible for state in states)
        }

    def _send(self, client: GroundwireClient, source: str, operation: Operation) -> None:
        self.possible[source] = self.possible[source] | {operation.after}
        self.unfinished[source] = operation
        try:
            operation.send(client)
        except (UnavailableError, DeadlineError):
            self.unknown += 1
            return
        except DocumentNotFoundError:
            # A repetition without a remembered answer: the first attempt may have deleted it.
            self.verify(client, source)
            return
        self.acknowledged += 1
        for lost in self.possible[source] - {operation.after}:
            self._forget(lost, {operation.after})
        self.possible[source] = {operation.after}
        del self.unfinished[source]

    def _forget(self, lost: State, left: set[State]) -> None:
        if lost.marker and lost.marker not in {state.marker for state in left if state.is_visible}:
            self.gone_markers = [*self.gone_markers[-200:], lost.marker]
        hidden = {state.marker for state in left if state.is_visible}
        self.gone_markers = [marker for marker in self.gone_markers if marker not in hidden]

    def _seen(self, client: GroundwireClient, source: str) -> tuple[str, str] | None:
        try:
            found = client.get_document(collection=COLLECTION, reference=by_source(source), include_text=True)
        except DocumentNotFoundError:
            return None
        self.ids[source] = found.document.document_id
        return found.text, found.document.fields.title

    def _choose(self, source: str, state: State) -> Operation:
        if state.is_deleted:
            return self._restore(source, state)
        if not state.text:
            return self._ingest(source, state)
        makers = [self._ingest, self._ingest, self._retitle, self._delete, self._delete_for_good]
        return self.chance.choice(makers)(source, state)

    def _ingest(self, source: str, _: State) -> Operation:
        marker = f"marker{uuid.UUID(int=self.chance.getrandbits(128)).hex}"
        words = self.chance.choices(_WORDS, k=int(2 ** self.chance.uniform(1, 14)))
        paragraphs = [" ".join(words[start : start + 120]) for start in range(0, len(words), 120)]
        text = f"# {marker}\n\n" + f"\n\n{marker} ".join(paragraphs) + ".\n"
        request = pb.IngestDocumentRequest(
            collection=COLLECTION,
            source_uri=source,
            text=text,
            fields=document_pb2.DocumentFields(title=marker),
            request_id=self._request_id(),
        )

        def send(client: GroundwireClient) -> None:
            self.ids[source] = client.ingest_document.send(request, timeout_s=30).result.document.document_id

        return Operation("ingest", State(text, marker, marker), send)

    def _retitle(self, source: str, state: State) -> Operation:
        title = f"title {self.chance.getrandbits(64)}"
        request = pb.UpdateDocumentRequest(
            collection=COLLECTION,
            reference=by_id(self.ids[source]),
            document=document_pb2.Document(fields=document_pb2.DocumentFields(title=title)),
            update_mask=FieldMask(paths=["fields.title"]),
            request_id=self._request_id(),
        )
        return Operation(
            "update", replace(state, title=title), lambda client: client.update_document.send(request, timeout_s=30)
        )

    def _delete(self, source: str, state: State) -> Operation:
        return self._deletion(source, replace(state, is_deleted=True), permanent=False)

    def _delete_for_good(self, source: str, _: State) -> Operation:
        return self._deletion(source, State(), permanent=True)

    def _deletion(self, source: str, after: State, *, permanent: bool) -> Operation:
        request = pb.DeleteDocumentRequest(
            collection=COLLECTION,
            reference=by_id(self.ids[source]),
            purge=permanent,
            request_id=self._request_id(),
        )
        return Operation("delete", after, lambda client: client.delete_document.send(request, timeout_s=30))

    def _restore(self, source: str, state: State) -> Operation:
        request = pb.RestoreDocumentRequest(
            collection=COLLECTION, reference=by_id(self.ids[source]), request_id=self._request_id()
        )
        after = replace(state, is_deleted=False)
        return Operation("restore", after, lambda client: client.restore_document.send(request, timeout_s=30))

    def _request_id(self) -> str:
        return str(uuid.UUID(int=self.chance.getrandbits(128), version=4))
