"""Find the headings of a PDF: its text marks none, but its bookmarks name them and their pages."""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.ingest.domain.outline import Heading
from groundwire.ingest.domain.text_building import one_line
from groundwire.kernel.spans import PageSpan

_MAX_LEVEL = 6
_MAX_TITLE_CHARS = 300


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline of a PDF: `depth` from 0, the page's index from 0."""

    depth: int
    title: str
    page_index: int


def find_headings(text: str, pages: Sequence[PageSpan], bookmarks: Sequence[Bookmark]) -> list[Heading]:
    """Return a heading for each bookmark whose title stands on its page as lines of its own, in order of the text.

    Bookmarks that lead backwards, or whose title is not on the page, are left out.
    """
    headings: list[Heading] = []
    after = 0
    for bookmark in bookmarks:
        title = one_line(bookmark.title)
        if not title or len(title) > _MAX_TITLE_CHARS:
            continue
        page = pages[bookmark.page_index]
        # Words of a title may stand on several lines; the pattern has no choices, so it takes linear time.
        pattern = r"^[ \t]*" + r"\s+".join(map(re.escape, title.split(" "))) + r"[ \t]*$"
        found = re.compile(pattern, re.MULTILINE).search(text, max(after, page.start), page.end)
        if found is not None:
            after = found.end()
            headings.append(Heading(min(_MAX_LEVEL, bookmark.depth + 1), title, found.start(), found.end()))
    return headings
