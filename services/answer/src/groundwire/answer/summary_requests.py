"""Finds the document a question is about: one to summarise, or one named by its number."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.answer.evidence import Passage
from groundwire.kernel.stems import FUNCTION_WORDS, NEGATION, content_stems

_SUMMARY = re.compile(
    r"^\W*(?:please |can you |could you |i want |i need )*(?:(?:summari[sz]e|sum up|outline|recap)"
    r"|(?:(?:give|show|write|make)(?: me)? )?(?:an? |the )?(?:short |brief |quick )?(?:summary|overview|outline) of"
    r"|what (?:does|do|is|are)(?= .{1,80} (?:about|cover)\W*$)|tl;?dr(?: of)?)"
    r"(?P<subject>[^?!\n]{0,80}?)(?: (?:all )?(?:about|cover))?(?: for me|please)?\W*$",
    re.IGNORECASE,
)
_COVER = re.compile(r"\bcover\W*$", re.IGNORECASE)
_DOCUMENT = re.compile(
    r"\b(?:chapter|section|document|file|page|article|paper|book|handbook|guide|manual|report)\b|\w\.[a-z]{2,5}\b",
    re.IGNORECASE,
)
_KIND_OF_DOCUMENT = re.compile(
    r"^\W*(?:the |this )?(?:chapter|section|document|file|page|article|paper|book|guide)"
    r" (?:on|about|called|named) (?:the )?",
    re.IGNORECASE,
)
# A document that is called no more than that.
_WHOLE = re.compile(
    r"\W*(?:(?:this|the|that|my|whole|entire|it|text|document|file|page|article|paper|book|handbook|guide|report|content)"
    r"s?\b\W*)*$",
    re.IGNORECASE,
)


def document_asked_for(question: str) -> str | None:
    """Return the name of the document to summarise: None for other questions, empty for "this document"."""
    match = _SUMMARY.match(question)
    if match is None:
        return None
    subject = match["subject"]
    if _WHOLE.match(subject):
        return ""
    # A plan covers something, and "cover" asks what; only of a document does it ask for a summary.
    is_document = _DOCUMENT.search(subject) is not None or numbered_name(subject) is not None
    if _COVER.search(question) and (not is_document or NEGATION.search(subject)):
        return None
    return _KIND_OF_DOCUMENT.sub("", subject).strip()


def named_place(name: str, passages: Sequence[Passage]) -> tuple[str, str] | None:
    """Return the id of the best document whose title or source has all words of a name, or with the chapter that has.

    `PEP 8` names `pep-0008.rst` as well. The chapter is empty where the whole document is named; None where nothing is.
    """
    stems = set(content_stems(name))
    if not stems:
        return None
    numbered = numbered_name(name) if len(stems) == 2 else None  # noqa: PLR2004 - the word and the number
    for passage in passages:
        has_number = numbered is not None and numbered.names(passage)
        if has_number or stems <= {*content_stems(f"{passage.title} {passage.source_uri}")}:
            return passage.document_id, ""
    return next(
        ((each.document_id, each.chapter) for each in passages if stems <= {*content_stems(each.chapter)}), None
    )


_NUMBERED = re.compile(r"\b(?P<word>[A-Z][A-Za-z]{1,20})[ -]?(?P<number>\d{1,8})\b(?![.,:%]?\d)")


@dataclass(frozen=True, slots=True)
class NumberedName:
    """A name such as `PEP 8`, which titles and sources have as `PEP 8`, `pep-0008.rst` or `pep8`."""

    word: str
    number: str

    @property
    def patterns(self) -> tuple[str, ...]:
        """Return `LIKE` patterns that match such a title or source, and some others."""
        ways = dict.fromkeys((self.word, self.word.lower(), self.word.upper(), self.word.capitalize()))
        return tuple(f"%{word}%{self.number}%" for word in ways)

    def names(self, passage: Passage) -> bool:
        """Tell whether the document of a passage has the name."""
        pattern = rf"(?<![^\W\d_]){self.word}[\W_]*0*{self.number}(?!\d)"
        return re.search(pattern, f"{passage.title}\n{passage.source_uri}", re.IGNORECASE) is not None


def numbered_name(question: str) -> NumberedName | None:
    """Return the only word followed by a number that may name a document; it is capitalised, unlike `in 30 days`."""
    found = {
        NumberedName(match["word"], match["number"].lstrip("0"))
        for match in _NUMBERED.finditer(question)
        if match["word"].casefold() not in FUNCTION_WORDS and match["number"].strip("0")
    }
    return found.pop() if len(found) == 1 else None
