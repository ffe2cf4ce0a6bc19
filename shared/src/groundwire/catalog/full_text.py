"""Full-text search over chunks: FTS5, Porter stems, BM25."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from sqlalchemy import Connection, bindparam, column, func, select, table, text

from groundwire.catalog.index_words import IndexWords
from groundwire.kernel.bounded_cache import BoundedCache

Words: TypeAlias = tuple[str, ...]
Keys: TypeAlias = tuple[int, int]
"""First and last row of a part of the index."""

_NUMBER_BITS = 40
"""Row ids hold the collection's key above so many bits of the chunk's number: one collection is one range."""
_NUMBERS = (1 << _NUMBER_BITS) - 1
_CACHED_COUNTS = 50_000

_index = table("chunks_fts", column("rowid"), column("chunks_fts"))
_matches = _index.c.chunks_fts.op("MATCH")(bindparam("query"))
_in_range = _index.c.rowid.between(bindparam("first"), bindparam("last"))
# Weights of the columns chunk_id, content, section_heading: a word in a heading says more than one in the text.
_SEARCH = (
    select(_index.c.rowid, text("-bm25(chunks_fts, 0.0, 1.0, 2.0) AS score"))
    .where(_matches, _in_range)
    .order_by(text("score DESC"), _index.c.rowid)
    .limit(bindparam("limit"))
)
_COUNT = select(func.count()).select_from(_index).where(_matches, _in_range)


@dataclass(frozen=True, slots=True)
class LexicalMatch:
    """A chunk that contains a term. `score` is BM25: positive, higher is better, comparable within one search."""

    number: int
    score: float


class FullText:
    """The index of all tenants; each call reads the part of one collection, on the caller's snapshot."""

    def __init__(self) -> None:
        self._counts: BoundedCache[tuple[int, int, Words], int] = BoundedCache(_CACHED_COUNTS)

    def search(
        self, connection: Connection, part: Keys, terms: Sequence[str], phrases: Sequence[str], limit: int
    ) -> list[LexicalMatch]:
        """Return the best chunks that contain any term or phrase, best first, ties by number.

        A term or phrase may be any text: it is cut into words, which must stand side by side. The inverse
        document frequencies are those of the whole file.
        """
        quoted = [_quoted(words) for words in self._words.of_each([*terms, *phrases]) if words]
        if not quoted:
            return []
        given = {"query": " OR ".join(quoted), "first": part[0], "last": part[1], "limit": limit}
        return [LexicalMatch(number_of(key), score) for key, score in connection.execute(_SEARCH, given)]

    def frequencies(
        self, connection: Connection, part: Keys, changed_position: int, terms: Sequence[str]
    ) -> Mapping[str, int]:
        """Return the number of chunks that contain each term (as stem, side by side), 0 for none.

        Counts are remembered for `changed_position`, the position at which the collection last changed.
        """
        cut = {term: tuple(words) for term, words in zip(terms, self._words.of_each(terms), strict=True)}
        known = {words: self._counts.get((part[0], changed_position, words)) for words in cut.values() if words}
        for words in [words for words, count in known.items() if count is None]:
            given = {"query": _quoted(words), "first": part[0], "last": part[1]}
            known[words] = count = int(connection.execute(_COUNT, given).scalar_one())
            self._counts.put((part[0], changed_position, words), count, 1)
        return {term: known.get(words) or 0 for term, words in cut.items()}

    @cached_property
    def _words(self) -> IndexWords:
        return IndexWords()


def live_part(collection_key: int) -> Keys:
    """Return the rows of a collection's live chunks."""
    first = collection_key << _NUMBER_BITS
    return first, first | _NUMBERS


def superseded_part(collection_key: int) -> Keys:
    """Return the rows of the superseded chunks that are kept of a collection."""
    first, last = live_part(collection_key)
    return -last, -first


def number_of(key: int) -> int:
    """Return the number of the chunk of a row of the index."""
    return abs(key) & _NUMBERS


def _quoted(words: Collection[str]) -> str:
    """Return an FTS5 string; words consist of letters and digits, so nothing in them can end it or be an operator."""
    return f'"{" ".join(words)}"'
