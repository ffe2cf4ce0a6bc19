"""Compares the full-text index with the chunks, and builds it anew from them."""

from collections.abc import Collection, Iterator, Sequence

import numpy as np
from sqlalchemy import Connection, delete, insert, select

from groundwire.catalog.aggregate import Aggregate
from groundwire.catalog.database import advance_position
from groundwire.catalog.dialects import array_of, read_array, stored_word
from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES
from groundwire.catalog.lexical_index import (
    MEMBER,
    POSITION,
    POSTING,
    Entry,
    drop_segments,
    has_other_words,
    insert_segments,
    make_segment,
    make_segments,
    members_of,
    numbered,
    read_entries,
)
from groundwire.catalog.rows import IS_INDEXED, GenerationState
from groundwire.catalog.schema import chunks, collections, counters, generations, lexical_postings, lexical_segments
from groundwire.kernel.budget import Budget
from groundwire.kernel.store_findings import FindingKind, StoreFinding

_STATES = (GenerationState.LIVE.value, GenerationState.SUPERSEDED.value)
_PASSES = 3
_CHUNKS_PER_TRANSACTION = 1024
_s, _p = lexical_segments.c, lexical_postings.c


class LexicalCheck(Aggregate):
    """Finds what differs, and repairs it; many short reads and transactions, so that others go on meanwhile."""

    def problems(
        self, budget: Budget, tenant: str | None = None, names: Collection[str] | None = None
    ) -> Iterator[StoreFinding]:
        """Yield what differs in some collections of a tenant, or in all; about a second for 5,000 chunks.

        Raises:
            CallCancelledError: `budget` was cancelled.
            DeadlineError: `budget` is used up.
        """
        with self._database.read() as connection:
            rows = connection.execute(select(collections.c.collection_key, collections.c.tenant, collections.c.name))
            checked = [
                (key, name) for key, owner, name in rows if tenant in {None, owner} and (names is None or name in names)
            ]
        for key, name in checked:
            budget.check()
            with self._database.read() as connection:
                segment_keys = _segment_keys(connection, key)
                wrong = list(_wrong_members(connection, key))
            for subject, message in wrong:
                yield StoreFinding(FindingKind.FULL_TEXT_DIFFERS, name, subject, message)
            for segment_key in segment_keys:
                budget.check()
                with self._database.read() as connection:
                    is_right = _is_right(connection, key, segment_key)
                if not is_right:
                    message = "the full-text index differs from the searchable chunks"
                    yield StoreFinding(FindingKind.FULL_TEXT_DIFFERS, name, "", message)

    def written_by_other_rules(self) -> list[tuple[str, str, str]]:
        """Return uid, tenant and name of the collections whose texts an earlier version may have cut otherwise.

        To be asked before anything is written. It is all of them or none, until `note_rules`.
        """
        every = select(collections.c.uid, collections.c.tenant, collections.c.name)
        with self._database.read() as connection:
            if not has_other_words(connection):
                return []
            return [tuple(row) for row in connection.execute(every)]

    def note_rules(self) -> None:
        """Note that every index has been written by the rules of this version."""

        def note(connection: Connection) -> None:
            connection.execute(delete(counters).where(counters.c.name == RULES_COUNTER))
            connection.execute(insert(counters).values(name=RULES_COUNTER, value=WORD_RULES))

        self._database.write(note)

    def rebuild(self, tenant: str, name: str, budget: Budget) -> None:
        """Build the index of a collection anew; searches see each chunk once at every moment.

        Raises:
            CallCancelledError: `budget` was cancelled; what was not reached is as it was.
            DeadlineError: `budget` is used up; likewise.
        """
        of_name = (collections.c.tenant == tenant, collections.c.name == name)
        with self._database.read() as connection:
            key = connection.execute(select(collections.c.collection_key).where(*of_name)).scalar()
        if key is None:
            return
        made: set[int] = set()
        # What others merge meanwhile, out of parts that are rebuilt and parts that are not, is found by the next pass.
        for _ in range(_PASSES):
            with self._database.read() as connection:
                old = [each for each in _segment_keys(connection, key) if each not in made]
            for segment_key in old:
                while (new := self._replace(key, segment_key)) is None:
                    budget.check()
                budget.check()
                made.update(new)
        with self._database.read() as connection:
            absent = {
                state: sorted(set(_searchable(connection, key, state)).difference(_indexed(connection, key, state)))
                for state in _STATES
            }
        for state, numbers in absent.items():
            for start in range(0, len(numbers), _CHUNKS_PER_TRANSACTION):
                budget.check()
                self._add(key, state, numbers[start : start + _CHUNKS_PER_TRANSACTION])

    def _replace(self, key: int, segment_key: int) -> list[int] | None:
        """Put new segments in the place of an old one; return their keys, or None when it was changed meanwhile."""
        of_segment = select(_s.state, _s.high, _s.members).where(_s.segment_key == segment_key)
        with self._database.read() as connection:
            row = connection.execute(of_segment).one_or_none()
            if row is None:
                return []
            elsewhere = set(_indexed(connection, key, row.state, but_for=segment_key))
            numbers = [number for number in dict.fromkeys(members_of(row.members, row.high)) if number not in elsewhere]
            entries = _read(connection, key, row.state, numbers)
        # Cutting thousands of chunks into words takes longer than anybody should wait for the writer.
        segments = make_segments(entries)

        def replace(connection: Connection) -> list[int] | None:
            # Whoever changes a chunk takes it out of its segment: equal members are chunks that have not changed.
            if connection.execute(of_segment).one_or_none() != row:
                return None
            drop_segments(connection, [segment_key])
            advance_position(connection, key, keeps_history=True)  # so that nobody goes on with what the old one said
            return insert_segments(connection, key, row.state, segments)

        return self._database.write(replace)

    def _add(self, key: int, state: str, numbers: Sequence[int]) -> None:
        """Put chunks into the index that are in no segment, unless they have come into one meanwhile."""
        with self._database.read() as connection:
            entries = _read(connection, key, state, numbers)
        segments = make_segments(entries)  # outside the writer, as above

        def add(connection: Connection) -> None:
            # A write may have put them in meanwhile, or deleted them; then the little that is left is cut here.
            indexed = set(_indexed(connection, key, state))
            now = [entry for entry in _read(connection, key, state, numbers) if entry.number not in indexed]
            advance_position(connection, key, keeps_history=True)
            insert_segments(connection, key, state, segments if now == entries else make_segments(now))

        self._database.write(add)


def _segment_keys(connection: Connection, key: int) -> list[int]:
    """Return the keys of the segments that are searched; those of pending generations wait for theirs."""
    statement = select(_s.segment_key).where(_s.collection_key == key, _s.state.in_(_STATES))
    return list(connection.execute(statement.order_by(_s.segment_key)).scalars())


def _indexed(connection: Connection, key: int, state: str, but_for: int = 0) -> list[int]:
    """Return the numbers of the chunks that the segments have; all but one segment."""
    statement = select(_s.members, _s.high).where(_s.collection_key == key, _s.state == state)
    rows = connection.execute(statement.where(_s.segment_key != but_for))
    return [number for stored, high in rows for number in members_of(stored, high)]


def _searchable(connection: Connection, key: int, state: str) -> list[int]:
    statement = (
        select(array_of(chunks.c.chunk_number))
        .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
        .where(generations.c.collection_key == key, generations.c.state == state, IS_INDEXED)
    )
    return sorted(read_array(connection, statement))


def _wrong_members(connection: Connection, key: int) -> Iterator[tuple[str, str]]:
    for state in _STATES:
        found, expected = _indexed(connection, key, state), set(_searchable(connection, key, state))
        if missing := expected.difference(found):
            yield str(min(missing)), f"{len(missing)} searchable chunks without a full-text row"
        if extra := set(found) - expected:
            yield str(min(extra)), f"{len(extra)} full-text rows without a searchable chunk"
        if len(found) > len(set(found)):
            yield "", "chunks that are twice in the full-text index"


def _read(connection: Connection, key: int, state: str, numbers: Sequence[int]) -> list[Entry]:
    """Return those of the chunks that are searchable in a state, by number."""
    which = (generations.c.collection_key == key) & (generations.c.state == state)
    return [entry for *_, entry in read_entries(connection, which & numbered(numbers))]


def _is_right(connection: Connection, key: int, segment_key: int) -> bool:
    row = connection.execute(select(lexical_segments).where(_s.segment_key == segment_key)).one_or_none()
    if row is None:
        return True  # it was merged into another meanwhile, or removed
    entries = _read(connection, key, row.state, members_of(row.members, row.high))
    expected = make_segment(row.high, entries)
    rows = sorted((stored_word(connection, word), postings, places) for word, postings, places in expected.rows)
    statement = select(_p.word, _p.postings, _p.positions).where(_p.segment_key == segment_key).order_by(_p.word)
    stored = [tuple(each) for each in connection.execute(statement)]
    try:
        members = np.sort(np.frombuffer(row.members, MEMBER), order="low")
        figures = (len(members), int(members["length"].sum(dtype=np.int64)))
        return (
            figures == (row.chunk_count, row.word_count)
            and np.array_equal(members, expected.members)
            and _in_order(stored) == _in_order(rows)
        )
    except ValueError:  # a row that is cut off
        return False


def _in_order(rows: Sequence[tuple[str, bytes, bytes]]) -> tuple[list[str], list[int], bytes, bytes]:
    """Return the words, how many postings each has, postings and positions, in the order of the chunks."""
    postings = np.frombuffer(b"".join(row[1] for row in rows), POSTING)
    positions = np.frombuffer(b"".join(row[2] for row in rows), POSITION)
    sizes = [len(row[1]) // POSTING.itemsize for row in rows]
    counts = postings["content"].astype(np.int64) + postings["heading"]
    order = np.lexsort((postings["low"], np.repeat(np.arange(len(rows)), sizes)))
    rank = np.empty(len(order), np.int64)
    rank[order] = np.arange(len(order))
    placed = positions[np.argsort(np.repeat(rank, counts), kind="stable")]
    if len(placed) != len(positions):
        raise ValueError("positions without a posting")
    return [row[0] for row in rows], sizes, postings[order].tobytes(), placed.tobytes()
