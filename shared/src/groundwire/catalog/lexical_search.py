"""Full-text search in one collection: reads the postings of the query's words, and scores them with BM25."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import ColumnElement, Connection, func, literal_column, select

from groundwire.catalog.dialects import array_of, read_array, read_postings, sizes_of_postings
from groundwire.catalog.index_words import index_words
from groundwire.catalog.lexical_index import MEMBER, POSITION, POSTING, SHARED_BITS
from groundwire.catalog.rows import IS_INDEXED, IS_LIVE, GenerationState
from groundwire.catalog.schema import chunks, generations, lexical_segments
from groundwire.kernel.bounded_cache import BoundedCache, bytes_of

Numbers: TypeAlias = NDArray[np.int64]
Words: TypeAlias = tuple[str, ...]
_Small: TypeAlias = NDArray[np.uint16]
# Numbers, lengths, content and heading of `_Postings`, of one term; small, as they are stored.
_Columns: TypeAlias = tuple[Numbers, _Small, _Small, _Small]

_CACHED_WORDS, _CACHED_TOTALS = 50_000, 10_000
# Size of an entry of the cache of postings besides its numbers: arrays, its key and its place in the cache.
_ENTRY_BYTES = 500
_K1, _B = 1.2, 0.75
# A word in a heading says more than one in the text. A weight multiplies the number of occurrences, so 2 for the
# content stands for k1 = 0.6 instead of 1.2: a word that comes again adds less, which ranks better on every set that
# was measured (docs/adr/0010).
_CONTENT_WEIGHT, _HEADING_WEIGHT = 2.0, 4.0
# For a word in more than half of the chunks: a match still counts a little.
_LEAST_RARITY = 1e-6
# Scores are added up in an array over the range of chunk numbers, unless that has so many times more than matches.
_SPARSE = 8

_LIVE = (GenerationState.LIVE.value,)
_LIVE_AND_PAST = (GenerationState.LIVE.value, GenerationState.SUPERSEDED.value)
_s = lexical_segments.c


@dataclass(frozen=True, slots=True)
class LexicalMatches:
    """Chunks that contain a term, best first, ties by number; column by column.

    `numbers` is int64 and `scores` float64, both of shape (n,). Scores are BM25: positive, higher is better,
    comparable within one search.
    """

    numbers: Numbers
    scores: NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class Reading:
    """Which contents of a collection to search.

    Attributes:
        connection: one short read.
        key: of the collection.
        changed: position at which the collection last changed, as the connection sees it.
        as_of: the position to read as of, None for now.
        within: numbers of the chunks that this reader may see, ascending; None for all.
        rewritten: position of the last change of filter keys.
    """

    connection: Connection
    key: int
    changed: int
    as_of: int | None
    within: Numbers | None = None
    rewritten: int = 0


@dataclass(frozen=True, slots=True)
class _Totals:
    """How many chunks there are, and words in all of them; `visible` are their numbers, None for all live ones."""

    chunks: int
    words: int
    visible: Numbers | None = None


@dataclass(frozen=True, slots=True)
class _Postings:
    """Which chunks contain which term; an item of each array for each chunk and term.

    Attributes:
        terms: index of the term.
        numbers: of the chunks.
        lengths: how many words the chunk has.
        content: how often the term is in the content.
        heading: how often the term is in the heading.
        places: of each occurrence the number of the chunk, a bit for the heading and 16 for the position, or None.
    """

    terms: Numbers
    numbers: Numbers
    lengths: Numbers
    content: Numbers
    heading: Numbers
    places: Numbers | None = None

    def only(self, keep: NDArray[np.bool_]) -> "_Postings":
        # A posting has a place for each occurrence.
        places = None if self.places is None else self.places[np.repeat(keep, self.content + self.heading)]
        columns = (self.terms, self.numbers, self.lengths, self.content, self.heading)
        return replace(_Postings(*(column[keep] for column in columns)), places=places)


class LexicalSearch:
    """Everything in a score comes from the chunks that are visible in the collection; safe to use from many threads.

    Postings of terms are remembered until their collection changes, `cache_bytes` of them.
    """

    def __init__(self, cache_bytes: int = 0) -> None:
        # By words and not by phrases, since a phrase may have thousands.
        self._counts: BoundedCache[tuple[int, int, Words], int] = BoundedCache(_CACHED_WORDS)
        self._totals: BoundedCache[tuple[int, int], _Totals] = BoundedCache(_CACHED_TOTALS)
        self.postings: BoundedCache[tuple[int, int, Words], _Columns] = BoundedCache(cache_bytes)

    def search(self, reading: Reading, terms: Sequence[str], phrases: Sequence[str], limit: int) -> LexicalMatches:
        """Return the best chunks that contain any term or phrase.

        A term or phrase may be any text: it is cut into words, which must stand side by side. The scores are those
        that an index of nothing but the visible chunks gives, to the last bit.
        """
        nothing = LexicalMatches(np.zeros(0, dtype=np.int64), np.zeros(0))
        # Two terms that are cut into the same words count twice.
        queried = Counter(tuple(words) for words in index_words().sought([*terms, *phrases]) if words)
        if not queried:
            return nothing
        totals = self._read_totals(reading)
        # Another answer at each position and for each reader: not remembered.
        is_shared = reading.as_of is None and reading.within is None
        read = self._live_postings if is_shared else partial(_read_terms, visible=totals.visible)
        postings = read(reading, list(queried))
        if not len(postings.numbers):
            return nothing
        # Okapi BM25, in the operations and the order in which FTS5 of SQLite computes it.
        average = totals.words / max(totals.chunks, 1)
        counts = np.bincount(postings.terms, minlength=len(queried))
        rarities = np.maximum(np.log((totals.chunks - counts + 0.5) / (counts + 0.5)), _LEAST_RARITY)
        rarities *= list(queried.values())
        often = _CONTENT_WEIGHT * postings.content + _HEADING_WEIGHT * postings.heading
        shortness = _K1 * (1 - _B + _B * postings.lengths / average)
        of_terms = rarities[postings.terms] * often * (_K1 + 1) / (often + shortness)
        first = postings.numbers.min()
        if postings.numbers.max() - first < _SPARSE * len(of_terms):
            added = np.bincount(postings.numbers - first, weights=of_terms).astype(np.float64, copy=False)
            found = np.flatnonzero(added)
            numbers, scores = found + first, added[found]
        else:
            numbers, slots = np.unique(postings.numbers, return_inverse=True)
            scores = np.bincount(slots, weights=of_terms).astype(np.float64, copy=False)
        # A common word is in most chunks: only those that may be among the best are sorted, with ties of the last.
        if len(numbers) > limit:
            least = np.partition(scores, len(scores) - limit)[len(scores) - limit]
            numbers, scores = numbers[scores >= least], scores[scores >= least]
        order = np.lexsort((numbers, -scores))[:limit]
        return LexicalMatches(numbers[order], scores[order])

    def frequencies(self, reading: Reading, terms: Sequence[str]) -> Mapping[str, int]:
        """Return the number of visible chunks that contain each term (as stem, side by side), 0 for none.

        Counts are remembered until the collection changes.
        """
        cut = {term: tuple(words) for term, words in zip(terms, index_words().sought(terms), strict=True)}
        queried = list({words for words in cut.values() if words})
        # Another answer at each position and for each reader: not remembered.
        if reading.as_of is not None or reading.within is not None:
            visible_counts: Mapping[Words, int] = {}
            if queried:  # what has no words, such as a question of signs alone, is asked for all the same
                visible_counts = _count_each(_read_terms(reading, queried, self._read_totals(reading).visible), queried)
            return {term: visible_counts.get(words, 0) for term, words in cut.items()}
        known = {words: self._counts.get((reading.key, reading.changed, words)) for words in queried}
        unknown = [words for words, count in known.items() if count is None]
        new = dict.fromkeys(unknown, 0)
        if single := [words[0] for words in unknown if len(words) == 1]:
            # Their length tells how many postings there are, so that none has to be read.
            sizes = sizes_of_postings(reading.connection, reading.key, _LIVE, single)
            new |= {(word,): size // POSTING.itemsize for word, size in sizes.items()}
        if several := [words for words in unknown if len(words) > 1]:
            new |= _count_each(_read_terms(reading, several, None), several)
        for words, count in new.items():
            self._counts.put((reading.key, reading.changed, words), count, len(words))
        counts = known | new
        return {term: counts.get(words) or 0 for term, words in cut.items()}

    def _live_postings(self, reading: Reading, queried: Sequence[Words]) -> _Postings:
        """Return where terms are, one term behind the other; those that are not remembered are read.

        Each chunk has its terms in the order of `_read_terms`, so that its score is added up in the same order.
        """
        remembered = self.postings.get_all((reading.key, reading.changed, words) for words in queried)
        known = {words: columns for words, columns in zip(queried, remembered, strict=True) if columns is not None}
        missing = [words for words in queried if words not in known]
        if missing:
            found = _read_terms(reading, missing, None)
            ends = np.cumsum(np.bincount(found.terms, minlength=len(missing)))[:-1]
            # Stable, so that the postings of each term stay in the order in which they were read.
            places = np.split(np.argsort(found.terms, kind="stable"), ends)
            lengths, content, heading = (
                column.astype(np.uint16) for column in (found.lengths, found.content, found.heading)
            )
            for words, of_term in zip(missing, places, strict=True):
                # Copies: what is remembered of a rare word must not hold on to what was read of a common one.
                columns = (found.numbers[of_term], lengths[of_term], content[of_term], heading[of_term])
                known[words] = columns
                weight = _ENTRY_BYTES + bytes_of(words) + sum(column.nbytes for column in columns)
                self.postings.put((reading.key, reading.changed, words), columns, weight)
        ordered = sorted(queried, key=lambda words: (len(words) > 1, words if len(words) == 1 else ()))
        at = {words: number for number, words in enumerate(queried)}
        terms = np.repeat([at[words] for words in ordered], [len(known[words][0]) for words in ordered])
        joined = zip(*(known[words] for words in ordered), strict=True)
        return _Postings(terms, *(np.concatenate(parts).astype(np.int64, copy=False) for parts in joined))

    def _read_totals(self, reading: Reading) -> _Totals:
        if reading.as_of is not None:
            # What was visible then: what is live now except what came later, and what has been superseded since.
            came = IS_LIVE & (generations.c.live_from > reading.as_of)
            # As a literal, because the index of superseded generations is one of those only.
            is_superseded = generations.c.state == literal_column("'SUPERSEDED'")
            went = is_superseded & (generations.c.live_from <= reading.as_of) & (generations.c.live_to > reading.as_of)
            live, live_lengths = _members(reading.connection, reading.key, _LIVE)
            past, past_lengths = _members(reading.connection, reading.key, (GenerationState.SUPERSEDED.value,))
            stays = np.isin(live, _numbers(reading, came), invert=True)
            returns = np.isin(past, _numbers(reading, went))
            numbers = np.concatenate([live[stays], past[returns]])
            lengths = np.concatenate([live_lengths[stays], past_lengths[returns]])
            return _totals_of(numbers, lengths, reading.within)
        if reading.within is not None:
            return _totals_of(*_members(reading.connection, reading.key, _LIVE), reading.within)
        known = self._totals.get((reading.key, reading.changed))
        if known is None:
            counted = select(func.sum(_s.chunk_count), func.sum(_s.word_count)).where(
                _s.collection_key == reading.key, _s.state == GenerationState.LIVE.value
            )
            count, words = reading.connection.execute(counted).one()
            known = _Totals(int(count or 0), int(words or 0))
            self._totals.put((reading.key, reading.changed), known)
        return known


def live_numbers(connection: Connection, collection_key: int) -> Numbers:
    """Return the numbers of the live chunks of a collection that are in the index, ascending."""
    return np.sort(_members(connection, collection_key, _LIVE)[0])


def count_among(connection: Connection, collection_key: int, numbers: Sequence[int]) -> int:
    """Return how many of the chunks are in the index."""
    return int(np.isin(_members(connection, collection_key, _LIVE_AND_PAST)[0], numbers).sum())


def _members(connection: Connection, collection_key: int, states: Iterable[str]) -> tuple[Numbers, NDArray[np.int64]]:
    """Return numbers and lengths of the chunks in the index."""
    statement = select(_s.high, _s.members).where(_s.collection_key == collection_key, _s.state.in_(list(states)))
    rows = connection.execute(statement).all()
    members = np.frombuffer(b"".join(row.members for row in rows), MEMBER)
    highs = np.repeat([row.high for row in rows], [len(row.members) // MEMBER.itemsize for row in rows])
    return (highs.astype(np.int64) << SHARED_BITS) | members["low"], members["length"].astype(np.int64)


def _totals_of(numbers: Numbers, lengths: Numbers, within: Numbers | None) -> _Totals:
    """Return the totals of chunks, given with their lengths, or of those of them that are `within`."""
    if within is not None:
        there = np.isin(numbers, within)
        numbers, lengths = numbers[there], lengths[there]
    return _Totals(len(numbers), int(lengths.sum()), np.sort(numbers))


def _numbers(reading: Reading, which: ColumnElement[bool]) -> Numbers:
    statement = (
        select(array_of(chunks.c.chunk_number))
        .join_from(chunks, generations)
        .where(generations.c.collection_key == reading.key, which, IS_INDEXED)
    )
    return np.array(read_array(reading.connection, statement), dtype=np.int64)


def _count_each(postings: _Postings, queried: Sequence[Words]) -> dict[Words, int]:
    return dict(zip(queried, np.bincount(postings.terms, minlength=len(queried)).tolist(), strict=True))


def _read_terms(reading: Reading, queried: Sequence[Words], visible: Numbers | None) -> _Postings:
    """Read where terms of one word or several are, in the order of the segments and then of the words."""
    index = {words: at for at, words in enumerate(queried)}
    single = sorted(words[0] for words in queried if len(words) == 1)
    parts = []
    if single:
        found = _read(reading, single, visible, places=False)
        parts.append(replace(found, terms=np.array([index[word,] for word in single])[found.terms]))
    if several := [words for words in queried if len(words) > 1]:
        in_several = sorted({word for words in several for word in words})
        found = _read(reading, in_several, visible, places=True)
        # The postings of each word, in one pass for all, since a phrase may have a thousand words.
        starts = np.flatnonzero(np.diff(found.terms, prepend=-1))
        ends = np.append(starts, len(found.terms))[1:]
        up_to = np.append(0, np.cumsum(found.content + found.heading))
        runs: dict[str, list[slice]] = {word: [] for word in in_several}
        of_places: dict[str, list[slice]] = {word: [] for word in in_several}
        for term, start, end in zip(found.terms[starts].tolist(), starts.tolist(), ends.tolist(), strict=True):
            runs[in_several[term]].append(slice(start, end))
            of_places[in_several[term]].append(slice(up_to[start], up_to[end]))
        arrays = [(each, runs) for each in (found.terms, found.numbers, found.lengths, found.content, found.heading)]
        arrays.append((_places(found), of_places))
        of_word = {word: _Postings(*(_joined(array, slices[word]) for array, slices in arrays)) for word in in_several}
        parts += [_side_by_side([of_word[word] for word in words], index[words]) for words in several]
    if len(parts) == 1:
        return parts[0]
    columns = ("terms", "numbers", "lengths", "content", "heading")
    return _Postings(*(np.concatenate([getattr(part, name) for part in parts]) for name in columns))


def _read(reading: Reading, words: Sequence[str], visible: Numbers | None, *, places: bool) -> _Postings:
    """Read where words are, which are given in order and without repetition."""
    states = _LIVE if reading.as_of is None else _LIVE_AND_PAST
    stored = read_postings(reading.connection, reading.key, states, words, with_positions=places)
    # All words at once: what numpy does to a whole array costs about as much as to the few numbers of one word.
    postings = np.frombuffer(stored.postings, POSTING)
    counts = np.array(stored.sizes, dtype=np.int64) // POSTING.itemsize
    at = {word: number for number, word in enumerate(words)}
    terms = np.repeat(np.array([at[word] for word in stored.words], dtype=np.int64), counts)
    numbers = np.repeat(np.array(stored.highs, dtype=np.int64) << SHARED_BITS, counts) | postings["low"]
    lengths, content, heading = (postings[name].astype(np.int64) for name in ("length", "content", "heading"))
    found = _Postings(terms, numbers, lengths, content, heading)
    if places:
        in_heading = np.repeat(np.tile([0, 1], len(postings)), np.stack([content, heading], axis=1).ravel())
        of_chunk = np.repeat(numbers, content + heading) << 1 | in_heading
        found = replace(found, places=of_chunk << SHARED_BITS | np.frombuffer(stored.positions, POSITION))
    return found if visible is None else found.only(np.isin(numbers, visible))


def _joined(column: Numbers, parts: Sequence[slice]) -> Numbers:
    return np.concatenate([column[part] for part in parts]) if parts else column[:0]


def _side_by_side(words: Sequence[_Postings], term: int) -> _Postings:
    """Return where the words stand behind one another, in the content or in the heading."""
    first = words[0]
    # From the word that occurs least often, whose places are then the fewest to look for among those of the others.
    least = min(range(len(words)), key=lambda at: len(_places(words[at])))
    begins = np.sort(_places(words[least]), kind="stable") - least
    for distance, each in enumerate(words):
        if distance != least and len(begins):
            # Stable sorting is quick for places that are nearly in order, as they are read.
            places = np.sort(_places(each), kind="stable")
            at = np.minimum(np.searchsorted(places, begins + distance), len(places) - 1)
            begins = begins[places[at] == begins + distance]
    numbers, slots = np.unique(begins >> (SHARED_BITS + 1), return_inverse=True)
    heading = np.bincount(slots, weights=(begins >> SHARED_BITS) & 1, minlength=len(numbers)).astype(np.int64)
    content = np.bincount(slots, minlength=len(numbers)) - heading
    order = np.argsort(first.numbers)
    lengths = first.lengths[order[np.searchsorted(first.numbers, numbers, sorter=order)]]
    return _Postings(np.full(len(numbers), term), numbers, lengths, content, heading)


def _places(postings: _Postings) -> Numbers:
    if postings.places is None:
        raise ValueError("the positions were not read")
    return postings.places
