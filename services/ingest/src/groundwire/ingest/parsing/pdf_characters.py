"""The characters of a page of a PDF that PDFium does not give as they are read: raised digits, and those of TeX."""

import ctypes
import re
import struct
from typing import Any

from groundwire.ingest.parsing.source_text import RAISED

# Digits of footnotes and exponents stand this much higher than the text before them, in sizes of its font.
_RAISED, _TOO_HIGH = 0.15, 0.8
_DIGITS_BEHIND_TEXT = re.compile(r"(?<=\S)\d+")
_SIGNS, _BETWEEN_NOTES, _OF_FRACTIONS = "+-\u2212", ",-\u2013", ("/", "\u2044")
NO_LINE_END = "\x00"
"""Stands for a line end that PDFium sees where the text comes down again behind a raised digit; no text has it."""


def with_superscripts(raw: Any, page: Any, text: str) -> str:
    """Return the text of a page, in the same length, with raised digits as such: 10\u00b3, which would be 103.

    The line ends that PDFium adds behind them become `NO_LINE_END`.

    Args:
        raw: the module `pypdfium2.raw`.
        page: the handle of the text of the page.
        text: all of its text, lines ending in CR LF.
    """
    if raw.FPDFText_CountChars(page) != len(text):
        return text
    x, y = ctypes.c_double(), ctypes.c_double()

    def origin(index: int) -> tuple[float, float]:
        raw.FPDFText_GetCharOrigin(page, index, x, y)
        return x.value, y.value

    shown = list(text)
    base = after = 0  # the character that the last raised digits stand above, and where these end
    for digits in _DIGITS_BEHIND_TEXT.finditer(text):
        first, last = digits.start(), digits.end() - 1
        if not (after == first - 1 and text[after] in _BETWEEN_NOTES):  # otherwise another note at the same word
            base = first - 1
            while base > 0 and text[base] in _SIGNS:
                base -= 1
        left, level = origin(base)
        right, height = origin(last)
        size = raw.FPDFText_GetFontSize(page, base) if height > level else 0.0
        if not (size and right > left and _RAISED * size < height - level < _TOO_HIGH * size):
            continue
        first, after = last, last + 1
        while first - 1 > base and origin(first - 1)[1] > level:
            first -= 1
        following = after + 2 if text.startswith("\r\n", after) and after + 2 < len(text) else after
        if following > after:
            right, its_level = origin(following)
            if right > left and abs(its_level - level) < _RAISED * size:
                shown[after:following] = NO_LINE_END * 2
        # Numerators are raised, too: `(1/n`, but `2\u00b9/2`.
        if text[base].isdigit() or not text.startswith(_OF_FRACTIONS, following):
            shown[first:after] = text[first:after].translate(RAISED)
    return "".join(shown)


_BEYOND, _SURROGATE = re.compile("[\U00010000-\U0010ffff]"), re.compile("[\ud800-\udfff]")


def with_surrogates(text: str) -> str:
    """Return a text in which each character beyond U+FFFF is two, as it is for PDFium, which counts in UTF-16."""
    return _BEYOND.sub(lambda each: "".join(map(chr, struct.unpack("<2H", each[0].encode("utf-16-le")))), text)


# What fonts of TeX have where Unicode has control characters: the encodings OT1, T1 and TS1 of LaTeX's "encguide".
_LIGATURES = "\ufb00\ufb01\ufb02\ufb03\ufb04"
_TEX = str.maketrans(
    "\x0b\x0c\x0d\x0e\x0f\x1b\x1c\x1d\x1e\x1f\x10\x11\x12\x13\x14\x15\x16\x88",
    f"{_LIGATURES}{_LIGATURES}\u201c\u201d\u201e\xab\xbb\u2013\u2014\u2022",
)
_LETTER = r"[^\W\d_]"
_TEX_LIGATURE = re.compile(
    rf"(?<={_LETTER})[\x0b\x0c\x0e\x0f\x1b-\x1f]|[\x0b\x0c\x0e\x0f\x1b-\x1f](?={_LETTER})|(?<!\n)\r(?={_LETTER})"
)
_TEX_MARK = re.compile(
    r"[\x10\x12\x13](?=[\w(+.-])|(?<=[\w)+.,;:!?-])[\x11\x14]"
    rf"|(?<=[\w .])[\x15\x16](?=[\w \r.])|(?<=\n)[\x15\x16](?= {_LETTER})|(?<!\S)\x88(?=\s)"
)
_SPELLED = str.maketrans(dict(zip(_LIGATURES, ("ff", "fi", "fl", "ffi", "ffl"), strict=True)))


def with_tex_characters(text: str) -> str:
    """Return a text, in the same length, with ligatures, quotes and dashes for the control characters of TeX's fonts.

    PDFium gives these where a font does not say what its characters mean, as bitmaps do not. Formulas have other signs
    at the same places: a ligature has a letter beside it, a quote or dash stands as in prose.
    """
    for pattern in (_TEX_LIGATURE, _TEX_MARK):
        text = pattern.sub(lambda found: found[0].translate(_TEX), text)
    return text


def as_spelled(text: str) -> str:
    """Return a text with whole characters instead of surrogates, and letters instead of ligatures."""
    text = text.translate(_SPELLED)
    found = _SURROGATE.search(text)
    return text if found is None else text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")
