"""The messages between the serving process and the parser process: JSON values, packed numbers of chunks, and the text.

Not pickle: the parser reads files nobody has checked, so nothing it says may be able to run code here. The numbers of
chunks are packed because reading them as JSON would hold the interpreter lock for too long.
"""

import struct
from collections.abc import Mapping
from dataclasses import asdict
from datetime import datetime
from typing import Any

from groundwire.ingest.domain.decoding import decoded
from groundwire.ingest.domain.parsing import ParsedChunk, ParsedDocument, ParseRules
from groundwire.ingest.domain.placement import Place
from groundwire.ingest.domain.source_text import SourceWarning
from groundwire.kernel import document_errors
from groundwire.kernel.collection import ChunkerKind, ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.spans import PageSpan, Span

Message = dict[str, Any]
_ROW = struct.Struct(">16Q")
_REFUSALS: dict[str, type[InvalidRequestError]] = {
    error.reason: error
    for error in vars(document_errors).values()
    if isinstance(error, type) and issubclass(error, InvalidRequestError)
}


def rules_to_message(rules: ParseRules) -> Message:
    """Return the rules as a message."""
    return asdict(rules)


def rules_from_message(message: Mapping[str, Any]) -> ParseRules:
    """Return the rules a message holds."""
    policy = message["policy"]
    values = {**message, "format": None if message["format"] is None else DocumentFormat(message["format"])}
    kinds = {"unit": ChunkUnit(policy["unit"]), "chunker": ChunkerKind(policy["chunker"])}
    return ParseRules(**{**values, "policy": ChunkingPolicy(**{**policy, **kinds})})


def parsed_to_message(parsed: ParsedDocument) -> tuple[Message, bytes]:
    """Return a parsed document as a message, and the packed numbers of its chunks followed by its text in UTF-8.

    Each place is sent once.
    """
    places: dict[Place, int] = {}
    rows = bytearray()
    for chunk in parsed.chunks:
        place = places.setdefault(chunk.place, len(places))
        span = chunk.span
        offsets = (span.start, span.end, span.start_byte, span.end_byte)
        overlaps = (chunk.overlap_prev_chars, chunk.overlap_next_chars)
        pages = (chunk.page_numbers[0], chunk.page_numbers[-1]) if chunk.page_numbers else (0, 0)
        numbers = (*offsets, chunk.token_count, *overlaps, int(chunk.undersized), place, *pages)
        rows += _ROW.pack(*numbers, int(chunk.upper), *map(_shifted, _links(chunk)))
    message = {
        "format": parsed.format.value,
        "encoding": parsed.encoding,
        "chunks": len(parsed.chunks),
        "places": [[place.chapter, place.section, list(place.path), place.level] for place in places],
        "pages": [[page.number, page.start, page.end] for page in parsed.pages],
        "properties": _properties_to_message(parsed.properties),
        "warnings": {warning.value: count for warning, count in parsed.warnings.items()},
    }
    return message, bytes(rows) + parsed.text.encode("utf-8")


def parsed_from_message(message: Mapping[str, Any], body: bytes | bytearray) -> ParsedDocument:
    """Return the parsed document that a message and its body hold."""
    places = [Place(chapter, section, tuple(path), level) for chapter, section, path, level in message["places"]]
    text_start = message["chunks"] * _ROW.size
    return ParsedDocument(
        format=DocumentFormat(message["format"]),
        encoding=message["encoding"],
        text=decoded(body, text_start),
        chunks=tuple(_chunk(row, places) for row in _ROW.iter_unpack(memoryview(body)[:text_start])),
        pages=tuple(PageSpan(*page) for page in message["pages"]),
        properties=_properties_from_message(message["properties"]),
        warnings={SourceWarning(warning): count for warning, count in message["warnings"].items()},
    )


def _chunk(row: tuple[int, ...], places: list[Place]) -> ParsedChunk:
    start, end, start_byte, end_byte, tokens, before, after, undersized, place, first_page, last_page, *rest = row
    upper, sentence, paragraph, parent, grandparent = rest
    return ParsedChunk(
        span=Span(start, end, start_byte, end_byte),
        token_count=tokens,
        place=places[place],
        overlap_prev_chars=before,
        overlap_next_chars=after,
        undersized=bool(undersized),
        page_numbers=tuple(range(first_page, last_page + 1)) if first_page else (),
        upper=bool(upper),
        sentence=_unshifted(sentence),
        paragraph=_unshifted(paragraph),
        parent=_unshifted(parent),
        grandparent=_unshifted(grandparent),
    )


def _links(chunk: ParsedChunk) -> tuple[int | None, ...]:
    return (chunk.sentence, chunk.paragraph, chunk.parent, chunk.grandparent)


def _shifted(value: int | None) -> int:
    """Return a number that says whether there is a value, for fields that hold no None."""
    return 0 if value is None else value + 1


def _unshifted(number: int) -> int | None:
    return number - 1 if number else None


def _properties_to_message(properties: DocumentFields) -> Message:
    created = properties.date_created
    return {**asdict(properties), "date_created": None if created is None else created.isoformat()}


def _properties_from_message(message: Mapping[str, Any]) -> DocumentFields:
    lists: Message = {name: tuple(value) for name, value in message.items() if isinstance(value, list)}
    created = message["date_created"]
    moment = None if created is None else datetime.fromisoformat(created)
    return DocumentFields(**{**message, **lists, "date_created": moment})


def refusal_to_message(error: InvalidRequestError) -> Message:
    """Return why a document is refused, as a message."""
    violations = [[violation.field, violation.description] for violation in error.violations]
    return {"reason": error.reason, "violations": violations, "metadata": error.metadata}


def refusal_from_message(message: Mapping[str, Any]) -> InvalidRequestError:
    """Return the error a message holds."""
    violations = [FieldViolation(field, description) for field, description in message["violations"]]
    return _REFUSALS.get(message["reason"], InvalidRequestError)(violations, **message["metadata"])
