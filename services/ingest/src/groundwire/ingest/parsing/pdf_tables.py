"""Tables of a PDF page, which marks none: rows whose gaps line up become rows of a Markdown table."""

import ctypes
import re
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from statistics import median
from typing import Any

_GAP = 0.9
"""Empty space between two cells of a row, in heights of a line; justified text rarely has so much between words."""
_FAR = 2.5
"""A row so many usual steps below another belongs to another table."""
_BOLDER = 150
"""How far the weight of the font of a header is above that of the row below it."""
_REGULAR, _BOLD = 400, 700
_BOLD_NAME = re.compile(rb"bold|black|heavy", re.IGNORECASE)
_NAME_BYTES = 128
_FEWEST_ROWS, _MOST_ROWS = 3, 100
_CELL_WORDS = 4
"""The cells behind the first column have at most so many words (median): longer ones are columns of prose."""

_WORD = re.compile(r"\S+")
_LEADERS = re.compile(r"(?:\.[ ]?){4}")
_BULLET = re.compile(r"[^\w\s$€£¥(]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]", re.IGNORECASE)
_CURRENCY = re.compile(r"[$€£¥]")
_TRAILING = re.compile(r"[%)]+")
_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(?:FY ?)?(?:19|20)\d\d")


@dataclass(frozen=True, slots=True)
class _Cell:
    left: float
    right: float
    text: str

    def joined(self, other: "_Cell", separator: str) -> "_Cell":
        edges = min(self.left, other.left), max(self.right, other.right)
        return _Cell(*edges, f"{self.text}{separator}{other.text}")


@dataclass(frozen=True, slots=True)
class _Line:
    """The line `text[start:end]` of a page; `bottom` is in points from the foot of the page.

    `weight` is the least of its first and last character: a line that only begins bold is not bold.
    """

    start: int
    end: int
    bottom: float
    weight: int
    cells: tuple[_Cell, ...]


def with_tables(raw: Any, page: Any, text: str) -> str:
    """Return the text of a page with its tables in Markdown, a blank line around each; without any, as it is.

    Args:
        raw: the module `pypdfium2.raw`.
        page: the handle of the text of the page.
        text: all of its text, lines ending in CR LF.
    """
    lines = _read_lines(raw, page, text)
    steps = sorted(step for one, other in pairwise(lines) if (step := one.bottom - other.bottom) > 0)
    # The usual distance between lines: those within paragraphs are closest, titles and lists may be further apart.
    step = steps[len(steps) // 4] if steps else 0.0
    parts: list[str] = []
    end = index = 0
    while index < len(lines):
        rows = _table_at(lines, index, step)
        if rows:
            table = lines[index : index + rows]
            parts += text[end : table[0].start].strip("\r\n"), _as_markdown(table)
            end = table[-1].end
        index += rows or 1
    return "\n\n".join(filter(None, (*parts, text[end:].strip("\r\n")))) if parts else text


def _read_lines(raw: Any, page: Any, text: str) -> list[_Line]:
    """Return the lines of a page, blank ones left out; none when its characters cannot be found by their index."""
    # A character beyond U+FFFF is two for PDFium.
    if raw.FPDFText_CountChars(page) != len(text):
        return []
    box = raw.FS_RECTF()

    def edges(index: int) -> tuple[float, float, float, float]:
        raw.FPDFText_GetLooseCharBox(page, index, ctypes.byref(box))
        return box.left, box.right, box.bottom, box.top

    name, flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()

    def weight(index: int) -> int:
        raw.FPDFText_GetFontInfo(page, index, name, _NAME_BYTES, ctypes.byref(flags))
        told: int = raw.FPDFText_GetFontWeight(page, index)
        # Of fonts that are not embedded only the name tells.
        return max(told if told > 0 else _REGULAR, _BOLD if _BOLD_NAME.search(name.value) else 0)

    lines = []
    for match in re.finditer(r"[^\r\n]+", text):
        words = [(match.start() + word.start(), match.start() + word.end()) for word in _WORD.finditer(match[0])]
        if not words:
            continue
        _, _, bottom, top = edges(words[0][0])
        height = max(top - bottom, 1.0)
        cells: list[_Cell] = []
        for first, last in words:
            # The last character of a word stands before its first one where the text runs to the left.
            left, right = sorted((edges(first)[0], edges(last - 1)[1]))
            if cells and left - cells[-1].right < _GAP * height:
                cells[-1] = cells[-1].joined(_Cell(left, right, text[first:last]), " ")
            else:
                cells.append(_Cell(left, right, text[first:last]))
        least = min(weight(words[0][0]), weight(words[-1][1] - 1))
        lines.append(_Line(match.start(), match.end(), bottom, least, tuple(_with_signs(cells))))
    return lines


def _with_signs(cells: Sequence[_Cell]) -> list[_Cell]:
    """Return the cells, bullets and signs of currency that stand apart with what follows, `%` with what precedes."""
    joined: list[_Cell] = []
    for cell in cells:
        last = joined[-1] if joined else None
        if last is not None and _BULLET.fullmatch(last.text) and len(joined) == 1:
            joined[-1] = last.joined(cell, " ")
        elif last is not None and (_CURRENCY.fullmatch(last.text) or _TRAILING.fullmatch(cell.text)):
            joined[-1] = last.joined(cell, "")
        else:
            joined.append(cell)
    return joined


def _table_at(lines: Sequence[_Line], start: int, step: float) -> int:
    """Return how many lines from `start` on are rows of one table, 0 where none begins."""
    end = start
    columns: list[tuple[float, float]] = []
    while end < min(len(lines), start + _MOST_ROWS):
        cells = lines[end].cells
        # Dots lead to a page number in a table of contents, which answers nothing.
        if len(cells) < 2 or any(_LEADERS.search(cell.text) for cell in cells):  # noqa: PLR2004 - a row has several
            break
        if end > start and not 0 < lines[end - 1].bottom - lines[end].bottom <= _FAR * step:
            break
        columns = _merged([*columns, *((cell.left, cell.right) for cell in cells)])
        # Cells of one row that fall into one column show that the rows do not line up.
        if any(
            len({_column(columns, cell) for cell in line.cells}) < len(line.cells) for line in lines[start : end + 1]
        ):
            break
        end += 1
    rows = lines[start:end]
    lengths = [len(cell.text.split()) for line in rows for cell in line.cells[1:]]
    return end - start if len(rows) >= _FEWEST_ROWS and median(lengths) <= _CELL_WORDS else 0


def _merged(ranges: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for left, right in sorted(ranges):
        if merged and left <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(right, merged[-1][1]))
        else:
            merged.append((left, right))
    return merged


def _column(columns: Sequence[tuple[float, float]], cell: _Cell) -> int:
    return next(number for number, (left, right) in enumerate(columns) if left <= cell.left <= right)


def _as_markdown(lines: Sequence[_Line]) -> str:
    columns = _merged([(cell.left, cell.right) for line in lines for cell in line.cells])
    rows = []
    for line in lines:
        row = [""] * len(columns)
        for cell in line.cells:
            row[_column(columns, cell)] = cell.text.replace("|", "\\|")
        rows.append(row)
    shown = [f"| {' | '.join(row)} |" for row in rows]
    if _names_columns(lines, rows):
        shown.insert(1, f"|{' --- |' * len(columns)}")
    return "\n".join(shown)


def _names_columns(lines: Sequence[_Line], rows: Sequence[Sequence[str]]) -> bool:
    """Tell whether the first row is a header: bolder than the next one, or words and years above values with digits."""
    first, following = rows[0][1:], [cell for row in rows[1:] for cell in row[1:] if cell]
    if not all(first):
        return False
    has_values = any(_DIGIT.search(cell) and not _YEAR.fullmatch(cell) for cell in first)
    valued = sum(_DIGIT.search(cell) is not None for cell in following)
    return lines[0].weight >= lines[1].weight + _BOLDER or (not has_values and 2 * valued >= len(following))
