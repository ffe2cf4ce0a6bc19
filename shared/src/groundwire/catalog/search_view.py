"""What a search reads of a collection: many short reads that agree with one another."""

import threading
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import (
    ColumnElement,
    Select,
    Text,
    and_,
    bindparam,
    func,
    literal_column,
    select,
    text,
    true,
    union_all,
)

from groundwire.catalog.chunks import (
    DOCUMENTS_BY_KEY,
    FACTS_NOW,
    LIVE_CHUNKS,
    ChunkFacts,
    facts_then,
    to_facts,
)
from groundwire.catalog.database import Database
from groundwire.catalog.dialects import among, array_in, array_of, driver_rows, execute, read_array, read_compiled
from groundwire.catalog.encoding import decode_json, encode_json
from groundwire.catalog.filters import Scopes, chunks_matching, in_scopes, scope_filter, to_sql
from groundwire.catalog.generations import check_snapshot, oldest_snapshot
from groundwire.catalog.lexical_search import LexicalMatches, LexicalSearch, Reading, live_numbers
from groundwire.catalog.rows import (
    DOCUMENT_KEY_AT,
    IS_INDEXED,
    IS_LIVE,
    IS_VISIBLE,
    GenerationState,
    select_chunks_then,
    to_collection,
    to_document,
    to_stored_chunk,
    to_stored_chunks,
    visible_at,
    visible_generation_keys,
)
from groundwire.catalog.schema import chunks, collections, documents, generations, record_links, records
from groundwire.catalog.vectors import RecentVectors, unit_vectors_of
from groundwire.catalog.vocabularies import metadata_fields
from groundwire.kernel.bounded_cache import BoundedCache, bytes_of
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.filters import FieldKind, Filter
from groundwire.kernel.records import SOURCE_PREFIX, RecordFacts, TurnPlace

RememberedT = TypeVar("RememberedT")

Numbers = NDArray[np.int64]
_CACHED_FIGURES = 1000
# The size of a cache entry besides its texts: its objects, its key and its slot in the cache.
_FACTS_BYTES, _CHUNK_BYTES, _RECORD_BYTES, _TYPE_BYTES = 400, 2500, 500, 150
# Of the numbers of chunks in scopes that are remembered.
_SCOPES_BYTES = 32 << 20
# Chunks that an estimate looks at: two standard errors are 4 % of all chunks at most, and 0.8 % at a share of 1 %.
_SAMPLE = 600
# More vectors than this are for a comparison with all, which has a cache of its own.
_FEW = 1000
_FIND = text(
    """
    SELECT collection_key, changed_position, readable_from,
        (SELECT value FROM counters WHERE name = 'position') AS position,
        EXISTS (SELECT 1 FROM outbox WHERE outbox.engine_name = collections.engine_name AND kind = 'match_points')
    FROM collections WHERE tenant = :tenant AND name = :name
    """
)
_RECORDS = (
    select(
        array_of(
            chunks.c.chunk_number,
            *(records.c.record_type, records.c.importance, records.c.time),
            *(records.c.conversation_id, records.c.turn_index, records.c.role),
        )
    )
    .join_from(chunks, records, chunks.c.document_key == records.c.document_key)
    .where(among(chunks.c.chunk_number, bindparam("numbers")))
)
_NO_RECORD = RecordFacts("", None, 0)
# Written out, as the condition of the partial index has it.
_IS_VISIBLE = documents.c.live_generation > literal_column("0")
# The first text behind all sources of records.
_BEHIND_RECORDS = SOURCE_PREFIX[:-1] + chr(ord(SOURCE_PREFIX[-1]) + 1)
OF_TYPE = (
    select(records.c.document_key)
    .where(records.c.collection_key == bindparam("key"), records.c.record_type == bindparam("type"))
    .limit(bindparam("most"))
)
_VISIBLE_KEYS = select(documents.c.document_key).where(documents.c.collection_key == bindparam("key"), _IS_VISIBLE)
# Apart, since an index is read for one range of sources at a time.
OF_NO_TYPE = union_all(
    _VISIBLE_KEYS.where(documents.c.source_path < SOURCE_PREFIX),
    _VISIBLE_KEYS.where(documents.c.source_path >= _BEHIND_RECORDS),
).limit(bindparam("most"))


def _newest(*conditions: ColumnElement[bool]) -> Select[Any]:
    """Return the statement for the numbers of the chunks of records of a type in a conversation, newest first."""
    # As a sum, so that no planner reads the whole collection by its index of times to spare the sorting of one
    # conversation: 16 ms for an early one among 50,000 records.
    time = records.c.time + 0
    newest_first = (time.desc(), records.c.turn_index.desc(), records.c.role, records.c.document_key.desc())
    ordered = (
        select(chunks.c.chunk_number)
        .join_from(records, chunks, chunks.c.document_key == records.c.document_key)
        .join(generations)
        .where(
            records.c.collection_key == bindparam("key"),
            records.c.conversation_id == bindparam("conversation"),
            records.c.record_type == bindparam("type"),
            *conditions,
        )
        .order_by(*newest_first)
        .limit(bindparam("most"))
    )
    return select(array_in(ordered, Text()))


_NEWEST = _newest(IS_LIVE)
_NEWEST_IN_SCOPES = _newest(IS_LIVE, among(records.c.scope, bindparam("scopes")))
_one, _other, _link = chunks.alias("one"), chunks.alias("other"), record_links.c
_pairs = union_all(
    # A contradiction is mutual, whichever record stores it.
    *(
        select(_one.c.chunk_number.label("one"), _other.c.chunk_number.label("other"))
        .join_from(record_links, _one, _one.c.document_key == near)
        .join(_other, _other.c.document_key == far)
        .where(
            _link.kind.in_((literal_column("'contradicts'"), literal_column("'suggested_contradicts'"))),
            among(_one.c.chunk_number, bindparam("numbers")),
        )
        for near, far in ((_link.document_key, _link.target_key), (_link.target_key, _link.document_key))
    )
).subquery()
_CONTRADICTIONS = select(array_of(_pairs.c.one, _pairs.c.other))
_STATE = "SELECT changed_position, readable_from, rewritten_position FROM collections WHERE collection_key = ?"


@dataclass(frozen=True, slots=True)
class _Opened:
    """What a view begins with: a collection at a position of the catalog, where its engine had caught up."""

    collection: Collection
    key: int
    position: int
    changed: int


class _Caches:
    """What is remembered of collections until they change; vectors and types of records, which never do, for longer."""

    def __init__(self, most_bytes: int) -> None:
        part = most_bytes // 16
        self.opened: BoundedCache[tuple[str, str], _Opened] = BoundedCache(_CACHED_FIGURES)
        self.chunk_count: BoundedCache[tuple[int, int], int] = BoundedCache(_CACHED_FIGURES)
        self.fields: BoundedCache[tuple[int, int, Scopes | None], Mapping[str, FieldKind]]
        self.fields = BoundedCache(_CACHED_FIGURES)
        self.collections: BoundedCache[tuple[int, int], Collection] = BoundedCache(_CACHED_FIGURES)
        self.words = LexicalSearch(part)
        self.records: BoundedCache[tuple[int, int, int], RecordFacts] = BoundedCache(part)
        self.types: BoundedCache[int, str] = BoundedCache(part)
        self.documents: BoundedCache[tuple[int, int, int], tuple[Document, int]] = BoundedCache(part)
        self.facts: BoundedCache[tuple[int, int, int], ChunkFacts] = BoundedCache(most_bytes // 8)
        self.chunks: BoundedCache[tuple[int, int, int], StoredChunk] = BoundedCache(5 * most_bytes // 16)
        self.vectors = RecentVectors(5 * most_bytes // 16)
        self.in_scopes: BoundedCache[tuple[int, int, Scopes], tuple[Numbers | None]] = BoundedCache(_SCOPES_BYTES)


class SearchViews:
    """Opens views; safe to use from many threads. `cache_bytes` of chunks, vectors and postings are cached."""

    def __init__(self, database: Database, cache_bytes: int = 0) -> None:
        self._database = database
        self.caches = _Caches(cache_bytes)

    def open(
        self, tenant: str, name: str, snapshot: int | None = None, *, anew: bool = False, scopes: Scopes | None = None
    ) -> "SearchView":
        """Return a view of a collection as it is now, or was at a position, without records of other scopes.

        With `anew` it also has writes that are committed and not acknowledged yet. A consistency token may be of such a
        write, and so may be the change that a search has met.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
            SnapshotExpiredError: what was visible at `snapshot` is not all kept any more.
            InvalidRequestError: `snapshot` is ahead of the catalog.
        """
        opened = None if anew or snapshot is not None else self.caches.opened.get((tenant, name))
        is_behind = False
        # Every change of what a view begins with moves the position. A transaction that was just committed and has not
        # moved it here yet is not acknowledged either, and the first read of the view sees that something has changed.
        if opened is None or opened.position != self._database.latest_position:
            opened, is_behind = self._read(tenant, name, snapshot)
        return SearchView(self._database, self.caches, opened, snapshot, scopes, engine_is_behind=is_behind)

    def _read(self, tenant: str, name: str, snapshot: int | None) -> tuple[_Opened, bool]:
        """Return what a view begins with, and whether the engine is behind the catalog."""
        with self._database.read() as connection:
            row = connection.execute(_FIND, {"tenant": tenant, "name": name}).one_or_none()
            if row is None:
                raise CollectionNotFoundError(name)
            key, changed, readable_from, position, is_behind = row
            collection = self.caches.collections.get((key, changed))
            if collection is None:  # every change of its settings moves the position at which it changed
                found = connection.execute(select(collections).where(collections.c.collection_key == key))
                collection = to_collection(found.mappings().one())
                self.caches.collections.put((key, changed), collection)
            if snapshot is not None:
                oldest = oldest_snapshot(connection, key, readable_from, collection, self._database.steady.now_ms())
                check_snapshot(snapshot, oldest, position)
        opened = _Opened(collection, key, position, changed)
        if not is_behind:  # an engine that catches up does not move the position
            self.caches.opened.put((tenant, name), opened)
        return opened, bool(is_behind)


class SearchView:
    """One collection at one moment; safe to share by threads.

    Every method takes a connection for its own statements only, so a search holds none while it waits for a model or
    an engine. Reads agree all the same: each compares the collection's position with that of the view, and once the
    collection has changed it reads as of the view's position. Only what was deleted or overwritten for good since
    cannot be read so; then the view reads what is there now, and `has_lost_history` says so.

    Attributes:
        collection: the collection.
        position: position of the catalog that is read.
        changed_position: position at which the collection had last changed; equal ones mean equal contents.
        snapshot: the earlier position that was asked for, None for the moment the view was opened.
        scopes: of the records that are seen, None for all; whatever the view counts or tells is of these alone.
        has_lost_history: some reads may have seen later contents than others.
    """

    def __init__(
        self,
        database: Database,
        caches: _Caches,
        opened: _Opened,
        snapshot: int | None,
        scopes: Scopes | None,
        *,
        engine_is_behind: bool,
    ) -> None:
        self.collection = opened.collection
        self.position = opened.position if snapshot is None else snapshot
        self.changed_position = opened.changed
        self.snapshot = None if snapshot is None or snapshot >= opened.changed else snapshot
        self.scopes = scopes
        self.has_lost_history = False
        self._database = database
        self._caches = caches
        self._key = opened.key
        self._asked_for_past = snapshot is not None
        self._engine_is_behind = engine_is_behind
        self._of_thread = threading.local()
        self._within: tuple[Numbers | None] | None = None
        self._contradicting: dict[int, set[int]] = {}
        self._found: dict[tuple[tuple[str, ...], tuple[str, ...], int], LexicalMatches] = {}

    @contextmanager
    def together(self) -> Iterator[None]:
        """Let the reads of this thread inside the block share one connection: no wait for anything else among them."""
        with self._read() as read:
            self._of_thread.read = read
            try:
                yield
            finally:
                self._of_thread.read = None

    @contextmanager
    def _read(self) -> Iterator[Reading]:
        """Give a connection for a few statements.

        Raises:
            CollectionNotFoundError: the collection was deleted meanwhile.
            SnapshotExpiredError: a snapshot was asked for and is not all kept any more.
        """
        if (shared := getattr(self._of_thread, "read", None)) is not None:
            yield shared
            return
        with self._database.read() as connection:
            rows = driver_rows(connection, _STATE, (self._key,))
            if not rows:
                raise CollectionNotFoundError(self.collection.name)
            ((changed, readable_from, rewritten),) = rows
            as_of = self.snapshot
            # Whatever readers see of a collection moves its position, so equal positions are equal contents.
            if changed != self.changed_position:
                if self._asked_for_past:
                    check_snapshot(self.position, readable_from, changed)
                if readable_from <= self.position:
                    as_of = self.position
                else:
                    self.has_lost_history = True
            yield Reading(connection, self._key, changed, as_of, rewritten=rewritten)

    def _find_now(self, statement: Select[Any], values: Sequence[int]) -> list[Any] | None:
        """Return what a statement of `chunks` finds, None when it takes a `_read` to tell how the view sees it.

        Nearly always the collection has not changed since the view was opened. Then one statement suffices, where a
        read takes four, each of which gives up the interpreter lock.
        """
        if self.snapshot is not None or self.has_lost_history or getattr(self._of_thread, "read", None) is not None:
            return None
        rows = self._database.rows(statement, {"collection": self._key, "values": encode_json(list(values))})
        return decode_json(rows[0][1]) if rows and rows[0][0] == self.changed_position else None

    def _find_in(self, read: Reading, statement: Select[Any], values: Sequence[int]) -> list[Any]:
        """Return within a read what `_find_now` finds without one."""
        given = {"collection": self._key, "values": encode_json(list(values))}
        found: list[Any] = decode_json(execute(read.connection, statement, given).one()[1])
        return found

    def seen_share(self) -> float:
        """Return the share of the collection's chunks that the view sees, in [0, 1]; callers must not learn it."""
        return 1.0 if self.within is None else len(self.within) / max(1, self.chunk_count(of_all=True))

    @property
    def within(self) -> Numbers | None:
        """Return the numbers of the visible chunks in the scopes of the view, ascending; None when these are all."""
        if self.scopes is None:
            return None
        if self._within is None:
            key = (self._key, self.changed_position, self.scopes)
            self._within = self._caches.in_scopes.get(key) if self.snapshot is None else None
            if self._within is not None:
                return self._within[0]
            with self._read() as read:
                # For the past only a look at every chunk shows whether all are in the scopes.
                is_foreign = records.c.scope.not_in(self.scopes) if read.as_of is None else true()
                foreign = select(records.c.document_key).where(records.c.collection_key == self._key, is_foreign)
                numbers = None
                if read.connection.execute(select(foreign.exists())).scalar_one():
                    numbers = self._numbers_of(read, visible_generation_keys(self._key, read.as_of), None)
                if self._is_of_view(read):
                    weight = _FACTS_BYTES + (0 if numbers is None else numbers.nbytes)
                    self._caches.in_scopes.put(key, (numbers,), weight)
            self._within = (numbers,)
        return self._within[0]

    def _seen(self, read: Reading) -> ColumnElement[bool]:
        """Return the condition on `chunks` for those in the scopes of the view."""
        now = in_scopes(chunks.c.document_key, self.scopes)
        if self.scopes is None or read.as_of is None:
            return now
        # An earlier generation may have been stored with another scope than its record has now.
        return and_(now, to_sql(scope_filter(self.scopes), chunks.c.payload))

    def engine_keeps_up(self) -> bool:
        """Tell whether the engine, which has just finished a search, filtered by what this view says.

        Filter keys are changed in one transaction of the catalog, and in the engine point by point afterwards; the
        tasks stay in the outbox until the engine has acknowledged them. So the engine may have met other keys if it
        had not caught up when the view was opened, or if keys have been changed since.
        """
        if self._engine_is_behind:
            return False
        with self._read() as read:
            return read.rewritten <= self.position

    def chunk_count(self, *, of_all: bool = False) -> int:
        """Return the number of live chunks that the view sees, or `of_all`; document frequencies are shares of it."""
        if not of_all and self.within is not None:
            return len(self.within)
        known = self._caches.chunk_count.get((self._key, self.changed_position))
        if known is not None:
            return known
        with self._read() as read:
            counted = select(func.coalesce(func.sum(documents.c.chunk_count), 0)).where(
                documents.c.collection_key == self._key, IS_VISIBLE
            )
            count = int(read.connection.execute(counted).scalar_one())
            # Under what was read, not under what the view began with: the two differ once something has changed.
            self._caches.chunk_count.put((self._key, read.changed), count)
        return count

    def fields(self) -> Mapping[str, FieldKind]:
        """Return the metadata fields that visible documents brought along, with what they hold."""
        known = self._caches.fields.get((self._key, self.changed_position, self.scopes))
        if known is not None:
            return known
        with self._read() as read:
            fields = metadata_fields(read.connection, self._key, self.scopes)
            self._caches.fields.put((self._key, read.changed, self.scopes), fields)
        return fields

    def frequencies(self, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the number of visible chunks that contain each term or phrase, 0 for none."""
        within = self.within
        with self._read() as read:
            return self._caches.words.frequencies(replace(read, within=within), terms)

    def lexical(self, terms: Sequence[str], phrases: Sequence[str], limit: int) -> LexicalMatches:
        """Return the best chunks that contain any term or phrase, best first, ties by number."""
        key = (tuple(terms), tuple(phrases), limit)
        # Searches side by side, each with a filter of its own, look for the same words.
        if (known := self._found.get(key)) is not None:
            return known
        within = self.within
        with self._read() as read:
            found = self._caches.words.search(replace(read, within=within), terms, phrases, limit)
        self._found[key] = found
        return found

    def matching(self, where: Filter | None) -> Numbers:
        """Return the numbers of the visible chunks whose payload matches, ascending; all of them for None."""
        if where is None and (numbers := self.within) is not None:
            return numbers
        with self._read() as read:
            return self._numbers_of(read, visible_generation_keys(self._key, read.as_of), where)

    def superseded(self, where: Filter | None) -> Numbers:
        """Return the numbers of the matching chunks that are visible here and not live now."""
        # Most searches see the newest state, and need not ask the file for what they know.
        is_latest = self.snapshot is None and self._database.latest_position == self.position
        if not is_latest:
            with self._read() as read:
                if read.as_of is not None:
                    keys = visible_generation_keys(self._key, read.as_of).where(
                        generations.c.state == GenerationState.SUPERSEDED.value
                    )
                    return self._numbers_of(read, keys, where)
        return np.zeros(0, dtype=np.int64)

    def _numbers_of(self, read: Reading, generation_keys: Select[tuple[int]], where: Filter | None) -> Numbers:
        """Return the numbers of the indexed chunks of some generations that match and are in the scopes, ascending."""
        in_generations = chunks.c.generation_key.in_(generation_keys)
        condition = in_generations if where is None else chunks_matching(generation_keys, where)
        statement = select(array_of(chunks.c.chunk_number)).where(IS_INDEXED, condition, self._seen(read))
        return np.sort(np.array(read_array(read.connection, statement), dtype=np.int64))

    def records(self, numbers: Sequence[int]) -> Mapping[int, RecordFacts]:
        """Return what ranking needs of those of the chunks, which this view has seen, that are records."""
        known, numbers = self._remembered(self._caches.records, numbers)
        if numbers:
            with self._read() as read:
                if read.as_of is None:
                    found = dict.fromkeys(numbers, _NO_RECORD)
                    rows = read_compiled(read.connection, _RECORDS, {"numbers": encode_json(list(map(int, numbers)))})
                    for number, kind, importance, moment, *place in rows:
                        turn = TurnPlace(*place) if kind == "turn" else None
                        found[number] = RecordFacts(kind, importance, moment, turn)
                else:  # the table has only what records say now
                    found = {
                        stored.chunk_number: RecordFacts.of(stored.document.fields.record)
                        for stored in self._then(read, numbers)
                        if stored.document.fields.record is not None
                    }
                if self._is_of_view(read):
                    for number, facts in found.items():
                        self._caches.records.put((self._key, self.changed_position, number), facts, _RECORD_BYTES)
            known |= found
        return {number: facts for number, facts in known.items() if facts.record_type}

    def types_of_records(self, numbers: Sequence[int]) -> list[str]:
        """Return of each of the chunks, which this view has seen, what type of record it is, empty for none."""
        types = self._caches.types.get_all(numbers)
        missing = [number for number, known in zip(numbers, types, strict=True) if known is None]
        new = {number: facts.record_type for number, facts in self.records(missing).items()} if missing else {}
        for number, record_type in new.items():
            # For longer than facts, which go with the next change: a record never changes its type. That a chunk is of
            # none is not remembered, since its document may just be deleted, and restored later.
            self._caches.types.put(number, record_type, _TYPE_BYTES)
        return [known or new.get(number, "") for number, known in zip(numbers, types, strict=True)]

    def of_type(self, record_type: str, where: Filter, limit: int) -> Numbers | None:
        """Return the numbers of the matching chunks of records of a type, ascending, or of all else where it is empty.

        Returns None where there are more than `limit` records of the type, and for the past, which no index covers.
        """
        with self._read() as read:
            if read.as_of is not None:
                return None
            given = {"key": self._key, "type": record_type, "most": limit + 1}
            few = list(read.connection.execute(OF_TYPE if record_type else OF_NO_TYPE, given).scalars())
            if len(few) > limit:
                return None
            if not few:
                return np.zeros(0, dtype=np.int64)
            statement = (
                select(array_of(chunks.c.chunk_number))
                .join_from(chunks, generations)
                .where(among(chunks.c.document_key, few), IS_INDEXED, IS_LIVE, self._seen(read))
                .where(to_sql(where, chunks.c.payload))
            )
            return np.sort(np.array(read_array(read.connection, statement), dtype=np.int64))

    def among(self, where: Filter | None, numbers: Sequence[int]) -> set[int]:
        """Return those of the chunks that are visible and match."""
        with self._read() as read:
            return self._among(read, where, numbers)

    def _among(self, read: Reading, where: Filter | None, numbers: Sequence[int]) -> set[int]:
        statement = (
            select(array_of(chunks.c.chunk_number))
            .join_from(chunks, generations)
            .where(
                among(chunks.c.chunk_number, map(int, numbers)),
                IS_INDEXED,
                generations.c.collection_key == self._key,
                visible_at(read.as_of),
                self._seen(read),
                true() if where is None else to_sql(where, chunks.c.payload),
            )
        )
        return set(read_array(read.connection, statement))

    def estimated_share(self, where: Filter) -> float:
        """Return the share of live chunks that match, in [0, 1], judged by some that are spread over all of them."""
        within = self.within
        with self._read() as read:
            live = live_numbers(read.connection, self._key) if within is None else within
            if not len(live):
                return 0.0
            sample = live[np.unique(np.linspace(0, len(live) - 1, _SAMPLE).astype(np.int64))].tolist()
            is_match = to_sql(where, chunks.c.payload)
            counted = select(func.count()).where(among(chunks.c.chunk_number, sample), is_match)
            return int(read.connection.execute(counted).scalar_one()) / len(sample)

    def facts(self, numbers: Sequence[int], where: Filter | None = None) -> Mapping[int, ChunkFacts]:
        """Return what ranking needs of those of the chunks that are visible; see `chunks`."""
        facts, numbers = self._remembered(self._caches.facts, numbers)
        if not numbers:
            return facts
        rows, is_of_view = self._find_now(FACTS_NOW, numbers), True
        if rows is None:
            with self._read() as read:
                if read.as_of is not None or self._may_have_lost(where):
                    numbers = sorted(self._among(read, where if self.has_lost_history else None, numbers))
                is_of_view = self._is_of_view(read)
                if read.as_of is None:
                    rows = self._find_in(read, FACTS_NOW, numbers)
                else:
                    rows = facts_then(read.connection, self._key, numbers)
        for each in map(to_facts, rows):
            facts[each.number] = each
            if is_of_view:
                key = (self._key, self.changed_position, each.number)
                of_texts = bytes_of(each.source_uri, each.chapter, each.section, each.section_title)
                self._caches.facts.put(key, each, _FACTS_BYTES + of_texts + bytes_of(each.hierarchy_path))
        return facts

    def newest(self, conversation_id: str, record_type: str, where: Filter | None, limit: int) -> list[int]:
        """Return the numbers of the chunks of the latest matching records of a type in a conversation, newest first.

        Of two sides of one exchange with one timestamp the answer is the newer.
        """
        given = {"key": self._key, "conversation": conversation_id, "type": record_type, "most": limit}
        with self._read() as read:
            if read.as_of is None and where is None:
                if self.scopes is None:
                    return read_compiled(read.connection, _NEWEST, given)
                return read_compiled(read.connection, _NEWEST_IN_SCOPES, {**given, "scopes": encode_json(self.scopes)})
            matches = true() if where is None else to_sql(where, chunks.c.payload)
            return read_array(read.connection, _newest(visible_at(read.as_of), self._seen(read), matches), given)

    def contradictions(self, numbers: Sequence[int]) -> Mapping[int, set[int]]:
        """Return for chunks of memories those of the memories that contradict them, or seem to."""
        missing = [number for number in map(int, numbers) if number not in self._contradicting]
        if missing:
            found: dict[int, set[int]] = {number: set() for number in missing}
            given = {"numbers": encode_json(missing)}
            with self._read() as read:
                for number, against in read_compiled(read.connection, _CONTRADICTIONS, given):
                    found[number].add(against)
                others = {each for every in found.values() for each in every}
                seen = self._among(read, None, sorted(others)) if others else others
            # Cached, because building a context asks again for the memories that it has just ranked.
            self._contradicting.update((number, against & seen) for number, against in found.items())
        return {number: self._contradicting[number] for number in map(int, numbers)}

    def chunks(self, numbers: Sequence[int], where: Filter | None = None) -> Mapping[int, StoredChunk]:
        """Return those of the chunks that are visible, by number, in the order given.

        The caller has found that they match `where`. Where that may not hold any more it is looked at again, so that
        what is returned always matches as it is shown.
        """
        given = numbers
        known, numbers = self._remembered(self._caches.chunks, numbers)
        if not numbers:
            return known
        found = self._live(self._find_now, numbers, self.changed_position)
        if found is None:
            with self._read() as read:
                if self._may_have_lost(where):
                    matching = self._among(read, where, numbers)
                    numbers = [number for number in numbers if number in matching]
                if read.as_of is None:
                    found = self._live(partial(self._find_in, read), numbers, read.changed)
                else:
                    found = {stored.chunk_number: stored for stored in self._then(read, numbers)}
        known |= found or {}
        return {number: known[number] for number in given if number in known}

    def _then(self, read: Reading, numbers: Sequence[int]) -> list[StoredChunk]:
        """Read those of the chunks that were visible then, as they were."""
        visible = sorted(self._among(read, None, numbers))
        rows = read.connection.execute(select_chunks_then(among(chunks.c.chunk_number, visible))).all()
        return list(to_stored_chunks(rows))

    def _live(
        self, find: Callable[[Select[Any], Sequence[int]], list[Any] | None], numbers: Sequence[int], changed: int
    ) -> dict[int, StoredChunk] | None:
        """Find live chunks, with documents that other chunks have brought along; remember both.

        `changed` is the position of what is found. Returns None where `find` does.
        """
        rows, cache = find(LIVE_CHUNKS, numbers), self._caches.documents
        if rows is None:
            return None
        keys = list({row[DOCUMENT_KEY_AT] for row in rows})
        remembered = cache.get_all((self._key, changed, key) for key in keys)
        known = {key: entry for key, entry in zip(keys, remembered, strict=True) if entry is not None}
        missing = [key for key in keys if key not in known]
        if missing:
            if (of_documents := find(DOCUMENTS_BY_KEY, missing)) is None:
                return None
            for row in of_documents:
                document = to_document(row)
                known[row[0]] = (document, document.held_bytes)
                cache.put((self._key, changed, row[0]), known[row[0]], _FACTS_BYTES + known[row[0]][1])
        live = {}
        for row in rows:
            document, weight = known[row[DOCUMENT_KEY_AT]]
            live[row[0]] = stored = to_stored_chunk(row, document)
            if changed == self.changed_position and self.snapshot is None:
                # The document counts with each of its chunks, which keep it when it is not remembered itself any more,
                # and the texts twice, since the chunk keeps its message.
                weight += _CHUNK_BYTES + 2 * stored.chunk.held_bytes
                self._caches.chunks.put((self._key, self.changed_position, row[0]), stored, weight)
        return live

    def _remembered(
        self, cache: BoundedCache[tuple[int, int, int], RememberedT], numbers: Sequence[int]
    ) -> tuple[dict[int, RememberedT], Sequence[int]]:
        """Return what is remembered of chunks as the view sees them, and the numbers of the others."""
        if self.snapshot is not None or self.has_lost_history:
            return {}, numbers
        values = cache.get_all((self._key, self.changed_position, number) for number in numbers)
        known = {number: value for number, value in zip(numbers, values, strict=True) if value is not None}
        return known, [number for number in numbers if number not in known]

    def _may_have_lost(self, where: Filter | None) -> bool:
        """Return whether chunks that passed may not pass as they are now."""
        return self.has_lost_history and (where is not None or self.scopes is not None)

    def _is_of_view(self, read: Reading) -> bool:
        """Tell whether a read sees the collection as it was when the view was opened, and not as of a snapshot."""
        return read.as_of is None and read.changed == self.changed_position

    def vectors(self, numbers: Sequence[int] | Numbers) -> tuple[Numbers, Vectors]:
        """Return the stored vectors of those chunks that have one: numbers, float32 rows of length 1."""
        identity, cache = self.collection.identity, self._caches.vectors
        if len(numbers) > _FEW:
            with self._read() as read:
                return unit_vectors_of(read.connection, identity, numbers)
        given = np.asarray(numbers, dtype=np.int64)
        is_known, rows = cache.get(identity, given.tolist())
        if is_known.all():
            return given, rows
        with self._read() as read:
            new, new_rows = unit_vectors_of(read.connection, identity, given[~is_known])
        cache.put(identity, new.tolist(), new_rows)
        found, rows = np.concatenate([given[is_known], new]), np.concatenate([rows, new_rows])
        # In the order given.
        ascending = np.argsort(found)
        with_vector = given[np.isin(given, found)]
        return with_vector, rows[ascending[np.searchsorted(found, with_vector, sorter=ascending)]]
