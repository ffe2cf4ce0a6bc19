"""Input and output of chunkers (headings, sections, cuts); where a text may be cut, and the cost of each place."""

import re
import unicodedata
from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from groundwire.kernel.sentences import CJK_STOPS, STOPS, ends_in_abbreviation

CHAPTER_LEVEL = 1
SECTION_LEVEL = 2
AFTER_PARAGRAPH, AFTER_LINE, AFTER_SENTENCE, IN_SENTENCE, AFTER_WORD, INSIDE_WORD = 0.1, 0.3, 0.4, 1.3, 1.5, 5.0
"""Costs of ending a chunk there, on the scale of `splitter.pack`; judged on technical books."""
AFTER_HEADING = 3.0
_IN_CODE = 0.5
_BLANK_LINE_END = re.compile(r"(?:\r\n|\r|\n)[ \t]*(?:\r\n|\r|\n)\s*\Z")
_CLOSING = r"[\"'\u201d\u2019)\]*_`]*"
_SENTENCE_END = re.compile(rf"(?:[{STOPS}:;]{_CLOSING}\s+|[{CJK_STOPS}]{_CLOSING}\s*)\Z")
_RESTART = re.compile(rf"(?:\r\n|\r|\n)\s*|[{STOPS}]{_CLOSING}\s+|[{CJK_STOPS}]\s*")
_SPACE = re.compile(r"\s+")
# What is no item, heading, quote, row, underline or field.
_CONTINUES = re.compile(r"[^\W\d]|[(\[`\"\u201c\u2018'](?!`)")
# A place is judged by the 64 characters before it, so that a longer text does not make a search slower.
_TAIL_CHARS = 64
MAX_LOOK_BACK = 64
"""Code points that `cut_before` goes back; longer clusters are cut inside."""
_JOINER = "\u200d"
_MARKS = frozenset({"Mn", "Mc", "Me"})
_SKIN_TONES = range(0x1F3FB, 0x1F400)
_TAGS = range(0xE0020, 0xE0080)
_REGIONAL = range(0x1F1E6, 0x1F200)
_HANGUL_LEADS = range(0x1100, 0x1160)
_HANGUL_VOWELS_AND_TAILS = range(0x1160, 0x1200)
_HANGUL = range(0xAC00, 0xD7A4)


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading: `level` 1 to 6, `text` without markup, and the code points of its source line or lines."""

    level: int
    text: str
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class TextOutline:
    """Headings in order, and the code point ranges of code and HTML blocks in order."""

    headings: tuple[Heading, ...] = ()
    verbatim: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class TextSection:
    """The text from one heading to the next one of any level, or the text before the first heading.

    `path` holds the headings above the text including its own, outermost first; it is empty before the first heading.
    `body_start` is the code point after the section's own heading.
    """

    start: int
    end: int
    body_start: int
    path: tuple[Heading, ...]

    @property
    def level(self) -> int:
        """Return the level of the section's own heading, 0 before the first heading."""
        return self.path[-1].level if self.path else 0


def sections_of(outline: TextOutline, start: int, end: int) -> Iterator[TextSection]:
    """Cut the code points start..end at every heading; sections that hold nothing are left out."""
    first = outline.headings[0].start if outline.headings else end
    if start < first:
        yield TextSection(start, first, start, ())
    path: tuple[Heading, ...] = ()
    for index, heading in enumerate(outline.headings):
        path = (*(above for above in path if above.level < heading.level), heading)
        following = outline.headings[index + 1].start if index + 1 < len(outline.headings) else end
        yield TextSection(heading.start, following, heading.end, path)


def runs_of(text: str, sections: Sequence[TextSection], level: int) -> Iterator[list[TextSection]]:
    """Group sections into runs that begin at each heading of `level` or above; text before the first is a run too.

    A chapter that has only its heading before its first section begins with that section's run.
    """
    run: list[TextSection] = []
    has_text = False
    for section in sections:
        if run and section.level <= level and (has_text or section.level == CHAPTER_LEVEL):
            yield run
            run, has_text = [], False
        run.append(section)
        has_text = has_text or bool(text[section.body_start : section.end].strip())
    if run:
        yield run


class SectionPaths:
    """Finds the headings above a part of a text; `sections` are in order."""

    def __init__(self, text: str, sections: Sequence[TextSection]) -> None:
        self._text = text
        self._sections = sections
        self._starts = [section.start for section in sections]

    def path(self, start: int, end: int) -> tuple[Heading, ...]:
        """Return the headings above the first text of start..end that is no heading, else above its first heading."""
        touched = self._sections[max(0, bisect_right(self._starts, start) - 1) : bisect_left(self._starts, end)]
        for section in touched:
            # A chunk that begins with a heading and continues below the next one belongs to the latter.
            if self._text[max(start, section.body_start) : min(end, section.end)].strip():
                return section.path
        return touched[0].path


def is_cluster_boundary(text: str, index: int) -> bool:
    """Tell whether no grapheme cluster, which a reader sees as one character, spans `index`, 0..len(text).

    The rules of Unicode Standard Annex #29 section 3.1.1 for CR LF, combining marks, joiners, emoji modifiers and
    tags, flags and Hangul; prepended marks (GB9b) are left out. Errs on the side of "no".
    """
    if index <= 0 or index >= len(text):
        return True
    before, after = text[index - 1], text[index]
    if before < " ":
        return not (before == "\r" and after == "\n")
    if after < "\u0300":  # nothing below it extends a cluster; most texts never get any further
        return before != _JOINER
    if _JOINER in {before, after} or unicodedata.category(after) in _MARKS:
        return False
    lead, code = ord(before), ord(after)
    if code in _SKIN_TONES or code in _TAGS:
        return False
    if code in _REGIONAL:
        # Two regional indicators make a flag, so a flag ends after an even number of them.
        count = 0
        while count < min(index, MAX_LOOK_BACK) and ord(text[index - 1 - count]) in _REGIONAL:
            count += 1
        return count % 2 == 0
    if code in _HANGUL_VOWELS_AND_TAILS:
        return not (lead in _HANGUL or lead in _HANGUL_LEADS or lead in _HANGUL_VOWELS_AND_TAILS)
    return not (lead in _HANGUL_LEADS and (code in _HANGUL_LEADS or code in _HANGUL))


def cut_before(text: str, index: int) -> int:
    """Return the last cluster boundary at or before `index`, or `index` when none is within MAX_LOOK_BACK."""
    # Bounded, because a file may consist of nothing but combining marks.
    for candidate in range(index, max(index - MAX_LOOK_BACK, 0), -1):
        if is_cluster_boundary(text, candidate):
            return candidate
    return index


def lies_inside(position: int, ranges: Sequence[tuple[int, int]]) -> bool:
    """Tell whether one of the ranges, which are disjoint and in ascending order, goes on at `position`."""
    index = bisect_right(ranges, position, key=lambda item: item[0]) - 1
    return index >= 0 and ranges[index][0] < position < ranges[index][1]


def cut_cost(text: str, position: int, verbatim: Sequence[tuple[int, int]]) -> float:
    """Return the cost of cutting `text` at `position`; cuts inside code or HTML blocks cost more.

    `verbatim` holds disjoint ranges in ascending order.
    """
    tail = text[max(0, position - _TAIL_CHARS) : position]
    extra = _IN_CODE if lies_inside(position, verbatim) else 0.0
    if _BLANK_LINE_END.search(tail):
        return AFTER_PARAGRAPH + extra
    if tail.rstrip(" \t").endswith(("\n", "\r")):
        return IN_SENTENCE if not extra and _goes_on(text, position) else AFTER_LINE + extra
    if _ends_sentence(tail):
        return AFTER_SENTENCE + extra
    return AFTER_WORD + extra if tail[-1:].isspace() else INSIDE_WORD


def _goes_on(text: str, position: int) -> bool:
    """Tell whether a line ends at `position` within a sentence, as in a text that is set to lines of a width."""
    tail = text[max(0, position - _TAIL_CHARS) : position]
    is_line_end = tail.rstrip(" \t").endswith(("\n", "\r")) and _BLANK_LINE_END.search(tail) is None
    if not is_line_end or _ends_sentence(tail):
        return False
    following = text[position : position + _TAIL_CHARS].lstrip(" \t")
    is_full = "\n" not in tail.rstrip()
    return following[:1].islower() or (is_full and _CONTINUES.match(following) is not None)


def _ends_sentence(tail: str) -> bool:
    return _SENTENCE_END.search(tail) is not None and not ends_in_abbreviation(tail.rstrip())


def restart_near(text: str, ideal: int, lowest: int, highest: int) -> int | None:
    """Return where text that overlaps the chunk before begins: in lowest..highest, as near to `ideal` as it goes.

    Prefers the start of a sentence, or of a line that does not go on with one, then of any line, of a word, of a
    grapheme cluster; None when there is none of these.
    """
    for pattern in (_RESTART, _SPACE):
        # The search begins further ahead: a match that ends in the range may begin before it.
        starts = [match.end() for match in pattern.finditer(text, max(0, lowest - _TAIL_CHARS), highest)]
        inside = [start for start in starts if lowest <= start <= highest and is_cluster_boundary(text, start)]
        if inside:
            whole = [start for start in inside if not _goes_on(text, start)]
            return min(whole or inside, key=lambda start: abs(start - ideal))
    nearest_first = sorted(range(lowest, highest + 1), key=lambda start: abs(start - ideal))
    return next((start for start in nearest_first if is_cluster_boundary(text, start)), None)


@dataclass(frozen=True, slots=True)
class Branch:
    """Where a chunk stands in the tree of a document.

    `level` is 0 document, 1 chapter, 2 section, 3 paragraph. `parent` and `grandparent` are indexes in the list of
    chunks. `paragraph` counts from 1 below the parent; None for a chunk that stands for a whole document, chapter or
    section.
    """

    level: int
    parent: int | None
    grandparent: int | None
    paragraph: int | None


@dataclass(frozen=True, slots=True)
class Cut:
    """A chunk-to-be: code points start..end, of which start..core_start repeats the chunk before.

    `path` holds the headings above the text; `token_count` counts the whole of start..end. `sentence` is the number of
    the sentence, from 0. `branch` is set where levels have chunks of their own.
    """

    start: int
    end: int
    core_start: int
    path: tuple[Heading, ...]
    undersized: bool
    token_count: int = 0
    sentence: int | None = None
    branch: Branch | None = None

    @property
    def is_upper(self) -> bool:
        """Tell whether it stands for a whole document, chapter or section."""
        return self.branch is not None and self.branch.paragraph is None


class TextChunker(Protocol):
    """Cuts texts by one policy; the same text, outline and policy always give the same chunks."""

    def cut(self, text: str, outline: TextOutline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space.

        Chunks are exact ranges of the text, in order, and together hold every character but white space. None is
        blank, none ends with white space, none begins inside a grapheme cluster of up to 64 code points, and none is
        larger than the maximum of the policy, unless it is a single grapheme cluster. Those that stand for whole
        documents, chapters and sections follow after all others and have no maximum.
        """


def trim(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space at the end and blank lines at the start; indentation of the first line stays."""
    source = text[start:end]
    blank = len(source) - len(source.lstrip())
    line_start = max(source.rfind("\n", 0, blank), source.rfind("\r", 0, blank)) + 1
    return start + line_start, start + len(source.rstrip())
