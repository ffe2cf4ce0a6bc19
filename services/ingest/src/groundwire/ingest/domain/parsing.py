"""Take a document apart: canonical text, structure, pages and chunks."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

from groundwire.ingest.domain.cuts import Cut
from groundwire.ingest.domain.pieces import Splitter
from groundwire.ingest.domain.placement import Place, Places
from groundwire.ingest.domain.source_text import SourceText, SourceWarning
from groundwire.kernel.collection import ChunkingPolicy
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.document_errors import DocumentLimitError, EmptyDocumentError
from groundwire.kernel.errors import FieldViolation
from groundwire.kernel.spans import OffsetMap, PageSpan, Span, pages_between

MAX_CHUNKS = 100_000
"""A document of more chunks is refused: each is a row, a vector and entries of two indexes."""


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


def parse_document(
    data: bytes,
    rules: ParseRules,
    read_source: Callable[[bytes, ParseRules], SourceText],
    splitter_for: Callable[[DocumentFormat], Splitter],
) -> ParsedDocument:
    """Read the bytes of a document and cut its text into chunks.

    Raises:
        EmptyDocumentError: no text, also when front matter is all there is.
        DocumentLimitError: it makes more than MAX_CHUNKS chunks.
        InvalidRequestError: `read_source` refuses the bytes.
    """
    # Imported here: the serving process needs what is above, and only parser processes need the chunkers.
    from groundwire.ingest.domain.chunkers import chunker_for  # noqa: PLC0415 - see above

    source = read_source(data, rules)
    chunker = chunker_for(rules.policy, splitter_for(source.format))
    cuts = chunker.cut(source.text, source.outline, source.body_start)
    if not cuts:
        raise EmptyDocumentError([FieldViolation(rules.field, "has no text after its front matter")])
    if len(cuts) > MAX_CHUNKS:
        why = f"makes {len(cuts)} chunks by these rules, the limit is {MAX_CHUNKS}"
        raise DocumentLimitError([FieldViolation(rules.field, why)], resource="chunks", limit=MAX_CHUNKS)
    return ParsedDocument(
        format=source.format,
        text=source.text,
        chunks=_describe(source, cuts, rules),
        pages=source.pages,
        properties=source.properties,
        warnings=source.warnings,
        encoding=source.encoding,
    )


def _describe(source: SourceText, cuts: Sequence[Cut], rules: ParseRules) -> tuple[ParsedChunk, ...]:
    offsets = OffsetMap(source.text)
    headings = source.outline.headings
    title = rules.title or source.properties.title or rules.file_name
    places = Places(headings[0].text if headings else title, title)
    leaves = [cut for cut in cuts if not cut.is_upper]
    overlaps = [0, *(max(0, cut.end - after.start) for cut, after in pairwise(leaves)), 0]
    overlaps += [0] * (len(cuts) - len(leaves))
    return tuple(
        ParsedChunk(
            span=offsets.span(cut.start, cut.end),
            token_count=cut.token_count,
            place=places.of(cut),
            overlap_prev_chars=0 if cut.is_upper else overlaps[index],
            overlap_next_chars=0 if cut.is_upper else overlaps[index + 1],
            undersized=cut.undersized,
            page_numbers=pages_between(source.pages, cut.start, cut.end),
            upper=cut.is_upper,
            sentence=cut.sentence,
            paragraph=cut.branch.paragraph if cut.branch else None,
            parent=cut.branch.parent if cut.branch else None,
            grandparent=cut.branch.grandparent if cut.branch else None,
        )
        for index, cut in enumerate(cuts)
    )
