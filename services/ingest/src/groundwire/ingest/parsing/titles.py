"""What lines look like that are titles of sections, where only their type sets them apart."""

import re
from collections import Counter
from collections.abc import Collection

from groundwire.kernel.sentences import MAX_HEADING_CHARS

MAX_TITLE_CHARS = 120
_MAX_WORDS = 14
# "Note", "Usage" and headers of pages stand all over a document; titles of sections are rarely the same.
_MOST_ALIKE = 3
_FEWEST, _LARGEST_SHARE = 3, 0.3

_TITLE = re.compile(r"(?![(\[{*&])(?=.*?[^\W\d_]{2})[^a-z].*[^.,;:!\u3002]")
# "(12) May I keep owls?", "Why do they call?", "2. Feeding".
_QUESTION_OR_NUMBERED = re.compile(r"[^\n]*\?|\(?\d{1,3}[.)] [^\n]*[^\n:]")
_LEADERS = re.compile(r"(?:\. ?){4}|\. ?\. ?\d{1,4}$")
_PAGE_NUMBER = re.compile(r"^\d{1,5}\s|\s\d{1,5}$")


def is_like_title(text: str) -> bool:
    """Tell whether one line of text could be the title of a section."""
    return (
        len(text) <= MAX_TITLE_CHARS
        and (len(text.split()) <= _MAX_WORDS or text.endswith("?"))
        and _TITLE.fullmatch(text) is not None
        and _LEADERS.search(text) is None
    )


def is_question_or_numbered(text: str) -> bool:
    """Tell whether one line of text is a question or begins with a number, as titles in bold often do."""
    return len(text) <= MAX_HEADING_CHARS and _QUESTION_OR_NUMBERED.fullmatch(text) is not None


def titles_of_sections(titles: Collection[str]) -> frozenset[str]:
    """Return the titles without those that stand all over the document, whatever their page numbers."""
    alike = Counter(_PAGE_NUMBER.sub("", title) for title in titles)
    return frozenset(title for title in titles if alike[_PAGE_NUMBER.sub("", title)] <= _MOST_ALIKE)


def have_texts(count: int, line_count: int) -> bool:
    """Tell whether titles of this count are enough to be no accident, and few enough to have text below them."""
    return _FEWEST <= count <= _LARGEST_SHARE * line_count
