"""The structure of a text: its headings, its code blocks, and the sections between headings."""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

CHAPTER_LEVEL = 1
SECTION_LEVEL = 2


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
            # A chunk that begins with a heading and goes on below the next one is about the latter.
            if self._text[max(start, section.body_start) : min(end, section.end)].strip():
                return section.path
        return touched[0].path
