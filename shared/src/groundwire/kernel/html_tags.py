"""Reads the HTML in a Markdown text as Markdown, in a text of the same length."""

import re
from bisect import bisect_right
from collections.abc import Sequence
from typing import TypeAlias

from groundwire.kernel.sentences import BlockKind, code_spans, split_blocks

# Possessive, so that no text takes more than linear time.
_TAG = re.compile(r"<(/?)([A-Za-z][A-Za-z0-9]*+)((?:\s[^<>]*+)?)/?>")
_CELLS = frozenset({"td", "th"})
_PARTS = frozenset({"table", "thead", "tbody", "tfoot", "tr"})
_LEVELS = {"h1": 1, "h2": 2, "h3": 3, "h4": 4, "h5": 5, "h6": 6, "summary": 6}
_BLOCK_NAMES = (
    "address article aside blockquote caption center details div dl fieldset figcaption figure footer form header hr "
    "main nav ol p section ul"
)
_BLOCKS = frozenset(_BLOCK_NAMES.split()) | _PARTS
_ITEMS = frozenset({"li", "dt", "dd"})
_VERBATIM = frozenset({"pre", "script", "style", "svg"})
# A line that begins with one of these is no prose in Markdown, although prose may follow on the line.
_INLINE_NAMES = "a abbr b cite code del em font i img ins kbd mark picture q s small source span strong u var"
_INLINE = frozenset(_INLINE_NAMES.split())
_ENDS_LINE = re.compile(
    r"(?:</?(?:p|div|br|hr|li|ul|ol|dl|dt|dd|details|summary|h[1-6])\b[^<>]*+>|\s)++", re.IGNORECASE
)
_CODE_TAG = re.compile(r"</?code\b[^<>]*+>", re.IGNORECASE)
_BLANK_LINE = re.compile(r"\n[ \t]*+\r?\n")
# Cells that span a hundred rows and columns would fill a hundred rows of ten thousand cells.
_MOST_COLUMNS = 100
_SPAN = re.compile(r"\b(col|row)span\s*+=\s*+[\"']?(\d{1,2})\b", re.IGNORECASE)
_SAME_LINE = re.compile(r"[ \t]*+\S")
_NO_LINE_END = re.compile(r"[^\r\n]")
_Range: TypeAlias = tuple[int, int]


def html_as_markdown(text: str) -> str:
    """Return a text of the same length in which the HTML of a Markdown text is Markdown, and its comments are spaces.

    Rows of tables, headings, items of lists, definitions, paragraphs and preformatted text are those of Markdown.
    Inside a row or a heading, characters move; all others outside of tags stay in their places. Code is left alone.
    Takes time linear in the length of the text.
    """
    if "<" not in text:
        return text
    blocks = split_blocks(text)
    code = [(each.start, each.end) for each in blocks if each.kind is BlockKind.CODE]
    prose = [each for each in blocks if each.kind is not BlockKind.CODE]
    spans = [span for each in prose for span in code_spans(text, each.start, each.end)]
    return _Translation(text, code, sorted((*code, *spans))).text()


class _Translation:
    """Writes Markdown over the tags of a text, from the first one to the last.

    `code` and `literal` are ranges in order: blocks of code, and these with code spans.
    """

    def __init__(self, text: str, code: Sequence[_Range], literal: Sequence[_Range]) -> None:
        self._code = code
        self._text = _without_comments(text, literal)
        self._shown = list(self._text)
        self._tags = [tag for tag in _TAG.finditer(self._text) if not _holds(literal, tag.start())]
        self._names = [tag[2].lower() for tag in self._tags]
        self._last_close = {self._names[index]: index for index, tag in enumerate(self._tags) if tag[1]}
        self._line_has_text = self._after_marker = False
        self._term: re.Match[str] | None = None  # the end of the term that the last tag has ended
        # Of the table that is being read: where its last row ends, whether that is a header, and how many rows below
        # the cells of each column reach into.
        self._row_end: int | None = None
        self._row_is_header = self._in_head = False
        self._reaching: dict[int, int] = {}
        self._layout_before = 0

    def text(self) -> str:
        index = position = 0
        while index < len(self._tags):
            tag, name = self._tags[index], self._names[index]
            closes = bool(tag[1])
            self._pass_over(position, tag.start())
            after = index + 1
            if name in _CELLS and not closes:
                after = self._row(index)
            elif name in _LEVELS and not closes:
                after = self._heading(index)
            elif name in _VERBATIM and not closes:
                after = self._verbatim(index)
            elif name in _ITEMS:
                self._item(tag, name, closes=closes)
            elif name in _BLOCKS or name in _CELLS or name in _LEVELS:
                if name == "table":
                    self._row_end, self._reaching = None, {}
                self._in_head = name == "thead" and not closes if name in _PARTS and name != "tr" else self._in_head
                self._break(tag, closes=closes)
            elif name == "br":
                self._write(tag.start(), tag.end(), "\n" if self._line_has_text else "")
                self._line_has_text = False
            elif name in _INLINE and not self._line_has_text:
                self._write(tag.start(), tag.end(), "")
            index, position = after, self._tags[after - 1].end()
        return "".join(self._shown)

    def _write(self, start: int, end: int, markdown: str) -> None:
        self._shown[start:end] = markdown.ljust(end - start)

    def _pass_over(self, start: int, end: int) -> None:
        between = self._text[start:end]
        said = between.lstrip()
        if self._after_marker:  # the text of an item may begin on a line below its tag
            self._write(start, end - len(said), "")
            self._after_marker = not said
        line = between[max(between.rfind("\n"), between.rfind("\r")) + 1 :]
        if not self._after_marker:
            self._line_has_text = bool(line.strip()) or (self._line_has_text and len(line) == len(between))

    def _break(self, tag: re.Match[str], *, closes: bool) -> None:
        """Write the border of a block, unless it opens right behind the marker of an item."""
        self._after_marker = self._after_marker and not closes
        self._write(tag.start(), tag.end(), "")
        if not self._after_marker:
            self._shown[tag.start()] = self._shown[tag.end() - 1] = "\n"
        self._line_has_text = False

    def _item(self, tag: re.Match[str], name: str, *, closes: bool) -> None:
        """Write the marker or the end of an item; a term with its definition makes one, `term: definition`."""
        term, self._term = self._term, tag if closes and name == "dt" else None
        if self._term is not None:
            self._write(tag.start(), tag.end(), "")
        elif closes:
            self._break(tag, closes=True)
        else:
            if term is not None and name == "dd" and not self._text[term.end() : tag.start()].strip():
                start = term.start()
                while self._text[start - 1].isspace():
                    start -= 1
                self._write(start, tag.end(), ":")
            else:
                self._write(tag.start(), tag.end(), "\n- " if self._line_has_text else "- ")
            self._line_has_text, self._after_marker = False, True

    def _heading(self, index: int) -> int:
        """Write the heading that a tag opens on one line; return the index of the tag behind it."""
        name, opening = self._names[index], self._tags[index]
        for place in range(index + 1, len(self._tags)):
            if self._names[place] == name and self._tags[place][1]:
                closing = self._tags[place]
                said = _on_one_line(self._text[opening.end() : closing.start()])
                # On a line of its own, because an indented one would be no heading.
                shown = f"\n{'#' * _LEVELS[name]} {said}" if _TAG.sub("", said).strip() else ""
                self._write(opening.start(), closing.end(), shown)
                self._shown[closing.end() - 1] = "\n"
                self._line_has_text = self._after_marker = False
                return place + 1
            if self._names[place] in _LEVELS or self._names[place] in _BLOCKS:
                break
        self._break(opening, closes=False)
        return index + 1

    def _verbatim(self, index: int) -> int:
        """Write preformatted text as a block of code, and leave scripts and drawings as they are."""
        name, opening = self._names[index], self._tags[index]
        if self._last_close.get(name, -1) < index:
            return index + 1
        place = next(place for place in range(index + 1, len(self._tags)) if self._names[place] == name)
        closing = self._tags[place]
        is_code = name == "pre" and not self._line_has_text and bool(closing[1])
        if is_code:
            self._write(opening.start(), opening.end(), "```\n")
            for tag in self._tags[index + 1 : place]:
                self._write(tag.start(), tag.end(), "")
            is_followed = _SAME_LINE.match(self._text, closing.end()) is not None
            self._write(closing.start(), closing.end(), "\n ```\n" if is_followed else "\n  ```")
        self._line_has_text = not is_code
        return place + 1

    def _row(self, index: int) -> int:
        """Write a row of a table as a line from the cell that a tag opens on; return the index of the tag behind it.

        What holds paragraphs, code or another table is layout, which is read as if it was in no table.
        """
        cells: list[tuple[re.Match[str], int]] = []
        opening: re.Match[str] | None = None
        after = end = index
        is_layout = index < self._layout_before
        for after in range(index, len(self._tags)):
            tag, name = self._tags[after], self._names[after]
            if is_layout or name in _PARTS:
                is_layout = is_layout or (name == "table" and not tag[1])
                break
            if name in _CELLS:
                if opening is not None:
                    cells.append((opening, tag.start()))
                opening, end = (None, tag.end()) if tag[1] else (tag, tag.start())
        else:
            after = len(self._tags)
        if opening is not None:
            end = self._tags[after].start() if after < len(self._tags) else len(self._text)
            cells.append((opening, end))
        said = [self._text[cell.end() : cell_end].strip() for cell, cell_end in cells]
        start = self._tags[index].start()
        if is_layout or any(map(_BLANK_LINE.search, said)) or _holds_any(self._code, start, end):
            self._layout_before = max(self._layout_before, after)
            self._row_end = None
            self._break(self._tags[index], closes=False)
            return index + 1
        row: list[str] = []
        for (cell, _), text in zip(cells, said, strict=True):
            while self._reaching.get(len(row), 0):
                self._reaching[len(row)] -= 1
                row.append("")
            spans = {kind.lower(): int(number) for kind, number in _SPAN.findall(cell[3])}
            columns = range(len(row), max(len(row) + 1, min(_MOST_COLUMNS, len(row) + spans.get("col", 1))))
            self._reaching |= dict.fromkeys(columns, spans.get("row", 1) - 1)
            row += [_on_one_line(text).replace("|", "\\|"), *[""] * (len(columns) - 1)]
        line = "|" + "|".join(row)
        self._write(start, end, "")
        # Tags leave room for more than it takes, but not for any number of bars and spans.
        if len(line) < end - start:
            self._write(start, end - 1, line)
            self._shown[end - 1] = "|"
        if self._row_end is not None:
            self._write(self._row_end, start, "\n|-" if self._row_is_header else "")
            self._shown[start - 1] = "\n"
        self._row_is_header = self._row_end is None and (
            self._in_head or all(cell[2].lower() == "th" for cell, _ in cells)
        )
        self._row_end = end
        self._line_has_text, self._after_marker = True, False
        return after


def _without_comments(text: str, literal: Sequence[_Range]) -> str:
    parts, done = list[str](), 0
    start, last_close = text.find("<!--"), text.rfind("-->")
    while -1 < start < last_close:
        # `<!-->` is a whole comment.
        after = text.find("-->", start + 2) + 3
        # One inside of a word or in front of a full stop leaves no space: to the reader of a sentence it is nothing.
        joins = bool(text[start - 1 : start].strip() and text[after : after + 1].strip())
        if _holds(literal, start):
            after = start + 1
        elif not joins or _TAG.search(text, start, after) is not None:
            parts += text[done:start], _NO_LINE_END.sub(" ", text[start:after])
            done = after
        start = text.find("<!--", after)
    return "".join([*parts, text[done:]])


def _on_one_line(source: str) -> str:
    """Return the source of a cell or heading on one line, with borders of blocks as spaces and code in backticks."""
    if "`" not in source:
        source = _CODE_TAG.sub("`", source)
    return _ENDS_LINE.sub(" ", source).strip()


def _holds(ranges: Sequence[_Range], position: int) -> bool:
    index = bisect_right(ranges, position, key=lambda each: each[0]) - 1
    return index >= 0 and position < ranges[index][1]


def _holds_any(ranges: Sequence[_Range], start: int, end: int) -> bool:
    index = bisect_right(ranges, start, key=lambda each: each[0])
    return index < len(ranges) and ranges[index][0] < end
