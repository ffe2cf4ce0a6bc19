"""What a search needs from the catalog; `groundwire.catalog` fits these as it is."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from groundwire.kernel.collection import Collection
from groundwire.kernel.filter_fields import FieldKind
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk


class CollectionReader(Protocol):
    """Finds collections."""

    def get(self, tenant: str, name: str) -> Collection:
        """Return a collection.

        Raises:
            CollectionNotFoundError: the tenant has none of this name.
        """
        ...


class ChunkReader(Protocol):
    """Reads chunks of live generations."""

    def live(self, tenant: str, collection: str, numbers: Sequence[int]) -> Mapping[int, StoredChunk]:
        """Return those of the chunks that are live, by number, in one query."""
        ...

    def matching(self, tenant: str, collection: str, where: Filter, limit: int | None) -> Sequence[int]:
        """Return the numbers of live chunks whose payload matches a filter, at most `limit`."""
        ...

    def fields(self, tenant: str, collection: str) -> Mapping[str, FieldKind]:
        """Return the metadata fields that documents of the collection brought along."""
        ...


class LexicalMatch(Protocol):
    """A chunk that contains at least one of the terms."""

    @property
    def number(self) -> int:
        """Return the chunk number."""
        ...

    @property
    def score(self) -> float:
        """Return the BM25 score: positive, higher is better, comparable within one query only."""
        ...


class LexicalIndex(Protocol):
    """Finds live chunks by their words."""

    def search(
        self,
        tenant: str,
        collection: str,
        terms: Sequence[str],
        phrases: Sequence[str],
        limit: int,
        where: Filter | None,
    ) -> Sequence[LexicalMatch]:
        """Return the best chunks that contain any term or phrase and match the filter, best first."""
        ...

    def document_frequencies(self, tenant: str, collection: str, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the number of chunks that contain each term, 0 for none."""
        ...

    def live_chunks(self, tenant: str, collection: str) -> int:
        """Return the number of live chunks of a collection."""
        ...
