"""Read collections with their figures."""

from contextlib import suppress
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError


@dataclass(frozen=True, slots=True)
class CollectionFigures:
    """A collection and how much of what is live in it."""

    collection: Collection
    documents: int = 0
    chunks: int = 0
    total_chars: int = 0


@dataclass(frozen=True, slots=True)
class CollectionPage:
    """Collections by name, and where the next page begins; None on the last page."""

    items: tuple[CollectionFigures, ...]
    next_position: tuple[str | int, ...] | None


def figures_of(collections: Collections, collection: Collection) -> CollectionFigures:
    """Return a collection with its figures.

    Raises:
        CollectionNotFoundError: it was deleted meanwhile.
    """
    counts = collections.counts(collection.tenant, collection.name)
    return CollectionFigures(collection, counts.documents, counts.chunks, counts.total_chars)


@dataclass(frozen=True, slots=True)
class GetCollection:
    """Returns one collection."""

    collections: Collections

    def __call__(self, tenant: str, name: str) -> CollectionFigures:
        """Return the collection.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        return figures_of(self.collections, self.collections.get(tenant, name))


@dataclass(frozen=True, slots=True)
class ListCollections:
    """Returns collections page by page."""

    collections: Collections

    def __call__(self, tenant: str, after_name: str, limit: int) -> CollectionPage:
        """Return up to `limit` collections with names above `after_name`, by name."""
        rows = self.collections.page(tenant, after_name, limit + 1)
        found = []
        for each in rows[:limit]:
            with suppress(CollectionNotFoundError):  # deleted meanwhile
                found.append(figures_of(self.collections, each))
        return CollectionPage(tuple(found), (rows[limit - 1].name,) if len(rows) > limit else None)
