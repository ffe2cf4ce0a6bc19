"""Read PDF with PDFium: the text of each page in the order that PDFium gives it, its tables, and true page numbers."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from itertools import accumulate
from typing import Any

from groundwire.ingest.chunking.cuts import Heading, TextOutline
from groundwire.ingest.parsing.pdf_tables import with_tables
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

_MAX_BOOKMARKS = 5000
_MAX_LEVEL = 6
_MAX_TITLE_CHARS = 300
_PAGE_SEPARATOR = "\n\n"
# PDFium writes this for the hyphen at the end of a line, and leaves the line end out.
_LINE_END_HYPHEN = "\ufffe"
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Z])(\d\d)?'?(\d\d)?'?)?")
# What libraries write when nobody said anything.
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
    pdf = _open(data, field)
    try:
        count = len(pdf)
        if count > limits.pages:
            raise over_limit(field, "pages", limits.pages, f"has {count} pages, the limit is {limits.pages}")
        loaded = [_page_text(pdf, index) for index in range(count)]
        if all(text is None for text in loaded):
            raise malformed(field, DocumentFormat.PDF, "it has no page that can be loaded")
        texts = [text or "" for text in loaded]
        blank = texts.count("")
        if blank == count:
            number = "1 page" if count == 1 else f"{count} pages"
            why = f"has {number} but no text layer; a scan has to go through text recognition first"
            raise DocumentWithoutTextError([FieldViolation(field, why)], pages=count)
        text = _PAGE_SEPARATOR.join(texts)
        starts = accumulate((len(page) + len(_PAGE_SEPARATOR) for page in texts), initial=0)
        pages = tuple(
            PageSpan(number, start, start + len(page))
            for number, (start, page) in enumerate(zip(starts, texts, strict=False), start=1)
        )
        headings = find_headings(text, pages, _bookmarks(pdf))
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


def _open(data: bytes, field: str) -> Any:
    pdfium = load("pypdfium2")
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == load("pypdfium2.raw").FPDF_ERR_PASSWORD:
            violation = FieldViolation(field, "is encrypted and needs a password")
            raise DocumentEncryptedError([violation], format=DocumentFormat.PDF.value) from error
        raise malformed(field, DocumentFormat.PDF, "it is damaged, truncated or no PDF at all") from error


def _page_text(pdf: Any, index: int) -> str | None:
    """Return the text of a page, None when PDFium cannot load it."""
    try:
        page = pdf[index]
        try:
            content = page.get_textpage()
            try:
                text = with_tables(load("pypdfium2.raw"), content.raw, content.get_text_range())
            finally:
                content.close()
        finally:
            page.close()
    except load("pypdfium2").PdfiumError:
        return None
    return clean(text.replace(_LINE_END_HYPHEN, "-\n")).strip()


def _bookmarks(pdf: Any) -> list[Bookmark]:
    """Return the bookmarks that lead to a page of this document."""
    bookmarks: list[Bookmark] = []
    try:
        for item in pdf.get_toc():
            target = item.get_dest()
            index = target.get_index() if target is not None else None
            if index is not None and 0 <= index < len(pdf):
                bookmarks.append(Bookmark(item.level, item.get_title(), index))
            if len(bookmarks) == _MAX_BOOKMARKS:
                break
    except load("pypdfium2").PdfiumError:
        return bookmarks  # damaged bookmarks cost headings, not the document
    return bookmarks


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
