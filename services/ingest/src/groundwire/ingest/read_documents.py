"""Read documents and their texts."""

from collections.abc import Iterator
from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.texts import Texts
from groundwire.ingest.domain.reading import FoundDocument, TextSlice
from groundwire.kernel.document import Document
from groundwire.kernel.errors import DocumentNotFoundError, InvalidRequestError, PreconditionError
from groundwire.kernel.spans import Span

MAX_INLINE_TEXT_BYTES = 1 << 20
"""A longer text is streamed."""
PART_CHARS = 65_536
_CHUNKS_PER_READ = 1000


@dataclass(frozen=True, slots=True)
class GetDocument:
    """Returns a document by id or source."""

    collections: Collections
    documents: Documents
    chunks: Chunks
    texts: Texts

    def by_id(self, tenant: str, collection: str, document_id: str) -> Document:
        """Return the document with this id.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
        """
        self.collections.get(tenant, collection)
        return self.documents.get(tenant, collection, document_id)

    def by_source(self, tenant: str, collection: str, source_uri: str) -> Document:
        """Return the document with this source or alias.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
        """
        self.collections.get(tenant, collection)
        found = self.documents.find_by_source(tenant, collection, source_uri)
        if found is None:
            raise DocumentNotFoundError(source_uri)
        return found

    def with_details(
        self, tenant: str, document: Document, *, include_chunk_ids: bool, include_text: bool
    ) -> FoundDocument:
        """Add ids of chunks and text.

        Raises:
            PreconditionError: the text is longer than 1 MiB.
        """
        if include_text and document.total_bytes > MAX_INLINE_TEXT_BYTES:
            raise PreconditionError(
                f"the text has {document.total_bytes} bytes, above {MAX_INLINE_TEXT_BYTES}: use GetDocumentText"
            )
        where = (tenant, document.collection, document.document_id)
        parts = self.texts.parts(*where, document.generation, PART_CHARS) if include_text else ()
        return FoundDocument(
            document=document,
            chunk_ids=tuple(self._chunk_ids(*where)) if include_chunk_ids else (),
            text="".join(part.text for part in parts),
        )

    def _chunk_ids(self, tenant: str, collection: str, document_id: str) -> Iterator[str]:
        after = -1
        while page := self.chunks.page(tenant, collection, document_id, after, _CHUNKS_PER_READ):
            yield from (stored.chunk_id for stored in page)
            after = page[-1].chunk.sequence_num


@dataclass(frozen=True, slots=True)
class ReadDocumentText:
    """Returns a canonical text, or a range of it, in parts."""

    collections: Collections
    documents: Documents
    texts: Texts

    def __call__(
        self, tenant: str, collection: str, document_id: str, generation: int, start: int, end: int | None
    ) -> Iterator[TextSlice]:
        """Iterate over the code points start..end in order, without gaps; generation 0 means the live one.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: no such document or generation.
            InvalidRequestError: the range is outside the text.
        """
        self.collections.get(tenant, collection)
        document = self.documents.get(tenant, collection, document_id)
        wanted = generation or document.generation
        is_live = wanted == document.generation
        total = document.total_chars if is_live else self._count(tenant, collection, document_id, wanted)
        stop = total if end is None else end
        if stop > total:
            raise InvalidRequestError.of("end", f"the text has {total} characters")
        if start > stop:
            raise InvalidRequestError.of("start", f"must not be above {stop}")
        for part in self.texts.parts(tenant, collection, document_id, wanted, PART_CHARS):
            first, last = max(start, part.start), min(stop, part.start + len(part.text))
            if first < last:
                yield _slice(part.text, part.start, part.start_byte, first, last, wanted, total)
            if part.start + len(part.text) >= stop:
                return

    def _count(self, tenant: str, collection: str, document_id: str, generation: int) -> int:
        parts = self.texts.parts(tenant, collection, document_id, generation, PART_CHARS)
        return sum(len(part.text) for part in parts)


def _slice(
    text: str, part_start: int, part_start_byte: int, first: int, last: int, generation: int, total: int
) -> TextSlice:
    wanted = text[first - part_start : last - part_start]
    start_byte = part_start_byte + len(text[: first - part_start].encode("utf-8"))
    span = Span(first, last, start_byte, start_byte + len(wanted.encode("utf-8")))
    return TextSlice(wanted, span, generation, total)
