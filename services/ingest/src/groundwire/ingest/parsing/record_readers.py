"""Read CSV and JSON Lines as records: a line for each value, a blank line between records."""

import csv
import io
import json
from collections.abc import Iterator
from typing import Any

from groundwire.ingest.parsing.source_text import SourceText, TextBuilder, malformed, on_one_line, without_blank_lines
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import FieldViolation

_DELIMITERS = ",;\t|"
_MAX_CELL_CHARS = 1 << 20
_HEAD_CHARS = 1 << 16


def read_csv(text: str, field: str) -> SourceText:
    """Return the rows below the header as records, each value as `column: value`; empty values are left out.

    The delimiter is the one of `,`, `;`, tab and `|` that the first line has most of.

    Raises:
        EmptyDocumentError: there is no row with a value.
        DocumentMalformedError: the quotes are broken; names the line.
    """
    csv.field_size_limit(_MAX_CELL_CHARS)
    first = next((line for line in text[:_HEAD_CHARS].splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records = TextBuilder()
    header: list[str] | None = None
    try:
        for row in rows:
            if header is None:
                header = [on_one_line(name) or f"column {number}" for number, name in enumerate(row, start=1)]
                continue
            beyond = (f"column {number}" for number in range(len(header) + 1, len(row) + 1))
            values = ((name, without_blank_lines(value)) for name, value in zip((*header, *beyond), row, strict=False))
            records.add("\n".join(f"{name}: {value}" for name, value in values if value))
    except csv.Error as error:
        raise malformed(field, DocumentFormat.CSV, f"line {rows.line_num}: {error}") from None
    return _source(DocumentFormat.CSV, records, field)


def read_jsonl(text: str, field: str) -> SourceText:
    """Return each line as a record: an object as `key: value` lines, keys of inner objects joined by dots.

    Numbers stay as they are written. Empty values and null are left out.

    Raises:
        EmptyDocumentError: there is no line with a value.
        DocumentMalformedError: a line is no JSON; names it.
    """
    records = TextBuilder()
    # A float would come back as another text than the one in the file.
    decoder = json.JSONDecoder(parse_float=_Written, parse_int=_Written, parse_constant=_Written, strict=False)
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        try:
            lines = list(_values(decoder.decode(line.strip()), ""))
        except RecursionError:
            raise malformed(field, DocumentFormat.JSONL, f"line {number} is nested too deeply") from None
        except ValueError as error:
            raise malformed(field, DocumentFormat.JSONL, f"line {number}: {error}") from None
        records.add("\n".join(lines))
    return _source(DocumentFormat.JSONL, records, field)


class _Written(str):
    """A number as the source writes it."""

    __slots__ = ()


def _source(document_format: DocumentFormat, records: TextBuilder, field: str) -> SourceText:
    text = records.text()
    if not text:
        raise EmptyDocumentError([FieldViolation(field, "has no record with a value")])
    return SourceText(document_format, text)


def _values(value: Any, path: str) -> Iterator[str]:
    """Yield the lines of a JSON value; a list of simple values is one line."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from _values(inner, f"{path}.{on_one_line(key)}" if path else on_one_line(key))
        case list() if any(isinstance(inner, dict | list) for inner in value):
            for number, inner in enumerate(value):
                yield from _values(inner, f"{path}[{number}]")
        case _:
            written = _written(value)
            if written:
                yield f"{path}: {written}" if path else written


def _written(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(filter(None, map(_written, value)))
        case _:
            return without_blank_lines(str(value))
