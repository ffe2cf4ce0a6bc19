"""What the parser makes of a document, and the messages in which it comes from the parser process to the serving one.

Messages are JSON values, packed numbers of chunks, and the text. Not pickle: the parser reads files nobody has
checked, so nothing it says may be able to run code here. The numbers of chunks are packed because reading them as JSON
would hold the interpreter lock for too long.
"""

import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from typing import Any

from groundwire.ingest.parsing.source_text import SourceWarning
from groundwire.ingest.parsing.text_encoding import utf_8_text
from groundwire.kernel import document_errors
from groundwire.kernel.chunk import MAX_CHUNK_CHARS, Chunk
from groundwire.kernel.collection import ChunkerKind, ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.spans import PageSpan, Span

Message = dict[str, Any]
# Those of ParsedChunk, in the order of `parsed_to_message`.
_ROW = struct.Struct(">16Q")
_REFUSALS: dict[str, type[InvalidRequestError]] = {
    error.reason: error
    for error in vars(document_errors).values()
    if isinstance(error, type) and issubclass(error, InvalidRequestError)
}


@dataclass(frozen=True, slots=True)
class ParseRules:
    """How one document is taken apart.

    `format` is the one that the caller declared, if any. `title` is that of the document, `file_name` the last resort
    for a chapter; `field` names the request field in errors.
    """

    format: DocumentFormat | None
    policy: ChunkingPolicy
    title: str | None
    file_name: str
    field: str


@dataclass(frozen=True, slots=True)
class Place:
    """The chapter is never empty; `path` holds the headings above, outermost first, of a tree the document before them.

    `level` is the depth of the text in the tree document (0), chapter (1), section (2), paragraph (3): text
    in a section has 3, text of a chapter outside its sections 2, text of a document without headings 1.
    """

    chapter: str
    section: str | None
    path: tuple[str, ...]
    level: int


@dataclass(frozen=True, slots=True)
class ParsedChunk:
    """A chunk without its content.

    `sentence` is the number of the sentence it is, from 0. Where levels have chunks of their own, `parent` and
    `grandparent` are indexes of chunks, `paragraph` counts from 1 below the parent, and `upper` chunks stand for a
    whole document, chapter or section; they follow after all others.
    """

    span: Span
    token_count: int
    place: Place
    overlap_prev_chars: int
    overlap_next_chars: int
    undersized: bool
    page_numbers: tuple[int, ...] = ()
    upper: bool = False
    sentence: int | None = None
    paragraph: int | None = None
    parent: int | None = None
    grandparent: int | None = None


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What the parser finds; spans of `chunks` and `pages` count in the canonical `text`.

    `properties` is what the source says about itself; `warnings` counts how often each occurred; `encoding` is the one
    of the bytes, empty for formats that are no text.
    """

    format: DocumentFormat
    text: str
    chunks: tuple[ParsedChunk, ...]
    pages: tuple[PageSpan, ...] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    warnings: Mapping[SourceWarning, int] = field(default_factory=dict)
    encoding: str = ""


def chunks_of(parsed: ParsedDocument, window_size: int) -> list[Chunk]:
    """Return the chunks of a document in order; `window_size` goes with those that are sentences."""
    chunks = []
    for number, chunk in enumerate(parsed.chunks):
        start, end, path = chunk.span.start, chunk.span.end, chunk.place.path
        is_stored = not chunk.upper or end - start <= MAX_CHUNK_CHARS
        made = Chunk(
            sequence_num=number,
            span=chunk.span,
            content=parsed.text[start:end] if is_stored else "",
            token_count=chunk.token_count,
            chapter=chunk.place.chapter,
            section=chunk.place.section,
            hierarchy_path=path if chunk.paragraph is None else (*path, f"para_{chunk.paragraph}"),
            level=chunk.place.level,
            page_numbers=chunk.page_numbers,
            overlap_prev_chars=chunk.overlap_prev_chars,
            overlap_next_chars=chunk.overlap_next_chars,
            undersized=chunk.undersized,
            sentence_index=chunk.sentence,
            window_size=None if chunk.sentence is None else window_size,
            parent=chunk.parent,
            grandparent=chunk.grandparent,
            upper=chunk.upper,
            indexed=not chunk.upper,
        )
        chunks.append(made)
    return chunks


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
        span, pages = chunk.span, chunk.page_numbers
        # Numbers that may be None are sent one higher, with 0 for None.
        links = (chunk.sentence, chunk.paragraph, chunk.parent, chunk.grandparent)
        rows += _ROW.pack(
            *(span.start, span.end, span.start_byte, span.end_byte, chunk.token_count),
            *(chunk.overlap_prev_chars, chunk.overlap_next_chars, int(chunk.undersized)),
            places.setdefault(chunk.place, len(places)),
            *((pages[0], pages[-1]) if pages else (0, 0)),
            int(chunk.upper),
            *(0 if link is None else link + 1 for link in links),
        )
    created = parsed.properties.date_created
    message = {
        "format": parsed.format.value,
        "encoding": parsed.encoding,
        "chunks": len(parsed.chunks),
        "places": [[place.chapter, place.section, list(place.path), place.level] for place in places],
        "pages": [[page.number, page.start, page.end] for page in parsed.pages],
        "properties": {**asdict(parsed.properties), "date_created": created and created.isoformat()},
        "warnings": {warning.value: count for warning, count in parsed.warnings.items()},
    }
    return message, bytes(rows) + parsed.text.encode("utf-8")


def parsed_from_message(message: Mapping[str, Any], body: bytes | bytearray) -> ParsedDocument:
    """Return the parsed document that a message and its body hold."""
    places = [Place(chapter, section, tuple(path), level) for chapter, section, path, level in message["places"]]
    text_start = message["chunks"] * _ROW.size
    said = message["properties"]
    lists = {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
    created = said["date_created"] and datetime.fromisoformat(said["date_created"])
    return ParsedDocument(
        format=DocumentFormat(message["format"]),
        encoding=message["encoding"],
        text=utf_8_text(body, text_start),
        chunks=tuple(_chunk(row, places) for row in _ROW.iter_unpack(memoryview(body)[:text_start])),
        pages=tuple(PageSpan(*page) for page in message["pages"]),
        properties=DocumentFields(**{**said, **lists, "date_created": created}),
        warnings={SourceWarning(warning): count for warning, count in message["warnings"].items()},
    )


def _chunk(row: tuple[int, ...], places: list[Place]) -> ParsedChunk:
    start, end, start_byte, end_byte, tokens, before, after, undersized, place, first_page, last_page, *rest = row
    upper, *links = rest
    sentence, paragraph, parent, grandparent = (link - 1 if link else None for link in links)
    return ParsedChunk(
        span=Span(start, end, start_byte, end_byte),
        token_count=tokens,
        place=places[place],
        overlap_prev_chars=before,
        overlap_next_chars=after,
        undersized=bool(undersized),
        page_numbers=tuple(range(first_page, last_page + 1)) if first_page else (),
        upper=bool(upper),
        sentence=sentence,
        paragraph=paragraph,
        parent=parent,
        grandparent=grandparent,
    )


def refusal_to_message(error: InvalidRequestError) -> Message:
    """Return why a document is refused, as a message."""
    violations = [[violation.field, violation.description] for violation in error.violations]
    return {"reason": error.reason, "violations": violations, "metadata": error.metadata}


def refusal_from_message(message: Mapping[str, Any]) -> InvalidRequestError:
    """Return the error a message holds."""
    violations = [FieldViolation(field, description) for field, description in message["violations"]]
    return _REFUSALS.get(message["reason"], InvalidRequestError)(violations, **message["metadata"])
