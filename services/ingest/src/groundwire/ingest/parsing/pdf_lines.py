"""The lines of a page of a PDF: where they stand, their cells, and the type they are set in."""

import ctypes
import re
from dataclasses import dataclass
from typing import Any

# Empty space between two cells of a row, in heights of a line; justified text rarely has so much between words.
_GAP = 0.9
_REGULAR, _BOLD = 400, 700
_BOLD_NAME = re.compile(rb"bold|black|heavy|(?:cm|ec|sf)(?:bx|ssbx)", re.IGNORECASE)
_NAME_BYTES = 128
_FIXED_PITCH = 1  # the flag of a font, ISO 32000-1, table 123
_FIXED_NAME = re.compile(
    rb"mono|courier|typewriter|console|consolas|menlo|(?<!uni)code|(?:cm|ec|sf|tx)\w{0,3}tt", re.IGNORECASE
)
_TALLEST = 10_000.0
_WORD = re.compile(r"\S+")
_BULLET = re.compile(r"[^\w\s$€£¥(]|\(?(?:\d{1,2}|[a-z]|[ivx]{1,4})[.)]", re.IGNORECASE)
_CURRENCY = re.compile(r"[$€£¥]")
_TRAILING = re.compile(r"[%)]+")


@dataclass(frozen=True, slots=True)
class Cell:
    """A piece of a line with wide space around it; its edges are in points from the left of the page."""

    left: float
    right: float
    text: str

    def joined(self, other: "Cell", separator: str) -> "Cell":
        edges = min(self.left, other.left), max(self.right, other.right)
        return Cell(*edges, f"{self.text}{separator}{other.text}")


@dataclass(frozen=True, slots=True)
class Line:
    """The line `text[start:end]` of a page; `baseline` is in points from the foot of the page.

    `height`, in points, and `weight` are the least of its first and last character: a line that only begins bold is not
    bold. `is_fixed` tells that all of its words are of a font whose characters have one width.
    """

    start: int
    end: int
    baseline: float
    height: float
    weight: int
    is_fixed: bool
    cells: tuple[Cell, ...]

    @property
    def left(self) -> float:
        return self.cells[0].left

    @property
    def pitch(self) -> float:
        """Return the mean width of a character in points."""
        return (self.cells[-1].right - self.left) / (self.end - self.start)


def read_lines(raw: Any, page: Any, text: str) -> list[Line]:
    """Return the lines of a page, blank ones left out; none when its characters cannot be found by their index."""
    # A character beyond U+FFFF is two for PDFium.
    if raw.FPDFText_CountChars(page) != len(text):
        return []
    box = raw.FS_RECTF()

    def edges(index: int) -> tuple[float, float, float, float]:
        raw.FPDFText_GetLooseCharBox(page, index, ctypes.byref(box))
        return box.left, box.right, box.bottom, box.top

    x, y = ctypes.c_double(), ctypes.c_double()
    name, flags = ctypes.create_string_buffer(_NAME_BYTES), ctypes.c_int()

    def font(index: int) -> tuple[int, bool]:
        raw.FPDFText_GetFontInfo(page, index, name, _NAME_BYTES, ctypes.byref(flags))
        stated: int = raw.FPDFText_GetFontWeight(page, index)
        # For fonts that are not embedded, only the name gives it away.
        weight = max(stated if stated > 0 else _REGULAR, _BOLD if _BOLD_NAME.search(name.value) else 0)
        return weight, bool(flags.value & _FIXED_PITCH) or _FIXED_NAME.search(name.value) is not None

    lines = []
    for match in re.finditer(r"[^\r\n]+", text):
        words = [(match.start() + word.start(), match.start() + word.end()) for word in _WORD.finditer(match[0])]
        if not words:
            continue
        height, last_height = (_height(*edges(index)[2:]) for index in (words[0][0], words[-1][1] - 1))
        raw.FPDFText_GetCharOrigin(page, words[0][0], x, y)
        baseline = y.value
        cells: list[Cell] = []
        for first, last in words:
            # In right-to-left text, the last character of a word is to the left of its first one.
            left, right = sorted((edges(first)[0], edges(last - 1)[1]))
            if cells and left - cells[-1].right < _GAP * height:
                cells[-1] = cells[-1].joined(Cell(left, right, text[first:last]), " ")
            else:
                cells.append(Cell(left, right, text[first:last]))
        (first_weight, is_fixed), (last_weight, ends_fixed) = font(words[0][0]), font(words[-1][1] - 1)
        # Prose, too, may begin and end with a name of code.
        is_fixed = is_fixed and ends_fixed and all(font(first)[1] for first, _ in words[1:])
        # Bullets and signs of currency go with what follows, `%` with what precedes.
        joined: list[Cell] = []
        for cell in cells:
            before = joined[-1] if joined else None
            if before is not None and _BULLET.fullmatch(before.text) and len(joined) == 1:
                joined[-1] = before.joined(cell, " ")
            elif before is not None and (_CURRENCY.fullmatch(before.text) or _TRAILING.fullmatch(cell.text)):
                joined[-1] = before.joined(cell, "")
            else:
                joined.append(cell)
        least = min(height, last_height), min(first_weight, last_weight)
        lines.append(Line(match.start(), match.end(), baseline, *least, is_fixed, tuple(joined)))
    return lines


def _height(bottom: float, top: float) -> float:
    """Return the height of a character, finite and at least 1: damaged documents have fonts of any size."""
    return max(1.0, min(top - bottom, _TALLEST))
