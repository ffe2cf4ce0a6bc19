"""Find in the texts of the pages of a PDF what runs through all of them, and where its bookmarks lead."""

import re
from collections import Counter, defaultdict
from collections.abc import Container, Sequence
from dataclasses import dataclass
from itertools import pairwise

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
_PAGE_NUMBER = re.compile(
    r"[^\w\n]*+(?:(?:page|seite|p[\u00e1a]gina|p)\b[^\w\n]*+)?\n(?:\W*+(?:(?:of|von|de|di)\b)?\W*+\d++)?\W*+",
    re.IGNORECASE,
)
# A line of words whose number grows with the pages may also be a heading: "Day 12".
_FEWEST_PAGES, _FEWEST_PAGES_IN_DOUBT = 3, 6


def without_running_lines(pages: Sequence[str], titles: Container[tuple[int, str]] = ()) -> list[str]:
    """Return the texts of pages without headers and footers, which would stand in the middle of sentences.

    What they say stays once, at the top of their first page, unless it is no more than a number. No page loses all of
    its text, and none the title of a bookmark: `titles` has them with the index of their page.
    """
    lines = [[line for line in page.split("\n") if line.strip()] for page in pages]
    # The pages of each line that stands in the same place from the top or the bottom; one with a number also as what is
    # around that, with its distance from the number of the page.
    places: dict[tuple[int, str, int], list[int]] = defaultdict(list)
    counts = [Counter(map(str.strip, texts)) for texts in lines]
    for page, texts in enumerate(lines):
        for index in range(-_EDGE_LINES, _EDGE_LINES):
            line = texts[index].strip() if -len(texts) <= index < len(texts) else ""
            # A title may stand on its page and in the header of it; what stands there more often is text.
            if not line or len(line) > _MAX_RUNNING_CHARS or line.startswith("|") or counts[page][line] > _MOST_ON_PAGE:
                continue
            places[index, line, 0].append(page)
            for number in () if line.endswith((".", "!", "?")) else _NUMBER.finditer(line):
                around = f"{line[: number.start()]}\n{line[number.end() :]}"
                places[index, around, int(number[0]) - page].append(page)
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


def find_headings(text: str, pages: Sequence[PageSpan], bookmarks: Sequence[Bookmark]) -> list[Heading]:
    """Return a heading for each bookmark whose title stands on its page as lines of its own, in order of the text.

    Bookmarks that lead backwards, or whose title is not on the page, are left out.
    """
    headings: list[Heading] = []
    after = 0
    for bookmark in bookmarks:
        title = on_one_line(bookmark.title)
        if not title or len(title) > _MAX_TITLE_CHARS:
            continue
        page = pages[bookmark.page_index]
        # Words of a title may stand on several lines; the pattern has no choices, so it takes linear time.
        pattern = r"^[ \t]*" + r"\s+".join(map(re.escape, title.split(" "))) + r"[ \t]*$"
        match = re.compile(pattern, re.MULTILINE).search(text, max(after, page.start), page.end)
        if match is not None:
            after = match.end()
            name = title[:MAX_HEADING_CHARS].rstrip()
            headings.append(Heading(min(_MAX_LEVEL, bookmark.depth + 1), name, match.start(), match.end()))
    return headings
