"""The words of a query: which of them tell chunks apart, and how much they count against its vector."""

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from itertools import accumulate

from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.words import signed_words, split_words, without_pairs

_QUOTED = re.compile(r'"([^"]+)"')
_RUN = re.compile(r"[^\s\"(){}\[\]<>,;!?=&|*^`~“”„«»]+")

KEYWORD_DENSE_WEIGHT = 0.4
"""Below one half, so that the only chunk with a decisive word comes before the nearest chunk without one."""

_FEW_WORDS = 3
_RARE_CHUNKS = 3
_RARE_SHARE = 0.005

MAX_MATCHES = 5000
"""Chunks that the words of one query may match, counted word by word: every one is scored (2 us each)."""
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

    Terms are single words, case-folded, of scripts without spaces pairs of characters; without punctuation, but for
    words that are others with their sign, such as `c++` and `at&t`. Phrases are words in a row, separated by one space:
    what the caller put in double quotes, and the parts of a compound such as `OPS-306` or `std::mem`
    (not of `it's`, whose parts are stop words). `quoted` are those of them that the caller quoted.
    """

    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    quoted: tuple[str, ...] = ()


def check_query_length(query: str, collection: Collection, field: str) -> None:
    """Return if a query, counted in code points, is within its collection's limit (requirements S3-01, C15).

    Raises:
        InvalidRequestError: naming `field`.
    """
    limit = collection.settings.limits.max_query_chars
    if len(query) > limit:
        raise InvalidRequestError.of(field, f"must be at most {limit} characters, has {len(query)}")


def parse_query(query: str) -> QueryTerms:
    """Return the words and phrases of a free text.

    Nothing in the text is an operator: signs only separate words, and AND, NEAR or NOT are words. Stop
    words are left out unless nothing else is there.
    """
    phrases = [words for quoted in _QUOTED.findall(query) if len(words := _words(quoted)) > 1]
    # A sentence without spaces is no compound, nor is a number in it a code.
    runs = _RUN.findall(without_pairs(query))
    compounds = [words for run in runs if len(set(words := _words(run)) - STOP_WORDS) > 1]
    words = _words(query) + signed_words(query)
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


def dense_weight_for(default: float, parsed: QueryTerms, frequencies: Mapping[str, int], chunk_count: int) -> float:
    """Return the share of the vectors for one query, at most `default`.

    Embedding models know little about rare names and codes, and words find them exactly. So the words lead
    when a rare word (at most 3 chunks, or 0.5 % of them) decides: in a query of at most 3 telling words, or when it is
    a code, with letters and digits or joined to its neighbour by a sign, such as `OPS-306` (requirement S1-42). So they
    do when the caller quotes words that some chunk has in that order.

    Args:
        default: share in [0, 1] for ordinary questions.
        parsed: the query.
        frequencies: word or phrase of the query to the number of chunks that contain it.
        chunk_count: all chunks of the collection.
    """
    if any(frequencies.get(phrase, 0) > 0 for phrase in parsed.quoted):
        return min(default, KEYWORD_DENSE_WEIGHT)
    limit = max(_RARE_CHUNKS, _RARE_SHARE * chunk_count)
    rare = {word for word in parsed.terms if 0 < frequencies.get(word, 0) <= limit}
    decisive = rare if len(parsed.terms) <= _FEW_WORDS else {word for word in rare if _is_code(word, parsed)}
    return min(default, KEYWORD_DENSE_WEIGHT) if decisive else default


def _is_code(word: str, parsed: QueryTerms) -> bool:
    has_digit = any(char.isdigit() for char in word)
    joined = any(word in phrase.split() for phrase in parsed.phrases)
    return has_digit and (joined or not word.isdigit())


def distinct_words(text: str) -> set[str]:
    """Return the case-folded words of a text, those with a sign too."""
    return {*_words(text), *signed_words(text)}


def _words(text: str) -> list[str]:
    if text.isascii():
        return split_words(text.lower())
    return [word.casefold() for word in split_words(text)]


def _unique(words: Iterable[str]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(words))
