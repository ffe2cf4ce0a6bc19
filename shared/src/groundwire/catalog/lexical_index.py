"""The full-text index: which chunks contain a word, how often and where; how it is written, checked and rebuilt.

Every change to chunks updates it in the same transaction (docs/adr/0015).

The chunks of a collection are in segments, those that readers see now (LIVE) apart from those that are kept for readers
of the past (SUPERSEDED), so that nothing but a collection's own chunks is behind its scores. A generation is written
to segments of its own while it is PENDING; publishing it only renames their state. Small segments are merged into
larger ones, which keeps both few: the pages that a write touches, and the rows that a search reads.
"""

import struct
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import advance_position, in_transaction
from groundwire.catalog.dialects import among, array_of, execute, insert_rows, merge_postings, read_array, stored_word
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES, index_words
from groundwire.catalog.rows import IS_INDEXED, GenerationState
from groundwire.catalog.schema import chunks, collections, counters, generations, lexical_postings, lexical_segments
from groundwire.kernel.budget import Budget
from groundwire.kernel.store_findings import FindingKind, StoreFinding

SHARED_BITS = 16
"""The numbers of the chunks of a segment differ only in this many low bits, which are all that a posting stores."""
POSTING = np.dtype([("low", "<u2"), ("length", "<u2"), ("content", "<u2"), ("heading", "<u2")])
"""A chunk that contains a word: its number of words, and how often the word occurs in content and heading."""
MEMBER = np.dtype([("low", "<u2"), ("length", "<u2")])
_LONGEST = 0xFFFF
POSITION = np.dtype("<u2")
"""Counted in words from 0, separately in content and heading; up to `index_words.MOST_WORDS` fit."""

# A segment of this many chunks is no longer merged: few make searches fast, small ones make deletions cheap.
_FULL = 4096
# Most words of a merged segment: the more it has, the longer writing it keeps other writers waiting.
_FULL_WORDS = 400_000
# Segments of a similar size are merged when there are 16 of them, so that a posting is rewritten three times.
_MERGED_AT_ONCE_BITS = 4
_WORDS_PER_QUERY = 400
_SEARCHABLE = (GenerationState.LIVE.value, GenerationState.SUPERSEDED.value)

_s, _p = lexical_segments.c, lexical_postings.c


@dataclass(frozen=True, slots=True)
class Entry:
    """The texts of a chunk that are indexed."""

    number: int
    content: str
    heading: str

    @property
    def high(self) -> int:
        """Return the part of the number that the chunks of a segment share."""
        return self.number >> SHARED_BITS


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the index that is not written yet; `rows` are (word, postings, positions), sorted by word."""

    high: int
    members: NDArray[np.void]
    rows: Sequence[tuple[str, bytes, bytes]]


def make_segments(entries: Sequence[Entry]) -> list[Segment]:
    """Split the texts of chunks, whose numbers ascend, into words, and sort these into segments."""
    segments = []
    for high, alike in groupby(entries, lambda entry: entry.high):
        of_high = list(alike)
        segments += [make_segment(high, of_high[at : at + _FULL]) for at in range(0, len(of_high), _FULL)]
    return segments


def make_segment(high: int, entries: Sequence[Entry]) -> Segment:
    """Make one segment of chunks whose numbers ascend and share the upper bits `high`."""
    # Two texts for each chunk: content and heading, in which positions are counted apart.
    texts = index_words().indexed([each for entry in entries for each in (entry.content, entry.heading)])
    members = np.empty(len(entries), MEMBER)
    members["low"] = lows = [entry.number & ((1 << SHARED_BITS) - 1) for entry in entries]
    contents, headings = texts[::2], texts[1::2]
    members["length"] = lengths = [
        min(len(content) + len(heading), _LONGEST) for content, heading in zip(contents, headings, strict=True)
    ]
    # Not by NumPy, which takes three times as long for a short text and about as long for a large document.
    rows: dict[str, tuple[list[int], list[int]]] = {}
    for low, length, content, heading in zip(lows, lengths, contents, headings, strict=True):
        places: dict[str, list[int]] = {}
        for position, word in enumerate(content):
            places.setdefault(word, []).append(position)
        in_content = {word: len(positions) for word, positions in places.items()}
        for position, word in enumerate(heading):
            places.setdefault(word, []).append(position)
        for word, positions in places.items():
            count = in_content.get(word, 0)
            postings, placed = rows.setdefault(word, ([], []))
            postings += (low, length, count, len(positions) - count)
            placed += positions
    stored = [(word, _packed(postings), _packed(placed)) for word, (postings, placed) in sorted(rows.items())]
    return Segment(high, members, stored)


def _packed(numbers: Sequence[int]) -> bytes:
    """Return numbers as `POSTING` and `POSITION` have them."""
    return struct.pack(f"<{len(numbers)}H", *numbers)


_RELEASE = (
    update(lexical_segments)
    .where(among(_s.generation_key, bindparam("keys")))
    .values(state=GenerationState.LIVE.value, generation_key=None)
)


def release_pending(connection: Connection, collection_key: int, generation_keys: Sequence[int]) -> None:
    """Make the chunks of pending generations searchable."""
    execute(connection, _RELEASE, {"keys": encode_json(list(generation_keys))})
    _merge(connection, collection_key, GenerationState.LIVE.value)


def add_chunks(connection: Connection, which: ColumnElement[bool]) -> None:
    """Add chunks to the index under the current states of their generations; none may be in it already.

    `which` is a condition on `chunks` and `generations`.
    """
    for collection_key, state, entries in _entries(connection, which):
        insert_segments(connection, collection_key, state, [(None, each) for each in make_segments(entries)])
        _merge(connection, collection_key, state)


def remove_chunks(connection: Connection, which: ColumnElement[bool]) -> None:
    """Remove chunks from the index; call this before they or the states of their generations change.

    `which` is a condition on `chunks` and `generations`.
    """
    for collection_key, state, entries in _entries(connection, which):
        drop_segments(connection, _take_out(connection, collection_key, state, entries))


def supersede_chunks(connection: Connection, which: ColumnElement[bool]) -> list[int]:
    """Leave live chunks to readers of the past alone; call this before their generation is superseded.

    Segments that hold nothing else, such as those of large documents, are kept whole; others lose these chunks.

    Returns:
        The numbers of the chunks that were removed; pass them to `add_chunks` once the generation is superseded.
    """
    taken_out: list[int] = []
    past = {"state": GenerationState.SUPERSEDED.value}
    for collection_key, state, entries in _entries(connection, which):
        whole = _take_out(connection, collection_key, state, entries)
        held = connection.execute(select(_s.high, _s.members).where(_s.segment_key.in_(whole)))
        stays = {number for row in held for number in members_of(row.members, row.high)}
        connection.execute(update(lexical_segments).where(_s.segment_key.in_(whole)).values(past))
        _merge(connection, collection_key, GenerationState.SUPERSEDED.value)
        taken_out += [entry.number for entry in entries if entry.number not in stays]
    return taken_out


def _take_out(connection: Connection, collection_key: int, state: str, entries: Sequence[Entry]) -> list[int]:
    """Remove chunks from segments that have others as well; return the keys of the segments that have no others."""
    # Only segments with the same high bits can hold a chunk, so that most of a large collection is not even read.
    leaving: dict[int, list[Entry]] = defaultdict(list)
    for entry in entries:
        leaving[entry.high].append(entry)
    held = select(_s.segment_key, _s.high, _s.members).where(
        _s.collection_key == collection_key, _s.state == state, _s.high.in_(list(leaving))
    )
    whole = []
    for segment_key, high, stored in connection.execute(held).all():
        members = np.frombuffer(stored, MEMBER)
        stays = np.isin(members["low"], _lows(leaving[high]), invert=True)
        if not stays.any():
            whole.append(segment_key)
        elif not stays.all():
            here = set(members["low"][~stays].tolist())
            entries_here = [entry for entry in leaving[high] if entry.number & ((1 << SHARED_BITS) - 1) in here]
            lows = _lows(entries_here)
            if has_other_words(connection):
                # Their texts do not show which words are stored for them, and a whole sentence may have been one.
                every = connection.execute(select(_p.word, _p.postings).where(_p.segment_key == segment_key))
                words = [word for word, stored in every if np.isin(np.frombuffer(stored, POSTING)["low"], lows).any()]
            else:
                texts = index_words().indexed(
                    [each for entry in entries_here for each in (entry.content, entry.heading)]
                )
                words = sorted({word for of_text in texts for word in of_text})
            for start in range(0, len(words), _WORDS_PER_QUERY):
                part = words[start : start + _WORDS_PER_QUERY]
                of_words = (_p.segment_key == segment_key, _p.word.in_(part))
                found = connection.execute(select(_p.word, _p.postings, _p.positions).where(*of_words)).all()
                connection.execute(delete(lexical_postings).where(*of_words))
                _insert_postings(connection, ((segment_key, *row) for row in _without(found, lows)))
            values = _figures(members[stays])
            connection.execute(update(lexical_segments).where(_s.segment_key == segment_key).values(values))
    return whole


def drop_segments(connection: Connection, segment_keys: Sequence[int]) -> None:
    connection.execute(delete(lexical_segments).where(_s.segment_key.in_(segment_keys)))


def has_other_words(connection: Connection) -> bool:
    """Tell whether an earlier version, which split texts by other rules, may have written part of an index."""
    of_rules = select(counters.c.value).where(counters.c.name == RULES_COUNTER)
    return bool(connection.execute(of_rules).scalar() != WORD_RULES)


def members_of(stored: bytes, high: int) -> list[int]:
    """Return the numbers of the chunks of a segment; of a truncated one, those that can be read."""
    whole = stored[: len(stored) // MEMBER.itemsize * MEMBER.itemsize]
    lows = np.frombuffer(whole, MEMBER)["low"].astype(np.int64)
    return list(((high << SHARED_BITS) | lows).tolist())


def numbered(numbers: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition that a chunk has one of the numbers, however many there are."""
    return among(chunks.c.chunk_number, map(int, numbers))


def _entries(connection: Connection, which: ColumnElement[bool]) -> Iterator[tuple[int, str, list[Entry]]]:
    """Yield the searchable chunks that meet a condition, ascending, by the key of their collection and their state."""
    statement = (
        select(
            generations.c.collection_key,
            generations.c.state,
            chunks.c.chunk_number,
            chunks.c.content,
            chunks.c.section_heading,
        )
        .join_from(chunks, generations)
        .where(which, IS_INDEXED, generations.c.state.in_(_SEARCHABLE))
        .order_by(generations.c.collection_key, generations.c.state, chunks.c.chunk_number)
    )
    # All of them first: what is done about some changes the rows that others are read from.
    for (collection_key, state), rows in groupby(connection.execute(statement).all(), lambda row: row[:2]):
        yield collection_key, state, [Entry(*row[2:]) for row in rows]


_INSERT = insert(lexical_segments).returning(_s.segment_key, _s.high, _s.members)


def insert_segments(
    connection: Connection, collection_key: int, state: str, segments: Sequence[tuple[int | None, Segment]]
) -> list[int]:
    """Write segments, each with the key of its generation while that is pending; return their keys in order.

    They are not merged: those of a generation that is never published are dropped with it.
    """
    if not segments:
        return []
    of_all = {"collection_key": collection_key, "state": state}
    rows = [
        {**of_all, "generation_key": of_generation, "high": segment.high, **_figures(segment.members)}
        for of_generation, segment in segments
    ]
    # Rows return in any order, so that the database can insert them at once; their members tell which is which.
    made = {(row.high, row.members): row.segment_key for row in execute(connection, _INSERT, rows)}
    keys = [made[row["high"], row["members"]] for row in rows]
    _insert_postings(
        connection, ((key, *row) for key, (_, segment) in zip(keys, segments, strict=True) for row in segment.rows)
    )
    return keys


def _insert_postings(connection: Connection, rows: Iterable[tuple[int, str, bytes, bytes]]) -> None:
    """Write rows of the segment, the word, its postings and its positions."""
    named = (
        {"segment_key": segment_key, "word": word, "postings": postings, "positions": positions}
        for segment_key, word, postings, positions in rows
    )
    insert_rows(connection, lexical_postings, named)


def _figures(members: NDArray[np.void]) -> dict[str, int | bytes]:
    return {
        "chunk_count": len(members),
        "word_count": int(members["length"].sum(dtype=np.int64)),
        "members": members.tobytes(),
    }


def _lows(entries: Iterable[Entry]) -> NDArray[np.int64]:
    return np.array([entry.number & ((1 << SHARED_BITS) - 1) for entry in entries], dtype=np.int64)


def _without(rows: Sequence[Any], lows: NDArray[np.int64]) -> list[tuple[str, bytes, bytes]]:
    """Remove some chunks from rows of words, postings and positions; a row that had no others is dropped."""
    # All at once: a text has hundreds of words, and most have few postings.
    postings = np.frombuffer(b"".join(row.postings for row in rows), POSTING)
    positions = np.frombuffer(b"".join(row.positions for row in rows), POSITION)
    stays = np.isin(postings["low"], lows, invert=True)
    counts = postings["content"].astype(np.int64) + postings["heading"]
    ends = np.cumsum([0, *(len(row.postings) // POSTING.itemsize for row in rows)])
    at = np.append(0, np.cumsum(stays))[ends] * POSTING.itemsize
    place = np.append(0, np.cumsum(np.where(stays, counts, 0)))[ends] * POSITION.itemsize
    stored, placed = postings[stays].tobytes(), positions[np.repeat(stays, counts)].tobytes()
    bounds = zip(rows, at.tolist(), at[1:].tolist(), place.tolist(), place[1:].tolist(), strict=False)
    return [(row.word, stored[a:b], placed[c:d]) for row, a, b, c, d in bounds if a < b]


_MERGEABLE = (
    select(_s.segment_key, _s.high, _s.chunk_count, _s.word_count)
    .where(
        _s.collection_key == bindparam("key"),
        _s.state == bindparam("of_state"),
        _s.chunk_count < bindparam("full"),
        # Not more than half, so that any two can be merged, and merging comes to an end.
        _s.word_count <= bindparam("half_full_of_words"),
    )
    .order_by(_s.segment_key)
)


def _merge(connection: Connection, collection_key: int, state: str) -> None:
    """Merge segments of a similar size until there are few of each."""
    given = {"key": collection_key, "of_state": state, "full": _FULL, "half_full_of_words": _FULL_WORDS // 2}
    while True:
        alike: dict[tuple[int, int], list[tuple[int, int, int]]] = defaultdict(list)
        for key, high, count, words in execute(connection, _MERGEABLE, given):
            alike[high, (count.bit_length() - 1) // _MERGED_AT_ONCE_BITS].append((key, count, words))
        many = 1 << _MERGED_AT_ONCE_BITS
        ready = [each for each in alike.values() if len(each) >= many or sum(count for _, count, _ in each) >= _FULL]
        if not ready:
            return
        for segments in ready:
            # Within the bounds of a full segment; what is left over waits for the next round.
            parts, chunk_count, word_count = list[int](), 0, 0
            for key, count, words in segments:
                if chunk_count < _FULL and word_count + words <= _FULL_WORDS:
                    parts.append(key)
                    chunk_count, word_count = chunk_count + count, word_count + words
            statement = select(lexical_segments).where(_s.segment_key.in_(parts)).order_by(_s.segment_key)
            rows = connection.execute(statement).mappings().all()
            members = np.concatenate([np.frombuffer(row["members"], MEMBER) for row in rows])
            shared = {name: rows[0][name] for name in ("collection_key", "state", "high")}
            into = insert(lexical_segments).returning(_s.segment_key)
            merged_key = connection.execute(into, shared | _figures(members)).scalar_one()
            merge_postings(connection, merged_key, parts)
            drop_segments(connection, parts)


_PASSES = 3
_CHUNKS_PER_TRANSACTION = 1024


class LexicalCheck(Aggregate):
    """Finds and repairs differences in many short reads and transactions, so that other work continues."""

    def problems(
        self, budget: Budget, tenant: str | None = None, names: Collection[str] | None = None
    ) -> Iterator[StoreFinding]:
        """Yield the differences in some collections of a tenant, or in all; 5,000 chunks take about a second."""
        with self._database.read() as connection:
            rows = connection.execute(select(collections.c.collection_key, collections.c.tenant, collections.c.name))
            checked = [
                (key, name) for key, owner, name in rows if tenant in {None, owner} and (names is None or name in names)
            ]
        for key, name in checked:
            with self._database.read() as connection:
                segment_keys = _segment_keys(connection, key)
                members = [
                    (_indexed(connection, key, state), {*_searchable(connection, key, state)}) for state in _SEARCHABLE
                ]
            wrong = []
            for found, expected in members:
                if missing := expected.difference(found):
                    wrong.append((str(min(missing)), f"{len(missing)} searchable chunks without a full-text row"))
                if extra := set(found) - expected:
                    wrong.append((str(min(extra)), f"{len(extra)} full-text rows without a searchable chunk"))
                if len(found) > len(set(found)):
                    wrong.append(("", "chunks that are twice in the full-text index"))
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
        """Return uid, tenant and name of the collections whose texts an earlier version may have split differently.

        Call this before anything is written. Until `note_rules` it is all collections or none.
        """
        every = select(collections.c.uid, collections.c.tenant, collections.c.name)
        with self._database.read() as connection:
            if not has_other_words(connection):
                return []
            return [tuple(row) for row in connection.execute(every)]

    @in_transaction
    def note_rules(self, connection: Connection) -> None:
        """Note that every index has been written by the rules of this version."""
        connection.execute(delete(counters).where(counters.c.name == RULES_COUNTER))
        connection.execute(insert(counters).values(name=RULES_COUNTER, value=WORD_RULES))

    def rebuild(self, tenant: str, name: str, budget: Budget) -> None:
        """Rebuild the index of a collection, while searches see every chunk exactly once.

        Raises:
            CallCancelledError: `budget` was cancelled; segments that were not reached are unchanged.
            DeadlineError: `budget` is used up; likewise.
        """
        of_name = (collections.c.tenant == tenant, collections.c.name == name)
        key = self._database.query(select(collections.c.collection_key).where(*of_name)).scalar()
        if key is None:
            return
        made: set[int] = set()
        # Writers may merge rebuilt segments with old ones meanwhile; the next pass finds those.
        for _ in range(_PASSES):
            with self._database.read() as connection:
                old = [each for each in _segment_keys(connection, key) if each not in made]
            for segment_key in old:
                new: list[int] | None = None
                while new is None:
                    budget.check()
                    new = self._replace(key, segment_key)
                made.update(new)
        with self._database.read() as connection:
            absent = {
                state: sorted(set(_searchable(connection, key, state)).difference(_indexed(connection, key, state)))
                for state in _SEARCHABLE
            }
        for state, numbers in absent.items():
            for start in range(0, len(numbers), _CHUNKS_PER_TRANSACTION):
                budget.check()
                self._add(key, state, numbers[start : start + _CHUNKS_PER_TRANSACTION])

    def _replace(self, key: int, segment_key: int) -> list[int] | None:
        """Replace a segment by new ones; return their keys, or None if it was changed meanwhile."""
        of_segment = select(_s.state, _s.high, _s.members).where(_s.segment_key == segment_key)
        with self._database.read() as connection:
            row = connection.execute(of_segment).one_or_none()
            if row is None:
                return []
            elsewhere = set(_indexed(connection, key, row.state, but_for=segment_key))
            numbers = [number for number in dict.fromkeys(members_of(row.members, row.high)) if number not in elsewhere]
            entries = _read(connection, key, row.state, numbers)
        # Outside the writer, because splitting thousands of chunks into words would keep other writes waiting.
        segments = make_segments(entries)

        def replace(connection: Connection) -> list[int] | None:
            # A changed chunk is removed from its segment, so equal members mean unchanged chunks.
            if connection.execute(of_segment).one_or_none() != row:
                return None
            drop_segments(connection, [segment_key])
            advance_position(connection, key, keeps_history=True)  # so that no reader goes on with its postings
            return insert_segments(connection, key, row.state, [(None, each) for each in segments])

        return self._database.write(replace)

    def _add(self, key: int, state: str, numbers: Sequence[int]) -> None:
        """Add chunks that are in no segment, unless a write has added them meanwhile."""
        with self._database.read() as connection:
            entries = _read(connection, key, state, numbers)
        segments = make_segments(entries)  # outside the writer, as above

        def add(connection: Connection) -> None:
            # A write may have added or deleted some meanwhile; only then are the rest split here, inside the writer.
            indexed = set(_indexed(connection, key, state))
            now = [entry for entry in _read(connection, key, state, numbers) if entry.number not in indexed]
            advance_position(connection, key, keeps_history=True)
            new = segments if now == entries else make_segments(now)
            insert_segments(connection, key, state, [(None, each) for each in new])

        self._database.write(add)


def _segment_keys(connection: Connection, key: int) -> list[int]:
    """Return the keys of the segments that searches read, without those of pending generations."""
    statement = select(_s.segment_key).where(_s.collection_key == key, _s.state.in_(_SEARCHABLE))
    return list(connection.execute(statement.order_by(_s.segment_key)).scalars())


def _indexed(connection: Connection, key: int, state: str, but_for: int = 0) -> list[int]:
    """Return the numbers of the chunks in all segments but one."""
    statement = select(_s.members, _s.high).where(_s.collection_key == key, _s.state == state)
    rows = connection.execute(statement.where(_s.segment_key != but_for))
    return [number for stored, high in rows for number in members_of(stored, high)]


def _searchable(connection: Connection, key: int, state: str) -> list[int]:
    statement = (
        select(array_of(chunks.c.chunk_number))
        .join_from(chunks, generations)
        .where(generations.c.collection_key == key, generations.c.state == state, IS_INDEXED)
    )
    return sorted(read_array(connection, statement))


def _read(connection: Connection, key: int, state: str, numbers: Sequence[int]) -> list[Entry]:
    """Return the chunks that are searchable in a state, sorted by number."""
    which = (generations.c.collection_key == key) & (generations.c.state == state)
    return [entry for *_, entries in _entries(connection, which & numbered(numbers)) for entry in entries]


def _is_right(connection: Connection, key: int, segment_key: int) -> bool:
    row = connection.execute(select(lexical_segments).where(_s.segment_key == segment_key)).one_or_none()
    if row is None:
        return True  # it was merged into another meanwhile, or removed
    # Compared in the order of the chunks: a merged segment has its postings in the order in which its parts came.
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
    """Return the words, their numbers of postings, the postings and the positions, in the order of the chunks."""
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
