"""What the lexical retriever looks for: the words of a query that tell chunks apart."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

_QUOTED = re.compile(r'"([^"]+)"')
_RUN = re.compile(r"[^\s\"(){}\[\]<>,;!?=&|*^`~“”„«»]+")
_WORD = re.compile(r"[^\W_]+")

MAX_MATCHES = 5000
"""Chunks that the words of one query may match, counted word by word; each one is scored, in 2 us."""
MAX_QUERY_TERMS = 64
"""Distinct words of one query that are looked up at all."""

STOP_WORDS = frozenset(
    """
    a about above after again all also am an and any are as at be because been before being below between
    both but by can could did do does doing don down during each few for from further had has have having he
    her here hers him his how i if in into is it its itself just me more most my no nor not now of off on
    once only or other our out over own s same she should so some such t than that the their them then there
    these they this those through to too under until up very was we were what when where which while who
    whom why will with would you your yours
    """.split()  # noqa: SIM905 - a hundred quoted words are harder to read
)
"""English function words; those of other languages fall to the frequency rule of `select_terms`."""


@dataclass(frozen=True, slots=True)
class QueryTerms:
    """The words and the phrases of a query, each once, in the order of the query.

    Terms are single words without punctuation, case-folded. Phrases are words in a row, separated by one space:
    what the caller put in double quotes, and the parts of a compound such as `OPS-306` or `std::mem`
    (not of `it's`, whose parts are stop words). `quoted` are those of them that the caller quoted.
    """

    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    quoted: tuple[str, ...] = ()


def parse_query(query: str) -> QueryTerms:
    """Return the words and phrases of a free text.

    Nothing in the text is an operator: signs only separate words, and AND, NEAR or NOT are words. Stop
    words are left out unless nothing else is there.
    """
    phrases = [words for quoted in _QUOTED.findall(query) if len(words := _words(quoted)) > 1]
    compounds = [words for run in _RUN.findall(query) if len(set(words := _words(run)) - STOP_WORDS) > 1]
    words = _words(query)
    telling = [word for word in words if word not in STOP_WORDS] or words
    joined = [" ".join(words) for words in (*phrases, *compounds)]
    quoted = _unique(joined[: len(phrases)])
    return QueryTerms(_unique(telling)[:MAX_QUERY_TERMS], _unique(joined)[:MAX_QUERY_TERMS], quoted[:MAX_QUERY_TERMS])


def select_terms(
    frequencies: Mapping[str, int], chunk_count: int, *, max_share: float = 0.25, max_terms: int = 12, few: int = 2
) -> tuple[str, ...]:
    """Return the words worth looking up, rarest first.

    Words of more than `max_share` of all chunks say little and cost most (each match is scored), so
    they are dropped unless fewer than `few` rarer ones are there. So are the most frequent of the others when
    all together match more than `MAX_MATCHES` chunks.

    Args:
        frequencies: word to the number of chunks that contain it; words in no chunk are left out.
        chunk_count: all chunks of the collection.
        max_share: in (0, 1].
        max_terms: at most so many words are returned.
        few: at least so many are returned, when there are as many.
    """
    found = sorted((count, word) for word, count in frequencies.items() if count > 0)
    totals = accumulate(count for count, _ in found)
    rare = [
        word
        for (count, word), total in zip(found, totals, strict=True)
        if count <= max_share * chunk_count and total <= MAX_MATCHES
    ]
    kept = rare if len(rare) >= few else [word for _, word in found[:few]]
    return tuple(kept[:max_terms])


def distinct_words(text: str) -> set[str]:
    """Return the case-folded words of a text."""
    return set(_words(text))


def _words(text: str) -> list[str]:
    if text.isascii():
        return _WORD.findall(text.lower())
    return [word.casefold() for word in _WORD.findall(text)]


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
