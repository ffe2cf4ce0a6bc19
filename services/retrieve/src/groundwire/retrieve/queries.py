"""Analyses queries: their distinctive words, their type, and the sections that answer them best (S1-48)."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from itertools import accumulate

import numpy as np

from groundwire.kernel.chunk import Section
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Or
from groundwire.kernel.query_log import QueryType
from groundwire.kernel.vectors import unit_vector
from groundwire.kernel.words import signed_words, split_words, without_pairs

_QUOTED = re.compile(r'"([^"]+)"')
_RUN = re.compile(r"[^\s\"(){}\[\]<>,;!?=&|*^`~“”„«»]+")

KEYWORD_DENSE_WEIGHT = 0.4
"""Below one half, so that the only chunk with a decisive word comes before the nearest chunk without one."""

_RARE_CHUNKS = 3
_RARE_SHARE = 0.005

CONTEXT_SHARE = 1 / 3
"""Of a search that goes on from something: so much is for query and context together, the rest for the query alone.
One half serves a question that goes on a little better, and one on a new subject much worse (docs/adr/0019)."""

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
    (not of `it's`, whose parts are stop words). `quoted` are those of them that the caller quoted. `counts` says how
    often a term stands in the query.
    """

    terms: tuple[str, ...]
    phrases: tuple[str, ...]
    quoted: tuple[str, ...] = ()
    counts: Mapping[str, int] = field(default_factory=dict)


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
    # Most runs are a single word and need no pattern.
    joined_runs = [run for run in runs if not (run.isascii() and run.isalnum())]
    compounds = [words for run in joined_runs if len(set(words := _words(run)) - STOP_WORDS) > 1]
    words = _words(query) + signed_words(query)
    telling = [word for word in words if word not in STOP_WORDS] or words
    quoted = [" ".join(words) for words in phrases]
    joined = [*quoted, *(" ".join(words) for words in compounds)]
    # Each once, in the order of the query.
    terms, said, quoted = (list(dict.fromkeys(each)) for each in (telling, joined, quoted))
    return QueryTerms(tuple(terms[:MAX_QUERY_TERMS]), tuple(said[:MAX_QUERY_TERMS]), tuple(quoted), Counter(telling))


def select_terms(
    frequencies: Mapping[str, int], chunk_count: int, *, max_share: float, max_terms: int
) -> tuple[str, ...]:
    """Return the words worth looking up, rarest first.

    Words of more than `max_share` of all chunks say little and cost most (each match is scored), so
    they are dropped unless fewer than two rarer ones are there. So are the most frequent of the others when
    all together match more than `MAX_MATCHES` chunks.

    `frequencies` has the number of chunks that contain each word; words in no chunk are left out. `max_share` is in (0,
    1]. At most `max_terms` words are returned.
    """
    found = sorted((count, word) for word, count in frequencies.items() if count > 0)
    totals = accumulate(count for count, _ in found)
    rare = [
        word
        for (count, word), total in zip(found, totals, strict=True)
        if count <= max_share * chunk_count and total <= MAX_MATCHES
    ]
    chosen = rare if len(rare) > 1 else [word for _, word in found[:2]]
    return tuple(chosen[:max_terms])


def dense_weight_for(default: float, parsed: QueryTerms, frequencies: Mapping[str, int], chunk_count: int) -> float:
    """Return the share of the vectors for one query, at most `default`.

    Embedding models know little about rare names and codes, and words find them exactly. So the words lead
    when a rare word (at most 3 chunks, or 0.5 % of them) decides: in a query of at most 4 telling words, or when it is
    a code, with letters and digits or joined to its neighbour by a sign, such as `OPS-306` (requirement S1-42). So they
    do when the caller quotes words that some chunk has in that order.

    `default`, in [0, 1], is for ordinary questions. `frequencies` has the number of chunks with each word or phrase.
    """
    if any(frequencies.get(phrase, 0) > 0 for phrase in parsed.quoted):
        return min(default, KEYWORD_DENSE_WEIGHT)
    limit = max(_RARE_CHUNKS, _RARE_SHARE * chunk_count)
    rare = {word for word in parsed.terms if 0 < frequencies.get(word, 0) <= limit}
    if len(parsed.terms) > _FEW_WORDS:
        compounded = {word for phrase in parsed.phrases for word in phrase.split()}
        # A bare number is a code only where it is part of one: 306 alone may count anything.
        rare = {word for word in rare if any(map(str.isdigit, word)) and (word in compounded or not word.isdigit())}
    return min(default, KEYWORD_DENSE_WEIGHT) if rare else default


def distinct_words(text: str) -> set[str]:
    """Return the case-folded words of a text, including those with signs such as `c++`."""
    return {*_words(text), *signed_words(text)}


def _words(text: str) -> list[str]:
    if text.isascii():
        return split_words(text.lower())
    return [word.casefold() for word in split_words(text)]


MAX_PHRASED_CHARS = 1000
"""A query is read as a phrase up to here: patterns of language over longer texts would take long and mean nothing."""
_KINDS = "chapter|section|subsection|appendix|part"
_IN_REFERENCES = ("chapter", "section", "appendix", "part")
"""Each reference to a section has one of these, or a sign that is not ASCII."""
_NUMBER = r"\d+(?:\.\d+)*|[IVXLC]+(?![a-z])|[A-Z](?![A-Za-z])"
_QUOTE = "[\"'\u201c\u201d\u2018\u2019]"
_NUMBERED = re.compile(
    rf"(?:\b(?P<kind>{_KINDS})s?\s+(?:no\.?\s*)?|(?<!§)§++\s*+)(?P<number>{_NUMBER})\b", re.IGNORECASE
)
_TITLED = re.compile(
    rf"\b(?:{_KINDS})s?\s+(?:(?:on|about|called|titled|named|entitled|covering)\s+{_QUOTE}?|{_QUOTE})"
    rf"(?P<title>(?:(?!{_QUOTE})[^?!.;:,]){{2,80}})",
    re.IGNORECASE,
)
_LEADING = re.compile(rf"{_QUOTE}?(?P<title>\w[\w \-]{{0,59}}?[\w\-]){_QUOTE}?\s++(?P<kind>{_KINDS})\b", re.IGNORECASE)
_HEADING_NUMBER = re.compile(
    rf"^\W*(?:(?P<kind>{_KINDS})\s+)?(?P<number>\d+(?:\.\d+)*|[IVXLC]+|[A-Z])(?:[.:)\s–-]|$)", re.IGNORECASE
)
_ARTICLE = re.compile(r"\b(?:the|this|that|a|an|in|of|from|does|is)\s+", re.IGNORECASE)
_ASKING = re.compile(r"(?:which|what|each|every|any|next|last|previous|first|this|that)\b", re.IGNORECASE)
_TAIL = re.compile(r"\s+(?:says?|tells?|covers?|explains?|mentions?|of|in|from|and\s+how|please)\b.*", re.IGNORECASE)
_WORD = re.compile(r"[^\W_]+")

# A query of up to so many words that asks nothing is taken for key words, and one rare word decides such a query.
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
        for heading in headings:
            if self.words:
                if self.words <= _telling_words(heading):
                    return True
                continue
            found = _HEADING_NUMBER.match(heading)
            if found is None or found["number"].casefold() != self.number:
                continue
            named = (found["kind"] or "").casefold()
            # Without a word such as "part", a letter at the front of a heading may be its first word.
            if (named or self.number[0].isdigit()) and (not named or not self.kind or named == self.kind):
                return True
        return False


# A search asks more than once, and a context for each of its sections.
@lru_cache(maxsize=256)
def find_section_reference(query: str) -> SectionReference | None:
    """Return the section that a query names, as in `chapter 4`, `§ 2.1` or `the section on lifetimes`; else None."""
    query = query[:MAX_PHRASED_CHARS]
    # Most queries name none; the patterns would take ten times as long to find that out.
    if query.isascii() and not any(kind in query.lower() for kind in _IN_REFERENCES):
        return None
    numbered = _NUMBERED.search(query)
    number = numbered["number"] if numbered is not None else ""
    if numbered is not None and (number[0].isdigit() or number.isupper()):
        return SectionReference(number=number.casefold(), kind=(numbered["kind"] or "").casefold())
    # A number comes first: "section 4 on lifetimes" has one section of that number, and maybe several on the subject.
    titled = _TITLED.search(query)
    if titled is not None:
        words = _telling_words(_TAIL.sub("", titled["title"]))
        return SectionReference(words=words) if words else None
    found = _LEADING.search(query)
    if found is None:
        return None
    # "what does the ownership chapter" names the words behind the last article.
    title = _ARTICLE.split(found["title"])[-1]
    words = _telling_words(title)
    return SectionReference(words=words) if words and not _ASKING.match(title.strip()) else None


def _telling_words(text: str) -> frozenset[str]:
    return frozenset(word.casefold() for word in _WORD.findall(text)) - STOP_WORDS


@lru_cache(maxsize=256)
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
    words = query.split()
    is_question = bool(_QUESTION.match(query)) or (len(words) > _FEW_WORDS and not _CODE.fullmatch(words[0]))
    if _FACTUAL.search(query) or not is_question:
        return QueryType.FACTUAL
    return QueryType.CONCEPTUAL


CHAPTERS = 3
SECTIONS = 5
TITLE_SHARE = 0.3


@dataclass(frozen=True, slots=True)
class ChosenSection:
    """A section that is searched, and how well it answers the query, in [0, 1]."""

    section: Section
    score: float


def choose_sections(query: str, vector: Vectors, sections: Sequence[Section], leads: Vectors) -> list[ChosenSection]:
    """Return the best sections of the best chapters, best first; a chapter without sections stands for itself.

    score = 0.7 * similarity of the query and the section's lead + 0.3 * share of its telling words in the title.

    `vector` is float32, shape (dimensions,). Each chapter comes before its sections; row i of `leads` is the vector of
    section i, zeros where there is none.
    """
    if not sections:
        return []
    similarities = np.clip(leads @ unit_vector(vector), 0.0, 1.0)
    words = (distinct_words(query) - STOP_WORDS) or distinct_words(query)
    scores = [
        (1.0 - TITLE_SHARE) * float(similarity)
        + TITLE_SHARE * (len(words & distinct_words(" ".join(section.path))) / len(words) if words else 0.0)
        for section, similarity in zip(sections, similarities, strict=True)
    ]
    chapters = [position for position, section in enumerate(sections) if len(section.path) == 1]
    below: dict[int, list[int]] = {}
    for position, end in zip(chapters, [*chapters[1:], len(sections)], strict=True):
        below[position] = list(range(position + 1, end))
        if position + 1 < end and sections[position + 1].first > sections[position].first:
            below[position].insert(0, position)  # chunks before the first section are in no section
    # The mean of a chapter's own score and the best of its sections, so that neither alone decides.
    means = {
        position: (scores[position] + max((scores[each] for each in below[position]), default=scores[position])) / 2
        for position in chapters
    }
    best = sorted(chapters, key=lambda position: (-means[position], position))[:CHAPTERS]
    candidates = [section for position in best for section in below[position] or [position]]
    chosen = sorted(candidates, key=lambda position: (-scores[position], position))[:SECTIONS]
    return [ChosenSection(sections[position], scores[position]) for position in chosen]


def within(chosen: Sequence[ChosenSection]) -> Filter:
    """Return the condition for the chunks of the chosen sections; without any nothing matches."""
    return Or(
        tuple(
            And(
                (
                    Comparison("document_id", Comparator.EQ, each.section.document_id),
                    Comparison("sequence_num", Comparator.GTE, each.section.first),
                    Comparison("sequence_num", Comparator.LTE, each.section.last),
                )
            )
            for each in chosen
        )
    )
