"""The messages between the serving process and the parser process: plain JSON values, and packed numbers.

Not pickle: the parser reads files nobody has checked, so nothing it says may be able to run code here. The numbers of
chunks are packed because reading them as JSON would hold the interpreter lock for too long.
"""

import struct
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

from groundwire.ingest.domain.parsing import ParsedChunk, ParsedDocument, ParseRules
from groundwire.ingest.domain.placement import Place
from groundwire.kernel import errors
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.spans import Span

Message = dict[str, Any]
_ROW = struct.Struct(">9Q")
_REFUSALS: dict[str, type[InvalidRequestError]] = {
    error.reason: error
    for error in (errors.EmptyDocumentError, errors.BinaryDocumentError, errors.DocumentEncodingError)
}


def rules_to_message(rules: ParseRules) -> Message:
    """Return the rules as a message."""
    return asdict(rules)


def rules_from_message(message: Mapping[str, Any]) -> ParseRules:
    """Return the rules a message holds."""
    policy = message["policy"]
    values = {**message, "format": DocumentFormat(message["format"])}
    return ParseRules(**{**values, "policy": ChunkingPolicy(**{**policy, "unit": ChunkUnit(policy["unit"])})})


def parsed_to_message(parsed: ParsedDocument) -> tuple[Message, bytes]:
    """Return a parsed document as a message and the packed numbers of its chunks; each place is sent once."""
    places: dict[Place, int] = {}
    rows = bytearray()
    for chunk in parsed.chunks:
        place = places.setdefault(chunk.place, len(places))
        span = chunk.span
        offsets = (span.start, span.end, span.start_byte, span.end_byte)
        overlaps = (chunk.overlap_prev_chars, chunk.overlap_next_chars)
        rows += _ROW.pack(*offsets, chunk.token_count, *overlaps, int(chunk.undersized), place)
    return {"places": [[place.chapter, place.section, list(place.path), place.level] for place in places]}, bytes(rows)


def parsed_from_message(message: Mapping[str, Any], rows: bytes) -> ParsedDocument:
    """Return the parsed document that a message and its packed numbers hold."""
    places = [Place(chapter, section, tuple(path), level) for chapter, section, path, level in message["places"]]
    return ParsedDocument(
        tuple(
            ParsedChunk(Span(*offsets), tokens, places[place], before, after, bool(undersized))
            for *offsets, tokens, before, after, undersized, place in _ROW.iter_unpack(rows)
        )
    )


def refusal_to_message(error: InvalidRequestError) -> Message:
    """Return why a document is refused, as a message."""
    violations = [[violation.field, violation.description] for violation in error.violations]
    return {"reason": error.reason, "violations": violations, "metadata": error.metadata}


def refusal_from_message(message: Mapping[str, Any]) -> InvalidRequestError:
    """Return the error a message holds."""
    violations = [FieldViolation(field, description) for field, description in message["violations"]]
    return _REFUSALS.get(message["reason"], InvalidRequestError)(violations, **message["metadata"])
