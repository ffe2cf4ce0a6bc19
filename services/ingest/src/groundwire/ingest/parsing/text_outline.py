"""Finds the headings of plain text, which nothing but their form and place tells from other lines."""

import re
from collections.abc import Sequence

from groundwire.ingest.chunking.cuts import Heading, TextOutline
from groundwire.ingest.parsing.source_text import on_one_line
from groundwire.kernel.sentences import MAX_HEADING_CHARS

_Line = tuple[int, int]
"""The code points of a line without the white space at its end."""

_LINE = re.compile(r"[^\r\n]*+(?:\r\n?|\n|\Z)")
_ORDINALS = (
    "one|two|three|four|five|six|seven|eight|nine|ten|eleven|twelve|thirteen|fourteen|fifteen|sixteen|seventeen|"
    "eighteen|nineteen|twenty|first|second|third|fourth|fifth|sixth|seventh|eighth|ninth|tenth|last"
)
_CHAPTER = re.compile(
    r"(?=[A-Z])(?i:(?:(?P<above>book|part|volume|act)|chapter|letter|canto|stave|scene|section|appendix)\s+"
    rf"(?:\d{{1,4}}|[ivxlcdm]{{1,8}}|[a-z]|(?:the )?(?:{_ORDINALS})))\b"
    r"[.:)\u2013\u2014-]?(?:\s[\u2013\u2014-]?\s?[\"'\u2018\u201c(]?[A-Z0-9].{0,80}(?<![.,;]))?"
    r"|(?:PROLOGUE|EPILOGUE|PREFACE|FOREWORD|INTRODUCTION|AFTERWORD|CONCLUSION"
    r"|Prologue|Epilogue|Preface|Foreword|Introduction|Afterword|Conclusion)[.:]?"
)
_LINES_WITH_TITLE, _MAX_TITLE_CHARS = 2, 80
_RULE = re.compile(r"([=\-~^*#+\"'`:._])\1{2,}")
_SHORTER = 3
"""An underline may be this many characters shorter than its title, and no more, so that it is no row of a table."""
# Titles written by DocBook have spaces that do not break.
_NUMBER = (
    r"[ \t]*+(?:(?:Chapter|CHAPTER|Section|SECTION)[ \xa0](?=\d)|(?:Appendix|APPENDIX)[ \xa0](?=[A-Z]\b))?"
    r"(?P<number>(?:\d{1,2}|[A-Z](?=\.\d)|(?<=(?:Appendix|APPENDIX)[ \xa0])[A-Z])(?P<part>\.\d{1,2}){0,5})"
    r"[.):]?[ \t\xa0]{1,8}[\"'\u201c(]?"
)
_NUMBERED = re.compile(
    rf"{_NUMBER}(?!(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]*[ .]+\d)"
    r"(?(part)[^\W\d_]|[A-Z])[^\n]{0,78}(?<![.,;:!])"
)
_CONTENTS = re.compile(r"(?:table of )?contents", re.IGNORECASE)
_NUMBERED_QUESTION = re.compile(rf"{_NUMBER}[A-Z].{{0,200}}\?", re.DOTALL)
_APPENDIX = 100
"""Appendix A counts as section 101."""
_MOST_QUESTION_LINES = 3
_SHORT_TITLE = 50
_MARK_OF_SECTION = re.compile(r"[A-Z\d]{1,2}[.)]\s+")
# A longer line, or one that begins otherwise, is the rest of an item of a list.
_TEXT = re.compile(r"[ \t]*[A-Z\"'\u201c(](?!\d)[^\n]{20}")
_MOST_SKIPPED = 3
_CAPITALS = re.compile(r"[A-Z][A-Z0-9 ,/&()-]{1,59}[A-Z0-9)]")
_MAX_LEVEL = 6


def text_outline(text: str) -> TextOutline:
    """Return the headings of a plain text, by the first of these forms that it has several of.

    Titles above a rule of one character repeated; numbered titles between blank lines, which count on from 1, of
    sections with subsections; chapters of a book, such as `CHAPTER IV`; other numbered titles; and titles in capitals
    above indented text, as manual pages have them. One alone may be anything, so there are none or several.
    """
    paragraphs = _paragraphs(text)
    for find in (_underlined, _nested, _chapters, _numbered, _capitals):
        headings = find(text, paragraphs)
        if len(headings) > 1:
            return TextOutline(tuple(headings))
    return TextOutline()


def _paragraphs(text: str) -> list[list[_Line]]:
    """Return the lines of each paragraph; the last paragraph may have none."""
    paragraphs: list[list[_Line]] = [[]]
    for line in _LINE.finditer(text):
        end = line.start() + len(line[0].rstrip())
        if line[0].strip():
            paragraphs[-1].append((line.start(), end))
        elif paragraphs[-1]:
            paragraphs.append([])
    return paragraphs


def _heading(level: int, said: str, start: int, end: int) -> Heading:
    return Heading(min(level, _MAX_LEVEL), on_one_line(said)[:MAX_HEADING_CHARS], start, end)


def _underlined(text: str, paragraphs: Sequence[list[_Line]]) -> list[Heading]:
    """Return the titles above a rule, maybe below one as well.

    The levels are the order in which rules first appear, except above a table of contents.
    """
    found = []
    for lines in paragraphs:
        rules = [_RULE.fullmatch(text[slice(*line)].strip()) for line in lines[:3]]
        title = 1 if rules and rules[0] else 0
        below = rules[title + 1] if title + 1 < len(rules) else None
        above = rules[0] if title else None
        if below is None or (above and above[1] != below[1]):
            continue
        said = text[slice(*lines[title])].strip()
        is_row = "   " in _MARK_OF_SECTION.sub("", said, count=1)  # the header of a table
        if len(said) - _SHORTER <= len(below[0]) and any(map(str.isalnum, said)) and not is_row:
            found.append(((above is None, below[1]), said, lines[0][0], lines[title + 1][1]))
    in_order = sorted(found, key=lambda title: _CONTENTS.fullmatch(title[1]) is not None)
    styles = list(dict.fromkeys(style for style, *_ in in_order))
    return [_heading(styles.index(style) + 1, said, start, end) for style, said, start, end in found]


def _chapters(text: str, paragraphs: Sequence[list[_Line]]) -> list[Heading]:
    """Return the chapters of a book: lines such as `CHAPTER IV` or `Part 2: The Sea` behind a blank line.

    A title in the next line, or in capitals in the next paragraph, belongs to them. Books and parts are above chapters
    where a text has both. Those of a table of contents have no text below and are left out.
    """
    found: list[tuple[bool, int, int]] = []  # whether it is above chapters, and its range
    for lines, following in zip(paragraphs, [*paragraphs[1:], []], strict=True):
        heading = _CHAPTER.fullmatch(text[slice(*lines[0])].strip()) if lines else None
        if heading is None:
            continue
        start, end = lines[0]
        after = lines[1:] if len(lines) == _LINES_WITH_TITLE else following if len(lines) == len(following) == 1 else []
        title = text[slice(*after[0])].strip() if after else ""
        if title and len(title) <= _MAX_TITLE_CHARS and _CHAPTER.fullmatch(title) is None:
            end = after[0][1] if title.isupper() or (after is not following and title[-1].isalnum()) else end
        found.append((heading["above"] is not None, start, end))
    # Between "Introduction" and "Conclusion" alone lie sections that are not found, not a chapter.
    if not any(" " in text[start:end] for _, start, end in found):
        return []
    kinds = {is_above for is_above, _, _ in found}
    headings = []
    for index, (is_above, start, end) in enumerate(found):
        below = found[index + 1] if index + 1 < len(found) else (True, len(text), 0)
        has_chapters = is_above and not below[0]
        if has_chapters or text[end : below[1]].strip():
            level = 1 if is_above or len(kinds) == 1 else 2
            headings.append(_heading(level, text[start:end], start, end))
    return headings


def _nested(text: str, paragraphs: Sequence[list[_Line]]) -> list[Heading]:
    """Return the numbered titles of a text with subsections, which a book may have below its chapters."""
    headings = _numbered(text, paragraphs)
    levels = {heading.level for heading in headings}
    return headings if 1 in levels and len(levels) > 1 else []


def _numbered(text: str, paragraphs: Sequence[list[_Line]]) -> list[Heading]:
    """Return the numbered titles behind blank lines, such as `2.1 Limits`, as far as each counts on from the last one.

    A short one may have its text in the next line, a question may take several. What a table of contents names has
    neither text nor sections below and is left out, and so are items of lists, which are indented further than titles.
    """
    found = [title for lines in paragraphs if lines and (title := _numbered_title(text, lines)) is not None]
    margin = min((_indent(text, *line) for lines in paragraphs for line in lines), default=0)
    indents: dict[int, int] = {1: margin}
    for number, start, end in found:
        indents[len(number)] = min(_indent(text, start, end), indents.get(len(number), end))
    with_text: list[tuple[tuple[int, ...], int, int]] = []
    below = len(text)
    for number, start, end in reversed(found):
        is_above = bool(with_text) and with_text[-1][1] == below and with_text[-1][0][: len(number)] == number
        if (is_above or text[end:below].strip()) and _indent(text, start, end) == indents[len(number)]:
            with_text.append((number, start, end))
        below = start
    headings: list[Heading] = []
    last: tuple[int, ...] = ()
    for number, start, end in reversed(with_text):
        if _counts_on(number, last):
            headings.append(_heading(len(number), text[start:end], start, end))
            last = number
    return headings


def _indent(text: str, start: int, end: int) -> int:
    return end - start - len(text[start:end].lstrip())


def _numbered_title(text: str, lines: Sequence[_Line]) -> tuple[tuple[int, ...], int, int] | None:
    """Return the number and range of the title that a paragraph begins with or, if it is a question, consists of."""
    (start, end), last = lines[0], lines[-1][1]
    title = _NUMBERED.fullmatch(text, start, end)
    if (
        title is not None
        and len(lines) > 1
        and not (len(title[0].lstrip()) <= _SHORT_TITLE and _TEXT.match(text, *lines[1]))
    ):
        title = None
    if title is None and len(lines) <= _MOST_QUESTION_LINES:
        end = last
        title = _NUMBERED_QUESTION.fullmatch(text, start, end)
    if title is None:
        return None
    first, *parts = title["number"].split(".")
    chapter = int(first) if first.isdecimal() else _APPENDIX + 1 + ord(first) - ord("A")
    return (chapter, *map(int, parts)), start, end


def _counts_on(number: tuple[int, ...], last: tuple[int, ...]) -> bool:
    """Tell whether a section may follow another: 2.1 or 3 follows 2, and 4 if the title of 3 was not recognized."""
    if not last or number[0] > _APPENDIX > last[0]:
        return max(part % _APPENDIX for part in number) <= 1
    if number[:-1] == last:
        return number[-1] <= 1
    depth = len(number) - 1
    return number[:-1] == last[:depth] and depth < len(last) and 0 < number[-1] - last[depth] <= _MOST_SKIPPED


def _capitals(text: str, paragraphs: Sequence[list[_Line]]) -> list[Heading]:
    """Return the lines in capitals that indented text follows, such as `OPTIONS`."""
    headings = []
    for lines, following in zip(paragraphs, [*paragraphs[1:], []], strict=True):
        below = [*lines[1:], *following][:1]
        if lines and below and text[below[0][0]] in " \t" and _CAPITALS.fullmatch(text[slice(*lines[0])]):
            headings.append(_heading(1, text[slice(*lines[0])], *lines[0]))
    return headings
