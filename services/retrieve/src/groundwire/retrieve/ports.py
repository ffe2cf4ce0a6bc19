"""What a search needs from the catalog; `groundwire.catalog` fits these as it is."""

from collections.abc import Mapping, Sequence
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filter_fields import FieldKind
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk

Numbers: TypeAlias = NDArray[np.int64]
"""Chunk numbers."""


class LexicalMatches(Protocol):
    """Chunks that contain at least one of the terms, best first, ties by number; column by column."""

    @property
    def numbers(self) -> Numbers:
        """Return the chunk numbers."""
        ...

    @property
    def scores(self) -> NDArray[np.float64]:
        """Return the BM25 scores: positive, higher is better, comparable within one query only."""
        ...


class SearchView(Protocol):
    """One collection as of one position of the catalog, the latest or an earlier one; safe to share by threads.

    Holds nothing between two calls of its methods.
    """

    @property
    def collection(self) -> Collection:
        """Return the collection."""
        ...

    @property
    def position(self) -> int:
        """Return the position of the catalog that is read."""
        ...

    @property
    def changed_position(self) -> int:
        """Return the position at which the collection last changed; equal ones mean equal contents."""
        ...

    @property
    def snapshot(self) -> int | None:
        """Return the earlier position that is read, None for now."""
        ...

    @property
    def has_lost_history(self) -> bool:
        """Return whether something was deleted or overwritten for good, so that reads may disagree."""
        ...

    def engine_keeps_up(self) -> bool:
        """Tell whether the engine, which has just finished a search, filtered by what this view says."""
        ...

    def chunk_count(self) -> int:
        """Return the number of live chunks of the collection."""
        ...

    def fields(self) -> Mapping[str, FieldKind]:
        """Return the metadata fields that documents of the collection brought along."""
        ...

    def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the number of live chunks that contain each term or phrase, 0 for none."""
        ...

    def lexical(self, terms: Sequence[str], phrases: Sequence[str], limit: int) -> LexicalMatches:
        """Return the best chunks that contain any term or phrase."""
        ...

    def matching(self, where: Filter | None) -> Numbers:
        """Return the numbers of the visible chunks whose payload matches, ascending; all of them for None."""
        ...

    def among(self, where: Filter | None, numbers: Sequence[int]) -> set[int]:
        """Return those of the chunks that are visible and match."""
        ...

    def estimated_share(self, where: Filter) -> float:
        """Return the share of live chunks that match, in [0, 1], as judged by a sample."""
        ...

    def superseded(self, where: Filter | None) -> Numbers:
        """Return the numbers of the matching chunks that are visible here and not live now."""
        ...

    def chunks(self, numbers: Sequence[int], where: Filter | None = None) -> Mapping[int, StoredChunk]:
        """Return those of the chunks, found to match `where`, that are visible, by number, in the order given."""
        ...

    def vectors(self, numbers: Sequence[int] | Numbers) -> tuple[Numbers, Vectors]:
        """Return the stored vectors of those chunks that have one: numbers, float32 of shape (found, dimensions)."""
        ...


class ViewOpener(Protocol):
    """Opens views of collections."""

    def open(self, tenant: str, name: str, snapshot: int | None = None) -> SearchView:
        """Return a view of a collection as it is now, or was at a position.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
            SnapshotExpiredError: what was visible at `snapshot` is not all kept any more.
            InvalidRequestError: `snapshot` is ahead of the catalog.
        """
        ...


class Reranker(Protocol):
    """Reads query and passage together and judges them; slow and better than any score of one retriever."""

    @property
    def name(self) -> str:
        """Return the name of the model."""
        ...

    def score(self, query: str, passages: Sequence[str], budget: Budget) -> Sequence[float]:
        """Return one score for each passage: higher is better, finite, comparable for one query.

        Raises:
            CallCancelledError: the call was cancelled first.
            DeadlineError: the deadline passed first.
        """
        ...
