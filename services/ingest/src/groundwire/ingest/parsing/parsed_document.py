"""Input and output of a parser, and the messages that carry them between the serving process and the parser process.

Messages are JSON values, packed numbers of chunks, and the text. Not pickle: the parser reads untrusted files, so its
output must not be able to run code here. The numbers of chunks are packed because reading them as JSON would hold the
interpreter lock for too long.
"""

import hashlib
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Protocol

from groundwire.ingest.parsing.source_text import SourceWarning, utf_8_text
from groundwire.kernel import document_errors
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import MAX_CHUNK_CHARS, Chunk
from groundwire.kernel.collection import ChunkerKind, ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.spans import PageSpan, Span

Message = dict[str, Any]
# The numbers of a chunk, in the order of `parsed_to_message`.
_ROW = struct.Struct(">16Q")
# By their reasons, so that what the parser refuses is raised here as it was raised there.
_REFUSALS: dict[str, type[InvalidRequestError]] = {
    error.reason: error
    for error in vars(document_errors).values()
    if isinstance(error, type) and issubclass(error, InvalidRequestError)
}


@dataclass(frozen=True, slots=True)
class Original:
    """The bytes of a document: in memory, or in a file of ours when `path` is set."""

    size_bytes: int
    content: bytes = b""
    path: Path | None = None

    def read(self) -> bytes:
        return self.path.read_bytes() if self.path else self.content

    def sha256(self) -> str:
        """Return the SHA-256 of all bytes in lower-case hex."""
        if self.path is None:
            return hashlib.sha256(self.content).hexdigest()
        with self.path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()


@dataclass(frozen=True, slots=True)
class ParseRules:
    """How one document is taken apart.

    `format` is the one that the caller declared, if any. `title` is that of the document, `file_name` the last resort
    for a chapter; `field` names the request field in errors. `decoded` bytes are a text of the caller in UTF-8,
    whatever encoding they look like or declare.
    """

    format: DocumentFormat | None
    policy: ChunkingPolicy
    title: str | None
    file_name: str
    field: str
    decoded: bool = False


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What a document holds: its canonical text, the chunks of it in order, and its pages, which count in the text.

    `properties` is what the source says about itself; `warnings` counts how often each occurred; `encoding` is the one
    of the bytes, empty for formats that are no text.
    """

    format: DocumentFormat
    text: str
    chunks: tuple[Chunk, ...]
    pages: tuple[PageSpan, ...] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    warnings: Mapping[SourceWarning, int] = field(default_factory=dict)
    encoding: str = ""


class Parser(Protocol):
    """Parses documents without blocking the process."""

    def parse(self, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        """Return text, structure and chunks of a document; blocking, safe to call from many threads.

        Raises:
            EmptyDocumentError: no text.
            BinaryDocumentError: not text.
            DocumentEncodingError: not valid in its encoding, or that is uncertain.
            InvalidRequestError: the document takes more time or memory than it may, or crashes the parser.
            UnavailableError: no parser can be started, or it hangs.
        """


def stored_content(text: str, span: Span, *, upper: bool) -> str:
    """Return the content to store for a chunk: empty for a parent that is longer than a chunk may be."""
    return text[span.start : span.end] if not upper or span.end - span.start <= MAX_CHUNK_CHARS else ""


def rules_from_message(message: Mapping[str, Any]) -> ParseRules:
    """Return the rules whose `asdict` was sent."""
    policy = message["policy"]
    values = {**message, "format": None if message["format"] is None else DocumentFormat(message["format"])}
    kinds = {"unit": ChunkUnit(policy["unit"]), "chunker": ChunkerKind(policy["chunker"])}
    return ParseRules(**{**values, "policy": ChunkingPolicy(**{**policy, **kinds})})


def parsed_to_message(parsed: ParsedDocument) -> tuple[Message, bytes]:
    """Return a parsed document as a message, and the packed numbers of its chunks followed by its text in UTF-8.

    Contents are ranges of the text and are not sent. Each place is sent once, and the last part of each path apart from
    it, because that is another one for each paragraph of a tree.
    """
    places: dict[tuple[str, str | None, tuple[str, ...], int], int] = {}
    names: dict[str, int] = {}
    rows = bytearray()
    windows = {chunk.window_size for chunk in parsed.chunks if chunk.window_size is not None}
    for chunk in parsed.chunks:
        span, pages = chunk.span, chunk.page_numbers
        *above, name = chunk.hierarchy_path or (None,)
        place = (chunk.chapter, chunk.section, tuple(above), chunk.level)
        # Numbers that may be None are sent one higher, with 0 for None.
        links = (
            None if name is None else names.setdefault(name, len(names)),
            *(chunk.sentence_index, chunk.parent, chunk.grandparent),
        )
        rows += _ROW.pack(
            *(span.start, span.end, span.start_byte, span.end_byte, chunk.token_count),
            *(chunk.overlap_prev_chars, chunk.overlap_next_chars, int(chunk.undersized)),
            places.setdefault(place, len(places)),
            *((pages[0], pages[-1]) if pages else (0, 0)),
            int(chunk.upper),
            *(0 if link is None else link + 1 for link in links),
        )
    created = parsed.properties.date_created
    message = {
        "format": parsed.format.value,
        "encoding": parsed.encoding,
        "chunks": len(parsed.chunks),
        "places": list(places),
        "names": list(names),
        "window_size": next(iter(windows), None),
        "pages": [[page.number, page.start, page.end] for page in parsed.pages],
        "properties": {**asdict(parsed.properties), "date_created": created and created.isoformat()},
        "warnings": {warning.value: count for warning, count in parsed.warnings.items()},
    }
    return message, bytes(rows) + parsed.text.encode("utf-8")


def parsed_from_message(message: Mapping[str, Any], body: bytes | bytearray) -> ParsedDocument:
    text_start = message["chunks"] * _ROW.size
    text = utf_8_text(body, text_start)
    chunks = []
    for number, row in enumerate(_ROW.iter_unpack(memoryview(body)[:text_start])):
        start, end, start_byte, end_byte, tokens, before, after, undersized, place, first_page, last_page, *rest = row
        upper, *links = rest
        name, sentence, parent, grandparent = (link - 1 if link else None for link in links)
        chapter, section, above, level = message["places"][place]
        span = Span(start, end, start_byte, end_byte)
        chunk = Chunk(
            sequence_num=number,
            span=span,
            content=stored_content(text, span, upper=bool(upper)),
            token_count=tokens,
            chapter=chapter,
            section=section,
            hierarchy_path=(*above,) if name is None else (*above, message["names"][name]),
            level=level,
            page_numbers=tuple(range(first_page, last_page + 1)) if first_page else (),
            overlap_prev_chars=before,
            overlap_next_chars=after,
            undersized=bool(undersized),
            sentence_index=sentence,
            window_size=None if sentence is None else message["window_size"],
            parent=parent,
            grandparent=grandparent,
            upper=bool(upper),
            indexed=not upper,
        )
        chunks.append(chunk)
    said = message["properties"]
    lists = {name: tuple(value) for name, value in said.items() if isinstance(value, list)}
    created = said["date_created"] and datetime.fromisoformat(said["date_created"])
    return ParsedDocument(
        format=DocumentFormat(message["format"]),
        encoding=message["encoding"],
        text=text,
        chunks=tuple(chunks),
        pages=tuple(PageSpan(*page) for page in message["pages"]),
        properties=DocumentFields(**{**said, **lists, "date_created": created}),
        warnings={SourceWarning(warning): count for warning, count in message["warnings"].items()},
    )


def refusal_to_message(error: InvalidRequestError) -> Message:
    violations = [[violation.field, violation.description] for violation in error.violations]
    return {"reason": error.reason, "violations": violations, "metadata": error.metadata}


def refusal_from_message(message: Mapping[str, Any]) -> InvalidRequestError:
    violations = [FieldViolation(field, description) for field, description in message["violations"]]
    # A process that a document has taken over may send any reason.
    return _REFUSALS.get(message["reason"], InvalidRequestError)(violations, **message["metadata"])
