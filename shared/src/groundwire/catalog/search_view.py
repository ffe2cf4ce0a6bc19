"""What a search reads of a collection, all of it on one snapshot of the catalog."""

import json
import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import wraps
from typing import Concatenate, ParamSpec, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, func, select, text

from groundwire.catalog.chunk_rows import to_stored_chunk
from groundwire.catalog.chunks import live_chunks
from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.database import Database
from groundwire.catalog.engine_rewrites import EngineRewrites
from groundwire.catalog.full_text import FullText, LexicalMatches, live_part, superseded_part
from groundwire.catalog.metadata_fields import metadata_fields
from groundwire.catalog.snapshots import check_snapshot, oldest_snapshot
from groundwire.catalog.superseded_rows import select_chunks_then
from groundwire.catalog.tables import chunks, collections, documents
from groundwire.catalog.view_filters import estimated_share, matching_among, matching_numbers, superseded_numbers
from groundwire.catalog.view_vectors import vectors_of
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.filter_fields import FieldKind
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk

Params = ParamSpec("Params")
ResultT = TypeVar("ResultT")
Numbers = NDArray[np.int64]
_CACHED_FIGURES = 1000
_FURTHER = 4
"""How much further words are followed when too few chunks were visible at the snapshot."""
_FIND = text(
    """
    SELECT collection_key, changed_position, readable_from,
        (SELECT value FROM counters WHERE name = 'position') AS position
    FROM collections WHERE tenant = :tenant AND name = :name
    """
)


def _by_turns(
    method: Callable[Concatenate["SearchView", Params], ResultT],
) -> Callable[Concatenate["SearchView", Params], ResultT]:
    """Let one thread at a time use the connection of a view."""

    @wraps(method)
    def by_turns(self: "SearchView", /, *args: Params.args, **kwargs: Params.kwargs) -> ResultT:
        with self.turn:
            return method(self, *args, **kwargs)

    return by_turns


@dataclass(frozen=True, slots=True)
class _Figures:
    """What is remembered of a collection until it changes."""

    chunk_count: BoundedCache[tuple[int, int], int]
    fields: BoundedCache[tuple[int, int], Mapping[str, FieldKind]]
    collections: BoundedCache[tuple[int, int], Collection]


class SearchViews:
    """Opens views; safe to use from many threads."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()
        self._full_text = FullText()
        self._figures = _Figures(*(BoundedCache(_CACHED_FIGURES) for _ in range(3)))

    @contextmanager
    def open(self, tenant: str, name: str, snapshot: int | None = None) -> Iterator["SearchView"]:
        """Give a view of a collection as it is now, or was at a position.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
            SnapshotExpiredError: what was visible at `snapshot` is not all kept any more.
            InvalidRequestError: `snapshot` is ahead of the catalog.
        """
        with self._database.read() as connection:
            row = connection.execute(_FIND, {"tenant": tenant, "name": name}).one_or_none()
            if row is None:
                raise CollectionNotFoundError(name)
            key, changed, readable_from, position = row
            collection = self._collection(connection, key, changed)
            if snapshot is not None:
                oldest = oldest_snapshot(connection, key, readable_from, collection, self._clock.now())
                check_snapshot(snapshot, oldest, position)
            rewrites = EngineRewrites(self._database, connection, collection.engine_name, key, position)
            places = (position, changed)
            yield SearchView(connection, collection, key, places, snapshot, self._full_text, self._figures, rewrites)

    def _collection(self, connection: Connection, key: int, changed: int) -> Collection:
        """Return the collection; every change of its settings moves the position at which it changed."""
        known = self._figures.collections.get((key, changed))
        if known is None:
            row = connection.execute(select(collections).where(collections.c.collection_key == key)).mappings().one()
            known = to_collection(row)
            self._figures.collections.put((key, changed), known)
        return known


class SearchView:
    """One collection at one moment; threads that share it take turns.

    Attributes:
        collection: the collection.
        position: position of the catalog that is read.
        changed_position: position at which the collection last changed; equal ones mean equal contents.
        snapshot: the earlier position that is read, None for now.
        turn: held while the catalog is read.
    """

    def __init__(
        self,
        connection: Connection,
        collection: Collection,
        key: int,
        positions: tuple[int, int],
        snapshot: int | None,
        full_text: FullText,
        figures: _Figures,
        rewrites: EngineRewrites,
    ) -> None:
        self.collection = collection
        self.position = positions[0] if snapshot is None else snapshot
        self.changed_position = positions[1]
        self.snapshot = None if snapshot is None or snapshot >= positions[1] else snapshot
        self.turn = threading.RLock()
        self._connection = connection
        self._key = key
        self._full_text = full_text
        self._figures = figures
        self._rewrites = rewrites

    @_by_turns
    def engine_keeps_up(self) -> bool:
        """Tell whether the engine, which has just finished a search, filtered by what this view says."""
        return not self._rewrites.may_show()

    @_by_turns
    def chunk_count(self) -> int:
        """Return the number of live chunks, what document frequencies are shares of."""
        known = self._figures.chunk_count.get((self._key, self.changed_position))
        if known is None:
            counted = select(func.coalesce(func.sum(documents.c.chunk_count), 0)).where(
                documents.c.collection_key == self._key, documents.c.live_generation > 0
            )
            known = int(self._connection.execute(counted).scalar_one())
            self._figures.chunk_count.put((self._key, self.changed_position), known)
        return known

    @_by_turns
    def fields(self) -> Mapping[str, FieldKind]:
        """Return the metadata fields that visible documents brought along, with what they hold."""
        known = self._figures.fields.get((self._key, self.changed_position))
        if known is None:
            known = metadata_fields(self._connection, self._key)
            self._figures.fields.put((self._key, self.changed_position), known)
        return known

    @_by_turns
    def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the number of live chunks that contain each term or phrase, 0 for none."""
        part = live_part(self._key)
        return self._full_text.frequencies(self._connection, part, self.changed_position, terms)

    @_by_turns
    def lexical(self, terms: Sequence[str], phrases: Sequence[str], limit: int) -> LexicalMatches:
        """Return the best chunks that contain any term or phrase, best first, ties by number."""
        if self.snapshot is None:
            return self._full_text.search(self._connection, live_part(self._key), terms, phrases, limit)
        asked = limit
        while True:
            parts = [
                self._full_text.search(self._connection, part(self._key), terms, phrases, asked)
                for part in (live_part, superseded_part)
            ]
            visible = self._visible(parts)
            if len(visible.numbers) >= limit or all(len(part.numbers) < asked for part in parts):
                return LexicalMatches(visible.numbers[:limit], visible.scores[:limit])
            asked *= _FURTHER

    def _visible(self, parts: Sequence[LexicalMatches]) -> LexicalMatches:
        numbers = np.concatenate([part.numbers for part in parts])
        scores = np.concatenate([part.scores for part in parts])
        kept = np.isin(numbers, list(self.among(None, numbers.tolist())))
        order = np.lexsort((numbers[kept], -scores[kept]))
        return LexicalMatches(numbers[kept][order], scores[kept][order])

    @_by_turns
    def matching(self, where: Filter | None) -> Numbers:
        """Return the numbers of the visible chunks whose payload matches, ascending; all of them for None."""
        return matching_numbers(self._connection, self._key, where, self.snapshot)

    @_by_turns
    def among(self, where: Filter | None, numbers: Sequence[int]) -> set[int]:
        """Return those of the chunks that are visible and match."""
        return matching_among(self._connection, self._key, where, self.snapshot, numbers)

    @_by_turns
    def estimated_share(self, where: Filter) -> float:
        """Return the share of live chunks that match, in [0, 1], of a sample of them."""
        return estimated_share(self._connection, live_part(self._key), where)

    @_by_turns
    def superseded(self, where: Filter | None) -> Numbers:
        """Return the numbers of the matching chunks that were visible at the snapshot and are not live now."""
        empty = np.zeros(0, dtype=np.int64)
        return empty if self.snapshot is None else superseded_numbers(self._connection, self._key, where, self.snapshot)

    @_by_turns
    def chunks(self, numbers: Sequence[int]) -> Mapping[int, StoredChunk]:
        """Return those of the chunks that are visible, by number, in the order given; one query."""
        if self.snapshot is None:
            return live_chunks(self._connection, self.collection.tenant, self.collection.name, numbers)
        given = func.json_each(json.dumps(sorted(self.among(None, numbers)))).table_valued("value").c.value
        statement = select_chunks_then(chunks.c.chunk_number.in_(select(given)))
        seen: dict[int, Document] = {}
        found = {row[0]: to_stored_chunk(row, seen) for row in self._connection.execute(statement)}
        return {number: found[number] for number in numbers if number in found}

    @_by_turns
    def vectors(self, numbers: Sequence[int] | Numbers) -> tuple[Numbers, Vectors]:
        """Return the stored vectors of those chunks that have one: numbers, float32 of shape (found, dimensions)."""
        return vectors_of(self._connection, self.collection.identity, numbers)
