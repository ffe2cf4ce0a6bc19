"""Read PDF with PDFium: the text of each page in the order that PDFium gives it, its tables, and true page numbers."""

import ctypes
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import accumulate, pairwise
from statistics import median
from typing import Any

from groundwire.ingest.chunking.cuts import Heading, TextOutline
from groundwire.ingest.parsing.source_text import (
    ReadingLimits,
    SourceText,
    SourceWarning,
    clean,
    load,
    malformed,
    on_one_line,
    over_limit,
    source_properties,
)
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentEncryptedError, DocumentWithoutTextError
from groundwire.kernel.errors import FieldViolation
from groundwire.kernel.spans import PageSpan

# Empty space between two cells of a row, in heights of a line; justified text rarely has so much between words.
_GAP = 0.9
# A row this many usual line distances below another belongs to another table.
_FAR = 2.5
# By how much the font weight of a header exceeds that of the row below it.
_BOLDER = 150
_REGULAR, _BOLD = 400, 700
_BOLD_NAME = re.compile(rb"bold|black|heavy", re.IGNORECASE)
_NAME_BYTES = 128
# Two lines that happen to be aligned are no table; each row is compared with all above it, in quadratic time.
_FEWEST_ROWS, _MOST_ROWS = 3, 100
# Cells after the first column have at most this many words (median): longer ones are columns of prose.
_CELL_WORDS = 4

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
        stated: int = raw.FPDFText_GetFontWeight(page, index)
        # For fonts that are not embedded, only the name gives it away.
        return max(stated if stated > 0 else _REGULAR, _BOLD if _BOLD_NAME.search(name.value) else 0)

    lines = []
    for match in re.finditer(r"[^\r\n]+", text):
        words = [(match.start() + word.start(), match.start() + word.end()) for word in _WORD.finditer(match[0])]
        if not words:
            continue
        _, _, bottom, top = edges(words[0][0])
        height = max(top - bottom, 1.0)
        cells: list[_Cell] = []
        for first, last in words:
            # In right-to-left text, the last character of a word is to the left of its first one.
            left, right = sorted((edges(first)[0], edges(last - 1)[1]))
            if cells and left - cells[-1].right < _GAP * height:
                cells[-1] = cells[-1].joined(_Cell(left, right, text[first:last]), " ")
            else:
                cells.append(_Cell(left, right, text[first:last]))
        least = min(weight(words[0][0]), weight(words[-1][1] - 1))
        # Bullets and signs of currency go with what follows, `%` with what precedes.
        joined: list[_Cell] = []
        for cell in cells:
            before = joined[-1] if joined else None
            if before is not None and _BULLET.fullmatch(before.text) and len(joined) == 1:
                joined[-1] = before.joined(cell, " ")
            elif before is not None and (_CURRENCY.fullmatch(before.text) or _TRAILING.fullmatch(cell.text)):
                joined[-1] = before.joined(cell, "")
            else:
                joined.append(cell)
        lines.append(_Line(match.start(), match.end(), bottom, least, tuple(joined)))
    return lines


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
        # Anew with every row: cells of a new row may join two columns into one.
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
    # The first row is a header if it is bolder than the next one, or has words and years above values with digits.
    first, following = rows[0][1:], [cell for row in rows[1:] for cell in row[1:] if cell]
    is_bolder = lines[0].weight >= lines[1].weight + _BOLDER
    has_values = any(_DIGIT.search(cell) and not _YEAR.fullmatch(cell) for cell in first)
    valued = sum(_DIGIT.search(cell) is not None for cell in following)
    if all(first) and (is_bolder or (not has_values and 2 * valued >= len(following))):
        shown.insert(1, f"|{' --- |' * len(columns)}")
    return "\n".join(shown)


# Each is searched for on its page.
_MAX_BOOKMARKS = 5000
_MAX_LEVEL = 6
_MAX_TITLE_CHARS = 300
_PAGE_SEPARATOR = "\n\n"
# PDFium writes this for the hyphen at the end of a line, and leaves the line end out.
_LINE_END_HYPHEN = "\ufffe"
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Z])(\d\d)?'?(\d\d)?'?)?")
# Defaults that libraries write.
_PLACEHOLDERS = frozenset({"python-docx", "untitled", "anonymous", "(anonymous)", "(unspecified)", "unspecified"})


@dataclass(frozen=True, slots=True)
class Bookmark:
    """An entry of the outline of a PDF: `depth` from 0, the page's index from 0."""

    depth: int
    title: str
    page_index: int


def read_pdf(data: bytes, limits: ReadingLimits, field: str) -> SourceText:
    """Return the text of all pages, where each of them lies, and the headings that bookmarks point at.

    Raises:
        DocumentEncryptedError: it needs a password.
        DocumentMalformedError: PDFium cannot open it, or load any of its pages.
        DocumentWithoutTextError: no page has text.
        DocumentLimitError: it has too many pages.
    """
    pdfium = load("pypdfium2")
    try:
        pdf = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == load("pypdfium2.raw").FPDF_ERR_PASSWORD:
            violation = FieldViolation(field, "is encrypted and needs a password")
            raise DocumentEncryptedError([violation], format=DocumentFormat.PDF.value) from error
        raise malformed(field, DocumentFormat.PDF, "it is damaged, truncated or not a PDF at all") from error
    try:
        count = len(pdf)
        if count > limits.pages:
            raise over_limit(field, "pages", limits.pages, f"has {count} pages, the limit is {limits.pages}")
        texts, damaged = [], 0
        for index in range(count):
            try:
                with closing(pdf[index]) as page, closing(page.get_textpage()) as content:
                    text = with_tables(load("pypdfium2.raw"), content.raw, content.get_text_range())
            except pdfium.PdfiumError:
                text, damaged = "", damaged + 1
            texts.append(clean(text.replace(_LINE_END_HYPHEN, "-\n")).strip())
        # One damaged page counts as blank: the others are worth having.
        if damaged == count:
            raise malformed(field, DocumentFormat.PDF, "it has no page that can be loaded")
        blank = texts.count("")
        if blank == count:
            number = "1 page" if count == 1 else f"{count} pages"
            why = f"has {number} but no text layer; run text recognition on a scan first"
            raise DocumentWithoutTextError([FieldViolation(field, why)], pages=count)
        text = _PAGE_SEPARATOR.join(texts)
        starts = accumulate((len(page) + len(_PAGE_SEPARATOR) for page in texts), initial=0)
        pages = tuple(
            PageSpan(number, start, start + len(page))
            for number, (start, page) in enumerate(zip(starts, texts, strict=False), start=1)
        )
        bookmarks: list[Bookmark] = []
        with suppress(pdfium.PdfiumError):  # damaged bookmarks cost headings, not the document
            for item in pdf.get_toc():
                target = item.get_dest()
                page_index = target.get_index() if target is not None else None
                if page_index is not None and 0 <= page_index < count:  # others lead out of the document
                    bookmarks.append(Bookmark(item.level, item.get_title(), page_index))
                if len(bookmarks) == _MAX_BOOKMARKS:
                    break
        headings = find_headings(text, pages, bookmarks)
        said = {key: value for key, value in pdf.get_metadata_dict().items() if value.lower() not in _PLACEHOLDERS}
        properties = source_properties(
            title=said.get("Title"),
            creators=[said.get("Author", "")],
            subjects=re.split("[,;]", said.get("Keywords", "")),
            description=said.get("Subject"),
            date_created=_date(said.get("CreationDate", "")),
        )
    finally:
        pdf.close()  # PDFium frees what it holds outside of Python only now
    warnings = {**properties.warnings, **({SourceWarning.PAGE_WITHOUT_TEXT: blank} if blank else {})}
    outline = TextOutline(tuple(headings))
    return SourceText(DocumentFormat.PDF, text, outline, pages=pages, properties=properties.fields, warnings=warnings)


def find_headings(text: str, pages: Sequence[PageSpan], bookmarks: Sequence[Bookmark]) -> list[Heading]:
    """Return a heading for each bookmark whose title stands on its page as lines of its own, in order of the text.

    The text of a PDF marks no headings, but bookmarks name them and their pages. Bookmarks that lead backwards, or
    whose title is not on the page, are left out.
    """
    headings: list[Heading] = []
    after = 0
    for bookmark in bookmarks:
        title = on_one_line(bookmark.title)
        if not title or len(title) > _MAX_TITLE_CHARS:
            continue
        page = pages[bookmark.page_index]
        # Words of a title may stand on several lines; the pattern has no choices, so it takes linear time.
        pattern = r"^[ \t]*" + r"\s+".join(map(re.escape, title.split(" "))) + r"[ \t]*$"
        match = re.compile(pattern, re.MULTILINE).search(text, max(after, page.start), page.end)
        if match is not None:
            after = match.end()
            headings.append(Heading(min(_MAX_LEVEL, bookmark.depth + 1), title, match.start(), match.end()))
    return headings


def _date(value: str) -> datetime | None:
    """Return a PDF date (ISO 32000-1, section 7.9.4); without offset it counts as UTC."""
    match = _DATE.match(value)
    if match is None:
        return None
    year, *rest = (int(part) if part else None for part in match.groups()[:6])
    month, day, hour, minute, second = (
        part if part is not None else least for part, least in zip(rest, (1, 1, 0, 0, 0), strict=True)
    )
    sign, hours, minutes = match.groups()[6:]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        return datetime(year or 0, month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError:
        return None
