"""Find the printed table of contents of a PDF: its entries name headings of other pages, its lines answer nothing."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from groundwire.ingest.parsing.pdf_structure import Bookmark, bare_title, plain_title
from groundwire.ingest.parsing.source_text import on_one_line

LEADERS = re.compile(r"(?:\.[ ]?){4}|\u2026{2}")
"""Dots that lead from a title to the number of its page."""
_FILLING = " \t.\u2026"
# The numbers behind them: "12", "xii", "136, 154".
_PAGES = re.compile(r"[ivxlcdm]+|\d{1,4}(?:\W{1,3}\d{1,4})*", re.IGNORECASE)
_DIGITS, _MOST_DIGITS = "0123456789", 4
_TITLE_CHARS = range(2, 151)
_NUMBER = re.compile(r"(?:\d{1,3}|[A-Z])(?:\.\d{1,3}){0,5}\.?(?=\s)")
# Fewer entries are no contents, nor are those of which fewer lead to their titles: in all, and on a page without dots.
_FEWEST_ENTRIES, _FEWEST_CONFIRMED = 5, 3
# Searching for thousands of titles on one huge page would take minutes.
_MOST_SEARCHED_CHARS = 1_000_000_000
# So many pages may stand before the one that has the number 1.
_MOST_FRONT_PAGES = 40
_ABOVE_ENTRIES = re.compile(
    "(?:table of )?contents|list of \\w+|index|(?:inhalts|abbildungs|tabellen)verzeichnis|inhalt"
    "|table des mati\u00e8res|sommaire|\u00edndice|contenido|indice|sommario|sum\u00e1rio"
    "|inhoud(?:sopgave)?|\u76ee\\s?\u6b21|\u76ee\\s?\u5f55|\ubaa9\ucc28",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class PrintedContents:
    """The entries of a table of contents as bookmarks, and its lines by the index of their page."""

    bookmarks: Sequence[Bookmark] = ()
    lines: Mapping[int, Container[str]] = field(default_factory=dict)

    def left_out(self, pages: Sequence[str]) -> list[str]:
        """Return the texts of pages without these lines: what they name stands on the pages that they lead to."""
        return [
            "\n".join(line for line in page.split("\n") if line.strip() not in self.lines[index]).strip()
            if index in self.lines
            else page
            for index, page in enumerate(pages)
        ]


@dataclass(frozen=True, slots=True)
class _Entry:
    """A line that ends in the number of a page: its place among the lines of its own, and what it says before."""

    place: int
    title: str
    printed: int
    has_leaders: bool


def find_contents(pages: Sequence[str]) -> PrintedContents:
    """Return the printed table of contents, with lists of figures and the like; empty if it leads to no titles.

    A page has contents where at least half of its lines are entries, from the first that leads to its title to the
    last. Without dots it takes three of them with growing numbers. Only entries of pages with dots become bookmarks:
    other contents often name no more than chapters.
    """
    lines = [[line.strip() for line in page.split("\n") if line.strip()] for page in pages]
    entries = [[*_entries(page)] for page in lines]
    targets = _Targets(pages, lines, entries)
    bookmarks: list[Bookmark] = []
    found: dict[int, set[str]] = {}
    count = confirmed_count = 0
    for index, page in enumerate(entries):
        confirmed = [entry for entry in page if targets.has_title(entry, index)]
        if not confirmed:
            continue
        dotted = {place for place, line in enumerate(lines[index]) if _has_leaders(line)}
        entry_lines = dotted | {entry.place for entry in confirmed}
        first, last = confirmed[0].place, confirmed[-1].place
        while first - 1 in dotted:
            first -= 1
        while last + 1 in dotted:
            last += 1
        is_mostly_entries = 2 * sum(first <= place <= last for place in entry_lines) > last - first
        is_growing = all(one.printed <= other.printed for one, other in pairwise(confirmed))
        if not is_mostly_entries or not (dotted or (is_growing and len(confirmed) >= _FEWEST_CONFIRMED)):
            continue
        count, confirmed_count = count + len(entry_lines), confirmed_count + len(confirmed)
        if first and _ABOVE_ENTRIES.fullmatch(lines[index][first - 1]):
            first -= 1
        # Beside entries are parts of long titles and the letters of an index; what stands between others may be text.
        beside = {place + step for place in entry_lines for step in (-1, 0, 1)}
        found[index] = {lines[index][place] for place in range(first, last + 1) if place in beside}
        if dotted:
            bookmarks += [
                _bookmark(entry, targets.page_of(entry))
                for entry in page
                if entry.place in entry_lines and 0 <= targets.page_of(entry) < len(pages)
            ]
    is_enough = count >= _FEWEST_ENTRIES and confirmed_count >= _FEWEST_CONFIRMED
    return PrintedContents(bookmarks, found) if is_enough else PrintedContents()


class _Targets:
    """The pages that entries lead to; how many come before the one that has the number 1, the titles show."""

    def __init__(
        self, pages: Sequence[str], lines: Sequence[Sequence[str]], entries: Sequence[Sequence[_Entry]]
    ) -> None:
        self._pages = pages
        self._plain: dict[int, str] = {}
        self._searched = 0
        # The pages on which each title is a line.
        self._pages_of: dict[str, list[int]] = {bare_title(entry.title): [] for page in entries for entry in page}
        for index, texts in enumerate(lines):
            for line in texts:
                found = self._pages_of.get(bare_title(line))
                if found is not None and found[-1:] != [index]:
                    found.append(index)
        distances: Counter[int] = Counter()
        for index, page in enumerate(entries):
            for entry in page:
                found = self._pages_of[bare_title(entry.title)]
                first = bisect_left(found, entry.printed - 1)
                end = bisect_right(found, entry.printed + _MOST_FRONT_PAGES)
                distances.update(target - entry.printed for target in found[first:end] if target != index)
        ((self._distance, _),) = distances.most_common(1) or [(0, 0)]

    def page_of(self, entry: _Entry) -> int:
        """Return the index of the page that an entry leads to, which may lie outside of the document."""
        return entry.printed + self._distance

    def has_title(self, entry: _Entry, page: int) -> bool:
        """Tell whether an entry on a page leads to another one that has its title."""
        target, title = self.page_of(entry), bare_title(entry.title)
        if target == page or not 0 <= target < len(self._pages):
            return False
        if target in self._pages_of[title]:
            return True
        # It may be part of a line, as the caption of a figure, or take several.
        if not entry.has_leaders or self._searched > _MOST_SEARCHED_CHARS:
            return False
        if target not in self._plain:
            self._plain[target] = plain_title(self._pages[target])
        self._searched += len(self._plain[target])
        return title in self._plain[target]


def _entries(lines: Sequence[str]) -> Iterator[_Entry]:
    begun = ""  # a title that has its number on one line, and goes on to its page on the next
    for place, line in enumerate(lines):
        said = line.replace("|", " ").strip()
        before = said.rstrip(_DIGITS)
        title = before.rstrip(" \t.")
        if title.endswith("\u2026\u2026"):
            title = title.rstrip(_FILLING)
        if before != title and 0 < len(said) - len(before) <= _MOST_DIGITS and len(title) in _TITLE_CHARS:
            has_leaders = LEADERS.search(before, len(title)) is not None
            whole = f"{begun} {title}" if has_leaders and begun and _NUMBER.match(title) is None else title
            yield _Entry(place, on_one_line(whole), int(said[len(before) :]), has_leaders)
            begun = ""
        else:
            # The first line of a page may be its header.
            begun = line if place and _NUMBER.match(line) and not LEADERS.search(line) else ""


def _has_leaders(line: str) -> bool:
    dots = LEADERS.search(line)
    return dots is not None and _PAGES.fullmatch(line[dots.end() :].lstrip(_FILLING)) is not None


def _bookmark(entry: _Entry, page_index: int) -> Bookmark:
    number = _NUMBER.match(entry.title)
    if number is None:
        return Bookmark(0, entry.title, page_index)
    return Bookmark(number[0].strip(".").count("."), entry.title[number.end() :].strip(), page_index)
