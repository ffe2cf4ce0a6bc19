"""Find the chapter or section that a query names, and tell which headings it means."""

import re
from collections.abc import Iterable
from dataclasses import dataclass

from groundwire.retrieve.domain.query_terms import STOP_WORDS

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
