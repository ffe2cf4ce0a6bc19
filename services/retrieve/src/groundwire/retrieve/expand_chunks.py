"""Return chunks with their surroundings."""

from collections.abc import Sequence
from dataclasses import dataclass

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import ChunkNotFoundError, InvalidRequestError
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.spans import Span
from groundwire.retrieve.domain.expanding import DocumentMap, Expansion, Extent, Place
from groundwire.retrieve.domain.screening import Screen
from groundwire.retrieve.passage_ports import PassageOpener, PassageReader

MAX_TOTAL_CHARS = 1_000_000
"""Most code points of all passages of one call together."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A range of a document around one or more chunks, verbatim; `path` holds the headings all of it stands below."""

    requested: tuple[StoredChunk, ...]
    span: Span
    content: str
    chunks: Sequence[StoredChunk]
    path: tuple[str, ...]
    truncated: bool


@dataclass(frozen=True, slots=True)
class ExpandChunks:
    """Expands chunks of one collection on one snapshot of the catalog."""

    passages: PassageOpener
    approved_prefixes: tuple[str, ...] = ()

    def __call__(
        self, tenant: str, collection: str, references: Sequence[str | int], rule: Expansion, budget: Budget
    ) -> list[Passage]:
        """Return the passages in the order of the references; those of one document share no text.

        Raises:
            CollectionNotFoundError: no such collection.
            ChunkNotFoundError: a chunk does not exist, or its source is not approved.
            PreconditionError: a window is asked for around a chunk that is no sentence.
            InvalidRequestError: the passages are longer together than one response may be.
        """
        with self.passages.open(tenant, collection) as reader:
            found = list({chunk.chunk_number: chunk for chunk in self._found(reader, references)}.values())
            by_document: dict[str, list[StoredChunk]] = {}
            for chunk in found:
                by_document.setdefault(chunk.document.document_id, []).append(chunk)
            extents = []
            for wanted in by_document.values():
                budget.check()
                extents += _extents(reader, wanted, rule)
            _refuse_too_much([extent for _, _, extent in extents])
            order = {chunk.chunk_number: position for position, chunk in enumerate(found)}
            made = [_passage(reader, of_document, chunks, extent) for of_document, chunks, extent in extents]
        return sorted(made, key=lambda passage: min(order[chunk.chunk_number] for chunk in passage.requested))

    def _found(self, reader: PassageReader, references: Sequence[str | int]) -> list[StoredChunk]:
        screen = Screen((self.approved_prefixes, reader.collection.settings.approved_source_prefixes))
        found = []
        for reference in references:
            chunk = reader.find(reference)
            if screen(chunk) is not None:
                raise ChunkNotFoundError(str(reference))
            found.append(chunk)
        return found


_Extent = tuple[DocumentMap, dict[int, StoredChunk], Extent]


def _extents(reader: PassageReader, wanted: Sequence[StoredChunk], rule: Expansion) -> list[_Extent]:
    document = wanted[0].document
    of_document = DocumentMap(reader.places(document.document_id), Place(document.total_chars, document.total_bytes))
    chunks = {chunk.chunk.sequence_num: chunk for chunk in wanted}
    single = [of_document.expand(number, rule) for number in chunks]
    return [(of_document, chunks, extent) for extent in of_document.merge(single, rule.max_chars)]


def _refuse_too_much(extents: Sequence[Extent]) -> None:
    total = sum(extent.chars for extent in extents)
    if total > MAX_TOTAL_CHARS:
        message = f"the passages hold {total} characters together, above {MAX_TOTAL_CHARS}; ask for shorter or fewer"
        raise InvalidRequestError.of("max_chars", message)


def _passage(
    reader: PassageReader, of_document: DocumentMap, chunks: dict[int, StoredChunk], extent: Extent
) -> Passage:
    requested = tuple(chunks[number] for number in sorted(set(extent.requested)))
    document_id = requested[0].document.document_id
    return Passage(
        requested=requested,
        span=Span(extent.start.char, extent.end.char, extent.start.byte, extent.end.byte),
        content=reader.text(document_id, extent.start.char, extent.end.char),
        chunks=reader.chunks(document_id, extent.first, extent.last),
        path=of_document.path_of(extent),
        truncated=extent.truncated,
    )
