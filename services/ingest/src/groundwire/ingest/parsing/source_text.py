"""What all readers share: their result, their limits, how they build text, and the properties stated by sources."""

import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime
from enum import StrEnum
from importlib import import_module
from typing import Any

from groundwire.ingest.chunking.cuts import Heading, TextOutline
from groundwire.kernel.document import (
    ISO_639_1,
    MAX_DESCRIPTION_CHARS,
    MAX_ENTRIES,
    MAX_NAME_CHARS,
    DocumentFields,
    DocumentFormat,
)
from groundwire.kernel.document_errors import (
    DocumentEncryptedError,
    DocumentLimitError,
    DocumentMalformedError,
    DocumentTooLargeError,
)
from groundwire.kernel.errors import MissingExtraError
from groundwire.kernel.sentences import MAX_HEADING_CHARS
from groundwire.kernel.spans import PageSpan

EXTRA = "formats"
REPLACEMENT = "\ufffd"
_BLOCK_BYTES = 1 << 20
_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80
_LINE_END = re.compile("\r\n?|\x0b|\x0c|\u0085|\u2028|\u2029")
_NO_CHARACTER = re.compile("[\x00-\x08\x0e-\x1f\x7f\ud800-\udfff\ufffe\uffff]")
_BLANK_LINES = re.compile(r"\n[ \t]*(?:\n[ \t]*)+")
_SPACE = re.compile(r"\s+")
RAISED = str.maketrans(
    "0123456789+-\u2212", "\u2070\u00b9\u00b2\u00b3\u2074\u2075\u2076\u2077\u2078\u2079\u207a\u207b\u207b"
)
"""Digits and signs to those that stand raised."""
_NUMBER = re.compile(r"[0-9+\u2212-]*\d(?:,\d+)*")
_BACKTICKS = re.compile(r"`+")
_SHORTEST_FENCE = 3
# A row with more is layout: cells that hold paragraphs.
_MAX_ROW_CHARS = 1000
# Empty cells that each row gets in a table where one row is far longer would take quadratic time.
_MOST_PADDED = 100
_LANGUAGE = re.compile(r"([a-z]{2})(?:[-_].*)?", re.IGNORECASE)
_DEFAULTS = DocumentFields()
# Metadata is the caller's alone: no source speaks of it.
_NAMES = tuple(each.name for each in fields(DocumentFields) if each.name != "metadata")


READER_REVISIONS = {DocumentFormat.PDF: 4, DocumentFormat.DOCX: 2, DocumentFormat.HTML: 4, DocumentFormat.RST: 1}
"""How often what a reader makes of the same bytes has changed; a format that is not here has its first reader."""


class SourceWarning(StrEnum):
    """What the caller should know about a source that could be read."""

    PAGE_WITHOUT_TEXT = "PAGE_WITHOUT_TEXT"
    PROPERTY_IGNORED = "PROPERTY_IGNORED"


@dataclass(frozen=True, slots=True)
class SourceText:
    """What a reader makes of the bytes of a file: a canonical text with its outline.

    Chunks are made from code point `body_start` on. `pages` are in order, empty for formats without pages. `properties`
    is what the source says about itself. `warnings` counts how often each occurred, at least once. `encoding` is
    that of the bytes, empty for formats that are no text.
    """

    format: DocumentFormat
    text: str
    outline: TextOutline = field(default_factory=TextOutline)
    body_start: int = 0
    pages: tuple[PageSpan, ...] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    warnings: Mapping[SourceWarning, int] = field(default_factory=dict)
    encoding: str = ""


@dataclass(frozen=True, slots=True)
class SourceProperties:
    """The fields that a source states itself, by the rules for callers; `ignored` values were left out or cut."""

    fields: DocumentFields = field(default_factory=DocumentFields)
    ignored: int = 0

    @property
    def warnings(self) -> Mapping[SourceWarning, int]:
        return {SourceWarning.PROPERTY_IGNORED: self.ignored} if self.ignored else {}


@dataclass(frozen=True, slots=True)
class ReadingLimits:
    """What reading a document may cost besides time and memory.

    Most entries of a zip, bytes it may inflate to, how many times an entry may inflate, and pages of a PDF.
    """

    zip_entries: int = 10_000
    inflated_bytes: int = 256 << 20
    zip_ratio: int = 200
    pages: int = 20_000


def check_size(size_bytes: int, limit_bytes: int, field: str) -> None:
    """Return if the size is allowed.

    Raises:
        DocumentTooLargeError: naming `field`.
    """
    if size_bytes > limit_bytes:
        said = f"has {size_bytes} bytes, the limit is {limit_bytes}"
        raise DocumentTooLargeError.of(field, said, size_bytes=size_bytes, limit_bytes=limit_bytes)


def malformed(field: str, document_format: str, why: str) -> DocumentMalformedError:
    """Return the error for a damaged document; `why` continues "is not a readable pdf: "."""
    return DocumentMalformedError.of(field, f"is not a readable {document_format}: {why}", format=str(document_format))


def encrypted(field: str, document_format: DocumentFormat) -> DocumentEncryptedError:
    return DocumentEncryptedError.of(field, "is encrypted and needs a password", format=document_format.value)


def over_limit(field: str, resource: str, limit: int, why: str) -> DocumentLimitError:
    return DocumentLimitError.of(field, why, resource=resource, limit=limit)


def load(module: str) -> Any:
    """Return a module of one of the libraries of the extra `formats`, which is loaded when a document first needs it.

    Raises:
        MissingExtraError: it is not installed.
    """
    try:
        return import_module(module)
    except ImportError as error:
        package = module.partition(".")[0]
        message = f"reading this format needs {package}: pip install 'groundwire[{EXTRA}]'"
        raise MissingExtraError(message, extra=EXTRA) from error


def utf_8_text(data: bytes | bytearray, start: int = 0) -> str:
    """Return the text of UTF-8 bytes from `start` on, decoded in blocks of 1 MiB.

    Other threads get the interpreter in between.

    Raises:
        UnicodeDecodeError: `start` is the offset of the first bad byte in `data`.
    """
    view, parts = memoryview(data), []
    while start < len(data):
        end = min(start + _BLOCK_BYTES, len(data))
        # Back to the start of a character, which has at most three bytes more (RFC 3629); damage is found in decoding.
        for candidate in range(end, end - 4, -1):
            if candidate == len(data) or data[candidate] & _CONTINUATION_MASK != _CONTINUATION:
                end = candidate
                break
        try:
            parts.append(str(view[start:end], "utf-8"))
        except UnicodeDecodeError as error:
            raise UnicodeDecodeError(
                "utf-8", bytes(data), start + error.start, start + error.end, error.reason
            ) from None
        start = end
    return "".join(parts)


def clean(text: str) -> str:
    """Return extracted text with a newline for every kind of line end and U+FFFD for invalid characters."""
    return _NO_CHARACTER.sub(REPLACEMENT, _LINE_END.sub("\n", text))


def on_one_line(text: str) -> str:
    """Return the text with runs of white space as single spaces, without any at its ends."""
    return _SPACE.sub(" ", clean(text)).strip()


def without_blank_lines(text: str) -> str:
    """Return the text trimmed and without blank lines, because a blank line separates blocks."""
    return _BLANK_LINES.sub("\n", clean(text)).strip()


def fenced(text: str, language: str = "") -> str:
    """Return code as in Markdown, between fences that it does not contain."""
    longest = max(map(len, _BACKTICKS.findall(text)), default=0)
    fence = "`" * max(_SHORTEST_FENCE, longest + 1)
    return f"{fence}{language}\n{text}\n{fence}"


def raised_number(text: str) -> str | None:
    """Return an exponent or numbers of notes with raised digits, None for any other text."""
    return text.translate(RAISED) if _NUMBER.fullmatch(text) else None


class TextBuilder:
    """Puts a canonical text together: joins blocks by blank lines, tight ones such as items of a list by line ends.

    Headings, code and tables are those of Markdown; what is in a block is verbatim. Blocks are cleaned; those of white
    space only are left out. The same blocks always make the same text.
    """

    def __init__(self) -> None:
        self._parts: list[str] = []
        self._length = 0
        self._after_tight = False
        self._headings: list[Heading] = []
        self._verbatim: list[tuple[int, int]] = []
        # Level of the section that has ended without a heading behind it, 0 if none has.
        self._ended = 0

    def add(self, text: str, *, tight: bool = False) -> tuple[int, int] | None:
        """Add a block verbatim; return its range of code points, None if it is empty."""
        block = clean(text)
        if not block.strip():
            return None
        separator = "" if not self._parts else "\n" if tight and self._after_tight else "\n\n"
        start = self._length + len(separator)
        if self._ended > 1:  # else nothing is above
            above = next((each for each in reversed(self._headings) if each.level < self._ended), None)
            self._headings += [] if above is None else [replace(above, start=start, end=start)]
        self._ended = 0
        self._parts += separator, block
        self._length = start + len(block)
        self._after_tight = tight
        return start, self._length

    def heading(self, level: int, text: str, *, marked: str = "") -> None:
        """Add a heading of level 1 to 6 on its own line; chunks store at most MAX_HEADING_CHARS of it.

        `marked` is the text with the marks of Markdown that the line shows, none unless given.
        """
        line = on_one_line(text)
        self._ended = 0
        added = self.add(f"{'#' * level} {on_one_line(marked) or line}") if line else None
        if added is not None:
            self._headings.append(Heading(level, line[:MAX_HEADING_CHARS].rstrip(), *added))

    def end_section(self, level: int) -> None:
        """End the last section of a level: what follows, up to the next heading, belongs to the section above it."""
        self._ended = level

    def verbatim(self, text: str, *, marker: str = "") -> None:
        """Add a block whose lines belong together, such as code; one with a `marker` is an item of a list."""
        block = f"{marker}{text}" if marker else fenced(text)
        added = self.add(block) if text.strip() else None
        if added is not None:
            self._verbatim.append(added)

    def table(self, rows: Sequence[Sequence[str]], *, has_header: bool) -> None:
        """Add a table as Markdown without empty rows and columns; what has one column only is no table."""
        used = {column for row in rows for column, cell in enumerate(row) if cell.strip()}
        columns = len(used)
        filled = [
            [on_one_line(cell).replace("|", "\\|") for column, cell in enumerate(row) if column in used]
            for row in rows
            if any(map(str.strip, row))
        ]
        for number, row in enumerate(filled):
            if columns == 1 or sum(map(len, row)) > _MAX_ROW_CHARS:
                for cell in row:
                    self.add(cell.replace("\\|", "|"))
                continue
            cells = [*row, *[""] * (min(columns, _MOST_PADDED) - len(row))]
            self._after_tight = self._after_tight and number > 0
            self.add(f"| {' | '.join(cells)} |", tight=True)
            if number == 0 and has_header and len(filled) > 1:
                self.add(f"|{' --- |' * columns}", tight=True)
        self._after_tight = False

    def text(self) -> str:
        return "".join(self._parts)

    def last(self) -> str:
        """Return the block that was added last, empty if there is none."""
        return self._parts[-1] if self._parts else ""

    def source(self, document_format: DocumentFormat, said: SourceProperties, encoding: str = "") -> SourceText:
        """Return what has been built as the text of a source that states these properties."""
        outline = TextOutline(tuple(self._headings), tuple(self._verbatim))
        return SourceText(
            document_format, self.text(), outline, properties=said.fields, warnings=said.warnings, encoding=encoding
        )


def iso_date(value: str) -> datetime | None:
    """Return the time that a text states in the form of ISO 8601, None for any other text."""
    try:
        return datetime.fromisoformat(value.strip())
    except ValueError:
        return None


def source_properties(
    *,
    title: str | None = None,
    creators: Iterable[str] = (),
    subjects: Iterable[str] = (),
    description: str | None = None,
    date_created: datetime | None = None,
    language: str | None = None,
    category: str | None = None,
    tags: Iterable[str] = (),
    project: str | None = None,
) -> SourceProperties:
    """Return the values as fields that requests could have: trimmed, without what is blank.

    What is unreadable or breaks a rule is left out and what is too long is cut; both are counted. `language` may be a
    longer tag such as `de-AT`; a time without offset counts as UTC.
    """
    reading = _Reading()
    values = DocumentFields(
        title=reading.text(title),
        creators=reading.entries(creators),
        subjects=reading.entries(subjects),
        description=reading.text(description, MAX_DESCRIPTION_CHARS),
        date_created=reading.in_utc(date_created),
        language=reading.language(language),
        category=reading.text(category),
        tags=reading.entries(tags, without=","),
        project=reading.text(project),
    )
    return SourceProperties(values, reading.ignored)


class _Reading:
    """Counts the values that had to be left out or cut."""

    def __init__(self) -> None:
        self.ignored = 0

    def text(self, value: str | None, max_chars: int = MAX_NAME_CHARS, without: str = REPLACEMENT) -> str | None:
        line = on_one_line(value or "")
        usable = line[:max_chars].strip()
        if REPLACEMENT in usable or without in usable or any(unicodedata.category(char) == "Cc" for char in usable):
            usable = ""
        self.ignored += usable != line
        return usable or None

    def entries(self, values: Iterable[str], without: str = REPLACEMENT) -> tuple[str, ...]:
        readable = (self.text(value, without=without) for value in values)
        unique = tuple(dict.fromkeys(value for value in readable if value))
        self.ignored += max(0, len(unique) - MAX_ENTRIES)
        return unique[:MAX_ENTRIES]

    def language(self, value: str | None) -> str:
        tag = (value or "").strip()
        match = _LANGUAGE.fullmatch(tag)
        if match is not None and match.group(1).lower() in ISO_639_1:
            return match.group(1).lower()
        self.ignored += bool(tag)
        return _DEFAULTS.language

    def in_utc(self, moment: datetime | None) -> datetime | None:
        if moment is None:
            return None
        try:
            moved = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        except OverflowError:  # before the year 1 or after 9999 in UTC
            self.ignored += 1
            return None
        return moved.replace(microsecond=moved.microsecond // 1000 * 1000)  # times in requests have milliseconds


def filled_from_source(stated: DocumentFields, properties: DocumentFields) -> DocumentFields:
    """Return the caller's fields; missing ones are filled from the source."""
    missing = {name: getattr(properties, name) for name in _NAMES if getattr(stated, name) == getattr(_DEFAULTS, name)}
    return replace(stated, **missing)


def following_source(stored: DocumentFields, before: DocumentFields, now: DocumentFields) -> DocumentFields:
    """Return the stored fields, with those that came from the source updated to what it says now."""
    changes = {name: getattr(now, name) for name in _NAMES if getattr(stored, name) == getattr(before, name)}
    return replace(stored, **changes)
