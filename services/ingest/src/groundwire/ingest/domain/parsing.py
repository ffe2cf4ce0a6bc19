"""Take a document apart: canonical text, structure, chunks, and what is embedded for each."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groundwire.ingest.domain.chunking import Chunker, Cut
from groundwire.ingest.domain.decoding import checked_text
from groundwire.ingest.domain.front_matter import read_front_matter
from groundwire.ingest.domain.outline import Outline
from groundwire.ingest.domain.pieces import Splitter
from groundwire.ingest.domain.placement import Place, place_of
from groundwire.kernel.collection import ChunkingPolicy
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.errors import EmptyDocumentError, FieldViolation
from groundwire.kernel.spans import OffsetMap, Span


@dataclass(frozen=True, slots=True)
class ParseRules:
    """How one document is taken apart.

    `title` is that of the document, `file_name` the last resort for a chapter; `field` names the request field
    in errors.
    """

    format: DocumentFormat
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


@dataclass(frozen=True, slots=True)
class ParsedDocument:
    """What the parser finds; spans count in the canonical text, which the caller decodes for itself."""

    chunks: tuple[ParsedChunk, ...]


def parse_document(
    data: bytes, rules: ParseRules, splitter: Splitter, markdown_outline: Callable[[str, int], Outline]
) -> ParsedDocument:
    """Check and take apart the bytes of a document.

    Raises:
        EmptyDocumentError: no text, also when front matter is all there is.
        BinaryDocumentError: not text.
        DocumentEncodingError: not UTF-8.
    """
    text = checked_text(data, rules.field)
    is_markdown = rules.format is DocumentFormat.MARKDOWN
    body_start = read_front_matter(text).end if is_markdown else 0
    outline = markdown_outline(text, body_start) if is_markdown else Outline()
    cuts = Chunker(rules.policy, splitter).cut(text, outline, body_start)
    if not cuts:
        raise EmptyDocumentError([FieldViolation(rules.field, "has no text after its front matter")])
    return ParsedDocument(_describe(text, cuts, outline, rules))


def _describe(text: str, cuts: Sequence[Cut], outline: Outline, rules: ParseRules) -> tuple[ParsedChunk, ...]:
    offsets = OffsetMap(text)
    fallback = outline.headings[0].text if outline.headings else rules.title or rules.file_name
    overlaps = [0, *(max(0, cut.end - after.start) for cut, after in pairwise(cuts)), 0]
    chunks = []
    for index, cut in enumerate(cuts):
        place = place_of(cut.path, fallback)
        span = offsets.span(cut.start, cut.end)
        before, after = overlaps[index], overlaps[index + 1]
        chunks.append(ParsedChunk(span, cut.token_count, place, before, after, cut.undersized))
    return tuple(chunks)
