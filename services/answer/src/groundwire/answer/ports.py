"""What the answer service needs from others."""

from collections.abc import AsyncGenerator, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Generic, Protocol, TypeVar

from groundwire.answer.domain.answer import SearchReport
from groundwire.answer.domain.citing import StoredChunkText
from groundwire.answer.domain.draft import Source, Statement
from groundwire.answer.domain.passage import Passage
from groundwire.answer.domain.session import Exchange, Message, Placed, Session, SessionFilter
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.request_key import RequestKey
from groundwire.kernel.spans import Span

T = TypeVar("T")


@dataclass(frozen=True)
class Receipt(Generic[T]):
    """What to remember of a call, in the transaction of its effect, so that a repetition gets the same answer."""

    key: RequestKey
    encode: Callable[[T], bytes]


@dataclass(frozen=True, slots=True)
class Search:
    """A search on behalf of a question.

    `options` is the caller's message, passed on unread. `chunk_ids`, when given, are the only chunks to return,
    all of them. `places`, when given, are the (document id, chapter) pairs to search in.
    """

    collection: str
    text: str
    options: Any = None
    chunk_ids: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieval:
    """What a search found: passages by rank, and its report."""

    passages: tuple[Passage, ...]
    search: SearchReport


class Retriever(Protocol):
    """Finds passages; passes on what is left of the caller's time and the caller's cancellation."""

    async def retrieve(self, search: Search) -> Retrieval:
        """Return the passages, best first.

        Raises:
            RetrieverUnavailableError: the retrieve service does not answer.
            ChunkNotFoundError: one of `chunk_ids` is not a live chunk of the collection.
            GroundwireError: whatever the retrieve service answered, with its reason.
        """
        ...

    async def places_of(self, collection: str, selected_text: str, max_query_chars: int) -> tuple[tuple[str, str], ...]:
        """Return the (document id, chapter) pairs of the chunks that a text was selected from; empty if it is nowhere.

        White space is compared as single spaces.

        Raises:
            GroundwireError: as `retrieve`.
        """
        ...


class Generator(Protocol):
    """Writes drafts; what it hands in is checked before anyone sees it."""

    @property
    def name(self) -> str:
        """Return the name that answers carry."""
        ...

    def draft(self, question: str, passages: Sequence[Passage]) -> AsyncGenerator[Sequence[Statement], None]:
        """Yield statements in reading order, in batches as they become ready; nothing at all is to abstain.

        `passages` is not empty. Closing the iterator stops the work.
        """
        ...


class SourceTexts(Protocol):
    """Reads stored sources."""

    async def stored(self, tenant: str, collection: str, sources: Sequence[Source]) -> list[StoredChunkText | None]:
        """Return what is stored where each source says it stands, None where there is no such live chunk; one batch."""
        ...

    async def document(self, tenant: str, wanted: "DocumentGeneration") -> "StoredDocument | None":
        """Return a document with its texts, None when the tenant has no such live document in the collection."""
        ...

    async def chunk_places(self, tenant: str, named: Sequence[tuple[str, int]]) -> "list[ChunkPlace | None]":
        """Return where each live chunk stands, named by id and number; one batch.

        None when there is none, or id and number name different ones. An empty id or a number of 0 is not compared.
        """
        ...


@dataclass(frozen=True, slots=True)
class DocumentGeneration:
    """Names a generation of a document; an empty `collection` stands for the one that has the document."""

    collection: str
    document_id: str
    generation: int


@dataclass(frozen=True, slots=True)
class StoredDocument:
    """A document with two canonical texts: the one asked for (None when swept or never there) and the live one."""

    live_generation: int
    text: str | None
    live_text: str


@dataclass(frozen=True, slots=True)
class ChunkPlace:
    """Where a chunk stands."""

    document_id: str
    generation: int
    span: Span


class SessionStore(Protocol):
    """Keeps sessions; promises are proven by tests/integration/answer/session_store_contract.py.

    All methods raise SessionNotFoundError for an id the tenant does not have. A session that was idle for too long
    is EXPIRED whoever reads it, and can be read for a while. Methods that take a receipt raise ConflictError when the
    same call was completed meanwhile: `answered` has its answer. No message holds text of a document that was deleted
    for good.
    """

    async def answered(self, tenant: str, key: RequestKey) -> bytes | None:
        """Return the answer of an earlier call, None when the request id is new or older than a day.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
            SessionNotFoundError: the answer told of a session that was deleted since then.
        """
        ...

    async def create(self, tenant: str, session: Session, receipt: Receipt[Session] | None = None) -> Session:
        """Store a new session.

        Raises:
            AlreadyExistsError: the tenant has a session of this id.
        """
        ...

    async def get(self, tenant: str, session_id: str) -> Session:
        """Return a session with the messages of its window, oldest first."""
        ...

    async def page(
        self, tenant: str, wanted: SessionFilter, after: tuple[datetime, str] | None, limit: int
    ) -> list[Session]:
        """Return the first `limit` sessions of those wanted, without messages, behind `after` (last activity, id).

        The most recently active come first, equal ones by falling id.
        """
        ...

    async def messages(self, tenant: str, session_id: str, after: int, limit: int) -> list[Placed]:
        """Return up to `limit` messages behind the place `after`, oldest first, those outside of the window too."""
        ...

    async def exchange(self, tenant: str, session_id: str, message_id: str) -> Exchange | None:
        """Return a message, also one that left the window, with its answer; None when there is none of this id."""
        ...

    async def append(self, tenant: str, session_id: str, expected_head: str, exchange: tuple[Message, Message]) -> None:
        """Add a question and its answer behind `expected_head`, both or none.

        The oldest pair leaves the window first when there is no room.

        Raises:
            SessionExpiredError: it was idle for too long or was ended.
            SessionHeadMovedError: another message is the newest.
            AlreadyExistsError: a message of the session has one of the ids.
        """
        ...

    async def end(self, tenant: str, session_id: str, receipt: Receipt[Session] | None = None) -> Session:
        """End a session and return it without messages; ending it again changes nothing."""
        ...

    async def delete(self, tenant: str, session_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete a session for good; return how many messages went with it."""
        ...

    async def delete_of_user(self, tenant: str, user_id: str, receipt: Receipt[int] | None = None) -> int:
        """Delete all sessions of a user for good; return how many there were."""
        ...


class CollectionDirectory(Protocol):
    """Knows which collections there are."""

    async def max_query_chars_of(self, tenant: str, collection: str) -> int:
        """Return the longest query that a collection takes, in code points.

        Raises:
            CollectionNotFoundError: there is no such collection.
        """
        ...

    async def profile_of(self, tenant: str, collection: str) -> ProfileName:
        """Return the profile of a collection.

        Raises:
            CollectionNotFoundError: there is no such collection.
        """
        ...
