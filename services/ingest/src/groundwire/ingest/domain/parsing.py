"""Take a document apart: canonical text, structure, pages and chunks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from groundwire.ingest.domain.chunking import Chunker, Cut
from groundwire.ingest.domain.pieces import Splitter
from groundwire.ingest.domain.placement import Place, place_of
from groundwire.ingest.domain.source_text import SourceText, SourceWarning
from groundwire.kernel.collection import ChunkingPolicy
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import FieldViolation
from groundwire.kernel.pages import PageSpan, pages_between
from groundwire.kernel.spans import OffsetMap, Span


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
class ParsedChunk:
    """A chunk without its content."""

    span: Span
    token_count: int
    place: Place
    overlap_prev_chars: int
    overlap_next_chars: int
    undersized: bool
    page_numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What the parser finds; spans of `chunks` and `pages` count in the canonical `text`.

    `properties` is what the source says about itself; `warnings` counts how often each occurred.
    """

    format: DocumentFormat
    text: str
    chunks: tuple[ParsedChunk, ...]
    pages: tuple[PageSpan, ...] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    warnings: Mapping[SourceWarning, int] = field(default_factory=dict)


def parse_document(
    data: bytes,
    rules: ParseRules,
    read_source: Callable[[bytes, ParseRules], SourceText],
    splitter_for: Callable[[DocumentFormat], Splitter],
) -> ParsedDocument:
    """Read the bytes of a document and cut its text into chunks.

    Raises:
        EmptyDocumentError: no text, also when front matter is all there is.
        InvalidRequestError: `read_source` refuses the bytes.
    """
    source = read_source(data, rules)
    cuts = Chunker(rules.policy, splitter_for(source.format)).cut(source.text, source.outline, source.body_start)
    if not cuts:
        raise EmptyDocumentError([FieldViolation(rules.field, "has no text after its front matter")])
    return ParsedDocument(
        format=source.format,
        text=source.text,
        chunks=_describe(source, cuts, rules),
        pages=source.pages,
        properties=source.properties,
        warnings=source.warnings,
    )


def _describe(source: SourceText, cuts: Sequence[Cut], rules: ParseRules) -> tuple[ParsedChunk, ...]:
    offsets = OffsetMap(source.text)
    headings = source.outline.headings
    fallback = headings[0].text if headings else rules.title or source.properties.title or rules.file_name
    overlaps = [0, *(max(0, cut.end - after.start) for cut, after in pairwise(cuts)), 0]
    chunks = []
    for index, cut in enumerate(cuts):
        place = place_of(cut.path, fallback)
        span = offsets.span(cut.start, cut.end)
        before, after = overlaps[index], overlaps[index + 1]
        pages = pages_between(source.pages, cut.start, cut.end)
        chunks.append(ParsedChunk(span, cut.token_count, place, before, after, cut.undersized, pages))
    return tuple(chunks)
