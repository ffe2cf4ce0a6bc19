"""Full-text search over chunks: FTS5, Porter stems, BM25."""

import json
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
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
# Weights of the columns chunk_id, content, section_heading: a word in a heading says more than one in the text. A
# weight multiplies the number of occurrences, so 2 for the content stands for k1 = 0.6 instead of 1.2: a word that
# comes again adds less, which ranks better on every set that was measured (docs/adr/0010).
# One row instead of many thousand: the interpreter lock is taken once.
_SEARCH = text(
    """
    SELECT json_group_array(key), json_group_array(score) FROM (
        SELECT rowid AS key, -bm25(chunks_fts, 0.0, 2.0, 4.0) AS score FROM chunks_fts
        WHERE chunks_fts MATCH :query AND rowid BETWEEN :first AND :last
        ORDER BY score DESC, abs(rowid) LIMIT :limit
    )
    """
)
_COUNT = select(func.count()).select_from(_index).where(_matches, _in_range)


@dataclass(frozen=True, slots=True)
class LexicalMatches:
    """Chunks that contain a term, best first, ties by number; column by column.

    `numbers` is int64 and `scores` float64, both of shape (n,). Scores are BM25: positive, higher is better,
    comparable within one search.
    """

    numbers: NDArray[np.int64]
    scores: NDArray[np.float64]


class FullText:
    """The index of all tenants; each call reads the part of one collection, on the caller's snapshot."""

    def __init__(self) -> None:
        self._counts: BoundedCache[tuple[int, int, Words], int] = BoundedCache(_CACHED_COUNTS)

    def search(
        self, connection: Connection, part: Keys, terms: Sequence[str], phrases: Sequence[str], limit: int
    ) -> LexicalMatches:
        """Return the best chunks that contain any term or phrase.

        A term or phrase may be any text: it is cut into words, which must stand side by side. The inverse
        document frequencies are those of the whole file.
        """
        quoted = [_quoted(words) for words in self._words.of_each([*terms, *phrases]) if words]
        if not quoted:
            return LexicalMatches(np.zeros(0, dtype=np.int64), np.zeros(0))
        given = {"query": " OR ".join(quoted), "first": part[0], "last": part[1], "limit": limit}
        keys, scores = connection.execute(_SEARCH, given).one()
        numbers = np.abs(np.array(json.loads(keys), dtype=np.int64)) & _NUMBERS
        return LexicalMatches(numbers, np.array(json.loads(scores), dtype=np.float64))

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
