"""The lexical retriever: the chunks with the query's telling words and phrases that may be returned."""

from collections.abc import Mapping
from dataclasses import dataclass

from groundwire.retrieve.domain.query_terms import MAX_MATCHES, QueryTerms, parse_query, select_terms
from groundwire.retrieve.filter_gate import FilterGate
from groundwire.retrieve.ports import SearchView

_FURTHER = 8
"""How much further the words are followed when too few of the chunks found pass the filter."""


@dataclass(frozen=True, slots=True)
class SearchTuning:
    """Which words a search looks up, and how much they count.

    `max_terms` words of the query are looked up, and words of more than `max_term_share` of all chunks are
    left out. `dense_weight`, when set, replaces that of the collection.
    """

    max_terms: int = 12
    max_term_share: float = 0.25
    dense_weight: float | None = None


@dataclass(frozen=True, slots=True)
class Words:
    """What is looked up: terms, rarest first, phrases, and the number of chunks that contain each of them."""

    parsed: QueryTerms
    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    frequencies: Mapping[str, int]
    chunk_count: int


@dataclass(frozen=True, slots=True)
class WordsFound:
    """Numbers of the chunks with their scores, best first. `is_all`: no other chunk matches."""

    scores: Mapping[int, float]
    is_all: bool


class SearchWords:
    """The lexical retriever of one search.

    Args:
        view: what is read of the catalog.
        gate: the filter.
        tuning: which words are looked up.
    """

    def __init__(self, view: SearchView, gate: FilterGate, tuning: SearchTuning) -> None:
        self._view = view
        self._gate = gate
        self._tuning = tuning

    def choose(self, query: str) -> Words:
        """Return what to look up for a query."""
        parsed = parse_query(query)
        total = self._view.chunk_count()
        counts = self._view.frequencies([*parsed.terms, *parsed.phrases])
        terms = select_terms(
            {term: counts[term] for term in parsed.terms},
            total,
            max_share=self._tuning.max_term_share,
            max_terms=self._tuning.max_terms,
        )
        phrases = tuple(phrase for phrase in parsed.phrases if counts[phrase] > 0)[: self._tuning.max_terms]
        return Words(parsed, terms, phrases, counts, total)

    def __call__(self, words: Words, limit: int) -> WordsFound:
        """Return the best `limit` chunks that match and may be returned, or all."""
        if not words.terms and not words.phrases:
            return WordsFound({}, is_all=True)
        asked = limit if self._gate.where is None else max(limit, MAX_MATCHES)
        while True:
            found = self._view.lexical(words.terms, words.phrases, asked)
            numbers, scores = found.numbers, found.scores
            is_all = len(numbers) < asked
            if self._gate.where is not None:
                passing = self._gate.first_passing(numbers, limit)
                numbers, scores = numbers[passing], scores[passing]
            if is_all or len(numbers) >= limit:
                best = dict(zip(numbers[:limit].tolist(), scores[:limit].tolist(), strict=True))
                return WordsFound(best, is_all and len(numbers) <= limit)
            asked *= _FURTHER
