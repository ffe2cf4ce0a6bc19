"""The VectorStore port: what every engine promises, proven by tests/conformance/vector_store.py."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple, Protocol, runtime_checkable

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Filter, Payload


@dataclass(frozen=True, slots=True)
class PointBatch:
    """Points to write, column by column; row i of every column is one point.

    `numbers` are chunk numbers (1 <= n < 2^53), unique in the batch; `vectors` is float32 of shape
    (len(numbers), dimensions), finite, rows L2-normalised; `payloads` hold the filter keys only.
    """

    numbers: Sequence[int]
    vectors: Vectors
    payloads: Sequence[Payload]


class ScoredPoint(NamedTuple):
    """A point and its similarity to the query: max(0, cosine), in [0, 1], higher is better."""

    number: int
    similarity: float


class VectorStore(Protocol):
    """Nearest-neighbour search over named collections of points; one metric: cosine.

    Blocking and safe to call from many threads. `collection` is an engine name: 3 to 63 characters
    of `[a-z0-9_-]`, first and last alphanumeric. All methods but `create_collection` and
    `drop_collection` raise CollectionNotFoundError for an unknown one. Vendor errors leave as
    StoreUnavailableError.

    Every method but `close` waits no longer than its budget lasts, also for an engine that hangs, and raises
    DeadlineError or CallCancelledError then; whether a write was done is unknown. Engines have limits of their own
    besides, so that a budget without a deadline ends as well, in StoreUnavailableError.
    """

    def create_collection(self, collection: str, dimensions: int, budget: Budget) -> None:
        """Make a collection; the same call again changes nothing.

        Raises:
            StoreMismatchError: it exists with other dimensions or another metric.
        """

    def drop_collection(self, collection: str, budget: Budget) -> None:
        """Remove a collection and its points; unknown ones are ignored."""

    def collections(self, budget: Budget) -> list[str]:
        """Return the names of all collections, sorted."""

    def upsert(self, collection: str, points: PointBatch, budget: Budget) -> None:
        """Insert or replace points; when it returns they survive a power cut and are found by `search`.

        Any batch size is accepted. A failure may leave some points of the batch written.

        Raises:
            DimensionMismatchError: the vectors have another length; nothing is written.
        """

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        """Remove points; unknown numbers are ignored. Durable when it returns."""

    def search(
        self,
        collection: str,
        vector: Vectors,
        limit: int,
        budget: Budget,
        *,
        where: Filter | None = None,
        within: Sequence[int] | None = None,
    ) -> list[ScoredPoint]:
        """Return the `limit` most similar points, best first, equal similarities by number.

        Args:
            collection: engine name.
            vector: float32, shape (dimensions,), not necessarily normalised.
            limit: at least 1.
            budget: of the call.
            where: keeps only points whose payload matches (semantics: `groundwire.kernel.filters`).
            within: keeps only these numbers; empty means no result. Combined with `where` by AND.

        Raises:
            DimensionMismatchError: the vector has another length.
            UnsupportedFilterError: the engine cannot evaluate a clause of `where`; resolve it elsewhere
                and pass `within`.
        """

    def fetch(self, collection: str, numbers: Sequence[int], budget: Budget) -> PointBatch:
        """Return those of the points that exist, by number, as the engine holds them.

        Made for checks, so nothing is left out or repaired on the way: a damaged vector comes back damaged. Vectors
        may have been brought to length 1; payloads are such that `same_filter_keys` of `groundwire.kernel.chunk`
        holds between what was written and what is returned.
        """

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending; a concurrent write may or may not appear."""

    def count(self, collection: str, budget: Budget) -> int:
        """Return the exact number of points."""

    def check_responding(self) -> None:
        """Return if the engine answers; takes nothing that calls wait for.

        Engines of this machine are judged by what is known, without waiting. Servers are asked, which may take as
        long as one request may.

        Raises:
            StoreUnavailableError: it has ended, or has not answered for some seconds; says which.
        """

    def close(self) -> None:
        """Flush and release the engine, within its own time limit; idempotent."""


@runtime_checkable
class FiltersByIndex(Protocol):
    """An engine whose filters use indexes, so that a filtered search costs about as much as another.

    Searches in other engines get their filters resolved elsewhere, and so do those in collections without indexes.
    """

    def filters_by_index(self, collection: str) -> bool:
        """Tell whether that holds for a collection now, by what is known of it: indexes may still have to be built."""


@runtime_checkable
class Rebuildable(Protocol):
    """An engine whose index goes stale under writes and can be rebuilt beside the serving one (design D9b)."""

    rebuilt_above: int
    """Collections of up to so many points never need it."""

    def needs_rebuild(self, collection: str, budget: Budget) -> bool:
        """Tell whether enough points lie outside the index to make a rebuild worthwhile."""

    def rebuild(self, collection: str, points: Callable[[], Iterable[PointBatch]], budget: Budget) -> None:
        """Build an indexed copy in another process and swap to it; searches and writes go on meanwhile.

        `points` yields every live point, from the catalog. Writes made during the build are applied
        to the copy before the swap. Killing the process at any moment leaves either the old or the
        new copy, whole.

        Raises:
            CallCancelledError: the budget was cancelled or the store closed; the old copy goes on serving.
            DeadlineError: the deadline of the budget passed; the old copy goes on serving.
            CollectionNotFoundError: the collection was dropped, before or meanwhile.
            StoreUnavailableError: an engine failed; the old copy goes on serving.
        """


@runtime_checkable
class Recoverable(VectorStore, Protocol):
    """An engine that notices when its files are damaged or behind, and is brought up to the catalog then."""

    def unverified(self) -> list[str]:
        """Return the collections, sorted, whose points may not be those that were acknowledged.

        Nobody closed them, so they are searched but should be compared with the catalog; or their files are damaged
        or gone. A collection that had to be made anew takes writes, and `fetch`, `numbers` and `count` tell what is
        there, but `search` raises StoreUnavailableError until `mark_verified`: it would miss what is not there yet.
        """

    def distrust(self, collections: Iterable[str]) -> None:
        """Add collections to the unverified, even those that do not exist."""

    def mark_verified(self, collection: str, budget: Budget) -> None:
        """Take note that the points of a collection are those of the catalog, or that nobody needs it any more."""


@runtime_checkable
class Scrubbable(VectorStore, Protocol):
    """An engine whose files keep removed points until they are rewritten."""

    def scrub(self, collection: str, budget: Budget, *, at_any_size: bool = False) -> bool:
        """Leave nothing in the files of what was removed from a collection before; unknown collections are clean.

        Searches go on. Writes wait for a second at most, with `at_any_size` for parts of it.

        Returns:
            Whether that was done. Without `at_any_size` it is false for a collection that is too large to be written
            anew within a call.

        Raises:
            DeadlineError: it takes longer than the budget lasts; what was removed may still be in the files.
            StoreUnavailableError: the engine failed.
        """
