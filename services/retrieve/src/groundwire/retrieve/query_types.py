"""What kind of question a query is, and what that changes in its ranking (requirements S3-03, S3-17, C19)."""

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.query_terms import STOP_WORDS

MAX_PHRASED_CHARS = 1000
"""A query is read as a phrase up to here: patterns of language over longer texts would take long and mean nothing."""
_KINDS = "chapter|section|subsection|appendix|part"
_NUMBER = r"\d+(?:\.\d+)*|[IVXLC]+(?![a-z])|[A-Z](?![A-Za-z])"
_QUOTE = "[\"'\u201c\u201d\u2018\u2019]"
_NUMBERED = re.compile(rf"(?:\b(?P<kind>{_KINDS})s?\s+(?:no\.?\s*)?|§+\s*)(?P<number>{_NUMBER})\b", re.IGNORECASE)
_TITLED = re.compile(
    rf"\b(?:{_KINDS})s?\s+(?:(?:on|about|called|titled|named|entitled|covering)\s+{_QUOTE}?|{_QUOTE})"
    rf"(?P<title>(?:(?!{_QUOTE})[^?!.;:,]){{2,80}})",
    re.IGNORECASE,
)
_LEADING = re.compile(rf"{_QUOTE}?(?P<title>[\w][\w \-]{{1,60}}?){_QUOTE}?\s+(?P<kind>{_KINDS})\b", re.IGNORECASE)
_HEADING_NUMBER = re.compile(
    rf"^\W*(?:(?P<kind>{_KINDS})\s+)?(?P<number>\d+(?:\.\d+)*|[IVXLC]+|[A-Z])(?:[.:)\s–-]|$)", re.IGNORECASE
)
_ARTICLE = re.compile(r"\b(?:the|this|that|a|an|in|of|from|does|is)\s+", re.IGNORECASE)
_ASKING = re.compile(r"(?:which|what|each|every|any|next|last|previous|first|this|that)\b", re.IGNORECASE)
_TAIL = re.compile(r"\s+(?:says?|tells?|covers?|explains?|mentions?|of|in|from|and\s+how|please)\b.*", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")

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
class SectionReference:
    """A section as a query names it: by number, such as `4` or `IV` or `B`, or by the words of its title.

    `kind` is the word before the number, lower-case, empty when there was none.
    """

    number: str = ""
    kind: str = ""
    words: frozenset[str] = frozenset()

    def means(self, headings: Iterable[str]) -> bool:
        """Tell whether one of the headings is the section."""
        return any(self._is(heading) for heading in headings)

    def _is(self, heading: str) -> bool:
        if self.words:
            return self.words <= _words(heading)
        found = _HEADING_NUMBER.match(heading)
        if found is None or found["number"].casefold() != self.number:
            return False
        named = (found["kind"] or "").casefold()
        return bool(named or self.number[0].isdigit()) and (not named or not self.kind or named == self.kind)


def find_section_reference(query: str) -> SectionReference | None:
    """Return the section that a query names, as in `chapter 4`, `§ 2.1` or `the section on lifetimes`; else None."""
    query = query[:MAX_PHRASED_CHARS]
    numbered = _NUMBERED.search(query)
    if numbered is not None and _is_number(numbered["number"]):
        return SectionReference(number=numbered["number"].casefold(), kind=(numbered["kind"] or "").casefold())
    titled = _TITLED.search(query)
    if titled is not None:
        words = _words(_TAIL.sub("", titled["title"]))
        return SectionReference(words=words) if words else None
    return _leading(query)


def _leading(query: str) -> SectionReference | None:
    """Return the section of `the lifetimes section` or `"Error Handling" chapter`."""
    found = _LEADING.search(query)
    if found is None:
        return None
    title = _ARTICLE.split(found["title"])[-1]
    words = _words(title)
    return SectionReference(words=words) if words and not _ASKING.match(title.strip()) else None


def _is_number(text: str) -> bool:
    return text[0].isdigit() or text.isupper()


def _words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text)) - STOP_WORDS


@dataclass(frozen=True, slots=True)
class QueryStrategy:
    """What a type of query changes.

    `weight_shift` is added to the share of the vectors where the request does not give one. `neighbour_share` in
    [0, 1] is how much of the way a chunk follows a better neighbour. Chunks of `section` are preferred.
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
