"""Find in the texts of the pages of a PDF what runs through all of them, divided words, and its headings."""

import re
from bisect import bisect_left, bisect_right
from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, islice, pairwise
from typing import TypeVar

from groundwire.ingest.chunking.cuts import Heading
from groundwire.ingest.parsing.source_text import on_one_line
from groundwire.kernel.sentences import MAX_HEADING_CHARS
from groundwire.kernel.spans import PageSpan

_MAX_LEVEL = 6
_MAX_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline of a PDF: `depth` from 0, the page's index from 0."""

    depth: int
    title: str
    page_index: int


# Headers and footers are lines at the top or bottom of several pages, the same on all or with the number of the page;
# left and right pages may have different ones.
_EDGE_LINES = 3
_MOST_ON_PAGE = 2
_LONGEST_STEP = 2
_MAX_RUNNING_CHARS = 200
_NUMBER = re.compile(r"\d{1,5}")
_NUMBER_BEFORE = re.compile(r"(?P<number>\d{1,5})\s+(?P<said>.+)")
_NUMBER_BEHIND = re.compile(r"(?P<said>.+)\s(?P<number>\d{1,5})")
_PAGE_NUMBER = re.compile(
    r"[^\w\n]*+(?:(?:page|seite|p[\u00e1a]gina|p)\b[^\w\n]*+)?\n(?:\W*+(?:(?:of|von|de|di)\b)?\W*+\d++)?\W*+",
    re.IGNORECASE,
)
# What Sphinx prints where code goes on on another page.
_CONTINUATION = re.compile(r"^\((?:continues on next|continued from previous) page\)$\n?", re.MULTILINE)
# Lines of tables and code.
_MARKS = ("|", "```")
# A line of words whose number grows with the pages may also be a heading: "Day 12".
_FEWEST_PAGES, _FEWEST_PAGES_IN_DOUBT = 3, 6


# What a title has before it on its page and mostly not in its bookmark: "10.7", "A.2.", "Appendix B:", "CHAPTER\nTWO".
_HEADING_NUMBER = (
    r"(?:(?i:chapter|appendix|part|section)\s++(?:\w++[.:]?+\s++)??|(?:\d++|[A-Z])(?:\.\d++)*+[.):]?+[ \t\u00a0]++)"
)
_HEADING_NUMBERS = re.compile(_HEADING_NUMBER + "{0,2}")  # "CHAPTER " and "9. "
_GAP_BEFORE_NUMBER, _MOST_GAPS = re.compile(rf" (?={_HEADING_NUMBER})"), 8
_ALIKE = ("'\u2018\u2019", '"\u201c\u201d', "-\u2010\u2011\u2012\u2013\u2014")
_FIRST_ALIKE = str.maketrans({sign: signs[0] for signs in _ALIKE for sign in signs})


def without_running_lines(pages: Sequence[str], titles: Collection[tuple[int, str]] = ()) -> list[str]:
    """Return the texts of pages without headers and footers, which would stand in the middle of sentences and code.

    What they say stays once, at the top of their first page, unless it is no more than a number and titles of
    bookmarks. No page loses all of its text, and none the title of a bookmark: `titles` has them with the index of
    their page.
    """
    own = _Titles(titles)
    pages = [_CONTINUATION.sub("", page) for page in pages]
    lines = [[line for line in page.split("\n") if line.strip()] for page in pages]
    # The pages of each line that stands in the same place from the top or the bottom; one with a number also as what is
    # around that, with its distance from the number of the page.
    places: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    counts = [Counter(map(str.strip, texts)) for texts in lines]
    for page, texts in enumerate(lines):
        for index in range(-_EDGE_LINES, _EDGE_LINES):
            line = texts[index].strip() if -len(texts) <= index < len(texts) else ""
            # A title may stand on its page and in the header of it; what stands there more often is text.
            if (
                not line
                or len(line) > _MAX_RUNNING_CHARS
                or line.startswith(_MARKS)
                or counts[page][line] > _MOST_ON_PAGE
            ):
                continue
            for around, distance in _readings(texts, index % len(texts), page, own):
                places[index, around, distance].append(page)
    running: set[tuple[int, int]] = set()
    kept: set[tuple[int, int]] = set()
    for (index, text, _), found in places.items():
        says_nothing = _PAGE_NUMBER.fullmatch(text) is not None
        fewest = _FEWEST_PAGES if says_nothing or "\n" not in text else _FEWEST_PAGES_IN_DOUBT
        borders = [n for n in range(1, len(found)) if found[n] - found[n - 1] > _LONGEST_STEP]
        for start, end in pairwise([0, *borders, len(found)]):
            if end - start >= fewest:
                running |= {(page, index % len(lines[page])) for page in found[start:end]}
                kept |= set() if says_nothing else {(found[start], index % len(lines[found[start]]))}
    shown = []
    for page, texts in enumerate(lines):
        top, bottom = 0, len(texts)
        while top < bottom and (page, top) in running:
            top += 1
        while bottom > top and (page, bottom - 1) in running:
            bottom -= 1
        outside = [*range(top), *range(bottom, len(texts))]
        if not outside or len(outside) == len(texts):
            shown.append(pages[page])
            continue
        said = [texts[index] for index in outside if (page, index) in kept or (page, texts[index].strip()) in titles]
        body = pages[page].split("\n")
        filled = [index for index, line in enumerate(body) if line.strip()]
        parts = "\n".join(dict.fromkeys(said)), "\n".join(body[filled[top] : filled[bottom - 1] + 1]).strip()
        shown.append("\n\n".join(filter(None, parts)))
    return shown


class _Titles:
    """The titles of bookmarks as `bare_title` returns them, with the indexes of their pages."""

    def __init__(self, titles: Collection[tuple[int, str]]) -> None:
        self.pages: dict[str, set[int]] = defaultdict(set)
        for page, title in titles:
            self.pages[bare_title(title)].add(page)
        self._in_order = sorted(self.pages)

    def named(self, plain: str) -> str | None:
        """Return the title that a plain one names, of which dots at its end may stand for the rest; None for others."""
        bare = _without_numbers(plain)
        if bare in self.pages:
            return bare
        begun = bare.removesuffix("\u2026").rstrip()
        if begun in {bare, ""}:
            return None
        following = self._in_order[bisect_left(self._in_order, begun) :][:1]
        return next((title for title in following if title.startswith(begun)), None)


def _readings(texts: Sequence[str], place: int, page: int, own: _Titles) -> Iterable[tuple[str, int]]:
    """Return a line, and for each of its numbers what is around it, with the distance from the number of the page.

    Of a header that says titles of bookmarks, nothing is around its number.
    """
    line = texts[place].strip()
    headers = list(_headers(line, page, own))
    others = [other for index, other in enumerate(texts) if index != place] if headers else []
    # A heading on its own page may look the same: "2 Waves" on page 2.
    titles = [title for named, *_ in headers for title in named if page in own.pages[title]]
    if headers and all(title in map(bare_title, others) for title in titles):
        return dict.fromkeys((around, distance) for _, around, distance in headers)
    numbers = () if line.endswith((".", "!", "?")) else _NUMBER.finditer(line)
    around = ((f"{line[: each.start()]}\n{line[each.end() :]}", int(each[0]) - page) for each in numbers)
    return [(line, 0), *around]


def _headers(line: str, page: int, own: _Titles) -> Iterator[tuple[Sequence[str], str, int]]:
    """Yield how a line reads as the title of a bookmark and a number, or as two titles with or without one.

    Each is the titles, what counts as standing around the number, and its distance from the number of the page.
    """
    plain = plain_title(line) if own.pages else ""
    matches = _NUMBER_BEFORE.fullmatch(plain), _NUMBER_BEHIND.fullmatch(plain)
    numbered = [(match["said"], "\n", int(match["number"]) - page) for match in matches if match is not None]
    for said, around, distance in [*numbered, (plain, "\n\n", 0)]:
        if around == "\n" and (title := own.named(said)):
            yield [title], around, distance
        for gap in islice(_GAP_BEFORE_NUMBER.finditer(said), _MOST_GAPS):
            one, other = own.named(said[: gap.start()]), own.named(said[gap.end() :])
            if one and other:
                yield [one, other], around, distance


def bare_title(title: str) -> str:
    """Return a title in capitals without the numbers before it, to compare titles by."""
    return _without_numbers(plain_title(title))


def plain_title(text: str) -> str:
    """Return a text on one line and in capitals, with one kind of quotes and dashes."""
    return on_one_line(text).translate(_FIRST_ALIKE).upper()


def _without_numbers(plain: str) -> str:
    return _HEADING_NUMBERS.sub("", plain, count=1)


LINE_END_HYPHEN = "\ufffe"
"""What PDFium writes for the hyphen at the end of a line; it leaves the line end out."""
_WORD = re.compile(r"\w++(?:-\w++)*+")
_DIVIDED = re.compile(rf"([\w-]{{1,40}}){LINE_END_HYPHEN}(\w{{1,40}})(?:([^\s{LINE_END_HYPHEN}]{{0,40}}) )?")


def with_whole_words(pages: Sequence[str]) -> list[str]:
    """Return the texts of pages with the words in one piece that the end of a line divides; the line ends behind them.

    A hyphen of their own stays, as in "in-network". Whether a word has one, the document shows elsewhere; those that
    stand nowhere else are written as most of the others. A document that divides fewer words than it has pages, and
    none of them without a hyphen of its own, divides no others.
    """
    known = {word.lower() for page in pages for word in _WORD.findall(page)}

    def hyphen(word: re.Match[str]) -> str | None:
        ways = [each for each in ("", "-") if f"{word[1]}{each}{word[2]}".lower() in known]
        return ways[0] if len(ways) == 1 else None

    used = Counter(hyphen(word) for page in pages for word in _DIVIDED.finditer(page))
    usual = "-" if used["-"] > used[""] or not (used[""] or used.total() >= len(pages)) else ""

    def whole(word: re.Match[str]) -> str:
        own = hyphen(word)
        behind = "" if word[3] is None else f"{word[3]}\n"
        return f"{word[1]}{usual if own is None else own}{word[2]}{behind}"

    return [_DIVIDED.sub(whole, page).replace(LINE_END_HYPHEN, "-\n") for page in pages]


_Range = TypeVar("_Range", PageSpan, Heading)
_LINE_BELOW_ANOTHER = re.compile(r"[^\n]\n[^\n]")
_LINE_END = re.compile(r"(?<![ \t])[ \t]*+\n\s*+")
# Searching for thousands of titles on one huge page would take minutes.
_MOST_SEARCHED_CHARS = 200_000_000


def find_headings(text: str, pages: Sequence[PageSpan], bookmarks: Sequence[Bookmark]) -> list[Heading]:
    """Return a heading for each bookmark whose title stands on its page as lines of its own, in order of the text.

    On its page a title may have a number before it or be set in capitals. Bookmarks that lead backwards, or whose title
    is not on the page, are left out.
    """
    headings: list[Heading] = []
    after = searched = 0
    for bookmark in bookmarks:
        title = on_one_line(bookmark.title)
        if not title or len(title) > _MAX_TITLE_CHARS:
            continue
        if searched > _MOST_SEARCHED_CHARS:
            break
        page = pages[bookmark.page_index]
        start = max(after, page.start)
        # A line with the title alone may also be a cell of a table.
        match = _title_line(title, _HEADING_NUMBER).search(text, start, page.end)
        searched += (page.end if match is None else match.end()) - start
        match = match or _title_line(title).search(text, start, page.end)
        if match is not None:
            after = match.end()
            name = title[:MAX_HEADING_CHARS].rstrip()
            headings.append(Heading(min(_MAX_LEVEL, bookmark.depth + 1), name, match.start(), match.end()))
    return headings


def set_apart(
    text: str, pages: Sequence[PageSpan], headings: Sequence[Heading]
) -> tuple[str, tuple[PageSpan, ...], tuple[Heading, ...]]:
    """Return text, pages and headings with each heading on one line between blank lines, as other formats have them.

    Without the blank lines a heading and the paragraph below it read as one sentence.
    """
    lines = sorted({start for each in headings for start in (each.start, each.end + 1)})
    breaks = [(start, start, "\n") for start in lines if start > 1 and _LINE_BELOW_ANOTHER.match(text, start - 2)]
    inside = [(*gap.span(), " ") for each in headings for gap in _LINE_END.finditer(text, each.start, each.end)]
    edits = sorted([*breaks, *inside])
    parts, end = list[str](), 0
    for start, after, new in edits:
        parts += text[end:start], new
        end = after
    starts, ends = [start for start, *_ in edits], [after for _, after, _ in edits]
    # How much longer the text is behind each edit.
    longer = [0, *accumulate(len(new) - (after - start) for start, after, new in edits)]

    def moved(each: _Range) -> _Range:
        at_start, at_end = longer[bisect_right(ends, each.start)], longer[bisect_left(starts, each.end)]
        return replace(each, start=each.start + at_start, end=each.end + at_end)

    return "".join([*parts, text[end:]]), tuple(map(moved, pages)), tuple(map(moved, headings))


def _title_line(title: str, number: str = "") -> re.Pattern[str]:
    """Return the pattern of a title as lines of its own behind a number; it takes linear time."""
    said = "|".join(r"\s+".join(map(_as_printed, words.split(" "))) for words in (title, title.upper()))
    return re.compile(rf"^[ \t]*+{number}(?:{said})[ \t]*+$", re.MULTILINE)


def _as_printed(word: str) -> str:
    """Return the pattern of a word of a title, whose quotes and dashes may be others on the page."""
    alike = (next((signs for signs in _ALIKE if character in signs), character) for character in word)
    return "".join(f"[{each}]" if len(each) > 1 else re.escape(each) for each in alike)
