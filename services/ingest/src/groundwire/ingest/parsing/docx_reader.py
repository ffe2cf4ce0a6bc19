"""Read DOCX: headings, paragraphs, lists, tables, text boxes and notes; no headers and footers.

python-docx opens the package; the elements of the body (ECMA-376, part 1, section 17) are read here, because its own
objects leave out text boxes, content controls and tracked changes.
"""

import io
import re
import zipfile
import zlib
from collections.abc import Container, Iterator
from itertools import chain
from typing import Any

from groundwire.ingest.parsing.formats import open_zip
from groundwire.ingest.parsing.source_text import (
    ReadingLimits,
    SourceText,
    TextBuilder,
    load,
    malformed,
    raised_number,
    source_properties,
)
from groundwire.ingest.parsing.titles import have_texts, is_like_title, titles_of_sections
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError

# What python-docx and its libraries raise on packages that are built wrongly.
_DAMAGE = (
    *(KeyError, ValueError, AttributeError, IndexError, TypeError, AssertionError, OSError, EOFError, RecursionError),
    *(zipfile.BadZipFile, zlib.error),
)
_NOTES = ("footnotes", "endnotes")
_PLACEHOLDERS = frozenset({"python-docx", "word document"})
_W = "{http://schemas.openxmlformats.org/wordprocessingml/2006/main}"
_M = "{http://schemas.openxmlformats.org/officeDocument/2006/math}"
_MC = "{http://schemas.openxmlformats.org/markup-compatibility/2006}"
_PARAGRAPH, _RUN, _TABLE, _ROW, _CELL = (_W + name for name in ("p", "r", "tbl", "tr", "tc"))
_BLOCKS = frozenset({_PARAGRAPH, _TABLE})
_TEXT_BOX = _W + "txbxContent"
_TEXT = frozenset({_W + "t", _M + "t"})
_INSTEAD = {_W + "tab": "\t", _W + "br": "\n", _W + "cr": "\n", _W + "noBreakHyphen": "-", _W + "softHyphen": ""}
# A second copy of a drawing with its text, for old readers.
_OLD_COPY = frozenset({_MC + "Fallback"})
# Deleted text, field codes and formats.
_SKIPPED = _OLD_COPY | {_W + name for name in ("del", "moveFrom", "instrText", "delText", "pPr", "rPr")}
# What Word writes into tables of contents and lists of figures: titles that stand elsewhere, with numbers of pages.
_STYLES_OF_CONTENTS = re.compile(r"toc (?:[1-9]|heading)|table of figures", re.IGNORECASE)
# What Pandoc, LibreOffice and Word call the terms of a list of definitions, what explains them, and code.
_STYLES_OF_TERMS = re.compile(r"definition term|list heading", re.IGNORECASE)
_STYLES_OF_DEFINITIONS = re.compile(r"definition|list contents", re.IGNORECASE)
_STYLES_OF_CODE = re.compile(r"source code|(?:html )?preformatted(?: text)?|macro text", re.IGNORECASE)
_MAX_LEVEL = 6
_BODY_TEXT_LEVEL = 9
# Styles may be based on one another in a circle.
_MAX_STYLE_DEPTH = 10
# Word numbers the levels of its lists from 0 to 8.
_MAX_DEPTH = 8
_INDENT = "  "
_ON = frozenset({"1", "true", "on"})
_SPAN_DIGITS = 2


def read_docx(data: bytes, limits: ReadingLimits, field: str) -> SourceText:
    """Return the text of the document's body with its headings, and its properties.

    Raises:
        EmptyDocumentError: there is no text in it.
        DocumentEncryptedError: parts of it are encrypted.
        DocumentMalformedError: it is no readable package.
        DocumentLimitError: inflating it would cost too much.
    """
    open_zip(data, limits, field).close()
    docx = load("docx")
    damage = (*_DAMAGE, load("lxml.etree").Error, load("docx.opc.exceptions").OpcError)
    try:
        document = docx.Document(io.BytesIO(data))
        blocks = _Blocks(document.styles)
        blocks.find_titles(document.element.body)
        blocks.add_all(document.element.body)
        for part in document.part.rels.values():
            if part.reltype.rpartition("/")[2] in _NOTES and not part.is_external:
                blocks.add_all(load("docx.oxml.parser").parse_xml(part.target_part.blob))
        said = document.core_properties
        properties = source_properties(
            title=_stated(said.title),
            creators=[_stated(name) for name in said.author.split(";")],
            subjects=said.keywords.replace(";", ",").split(","),
            description=said.subject or None,
            date_created=said.created if _stated(said.author) else None,
            language=said.language,
        )
    except (*damage, load("docx.exceptions").PythonDocxError) as error:
        raise malformed(field, DocumentFormat.DOCX, f"its parts are damaged ({type(error).__name__})") from error
    if not blocks.builder.text():
        besides = " besides its table of contents" if blocks.has_contents else ""
        raise EmptyDocumentError.of(field, f"is a document without text{besides}")
    return blocks.builder.source(DocumentFormat.DOCX, properties)


def _stated(value: str) -> str:
    """Return the value unless it is a library's default."""
    return "" if value.strip().lower() in _PLACEHOLDERS else value


class _Blocks:
    """Builds the text; `styles` are python-docx's, from which the levels of headings are read."""

    def __init__(self, styles: Any) -> None:
        self.builder = TextBuilder()
        styles = [style for style in styles if style.type is not None]
        self._levels = {style.style_id: _level_of_style(style) for style in styles}
        self._bold = {style.style_id for style in styles if _is_bold(style.element)}
        self._of_contents, self._of_terms, self._of_definitions, self._of_code = (
            {style.style_id for style in styles if named.fullmatch(style.name or "")}
            for named in (_STYLES_OF_CONTENTS, _STYLES_OF_TERMS, _STYLES_OF_DEFINITIONS, _STYLES_OF_CODE)
        )
        # What the next paragraph may belong to: terms without a definition, one that has begun, lines of code.
        self._terms: list[str] = []
        self._in_definition = False
        self._code: list[str] = []
        self._titles: dict[Any, int] = {}
        self.has_contents = False
        """Whether a paragraph was left out because it belongs to a table of contents."""

    def find_titles(self, body: Any) -> None:
        """Find the paragraphs that are titles of sections only by their bold type, where no headings have a style.

        One may have it: the title of the document.
        """
        paragraphs = [each for each in _walk(body, _SKIPPED, _BLOCKS) if each.tag == _PARAGRAPH]
        styled = sum(self._level_of(each) is not None for each in paragraphs)
        if styled > 1:
            return
        texts = {each: text for each in paragraphs if (text := _text_of(each).strip())}
        bold = {each: text for each, text in texts.items() if is_like_title(text) and self._is_set_bold(each)}
        of_sections = titles_of_sections(bold.values())
        titles = {each: 1 + styled for each, text in bold.items() if text in of_sections}
        self._titles = titles if have_texts(len(titles), len(texts)) else {}

    def add_all(self, parent: Any) -> None:
        """Add the paragraphs and tables below an element in order, including those inside content controls."""
        for element in _walk(parent, _SKIPPED, _BLOCKS):
            if element.tag == _PARAGRAPH:
                self._add_paragraph(element)
            elif element.tag == _TABLE:  # a table inside a cell is part of that cell
                self._end_block()
                rows = list(_own(element, _ROW, _TABLE))
                cells = [list(chain.from_iterable(map(_cell_texts, _own(row, _CELL, _ROW)))) for row in rows]
                look = element.find(f"{_W}tblPr/{_W}tblLook")
                is_styled = look is not None and look.get(_W + "firstRow") in _ON
                repeats = bool(rows) and rows[0].find(f"{_W}trPr/{_W}tblHeader") is not None
                self.builder.table(cells, has_header=is_styled or repeats)
        self._end_block()

    def _end_block(self) -> None:
        """End the code or the list of definitions that was being collected."""
        self.builder.verbatim("\n".join(self._code))
        self.builder.add(", ".join(self._terms))
        self._code, self._terms, self._in_definition = [], [], False

    def _goes_on(self, style: str, text: str) -> bool:
        """Add a paragraph to the code or the list of definitions that it belongs to by its style; tell if it does."""
        if style in self._of_code:
            self._code.append(text.strip("\n"))
        elif style in self._of_terms:
            self._terms += filter(None, [text.strip().rstrip(":")])
        elif style in self._of_definitions and self._terms:
            self.builder.add(f"- {', '.join(self._terms)}: {text.strip()}", tight=True)
            self._terms, self._in_definition = [], True
        elif style in self._of_definitions and self._in_definition:
            self.builder.add(f"{_INDENT}{text.strip()}")
        else:
            return False
        return True

    def _add_paragraph(self, paragraph: Any) -> None:
        element = paragraph.find(f"{_W}pPr/{_W}pStyle")
        style = "" if element is None else element.get(_W + "val") or ""
        if style in self._of_contents:
            self.has_contents = True
            return
        text = _text_of(paragraph)
        if not self._goes_on(style, text):
            self._end_block()
            self._add_block(paragraph, style, text)
        # Text boxes are anchored in the middle of a paragraph; one inside of another comes with that one.
        for element in _walk(paragraph, _OLD_COPY, {_TEXT_BOX}):
            if element.tag == _TEXT_BOX:
                self.add_all(element)

    def _add_block(self, paragraph: Any, style: str, text: str) -> None:
        """Add a paragraph that is a heading, an item of a list or plain text."""
        level = self._titles.get(paragraph) or self._level_of(paragraph)
        # A paragraph is in a list by its own numbering, else by the name of its style; numbering 0 takes it out.
        depth = None
        if (numbering := paragraph.find(f"{_W}pPr/{_W}numPr")) is None:
            if style.startswith("List"):
                depth = 0
        elif (identity := numbering.find(_W + "numId")) is None or identity.get(_W + "val") != "0":
            own_depth = numbering.find(_W + "ilvl")
            value = "" if own_depth is None else own_depth.get(_W + "val") or ""
            depth = min(_MAX_DEPTH, int(value)) if value.isdigit() else 0
        if level:
            self.builder.heading(level, text)
        elif depth is not None and text.strip():
            self.builder.add(f"{_INDENT * depth}- {text.strip()}", tight=True)
        else:
            self.builder.add(text.strip("\n"))

    def _level_of(self, paragraph: Any) -> int | None:
        own = paragraph.find(f"{_W}pPr/{_W}outlineLvl")
        if own is not None:
            return _level(own.get(_W + "val"))
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        return None if style is None else self._levels.get(style.get(_W + "val"))

    def _is_set_bold(self, paragraph: Any) -> bool:
        """Tell whether all words of a paragraph are bold, and it is no item of a list."""
        style = paragraph.find(f"{_W}pPr/{_W}pStyle")
        by_style = style is not None and style.get(_W + "val") in self._bold
        runs = [run for run in _walk(paragraph, _SKIPPED, ()) if run.tag == _RUN and _text_of(run).strip()]
        is_bold = all(by_style if (own := _is_bold(run)) is None else own for run in runs)
        return is_bold and bool(runs) and paragraph.find(f"{_W}pPr/{_W}numPr") is None


def _is_bold(element: Any) -> bool | None:
    """Tell whether a run or style says that it is bold, or is not; None if it says nothing."""
    bold = element.find(f"{_W}rPr/{_W}b")
    return None if bold is None else bold.get(_W + "val", "on") in _ON


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


def _own(parent: Any, tag: str, parent_tag: str) -> Iterator[Any]:
    """Yield the elements of a table or row that do not belong to a nested one."""
    for element in parent.iter(tag):
        if next(element.iterancestors(parent_tag), None) is parent:
            yield element


def _cell_texts(cell: Any) -> list[str]:
    """Return the text of a cell, and an empty one for each further column that it spans."""
    span = cell.find(f"{_W}tcPr/{_W}gridSpan")
    columns = "" if span is None else span.get(_W + "val") or ""
    further = int(columns) - 1 if columns.isdecimal() and len(columns) <= _SPAN_DIGITS else 0
    paragraphs = (each for each in _walk(cell, _SKIPPED, ()) if each.tag == _PARAGRAPH)
    return [" ".join(map(_text_of, paragraphs)), *[""] * further]


def _text_of(paragraph: Any) -> str:
    """Return the text of a paragraph as it reads with all changes accepted, without its text boxes."""
    elements = _walk(paragraph, _SKIPPED | {_TEXT_BOX}, ())
    return "".join(_shown(each) if each.tag in _TEXT else _INSTEAD.get(each.tag, "") for each in elements)


def _shown(element: Any) -> str:
    text: str = element.text or ""
    raised = raised_number(text)
    align = None if raised is None else element.getparent().find(f"{_W}rPr/{_W}vertAlign")
    return raised if raised and align is not None and align.get(_W + "val") == "superscript" else text


def _walk(parent: Any, skipped: Container[str], closed: Container[str]) -> Iterator[Any]:
    """Yield the elements below in order, without the skipped ones and without what is inside of the closed ones.

    Without recursion, because the file decides how deep its elements are.
    """
    pending = list(reversed(parent))
    while pending:
        element = pending.pop()
        if element.tag not in skipped:
            yield element
            if element.tag not in closed:
                pending.extend(reversed(element))
