"""Turns the elements of a WordprocessingML body into blocks of text (ECMA-376, part 1, section 17)."""

from collections.abc import Iterator
from typing import Any

from groundwire.ingest.domain.text_building import TextBuilder, one_line

_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_PARAGRAPH, _TABLE, _ROW, _CELL = (_W + name for name in ("p", "tbl", "tr", "tc"))
_TEXT_BOX = _W + "txbxContent"
_TEXT = frozenset({_W + "t", _M + "t"})
_INSTEAD = {_W + "tab": "\t", _W + "br": "\n", _W + "cr": "\n", _W + "noBreakHyphen": "-", _W + "softHyphen": ""}
# Deleted text, field codes, formats, and the copy of a drawing for old readers.
_SKIPPED_NAMES = ("del", "moveFrom", "instrText", "delText", "pPr", "rPr")
_SKIPPED = frozenset({_MC + "Fallback", *(_W + name for name in _SKIPPED_NAMES)})
_MAX_LEVEL = 6
_BODY_TEXT_LEVEL = 9
_MAX_STYLE_DEPTH = 10
_INDENT = "  "


class DocxBlocks:
    """Builds the text; `styles` are python-docx's, from which the levels of headings are read."""

    def __init__(self, styles: Any) -> None:
        self.builder = TextBuilder()
        self._levels = {style.style_id: _level_of_style(style) for style in styles if style.type is not None}

    def add_all(self, parent: Any) -> None:
        """Add the paragraphs and tables below an element, in order, also those inside content controls."""
        for element in _blocks_below(parent):
            if element.tag == _PARAGRAPH:
                self._add_paragraph(element)
            else:
                self._add_table(element)

    def _add_paragraph(self, paragraph: Any) -> None:
        text = _text_of(paragraph)
        level = self._level(paragraph)
        depth = _list_depth(paragraph)
        if level:
            self.builder.heading(level, text)
        elif depth is not None and text.strip():
            self.builder.add(f"{_INDENT * depth}- {text.strip()}", tight=True)
        else:
            self.builder.add(text.strip("\n"))
        for box in _text_boxes(paragraph):
            self.add_all(box)

    def _add_table(self, table: Any) -> None:
        """Add a line for each row; a table inside a cell is part of that cell."""
        for row in _own(table, _ROW, _TABLE):
            paragraphs = ([_text_of(each) for each in cell.iter(_PARAGRAPH)] for cell in _own(row, _CELL, _ROW))
            cells = [one_line(" ".join(texts)) for texts in paragraphs]
            if any(cells):
                self.builder.add(" | ".join(cells), tight=True)

    def _level(self, paragraph: Any) -> int | None:
        """Return the level of a heading, None for other paragraphs."""
        own = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
        if own is not None:
            return _level(own.get(_W + "val"))
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        return None if style is None else self._levels.get(style.get(_W + "val"))


def _level_of_style(style: Any) -> int | None:
    """Return the level of a heading style: of its outline level or that of a style it is based on, or of its name."""
    for _ in range(_MAX_STYLE_DEPTH):
        if style is None:
            return None
        own = style.element.find(f"{_W}pPr/{_W}outlineLvl")
        if own is not None:
            return _level(own.get(_W + "val"))
        name = (style.name or "").lower()
        if name == "title":
            return 1
        if name.startswith("heading ") and name[8:].isdigit():
            return min(_MAX_LEVEL, max(1, int(name[8:9])))
        style = getattr(style, "base_style", None)
    return None


def _level(value: str | None) -> int | None:
    if value is None or not value.isdigit() or int(value) >= _BODY_TEXT_LEVEL:
        return None
    return min(_MAX_LEVEL, int(value) + 1)


def _list_depth(paragraph: Any) -> int | None:
    """Return how deep in a list a paragraph is, from 0; None outside of lists."""
    numbering = paragraph.find(f"{_W}pPr/{_W}numPr")
    if numbering is None:
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        return 0 if style is not None and (style.get(_W + "val") or "").startswith("List") else None
    identity, depth = numbering.find(_W + "numId"), numbering.find(_W + "ilvl")
    if identity is not None and identity.get(_W + "val") == "0":
        return None
    value = depth.get(_W + "val") if depth is not None else None
    return min(8, int(value)) if value is not None and value.isdigit() else 0


def _own(parent: Any, tag: str, parent_tag: str) -> Iterator[Any]:
    """Iterate over the elements of a table or row that belong to it and not to one inside of it."""
    for element in parent.iter(tag):
        if next(element.iterancestors(parent_tag), None) is parent:
            yield element


def _blocks_below(parent: Any) -> Iterator[Any]:
    """Iterate over the outermost paragraphs and tables, in order."""
    pending = list(reversed(parent))
    while pending:
        element = pending.pop()
        if element.tag in {_PARAGRAPH, _TABLE}:
            yield element
        elif element.tag not in _SKIPPED:
            pending.extend(reversed(element))


def _text_of(paragraph: Any) -> str:
    """Return the text of a paragraph as it reads with all changes accepted, without its text boxes."""
    return "".join(
        element.text or "" if element.tag in _TEXT else _INSTEAD.get(element.tag, "") for element in _inline(paragraph)
    )


def _inline(paragraph: Any) -> Iterator[Any]:
    pending = list(reversed(paragraph))
    while pending:
        element = pending.pop()
        if element.tag in _SKIPPED or element.tag == _TEXT_BOX:
            continue
        yield element
        pending.extend(reversed(element))


def _text_boxes(paragraph: Any) -> Iterator[Any]:
    """Iterate over the text boxes anchored in a paragraph, not those inside of them nor the copies for old readers."""
    pending = list(reversed(paragraph))
    while pending:
        element = pending.pop()
        if element.tag == _TEXT_BOX:
            yield element
        elif element.tag != _MC + "Fallback":
            pending.extend(reversed(element))
