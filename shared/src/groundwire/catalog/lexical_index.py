"""The full-text index: which chunks contain a word, how often and where; maintained by whoever changes chunks.

The chunks of a collection are in segments, those that readers see now (LIVE) apart from those that are kept for readers
of the past (SUPERSEDED), so that nothing but a collection's own chunks is behind its scores. A generation is written
to segments of its own while it is PENDING; publishing it only renames their state. Small segments are merged into
larger ones, which keeps both few: the pages that a write touches, and the rows that a search reads. All of this happens
in the transaction that changes the chunks (docs/adr/0015).
"""

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, bindparam, delete, insert, select, update

from groundwire.catalog.dialects import among, insert_rows, merge_postings
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.index_words import RULES_COUNTER, WORD_RULES, index_words
from groundwire.catalog.rows import IS_INDEXED, GenerationState
from groundwire.catalog.schema import chunks, counters, generations, lexical_postings, lexical_segments

SHARED_BITS = 16
"""The chunks of a segment have the same number but for so many low bits, which is what a posting holds of it."""
POSTING = np.dtype([("low", "<u2"), ("length", "<u2"), ("content", "<u2"), ("heading", "<u2")])
"""A chunk that contains a word: how many words it has in all, and how often the word is in content and heading."""
MEMBER = np.dtype([("low", "<u2"), ("length", "<u2")])
POSITION = np.dtype("<u2")
"""Counted in words, in the content from 0 on and in the heading from 0 on; `index_words.MOST_WORDS` fit."""

_FULL = 4096
"""Chunks of a segment that is not merged any more: a search looks into each, and a deletion rewrites rows of one."""
_FULL_WORDS = 400_000
"""Words of a merged segment at most: writing one keeps other writers waiting for as long as it has words."""
_MERGED_AT_ONCE_BITS = 4
"""Segments of a similar size are merged when there are 16 of them, so that a posting is rewritten three times."""
_WORDS_PER_QUERY = 400
_SEARCHABLE = (GenerationState.LIVE.value, GenerationState.SUPERSEDED.value)

_s, _p = lexical_segments.c, lexical_postings.c


@dataclass(frozen=True, slots=True)
class Entry:
    """What the index has of a chunk."""

    number: int
    content: str
    heading: str

    @property
    def high(self) -> int:
        """Return the part of the number that the chunks of a segment share."""
        return self.number >> SHARED_BITS


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of the index, not written yet; `rows` are (word, postings, positions) by word."""

    high: int
    members: NDArray[np.void]
    rows: Sequence[tuple[str, bytes, bytes]]


def make_segments(entries: Sequence[Entry]) -> list[Segment]:
    """Cut the texts of chunks into words and sort those; the numbers ascend."""
    segments = []
    for high, alike in groupby(entries, lambda entry: entry.high):
        of_high = list(alike)
        segments += [make_segment(high, of_high[at : at + _FULL]) for at in range(0, len(of_high), _FULL)]
    return segments


def make_segment(high: int, entries: Sequence[Entry]) -> Segment:
    """Cut the texts of chunks that are to be in one segment; their numbers ascend and begin with `high`."""
    # Two texts for each chunk: content and heading, in which positions are counted apart.
    texts = index_words().indexed([each for entry in entries for each in (entry.content, entry.heading)])
    ids: dict[str, int] = {}
    words = np.array([ids.setdefault(word, len(ids)) for of_text in texts for word in of_text], dtype=np.int64)
    lengths = np.array([len(of_text) for of_text in texts], dtype=np.int64)
    members = np.empty(len(entries), MEMBER)
    members["low"] = [entry.number & ((1 << SHARED_BITS) - 1) for entry in entries]
    members["length"] = np.minimum(lengths[::2] + lengths[1::2], np.iinfo(np.uint16).max)
    if not ids:
        return Segment(high, members, ())
    names = sorted(ids)
    rank = np.empty(len(names), np.int64)
    rank[[ids[name] for name in names]] = np.arange(len(names))
    of_text = np.repeat(np.arange(len(texts)), lengths)
    positions = np.arange(len(words)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
    order = np.argsort(rank[words], kind="stable")  # by word, then as they come: chunk, content and heading, position
    words, of_text, positions = rank[words][order], of_text[order], positions[order]
    first = _starts(words * len(entries) + of_text // 2)  # of each posting among the positions
    postings = np.empty(len(first), POSTING)
    chunk, in_heading = of_text[first] // 2, np.add.reduceat(of_text % 2, first)
    postings["low"], postings["length"] = members["low"][chunk], members["length"][chunk]
    postings["heading"] = in_heading
    postings["content"] = np.diff(first, append=len(words)) - in_heading
    begins = _starts(words[first])  # of each word among the postings
    at = np.append(begins, len(first)) * POSTING.itemsize
    place = np.append(first[begins], len(words)) * POSITION.itemsize
    stored, placed = postings.tobytes(), positions.astype(POSITION).tobytes()
    columns = zip(names, at.tolist(), at[1:].tolist(), place.tolist(), place[1:].tolist(), strict=False)
    return Segment(high, members, [(name, stored[a:b], placed[c:d]) for name, a, b, c, d in columns])


def _starts(values: NDArray[np.int64]) -> NDArray[np.int64]:
    """Return where runs of equal values begin."""
    return np.flatnonzero(np.diff(values, prepend=-1))


def insert_pending(connection: Connection, collection_key: int, segments: Sequence[tuple[int, Segment]]) -> None:
    """Write what will be searched once a generation, given by its key, is published; it goes with it until then."""
    # Not merged: what may be taken back again is not mixed with what searches find.
    _insert(connection, collection_key, GenerationState.PENDING.value, segments)


_RELEASE = (
    update(lexical_segments)
    .where(among(_s.generation_key, bindparam("keys")))
    .values(state=GenerationState.LIVE.value, generation_key=None)
)


def release_pending(connection: Connection, collection_key: int, generation_keys: Sequence[int]) -> None:
    """Let searches find the chunks of pending generations."""
    connection.execute(_RELEASE, {"keys": encode_json(list(generation_keys))})
    _merge(connection, collection_key, GenerationState.LIVE.value)


def add_chunks(connection: Connection, which: ColumnElement[bool]) -> None:
    """Put chunks into the index, as the states of their generations are now; none of them may be in it.

    `which` is a condition on `chunks` and `generations`.
    """
    for collection_key, state, entries in _entries(connection, which):
        insert_segments(connection, collection_key, state, make_segments(entries))
        _merge(connection, collection_key, state)


def insert_segments(connection: Connection, collection_key: int, state: str, segments: Iterable[Segment]) -> list[int]:
    """Write segments of chunks that are searchable, without merging them; return their keys."""
    return _insert(connection, collection_key, state, [(None, segment) for segment in segments])


def remove_chunks(connection: Connection, which: ColumnElement[bool]) -> None:
    """Take chunks out of the index; before they, or the states of their generations, change.

    `which` is a condition on `chunks` and `generations`.
    """
    for collection_key, state, entries in _entries(connection, which):
        drop_segments(connection, _take_out(connection, collection_key, state, entries))


def supersede_chunks(connection: Connection, which: ColumnElement[bool]) -> list[int]:
    """Let readers of the past alone find live chunks, before their generation is superseded.

    Segments of nothing else, as those of large documents are, stay as they are; from others the chunks are taken out.

    Returns:
        The numbers of the chunks that were taken out: `add_chunks` has to add them once the generation is superseded.
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
    """Take chunks out of segments that have others as well; return the keys of the segments that have no others."""
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
    """Remove segments with all their postings."""
    connection.execute(delete(lexical_postings).where(_p.segment_key.in_(segment_keys)))
    connection.execute(delete(lexical_segments).where(_s.segment_key.in_(segment_keys)))


def has_other_words(connection: Connection) -> bool:
    """Return whether an earlier version, which cut texts by other rules, may have written a part of some index."""
    of_rules = select(counters.c.value).where(counters.c.name == RULES_COUNTER)
    return bool(connection.execute(of_rules).scalar() != WORD_RULES)


def members_of(stored: bytes, high: int) -> list[int]:
    """Return the numbers of the chunks of a segment; of one that is cut off those that can be read."""
    whole = stored[: len(stored) // MEMBER.itemsize * MEMBER.itemsize]
    lows = np.frombuffer(whole, MEMBER)["low"].astype(np.int64)
    return list(((high << SHARED_BITS) | lows).tolist())


def numbered(numbers: Iterable[int]) -> ColumnElement[bool]:
    """Return the condition for chunks of some numbers, however many."""
    return among(chunks.c.chunk_number, map(int, numbers))


def read_entries(connection: Connection, which: ColumnElement[bool]) -> Sequence[tuple[int, str, Entry]]:
    """Return the searchable chunks that meet a condition as (key of the collection, state, entry), by those."""
    statement = (
        select(
            generations.c.collection_key,
            generations.c.state,
            chunks.c.chunk_number,
            chunks.c.content,
            chunks.c.section_heading,
        )
        .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
        .where(which, IS_INDEXED, generations.c.state.in_(_SEARCHABLE))
        .order_by(generations.c.collection_key, generations.c.state, chunks.c.chunk_number)
    )
    return [(row[0], row[1], Entry(*row[2:])) for row in connection.execute(statement)]


def _entries(connection: Connection, which: ColumnElement[bool]) -> Iterator[tuple[int, str, list[Entry]]]:
    for (collection_key, state), rows in groupby(read_entries(connection, which), lambda row: row[:2]):
        yield collection_key, state, [entry for _, _, entry in rows]


_INSERT = insert(lexical_segments).returning(_s.segment_key, _s.high, _s.members)


def _insert(
    connection: Connection, collection_key: int, state: str, segments: Sequence[tuple[int | None, Segment]]
) -> list[int]:
    """Write segments, each with the key of its generation while that is pending; return their keys in order."""
    if not segments:
        return []
    of_all = {"collection_key": collection_key, "state": state}
    rows = [
        {**of_all, "generation_key": of_generation, "high": segment.high, **_figures(segment.members)}
        for of_generation, segment in segments
    ]
    # In no order, so that the database can take them all at once: no two segments have the same members.
    made = {(row.high, row.members): row.segment_key for row in connection.execute(_INSERT, rows)}
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
    """Return rows of words, postings and positions without those of some chunks; rows that had no others go."""
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
        for key, high, count, words in connection.execute(_MERGEABLE, given):
            alike[high, (count.bit_length() - 1) // _MERGED_AT_ONCE_BITS].append((key, count, words))
        many = 1 << _MERGED_AT_ONCE_BITS
        ready = [each for each in alike.values() if len(each) >= many or sum(count for _, count, _ in each) >= _FULL]
        if not ready:
            return
        for segments in ready:
            parts, chunk_count, word_count = list[int](), 0, 0
            for key, count, words in segments:
                if chunk_count < _FULL and word_count + words <= _FULL_WORDS:
                    parts.append(key)
                    chunk_count, word_count = chunk_count + count, word_count + words
            _merge_into_one(connection, parts)


def _merge_into_one(connection: Connection, parts: Sequence[int]) -> None:
    statement = select(lexical_segments).where(_s.segment_key.in_(parts)).order_by(_s.segment_key)
    rows = connection.execute(statement).mappings().all()
    members = np.concatenate([np.frombuffer(row["members"], MEMBER) for row in rows])
    shared = {name: rows[0][name] for name in ("collection_key", "state", "high")}
    into = insert(lexical_segments).returning(_s.segment_key)
    key = connection.execute(into, shared | _figures(members)).scalar_one()
    merge_postings(connection, key, parts)
    drop_segments(connection, parts)
