"""How much the words of a query count against its vector."""

from collections.abc import Mapping

from groundwire.retrieve.domain.query_terms import QueryTerms

KEYWORD_DENSE_WEIGHT = 0.4
"""Below one half, so that the only chunk with a decisive word comes before the nearest chunk without one."""

_FEW_WORDS = 3
_RARE_CHUNKS = 3
_RARE_SHARE = 0.005


def dense_weight_for(default: float, parsed: QueryTerms, frequencies: Mapping[str, int], chunk_count: int) -> float:
    """Return the share of the dense retriever for one query, at most `default`.

    Embedding models know little about rare names and codes, and words find them exactly. So the lexical retriever leads
    when a rare word (at most 3 chunks, or 0.5 % of them) decides: in a query of at most 3 telling words, or when it is
    a code, with letters and digits or joined to its neighbour by a sign, such as `OPS-306` (requirement S1-42). So it
    does when the caller quotes words that some chunk has in that order.

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
