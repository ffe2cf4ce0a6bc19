"""What the answer service needs from other services and from generators."""

from array import array
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any, ParamSpec, Protocol, TypeAlias, TypeVar

from groundwire.answer.answers import GenerationFailure
from groundwire.answer.evidence import Closest, Passage, Source, Statement, StoredSpan
from groundwire.api.answer.v1 import answer_pb2
from groundwire.api.retrieve.v1.library_service_pb2 import ChunkLocation
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ProfileName

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")
Vector: TypeAlias = "array[float]"
"""Single precision (`array("f")`); as many numbers as the model has dimensions."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search for a question in the context of `context`, if not empty.

    `options` is the caller's message, passed on unread. `chunk_ids`, if given, are the only chunks to return, all of
    them. `places`, if given, are the (document id, chapter) pairs to search in. `summary_of`, if given, requests many
    chunks of this document, or of any if empty, even if they have little to do with the text. `named_like`, if given,
    are patterns of which the source or title must match one. `openings_of`, if given, are the ids of documents whose
    first chunks alone are returned, whatever they say. With a `scope`, its records and global ones are searched too.
    """

    collection: str
    text: str
    options: Any = None
    chunk_ids: tuple[str, ...] = ()
    places: tuple[tuple[str, str], ...] = ()
    context: str = ""
    scope: str = ""
    summary_of: str | None = None
    named_like: tuple[str, ...] = ()
    openings_of: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Retrieval:
    """The passages of a search by rank, and an answer that holds only the report of the search."""

    passages: tuple[Passage, ...]
    report: answer_pb2.Answer


class Retriever(Protocol):
    """Finds passages, within the caller's deadline and until the caller cancels."""

    async def retrieve(self, search: Search) -> Retrieval:
        """Return the passages, best first.

        Raises:
            RetrieverUnavailableError: the retrieve service does not answer.
            ChunkNotFoundError: one of `chunk_ids` is not a live chunk of the collection.
            GroundwireError: whatever the retrieve service answered, with its reason.
        """

    async def retrieve_all(self, searches: Sequence[Search]) -> list[Retrieval]:
        """Return what each search found, in the order given; their texts are embedded together.

        Raises:
            GroundwireError: as `retrieve`, the first error of any of them.
        """

    async def places_of(self, collection: str, selected_text: str, max_query_chars: int) -> tuple[tuple[str, str], ...]:
        """Return the (document id, chapter) pairs of the chunks that a text was selected from; empty if it is nowhere.

        White space is compared as single spaces.

        Raises:
            GroundwireError: as `retrieve`.
        """


class Embeddings(Protocol):
    """Embeds texts for comparison with one another."""

    async def embed(self, queries: Sequence[str], texts: Sequence[str]) -> list[Vector]:
        """Return one vector for each query, then one for each text, of length 1 or of zeros alone.

        Raises:
            RetrieverUnavailableError: the retrieve service does not answer.
            GroundwireError: whatever the retrieve service answered, with its reason.
        """


class GenerationFailedError(Exception):
    """A generator could not begin or finish its draft; the statements it has already yielded remain valid."""

    def __init__(self, failure: GenerationFailure, detail: str) -> None:
        super().__init__(f"{failure.value}: {detail}")
        self.failure = failure


class Generator(Protocol):
    """Writes drafts, which are checked before anyone sees them."""

    @property
    def name(self) -> str:
        """Return the name shown in answers."""

    def draft(
        self, question: str, passages: Sequence[Passage], strictness: float | None = None, context: str = ""
    ) -> AsyncGenerator[Sequence[Statement] | Closest, None]:
        """Yield statements in reading order, in batches as they become ready; none at all is to abstain.

        A generator that abstains may yield what came closest, once and alone.

        `passages` is not empty. `context` are words of the conversation that the question may go on from. `strictness`
        is how sure the generator must be, in [0, 1], where it can tell; None leaves that to it. Closing the iterator
        stops the work. A statement that nothing supports comes without sources.

        Raises:
            GenerationFailedError: at any time.
            OverloadedError: it writes as many drafts as it may.
        """


class Workers(Protocol):
    """Threads for work that would block the event loop."""

    async def run(
        self, budget: Budget, fn: Callable[Params, ResultT], *args: Params.args, **kwargs: Params.kwargs
    ) -> ResultT:
        """Return `fn(*args, **kwargs)`; errors are its own, and those of the budget."""


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


class Library(Protocol):
    """Reads what is stored for the tenant of the current call: sources, and how collections are set up.

    Raises, all of its methods:
        RetrieverUnavailableError: the retrieve service does not answer.
        GroundwireError: whatever the retrieve service answered, with its reason.
    """

    async def stored(self, collection: str, sources: Sequence[Source]) -> list[StoredSpan | None]:
        """Return what is stored at the place each source names, None where there is no such chunk; one batch.

        A chunk is live, or that of an earlier generation, whose text alone is still stored.
        """

    async def document(self, wanted: DocumentGeneration) -> StoredDocument | None:
        """Return a document with its texts, None when the tenant has no such live document in the collection."""

    async def chunk_places(self, named: Sequence[tuple[str, int]]) -> list[ChunkLocation | None]:
        """Return where each live chunk stands, named by id and number; one batch.

        None when there is none, or id and number name different ones. An empty id or a number of 0 is not compared.
        """

    async def live_generations(self, document_ids: Iterable[str]) -> dict[str, int]:
        """Return the live generation of each of the documents that has one."""

    async def purged(self, document_ids: Iterable[str]) -> frozenset[str]:
        """Return those of the documents that were deleted for good and are not there again."""

    async def max_query_chars_of(self, collection: str) -> int:
        """Return the longest query that a collection takes, in code points.

        Raises:
            CollectionNotFoundError: there is no such collection.
        """

    async def profile_of(self, collection: str) -> ProfileName:
        """Return the profile of a collection.

        Raises:
            CollectionNotFoundError: there is no such collection.
        """
