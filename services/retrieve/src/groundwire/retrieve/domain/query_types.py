"""What kind of question a query is, and what that changes in its ranking (requirements S3-03, S3-17, C19)."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.domain.section_reference import MAX_PHRASED_CHARS, SectionReference, find_section_reference

FACTUAL_SHIFT = -0.05
CONCEPTUAL_SHIFT = 0.05
NEIGHBOUR_SHARE = 0.2

_FEW_WORDS = 4
_CONCEPTUAL = re.compile(
    r"""^\W*(?:why|explain|describe|discuss|compare|in\ what\ way|tell\ me\ about|overview|understand
    |how\ (?:do|does|did|is|are|was|were|can|could|should|would|to|come)
    |what\ (?:do|does)\ .*\ mean
    |what\ (?:is|are)\ the\ (?:differences?|purpose|point|idea|meaning|role|reasons?|trade-?offs?))\b
    |\b(?:difference\ between|concept\ of|idea\ behind|purpose\ of|advantages?\ of|trade-?offs?|explain)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_FACTUAL = re.compile(
    r"""^\W*(?:(?:in|on|at|by|for|from|to|of)\ )?(?:who|whom|whose|when|where|which
    |how\ (?:many|much|long|old|often|big|large|fast|far)
    |what\ (?:is|are|was|were)\ the
    |what\ (?:year|date|day|time|number|name|version|size|value|type|command|file|flag|port))\b
    |\b(?:define|definition\ of|name\ of|number\ of|list\ of|value\ of|default\ value)\b""",
    re.IGNORECASE | re.VERBOSE,
)
_QUESTION = re.compile(
    r"^\W*(?:what|is|are|was|were|do|does|did|can|could|should|would|will|has|have)\b", re.IGNORECASE
)
_CODE = re.compile(r"\w*\d\w*|\w+(?:::|[_./-])\w+")


@dataclass(frozen=True, slots=True)
class QueryStrategy:
    """What a type of query changes.

    `weight_shift` is added to the share of the dense retriever where the request does not give one. `neighbour_share`
    in [0, 1] is how much of the way a chunk follows a better neighbour. Chunks of `section` are preferred.
    """

    weight_shift: float = 0.0
    neighbour_share: float = 0.0
    section: SectionReference | None = None


def classify(query: str) -> QueryType:
    """Return the type of a query by its words.

    A query that names a chapter or section is section-based; one that asks why or how, for an explanation or a
    comparison is conceptual; one that asks who, when, where, which, how many or for a named value is factual. Of the
    others, questions are conceptual, and bare key words and codes are factual.
    """
    query = query[:MAX_PHRASED_CHARS]
    if find_section_reference(query) is not None:
        return QueryType.SECTION_BASED
    if _CONCEPTUAL.search(query):
        return QueryType.CONCEPTUAL
    if _FACTUAL.search(query) or not _is_question(query):
        return QueryType.FACTUAL
    return QueryType.CONCEPTUAL


def applied_type(classified: QueryType, preferred: Sequence[QueryType]) -> QueryType:
    """Return the type whose strategy applies: the query's own, or the first preferred one when it is not among them."""
    return classified if not preferred or classified in preferred else preferred[0]


def strategy_of(kind: QueryType, query: str) -> QueryStrategy:
    """Return what a type changes for one query; section-based changes nothing when no section is named."""
    match kind:
        case QueryType.FACTUAL:
            return QueryStrategy(weight_shift=FACTUAL_SHIFT)
        case QueryType.CONCEPTUAL:
            return QueryStrategy(weight_shift=CONCEPTUAL_SHIFT, neighbour_share=NEIGHBOUR_SHARE)
        case QueryType.SECTION_BASED:
            return QueryStrategy(section=find_section_reference(query))


def _is_question(query: str) -> bool:
    words = query.split()
    return bool(_QUESTION.match(query)) or (len(words) > _FEW_WORDS and not _CODE.fullmatch(words[0]))
