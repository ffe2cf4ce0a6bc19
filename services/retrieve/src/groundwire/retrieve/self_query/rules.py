"""The built-in extractor: a filter by patterns of language, without a model."""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

from groundwire.kernel.collection import FieldDescription, FieldType
from groundwire.kernel.filters import ALIASES, And, Comparator, Comparison, Containment, Filter, Membership
from groundwire.retrieve.queries import MAX_PHRASED_CHARS, STOP_WORDS, find_section_reference
from groundwire.retrieve.self_query.dates import find_date_range
from groundwire.retrieve.self_query.questions import Extraction, Question

_LEAD_IN = re.compile(
    r"^\s*(?:please\s+)?(?:(?:can|could)\s+you\s+)?(?:show|give|find|get|list|fetch|bring)\s+(?:me\s+|us\s+)?(?:all\s+)?(?:the\s+)?",
    re.IGNORECASE,
)
# Of names such as Guido van Rossum and Simone de Beauvoir.
_PARTICLES = r"(?:(?:van|von|der|den|de|del|della|di|da|dos|du|la|le|ter|bin|ibn|al|el)\s+){0,2}"
_AUTHOR = re.compile(
    r"\b(?:(?:written|authored|published|created)\s+by|by|authors?:?(?:\s+is)?)\s+"
    rf"(?P<name>{_PARTICLES}[A-Z][\w.'-]*(?:\s+{_PARTICLES}[A-Z][\w.'-]*){{0,3}})"
)
_TAG = re.compile(
    r"(?:\btagged(?:\s+(?:with|as))?|\b(?:with\s+)?(?:the\s+)?tags?:?|#)\s*[\"']?(?P<tag>[^\s,.;?!\"']+)", re.IGNORECASE
)
_PAGES = re.compile(
    r"\b(?:(?:on|at|from|in)\s+)?(?P<side>(?:after|before|since|until)\s+)?(?:pages?|pp?\.)\s*(?P<first>\d+)"
    r"(?:\s*(?:-|–|to|through|and)\s*(?P<last>\d+))?",
    re.IGNORECASE,
)
# Digits that always fit into the 64 bits of a filter's number.
_LONGEST_NUMBER = 18
_LONGEST_PAGE = 6
_COMPARED = {
    Comparator.GTE: r">=|at\s+least|from|minimum|or\s+more\s+than",
    Comparator.LTE: r"<=|at\s+most|up\s+to|maximum",
    Comparator.GT: r">|above|over|more\s+than|greater\s+than|higher\s+than",
    Comparator.LT: r"<|below|under|less\s+than|lower\s+than",
    Comparator.EQ: r"=|is|equals?|equal\s+to|of|:",
}
_ORDERED = {FieldType.INTEGER, FieldType.NUMBER}
_WORD = re.compile(r"[^\W_]+")
_NEGATION = re.compile(
    r"\b(?:not|except(?:\s+for)?|excluding|without|other\s+than|but\s+not)\s+(?:the\s+)?$", re.IGNORECASE
)
# A single letter is an article or an initial more often than a value.
_MIN_CHARS = 2
# Nouns for documents and their authors; a collection adds its own in its descriptions.
_NOUNS = frozenset(
    """
    article book chapter contract department division document email entry file form group guide handbook invoice item
    letter manual memo message minutes note office page paper plan policy post presentation proposal protocol record
    release report review sheet slide specification spreadsheet standard summary team ticket unit version
    """.split()  # noqa: SIM905 - a list of quoted words is harder to read
)
_COPULAS = frozenset({"is", "are", "was", "were"})
_BEFORE_VALUES = frozenset({"not", "still", "now", "marked", "as", "that", "which"})


@dataclass(frozen=True, slots=True)
class Mention:
    """A value of a field as it is stored, said at code points `at` to `to` of the question; `negated` when excluded."""

    value: str
    at: int
    to: int
    negated: bool = False


class Words:
    """The words of a question, for finding values whatever their case and the signs between their words."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._found = list(_WORD.finditer(text))
        self._words = [match[0].casefold() for match in self._found]
        # Of a thousand values few begin with a word of the question, which may have hundreds.
        self._places = defaultdict[str, list[int]](list)
        for place, word in enumerate(self._words):
            self._places[word].append(place)

    def mentions(self, values: Iterable[str]) -> list[Mention]:
        """Return the values that occur in the question, preferring longer ones to shorter ones inside them."""
        found: list[Mention] = []
        for value in sorted(values, key=len, reverse=True):
            wanted = [word.casefold() for word in _WORD.findall(value)]
            if not wanted or len(value) < _MIN_CHARS or set(wanted) <= STOP_WORDS or "".join(wanted).isdigit():
                continue
            for start in self._places.get(wanted[0], ()):
                if self._words[start : start + len(wanted)] != wanted:
                    continue
                at, to = self._found[start].start(), self._found[start + len(wanted) - 1].end()
                if all(to <= other.at or other.to <= at for other in found):
                    negated = _NEGATION.search(self._text[:at]) is not None
                    found.append(Mention(value, at, to, negated=negated))
        return sorted(found, key=lambda mention: mention.at)


def named_person(phrase: str, names: Iterable[str]) -> tuple[str, ...]:
    """Return the stored names that contain all words of a phrase, such as `Klabnik, Steve`."""
    wanted = {word.casefold() for word in _WORD.findall(phrase)}
    return tuple(name for name in names if wanted and wanted <= {word.casefold() for word in _WORD.findall(name)})


def spoken(name: str) -> str:
    """Return a pattern for the name of a field as people write it: `review_date` is `review date`."""
    return r"[\s_-]*".join(re.escape(word) for word in _WORD.findall(name))


@dataclass(frozen=True, slots=True)
class Finding:
    """A condition, and the part of the question that it replaces, if any."""

    field: str
    where: Filter
    at: int
    cut: tuple[int, int] | None = None


def extract_by_rules(question: Question) -> Extraction:
    """Return the filter that the words of a question stand for, over the question's fields only.

    Found are stretches of time, allowed and known values, authors, tags, pages, chapters, sections, numbers and
    truth values. Of one field only the first condition counts. A text of more than MAX_PHRASED_CHARS is a passage to
    compare with: nothing is derived from it.
    """
    if len(question.text) > MAX_PHRASED_CHARS:
        return Extraction(question.text)
    found: dict[str, Finding] = {}
    for finder in _FINDERS:
        for finding in finder(question):
            found.setdefault(finding.field, finding)
    findings = sorted(found.values(), key=lambda finding: finding.at)
    if not findings:
        return Extraction(question.text)
    clauses = tuple(finding.where for finding in findings)
    uncut, at = "", 0
    for start, end in sorted(finding.cut for finding in findings if finding.cut):
        uncut += question.text[at : max(at, start)]
        at = max(at, end)
    rest = " ".join(_LEAD_IN.sub("", uncut + question.text[at:]).split()).strip(" ,;:-")
    words = {word.casefold() for word in _WORD.findall(rest)}
    return Extraction(
        semantic_query=rest if words - STOP_WORDS else question.text,
        where=clauses[0] if len(clauses) == 1 else And(clauses),
        field_names=tuple(finding.field for finding in findings),
    )


def _dates(question: Question) -> Iterator[Finding]:
    fields = [field for field in question.fields if field.type is FieldType.TIME]
    found = find_date_range(question.text, question.asked.date()) if fields else None
    if found is None:
        return
    # `review` for `review_date`: what the question says is `reviewed`.
    stems = {field: re.sub(r"_(?:date|time|at|on)$", "", field.name) for field in fields}
    named = [field for field in fields if re.search(rf"\b{spoken(stems[field])}", question.text, re.IGNORECASE)]
    created = [field for field in fields if _canonical(field) == "date_created"]
    # The date that the question names, else that of writing, else whichever there is.
    name = (named or created or fields)[0].name
    bounds = ((Comparator.GTE, found.first), (Comparator.LT, found.end))
    clauses = tuple(Comparison(name, comparator, day.isoformat()) for comparator, day in bounds if day is not None)
    yield Finding(name, clauses[0] if len(clauses) == 1 else And(clauses), found.at, (found.at, found.to))


def _values(question: Question) -> Iterator[Finding]:
    words = Words(question.text)
    said = [question.content_description]
    for field in question.fields if question.is_described else ():
        said += [field.name, field.description, *field.allowed_values]
    nouns_of_collection = _NOUNS | {_singular(word) for text in said for word in _WORD.findall(text)} - STOP_WORDS
    for field in question.fields:
        if field.type not in {FieldType.STRING, FieldType.STRING_LIST}:
            continue
        mentions = words.mentions(field.allowed_values or _known(question, field))
        # A known value counts without its field in single texts that the collection described itself.
        is_single = field.type is FieldType.STRING and _canonical(field) not in _HEADINGS
        may_stand_alone = field.allowed_values or (question.is_described and is_single)
        nouns = nouns_of_collection if may_stand_alone else frozenset[str]()
        mentions = [mention for mention in mentions if _says_which(question.text, field, mention, nouns)]
        if mentions:
            # "final, not draft" asks for the value that is left; without one, everything else is asked for.
            included = [mention.value for mention in mentions if not mention.negated]
            values = included or [mention.value for mention in mentions]
            yield Finding(field.name, _one_of(field.name, values, is_negated=not included), mentions[0].at)


def _known(question: Question, field: FieldDescription) -> tuple[str, ...]:
    return question.vocabulary.get(_canonical(field), ())


def _says_which(text: str, field: FieldDescription, mention: Mention, nouns: frozenset[str]) -> bool:
    """Tell whether a value says which documents: `project: apollo`, `finance reports`, `papers that are draft`, `memo`.

    Elsewhere it is an everyday word: nobody who asks how to draft a proposal wants drafts only.
    """
    name = spoken(field.name)
    if re.search(rf"\b{name}s?\s*(?:is|=|:|of|named|called)?\s*[\"']?$", text[: mention.at], re.IGNORECASE) or re.match(
        rf"[\"']?\s+{name}s?\b", text[mention.to :], re.IGNORECASE
    ):
        return True
    following = _WORD.search(text, mention.to)
    is_beside = following is not None and not text[mention.to : following.start()].strip(" -\t\n")
    if following is not None and is_beside and _singular(following[0]) in nouns:
        return True
    before = [word for word in _WORD.findall(text[: mention.at].casefold()) if word not in _BEFORE_VALUES][-2:]
    if len(before) > 1 and before[1] in _COPULAS and _singular(before[0]) in nouns:
        return True
    return _singular(mention.value) in _NOUNS & nouns


def _singular(word: str) -> str:
    return word.casefold().removesuffix("s")


def _one_of(field: str, values: Iterable[str], *, is_negated: bool = False) -> Filter:
    distinct = tuple(dict.fromkeys(values))
    if len(distinct) == 1:
        return Comparison(field, Comparator.NE if is_negated else Comparator.EQ, distinct[0])
    return Membership(field, distinct, is_negated)


def _authors(question: Question) -> Iterator[Finding]:
    field = _field(question, "creators")
    if field is None:
        return
    for match in _AUTHOR.finditer(question.text):
        names = named_person(match["name"], field.allowed_values or _known(question, field))
        if names:
            yield Finding(field.name, _one_of(field.name, names), match.start(), match.span())


def _tags(question: Question) -> Iterator[Finding]:
    field = _field(question, "tags")
    if field is None:
        return
    known = {tag.casefold(): tag for tag in field.allowed_values or _known(question, field)}
    for match in _TAG.finditer(question.text):
        tag = known.get(match["tag"].casefold())
        if tag is not None:
            yield Finding(field.name, Containment(field.name, tag), match.start(), match.span())


def _pages(question: Question) -> Iterator[Finding]:
    field = _field(question, "page_numbers")
    match = _PAGES.search(question.text) if field is not None else None
    if field is None or match is None:
        return
    numbers = match["first"], match["last"] or match["first"]
    if max(map(len, numbers)) > _LONGEST_PAGE:
        return  # no document has such a page, and half of a range would be another one
    first, last = map(int, numbers)
    side = (match["side"] or "").strip().lower()
    if side:
        comparators = {
            "after": Comparator.GT,
            "since": Comparator.GTE,
            "before": Comparator.LT,
            "until": Comparator.LTE,
        }
        where: Filter = Comparison(field.name, comparators[side], first)
    elif first == last:
        where = Comparison(field.name, Comparator.EQ, first)
    else:
        low, high = sorted((first, last))
        where = And((Comparison(field.name, Comparator.GTE, low), Comparison(field.name, Comparator.LTE, high)))
    yield Finding(field.name, where, match.start(), match.span())


_HEADINGS = ("chapter", "section", "section_title")


def _sections(question: Question) -> Iterator[Finding]:
    reference = find_section_reference(question.text)
    if reference is None:
        return
    for name in _HEADINGS:
        field = _field(question, name)
        known = (field.allowed_values or _known(question, field)) if field is not None else ()
        meant = tuple(heading for heading in known if reference.means((heading,)))
        if field is not None and meant:
            yield Finding(field.name, _one_of(field.name, meant), 0)
            return


def _numbers(question: Question) -> Iterator[Finding]:
    for field in question.fields:
        if field.type not in _ORDERED:
            continue
        for comparator, said in _COMPARED.items():
            pattern = rf"\b{spoken(field.name)}\s*(?:is\s+|of\s+)?(?:{said})\s*(?P<number>-?\d+(?:\.\d+)?)\b"
            match = re.search(pattern, question.text, re.IGNORECASE)
            if match is None or (field.type is FieldType.INTEGER and "." in match["number"]):
                continue
            if len(match["number"]) > _LONGEST_NUMBER:
                continue  # no field holds such a number
            number = float(match["number"]) if "." in match["number"] else int(match["number"])
            yield Finding(field.name, Comparison(field.name, comparator, number), match.start(), match.span())
            break


def _truths(question: Question) -> Iterator[Finding]:
    for field in question.fields:
        if field.type is not FieldType.BOOLEAN:
            continue
        name = spoken(re.sub(r"^(?:is|has)_", "", field.name))
        match = re.search(rf"\b(?P<no>not\s+|un|non-?)?{name}\b", question.text, re.IGNORECASE)
        if match is not None:
            yield Finding(field.name, Comparison(field.name, Comparator.EQ, match["no"] is None), match.start())


# The first finding of a field counts: forms that say their field come before values that may be everyday words.
_FINDERS: tuple[Callable[[Question], Iterator[Finding]], ...] = (
    _authors,
    _tags,
    _pages,
    _sections,
    _numbers,
    _truths,
    _values,
    _dates,
)


def _field(question: Question, canonical: str) -> FieldDescription | None:
    return next((field for field in question.fields if _canonical(field) == canonical), None)


def _canonical(field: FieldDescription) -> str:
    return ALIASES.get(field.name, field.name)
