"""Read PDF with PDFium: the text of each page in the order that PDFium gives it, tables, code, and the page numbers."""

import math
import re
from collections.abc import Sequence
from contextlib import closing, suppress
from dataclasses import replace
from datetime import datetime, timedelta, timezone
from itertools import pairwise
from statistics import median, median_high
from textwrap import indent
from typing import Any

from groundwire.ingest.chunking.cuts import TextOutline
from groundwire.ingest.parsing.pdf_characters import (
    NO_LINE_END,
    as_spelled,
    with_superscripts,
    with_surrogates,
    with_tex_characters,
)
from groundwire.ingest.parsing.pdf_contents import LEADERS, find_contents
from groundwire.ingest.parsing.pdf_lines import Cell, Line, read_lines
from groundwire.ingest.parsing.pdf_structure import (
    LINE_END_HYPHEN,
    Bookmark,
    find_headings,
    set_apart,
    with_whole_words,
    without_running_lines,
)
from groundwire.ingest.parsing.pdf_tags import HeadingTags
from groundwire.ingest.parsing.pdf_titles import PrintedTitles
from groundwire.ingest.parsing.source_text import (
    ReadingLimits,
    SourceText,
    SourceWarning,
    clean,
    encrypted,
    fenced,
    load,
    malformed,
    on_one_line,
    over_limit,
    source_properties,
)
from groundwire.ingest.parsing.text_outline import text_outline
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentWithoutTextError
from groundwire.kernel.spans import PageSpan

# A row this many usual line distances below another belongs to another table.
_FAR = 2.5
# A line so many usual distances below another begins a paragraph, or so many to the side of it behind a sentence.
_APART, _SHIFTED = 1.35, 0.5
_SENTENCE_ENDS = (".", ":", "!", "?")
# By how much the font weight of a header exceeds that of the row below it.
_BOLDER = 150
# A page with more lines in such a font is typed, not code.
_TYPED = 0.95
# Text may stand miles outside of its page: at most so many characters of indentation.
_DEEPEST = 200
# Two lines that happen to be aligned are no table; each row is compared with all above it, in quadratic time.
_FEWEST_ROWS, _MOST_ROWS = 3, 100
# Cells after the first column have at most this many words (median): longer ones are columns of prose.
_CELL_WORDS = 4
# Rows of several lines may be as tall as so many, and hold more words.
_FEWEST_COLUMNS, _MOST_COLUMNS, _TALLEST_ROW, _WRAPPED_WORDS = 3, 30, 12, 25

_DIGIT = re.compile(r"\d")
_YEAR = re.compile(r"(?:FY ?)?(?:19|20)\d\d")


def with_layout(text: str, lines: Sequence[Line]) -> str:
    """Return the text of a page with its tables and code as in Markdown, a blank line around them and its paragraphs.

    Args:
        text: all of its text, lines ending in CR LF.
        lines: those of its lines that are not blank.
    """
    steps = sorted(step for one, other in pairwise(lines) if (step := one.baseline - other.baseline) > 0)
    # The usual distance between lines: those within paragraphs are closest, titles and lists may be further apart.
    step = steps[len(steps) // 4] if steps else 0.0
    is_typed = sum(line.is_fixed for line in lines) > _TYPED * len(lines)
    parts: list[str] = []
    end = index = code_end = 0
    while index < len(lines):
        # Looked for once: many lines may turn out to be no code.
        code_end = max(code_end, index)
        while code_end < len(lines) and lines[code_end].is_fixed:
            code_end += 1
        count, (wrapped_count, wrapped) = _table_at(lines, index, step), _wrapped_table_at(lines, index, step)
        block = lines[index : index + max(count, wrapped_count)]
        shown = ""
        if block:
            cells = wrapped if wrapped_count > count else _cells_of(block)
            shown = _as_markdown(cells, is_bolder=block[0].weight >= block[1].weight + _BOLDER)
        elif not is_typed and (block := lines[index : index + _code_at(lines, index, code_end, step)]):
            shown = _as_code(text, block)
        elif index and _is_apart(text, lines[index - 1], lines[index], step):
            parts.append(text[end : lines[index].start].strip("\r\n"))
            end = lines[index].start
        if block:
            parts += text[end : block[0].start].strip("\r\n"), shown
            end = block[-1].end
        index += len(block) or 1
    return "\n\n".join(filter(None, (*parts, text[end:].strip("\r\n"))))


def _is_apart(text: str, before: Line, line: Line, step: float) -> bool:
    """Tell whether a paragraph begins with a line: far below the one before, or further in or out behind a sentence."""
    said = text[before.start : before.end]
    is_far = before.baseline - line.baseline > _APART * step
    # Lines of text that runs up or down the page are all at the same height.
    is_shifted = 0 < _SHIFTED * step < abs(line.left - before.left)
    is_apart = is_far or (is_shifted and said.rstrip().endswith(_SENTENCE_ENDS))
    return is_apart and not _goes_on(said, text[line.start : line.end])


def _code_at(lines: Sequence[Line], start: int, end: int, step: float) -> int:
    """Return how many lines from `start` on are code; those up to `end` are in a typewriter font.

    A line alone is code if it is further in than the one before. A term above what explains it, which is set further in
    than the term, is none.
    """
    first = lines[start]
    # What follows may also stand at the top of the next column.
    is_near = end < len(lines) and abs(lines[end - 1].baseline - lines[end].baseline) <= _APART * step
    following = lines[end] if is_near else first
    is_term = following.left > first.left + first.pitch
    is_alone = end == start + 1 and not (start and first.left > lines[start - 1].left + first.pitch)
    return 0 if is_term or is_alone else end - start


def _as_code(text: str, lines: Sequence[Line]) -> str:
    margin, pitch = min(line.left for line in lines), max(1.0, median_high(line.pitch for line in lines))
    # PDFium takes a minus at the end of a line for the hyphen of a divided word.
    shown = (
        indent(
            text[line.start : line.end].strip().replace(LINE_END_HYPHEN, "-\n"),
            " " * round(min(_DEEPEST, (line.left - margin) / pitch)),
        )
        for line in lines
    )
    return fenced("\n".join(shown))


def _table_at(lines: Sequence[Line], start: int, step: float) -> int:
    """Return how many lines from `start` on are rows of one table, 0 where none begins."""
    end = start
    columns: list[tuple[float, float]] = []
    while end < min(len(lines), start + _MOST_ROWS):
        cells = lines[end].cells
        # Dots lead to a page number in a table of contents, which answers nothing.
        if len(cells) < 2 or any(LEADERS.search(cell.text) for cell in cells):  # noqa: PLR2004 - a row has several
            break
        if end > start and not 0 < lines[end - 1].baseline - lines[end].baseline <= _FAR * step:
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


def _wrapped_table_at(lines: Sequence[Line], start: int, step: float) -> tuple[int, Sequence[Sequence[str]]]:
    """Return of how many lines the table is that begins at `start`, and its cells; 0 where none begins.

    It begins with a row of one line, and goes on with rows of several, whose lines may come cell by cell or from side
    to side. A row begins with a cell in the first column. Each cell lies in one column, and below all cells of the row
    above.
    """
    columns = [(cell.left, cell.right) for cell in lines[start].cells]
    # In two columns, what is no header may be a number or sign of an item.
    is_bolder = start + 1 < len(lines) and lines[start].weight >= lines[start + 1].weight + _BOLDER
    if not _FEWEST_COLUMNS - is_bolder <= len(columns) <= _MOST_COLUMNS:
        return 0, ()
    rows = [[cell.text for cell in lines[start].cells]]
    ends = [start + 1]  # of each row
    above, lowest = math.inf, lines[start].baseline
    for index in range(start + 1, min(len(lines), start + _MOST_ROWS)):
        line = lines[index]
        places = [_only_column(columns, cell) for cell in line.cells]
        if None in places or len(set(places)) < len(places) or any(LEADERS.search(cell.text) for cell in line.cells):
            break
        if places[0] == 0 and any(rows[-1][1:]):
            if not 0 < lowest - line.baseline <= _TALLEST_ROW * step:
                break
            rows.append([""] * len(columns))
            ends.append(index)
            above, lowest = lowest, line.baseline
        elif not (line.baseline < above and lowest - line.baseline <= _FAR * step):
            break
        for place, cell in zip(places, line.cells, strict=True):
            if place is not None:
                rows[-1][place] = f"{rows[-1][place]} {cell.text}".strip()
                left, right = columns[place]
                columns[place] = min(left, cell.left), max(right, cell.right)
        ends[-1], lowest = index + 1, min(lowest, line.baseline)
    filled = [sum(map(bool, row)) for row in rows]
    while filled[-1] == 1:  # what stands below a table
        del filled[-1], rows[-1], ends[-1]
    words = [len(cell.split()) for row in rows for cell in row[1:]]
    is_table = len(rows) >= _FEWEST_ROWS and min(filled) > 1 and median(words) <= _WRAPPED_WORDS
    return (ends[-1] - start, rows) if is_table and ends[-1] - start > len(rows) else (0, ())


def _only_column(columns: Sequence[tuple[float, float]], cell: Cell) -> int | None:
    """Return the one column that a cell overlaps with, else the one that it stands in, None if it is in several."""
    overlapping = [index for index, (left, right) in enumerate(columns) if cell.left < right and left < cell.right]
    if overlapping:
        return overlapping[0] if len(overlapping) == 1 else None
    return max((index for index, (left, _) in enumerate(columns) if left <= cell.left), default=None)


def _merged(ranges: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    merged: list[tuple[float, float]] = []
    for left, right in sorted(ranges):
        if merged and left <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(right, merged[-1][1]))
        else:
            merged.append((left, right))
    return merged


def _column(columns: Sequence[tuple[float, float]], cell: Cell) -> int:
    return next(number for number, (left, right) in enumerate(columns) if left <= cell.left <= right)


def _cells_of(lines: Sequence[Line]) -> list[list[str]]:
    columns = _merged([(cell.left, cell.right) for line in lines for cell in line.cells])
    rows = []
    for line in lines:
        row = [""] * len(columns)
        for cell in line.cells:
            row[_column(columns, cell)] = cell.text
        rows.append(row)
    return rows


def _as_markdown(cells: Sequence[Sequence[str]], *, is_bolder: bool) -> str:
    # A cell is on one line, where a hyphen at the end of a printed one would mislead.
    rows = [[cell.replace("|", "\\|").replace(LINE_END_HYPHEN, "") for cell in row] for row in cells]
    shown = [f"| {' | '.join(row)} |" for row in rows]
    # The first row is a header if it is bolder than the next one, or has words and years above values with digits.
    first, following = rows[0][1:], [cell for row in rows[1:] for cell in row[1:] if cell]
    has_values = any(_DIGIT.search(cell) and not _YEAR.fullmatch(cell) for cell in first)
    valued = sum(_DIGIT.search(cell) is not None for cell in following)
    if all(first) and (is_bolder or (not has_values and 2 * valued >= len(following))):
        shown.insert(1, f"|{' --- |' * len(rows[0])}")
    return "\n".join(shown)


def _bookmarks(pdf: Any, page_count: int) -> list[Bookmark]:
    bookmarks: list[Bookmark] = []
    with suppress(load("pypdfium2").PdfiumError):  # damaged bookmarks cost headings, not the document
        for item in pdf.get_toc():
            target = item.get_dest()
            page_index = target.get_index() if target is not None else None
            if page_index is not None and 0 <= page_index < page_count:  # others lead out of the document
                bookmarks.append(Bookmark(item.level, item.get_title(), page_index))
            if len(bookmarks) == _MAX_BOOKMARKS:
                break
    return bookmarks


def _joined(texts: Sequence[str]) -> tuple[str, tuple[PageSpan, ...]]:
    """Return the text of all pages, a blank line between two of them unless a sentence goes on, and where each lies."""
    parts, pages, end = list[str](), list[PageSpan](), 0
    for number, (before, page) in enumerate(pairwise(["", *texts]), start=1):
        separator = "" if number == 1 else "\n" if _goes_on(before, page) else "\n\n"
        parts += separator, page
        pages.append(PageSpan(number, end + len(separator), end + len(separator) + len(page)))
        end = pages[-1].end
    return "".join(parts), tuple(pages)


def _goes_on(before: str, after: str) -> bool:
    """Tell whether a sentence goes on from one text to the next."""
    said = before.rstrip()
    is_address = "://" in said[said.rfind(" ") + 1 :]
    return after.lstrip()[:1].islower() and (said[-1:].isalnum() or said.endswith(_GOES_ON) or is_address)


_CODE = re.compile(r"^(`{3,}+)\n(?:.*+\n)*?\1$", re.MULTILINE)
# Each is searched for on its page.
_MAX_BOOKMARKS = 5000
_GOES_ON = (",", "-", "\u2010", "\u2013", "\u2014", ")")
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Z])(\d\d)?'?(\d\d)?'?)?")
# Defaults that libraries write.
_PLACEHOLDERS = frozenset({"python-docx", "untitled", "anonymous", "(anonymous)", "(unspecified)", "unspecified"})


def read_pdf(data: bytes, limits: ReadingLimits, field: str) -> SourceText:
    """Return the text of all pages, where each of them lies, and its headings.

    Bookmarks or tags name these, whichever are more, else the printed contents, else the type that they are set in,
    else their form, as in plain text.

    Raises:
        DocumentEncryptedError: it needs a password.
        DocumentMalformedError: PDFium cannot open it, or load any of its pages.
        DocumentWithoutTextError: no page has text.
        DocumentLimitError: it has too many pages.
    """
    pdfium, raw = load("pypdfium2"), load("pypdfium2.raw")
    try:
        pdf = pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == raw.FPDF_ERR_PASSWORD:
            raise encrypted(field, DocumentFormat.PDF) from error
        raise malformed(field, DocumentFormat.PDF, "it is damaged, truncated or not a PDF at all") from error
    try:
        count = len(pdf)
        if count > limits.pages:
            raise over_limit(field, "pages", limits.pages, f"has {count} pages, the limit is {limits.pages}")
        texts, damaged = [], 0
        tags, titles = HeadingTags(raw), PrintedTitles()
        for index in range(count):
            try:
                with closing(pdf[index]) as page, closing(page.get_textpage()) as content:
                    text = with_surrogates(with_tex_characters(content.get_text_range()))
                    tags.read(page.raw, content.raw, text, index)
                    text = with_superscripts(raw, content.raw, text)
                    lines = read_lines(raw, content.raw, text)
                    titles.read(text, lines, index)
                    text = as_spelled(with_layout(text, lines).replace(NO_LINE_END, ""))
            except pdfium.PdfiumError:
                text, damaged = "", damaged + 1
            texts.append(text)
        texts = [clean(text).strip() for text in with_whole_words(texts)]
        # One damaged page counts as blank: the others are worth having.
        if damaged == count:
            raise malformed(field, DocumentFormat.PDF, "it has no page that can be loaded")
        blank = texts.count("")
        if blank == count:
            number = "1 page" if count == 1 else f"{count} pages"
            why = f"has {number} but no text layer; run text recognition on a scan first"
            raise DocumentWithoutTextError.of(field, why, pages=count)
        stated = max(_bookmarks(pdf, count), tags.as_bookmarks(), key=len)
        contents = find_contents(texts)
        for bookmarks in (stated, contents.bookmarks, titles.as_bookmarks()):
            entries = [replace(each, title=on_one_line(as_spelled(each.title))) for each in bookmarks[:_MAX_BOOKMARKS]]
            named = {(each.page_index, each.title) for each in entries}
            text, pages = _joined(contents.left_out(without_running_lines(texts, named)))
            if found := find_headings(text, pages, entries):
                break
        text, pages, headings = set_apart(text, pages, found or text_outline(text).headings)
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
    code = tuple(block.span() for page in pages for block in _CODE.finditer(text, page.start, page.end))
    outline = TextOutline(headings, code)
    return SourceText(DocumentFormat.PDF, text, outline, pages=pages, properties=properties.fields, warnings=warnings)


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
