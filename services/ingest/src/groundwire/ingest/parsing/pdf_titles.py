"""Tell by their type which lines of a PDF are titles, where nothing else says it."""

import re
from collections import Counter, defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby, pairwise

from groundwire.ingest.parsing.pdf_lines import Line
from groundwire.ingest.parsing.pdf_structure import Bookmark
from groundwire.ingest.parsing.titles import MAX_TITLE_CHARS, have_texts, is_like_title, titles_of_sections

# A title is taller than the text by so much, or bold and not much smaller. Of the 4,005 headings that bookmarks, tags
# and contents name in 25 manuals and handbooks these rules find 0.98, and of what they find those name 0.91; most of
# the others are titles as well.
_TALLER, _AS_TALL, _BOLD = 1.15, 0.93, 600
# A title over several lines has them so close together, in heights of a line.
_LINE_DISTANCE = 1.7
_MOST_LINES = 3

_NUMBER = re.compile(r"(?:(?:chapter|appendix|section|part) )?[A-Z]?[\d.]*", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class _Printed:
    """A line of a page as it is printed; `is_alone` if nothing stands beside it."""

    text: str
    page_index: int
    baseline: float
    height: float
    is_bold: bool
    is_alone: bool

    def goes_on_in(self, other: "_Printed") -> bool:
        distance = self.baseline - other.baseline
        return self.page_index == other.page_index and 0 < distance <= _LINE_DISTANCE * self.height


class PrintedTitles:
    """The lines that are set in larger or bolder type than the text, and look like titles."""

    def __init__(self) -> None:
        self._lines: list[_Printed] = []
        self._chars: Counter[tuple[float, bool]] = Counter()

    def read(self, text: str, lines: Sequence[Line], page_index: int) -> None:
        """Read the lines of a page; `text` is that which they are ranges of."""
        for index, line in enumerate(lines):
            said = text[line.start : line.end].strip()
            others = (*lines[max(0, index - 1) : index], *lines[index + 1 : index + 2])
            is_beside = any(abs(each.baseline - line.baseline) < line.height / 3 for each in others)
            is_row = len(line.cells) - bool(_NUMBER.fullmatch(line.cells[0].text)) > 1
            is_alone = not (is_beside or is_row or line.is_fixed)
            is_bold = line.weight >= _BOLD
            self._chars[round(line.height, 1), is_bold] += len(said)
            self._lines.append(
                _Printed(said[: MAX_TITLE_CHARS + 1], page_index, line.baseline, line.height, is_bold, is_alone)
            )

    def as_bookmarks(self) -> list[Bookmark]:
        """Return the titles in the order of the pages, the tallest at depth 0; none where too many lines look so."""
        if not self._chars:
            return []
        (usual, is_bold), _ = self._chars.most_common(1)[0]

        def style(line: _Printed) -> int:
            """Return the height in twentieths of the usual one, 0 for what is set like the text."""
            height = line.height / usual
            is_title = height >= _TALLER or (line.is_bold and not is_bold and height >= _AS_TALL)
            return round(20 * height) if is_title else 0

        found: list[tuple[int, str, int]] = []
        for height, group in groupby(self._lines, style):
            found += ((height, title, page) for title, page in _titles(list(group)) if height)
        of_sections = titles_of_sections([title for _, title, _ in found])
        found = [each for each in found if each[1] in of_sections]
        pages: dict[int, list[int]] = defaultdict(list)
        for height, _, page in found:
            pages[height].append(page)
        heights = sorted(pages, reverse=True)
        # The tallest on the first page, alone of its kind, is the title of the document.
        while heights and pages[heights[0]] == [0]:
            del pages[heights.pop(0)]
        found = [each for each in found if each[0] in pages]
        if not have_texts(len(found), len(self._lines)):
            return []
        return [Bookmark(heights.index(height), title, page) for height, title, page in found]


def _titles(lines: Sequence[_Printed]) -> Iterator[tuple[str, int]]:
    """Yield the titles, with the index of their page, that consecutive lines of one style consist of."""
    borders = [index for index, pair in enumerate(pairwise(lines), 1) if not pair[0].goes_on_in(pair[1])]
    for start, end in pairwise([0, *borders, len(lines)]):
        title = " ".join(line.text for line in lines[start:end])
        is_alone = end - start <= _MOST_LINES and all(line.is_alone for line in lines[start:end])
        if is_alone and is_like_title(title):
            yield title, lines[start].page_index
