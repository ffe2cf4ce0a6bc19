"""Read PDF with PDFium: the text of each page in the order that PDFium gives it, and the pages' true numbers."""

import re
from collections.abc import Iterator
from datetime import datetime, timedelta, timezone
from typing import Any

from groundwire.ingest.adapters.readers.libraries import load
from groundwire.ingest.adapters.readers.pdf_headings import Bookmark, find_headings
from groundwire.ingest.adapters.readers.refusing import malformed, over_limit
from groundwire.ingest.domain.outline import Outline
from groundwire.ingest.domain.reading_limits import ReadingLimits
from groundwire.ingest.domain.source_properties import SourceProperties, source_properties
from groundwire.ingest.domain.source_text import SourceText, SourceWarning
from groundwire.ingest.domain.text_building import clean
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentEncryptedError, DocumentWithoutTextError
from groundwire.kernel.errors import FieldViolation
from groundwire.kernel.spans import PageSpan

_MAX_BOOKMARKS = 5000
_PAGE_SEPARATOR = "\n\n"
# PDFium writes this for the hyphen at the end of a line, and leaves the line end out.
_LINE_END_HYPHEN = "\ufffe"
_DATE = re.compile(r"D:(\d{4})(\d\d)?(\d\d)?(\d\d)?(\d\d)?(\d\d)?(?:([+\-Z])(\d\d)?'?(\d\d)?'?)?")
# What libraries write when nobody said anything.
_PLACEHOLDERS = frozenset({"python-docx", "untitled", "anonymous", "(anonymous)", "(unspecified)", "unspecified"})


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
            _refuse_empty(count, field)
        text = _PAGE_SEPARATOR.join(texts)
        pages = tuple(_pages(texts))
        headings = find_headings(text, pages, _bookmarks(pdf))
        properties = _properties(pdf)
    finally:
        pdf.close()
    warnings = {**properties.warnings, **({SourceWarning.PAGE_WITHOUT_TEXT: blank} if blank else {})}
    outline = Outline(tuple(headings))
    return SourceText(DocumentFormat.PDF, text, outline, pages=pages, properties=properties.fields, warnings=warnings)


def _open(data: bytes, field: str) -> Any:
    pdfium = load("pypdfium2")
    try:
        return pdfium.PdfDocument(data)
    except pdfium.PdfiumError as error:
        if error.err_code == load("pypdfium2.raw").FPDF_ERR_PASSWORD:
            violation = FieldViolation(field, "is encrypted and needs a password")
            raise DocumentEncryptedError([violation], format=DocumentFormat.PDF.value) from error
        raise malformed(field, DocumentFormat.PDF, "it is damaged, truncated or no PDF at all") from error


def _refuse_empty(count: int, field: str) -> None:
    pages = "1 page" if count == 1 else f"{count} pages"
    why = f"has {pages} but no text layer; a scan has to go through text recognition first"
    raise DocumentWithoutTextError([FieldViolation(field, why)], pages=count)


def _page_text(pdf: Any, index: int) -> str | None:
    """Return the text of a page, None when PDFium cannot load it."""
    try:
        page = pdf[index]
        try:
            content = page.get_textpage()
            try:
                text: str = content.get_text_range()
            finally:
                content.close()
        finally:
            page.close()
    except load("pypdfium2").PdfiumError:
        return None
    return clean(text.replace(_LINE_END_HYPHEN, "-\n")).strip()


def _pages(texts: list[str]) -> Iterator[PageSpan]:
    start = 0
    for number, text in enumerate(texts, start=1):
        yield PageSpan(number, start, start + len(text))
        start += len(text) + len(_PAGE_SEPARATOR)


def _bookmarks(pdf: Any) -> list[Bookmark]:
    """Return the bookmarks that lead to a page of this document."""
    found: list[Bookmark] = []
    try:
        for item in pdf.get_toc():
            target = item.get_dest()
            index = target.get_index() if target is not None else None
            if index is not None and 0 <= index < len(pdf):
                found.append(Bookmark(item.level, item.get_title(), index))
            if len(found) == _MAX_BOOKMARKS:
                break
    except load("pypdfium2").PdfiumError:
        return found  # damaged bookmarks cost headings, not the document
    return found


def _properties(pdf: Any) -> SourceProperties:
    told = {key: value for key, value in pdf.get_metadata_dict().items() if value.lower() not in _PLACEHOLDERS}
    return source_properties(
        title=told.get("Title"),
        creators=[told.get("Author", "")],
        subjects=re.split("[,;]", told.get("Keywords", "")),
        description=told.get("Subject"),
        date_created=_date(told.get("CreationDate", "")),
    )


def _date(value: str) -> datetime | None:
    """Return a PDF date (ISO 32000-1, section 7.9.4); without offset it counts as UTC."""
    found = _DATE.match(value)
    if found is None:
        return None
    year, *rest = (int(part) if part else None for part in found.groups()[:6])
    month, day, hour, minute, second = (
        part if part is not None else least for part, least in zip(rest, (1, 1, 0, 0, 0), strict=True)
    )
    sign, hours, minutes = found.groups()[6:]
    offset = timedelta(hours=int(hours or 0), minutes=int(minutes or 0)) * (-1 if sign == "-" else 1)
    try:
        return datetime(year or 0, month, day, hour, minute, second, tzinfo=timezone(offset))
    except ValueError:
        return None
