"""Read what is stored: documents, their texts and chunks, and figures of collections."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.collections import CollectionStatistics
from groundwire.catalog.scopes import is_in_scopes
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.document import Document, DocumentReference
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    CollectionNotFoundError,
    DataLossError,
    DocumentNotFoundError,
    GroundwireError,
    InvalidRequestError,
    PreconditionError,
)
from groundwire.kernel.filter_parsing import resolve_filter
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Like
from groundwire.kernel.identity import Identity
from groundwire.kernel.spans import Span
from groundwire.kernel.vector_store import VectorStore

MAX_INLINE_TEXT_BYTES = 1 << 20
"""A longer text is streamed."""
PART_CHARS = 65_536
MAX_INLINE_CHUNK_IDS = 1000
"""The chunks of a document that has more are listed."""
_CHUNKS_PER_SLICE = 50
"""Chunks of a batch that are in memory at a time, with their contents."""

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Entries in order with the position of each, and where the next page begins; None on the last page."""

    items: tuple[ItemT, ...]
    positions: tuple[tuple[str | int, ...], ...]
    next_position: tuple[str | int, ...] | None


@dataclass(frozen=True, slots=True)
class TextSlice:
    """A part of a canonical text; `total_chars` counts the whole."""

    text: str
    span: Span
    generation: int
    total_chars: int


@dataclass(frozen=True, slots=True)
class SpanQuery:
    """A span of one generation of a document's text; generation 0 means the live one.

    `start` and `end` are code points, `bytes_` their places in the UTF-8, (0, 0) when these are not compared.
    """

    reference: DocumentReference
    generation: int
    start: int
    end: int
    bytes_: tuple[int, int]


@dataclass(frozen=True, slots=True)
class SpanText:
    """What stands at a span of a text, and on which pages."""

    text: str
    span: Span
    document_id: str
    generation: int
    page_numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentLocation:
    """Where a document stands now: live in a collection, else with an empty name and generation 0."""

    document_id: str
    collection: str
    live_generation: int
    purged: bool


@dataclass(frozen=True, slots=True)
class ChunkWithVector:
    """A chunk, and its vector (float32, shape (d,)) if it was asked for."""

    stored: StoredChunk
    vector: Vectors | None = None


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents of a collection are listed; an empty prefix means all. `where` has the caller's field names."""

    caller: Identity
    collection: str
    source_prefix: str
    where: Filter | None
    include_deleted: bool


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """Which chunks of a collection are listed; empty means all. `where` has the caller's field names."""

    caller: Identity
    collection: str
    reference: DocumentReference | None
    chunk_id_prefix: str
    where: Filter | None
    include_embedding: bool


@dataclass(frozen=True, slots=True)
class Stats:
    """Figures of a collection; `vectors` is what the engine has, which may lag behind the catalog for a moment."""

    counted: CollectionStatistics
    vectors: int


@dataclass(frozen=True, slots=True)
class Library:
    """Reads the catalog; only `stats` asks the engine, for the number of its vectors.

    A record of a scope that the caller may not see is as good as missing.
    """

    catalog: Catalog
    vectors: VectorStore

    def document(self, caller: Identity, collection: str, reference: DocumentReference) -> Document:
        """Return the document with this id, or with this source or alias.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
        """
        self.catalog.collections.get(caller.tenant, collection)
        return self._seen(caller, collection, reference)

    def _seen(self, caller: Identity, collection: str, reference: DocumentReference) -> Document:
        document = self.catalog.documents.find(caller.tenant, collection, reference)
        if not is_in_scopes(document, caller.scopes):
            raise DocumentNotFoundError(reference.document_id or reference.source_uri)
        return document

    def chunk_ids(self, tenant: str, document: Document) -> list[str]:
        """Return the ids of a document's chunks in the order of its text.

        Raises:
            PreconditionError: there are more than 1,000.
        """
        found = self.catalog.chunks.page(
            tenant, document.collection, document.document_id, -1, MAX_INLINE_CHUNK_IDS + 1
        )
        if len(found) > MAX_INLINE_CHUNK_IDS:
            raise PreconditionError(f"the document has more than {MAX_INLINE_CHUNK_IDS} chunks: use ListChunks")
        return [stored.chunk_id for stored in found]

    def whole_text(self, tenant: str, document: Document) -> str:
        """Return the canonical text of the live generation.

        Raises:
            PreconditionError: the text is longer than 1 MiB.
        """
        if document.total_bytes > MAX_INLINE_TEXT_BYTES:
            raise PreconditionError(
                f"the text has {document.total_bytes} bytes, above {MAX_INLINE_TEXT_BYTES}: use GetDocumentText"
            )
        parts = self.catalog.texts.parts(
            tenant, document.collection, document.document_id, document.generation, PART_CHARS
        )
        return "".join(part.text for part in parts)

    def text(
        self,
        caller: Identity,
        collection: str,
        reference: DocumentReference,
        generation: int,
        start: int,
        end: int | None,
    ) -> Iterator[TextSlice]:
        """Iterate over the code points start..end in order, without gaps; generation 0 means the live one.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: no such document or generation.
            InvalidRequestError: the range is outside the text.
        """
        document, tenant = self.document(caller, collection, reference), caller.tenant
        document_id = document.document_id
        number = generation or document.generation
        if number == document.generation:
            total = document.total_chars
        else:
            parts = self.catalog.texts.parts(tenant, collection, document_id, number, PART_CHARS)
            total = sum(len(part.text) for part in parts)
        stop = total if end is None else end
        if stop > total:
            raise InvalidRequestError.of("end", f"the text has {total} characters")
        if start > stop:
            raise InvalidRequestError.of("start", f"must not be above {stop}")
        for part in self.catalog.texts.parts(tenant, collection, document_id, number, PART_CHARS):
            first, last = max(start, part.start), min(stop, part.start + len(part.text))
            if first < last:
                text = part.text[first - part.start : last - part.start]
                start_byte = part.start_byte + len(part.text[: first - part.start].encode("utf-8"))
                span = Span(first, last, start_byte, start_byte + len(text.encode("utf-8")))
                yield TextSlice(text, span, number, total)
            if part.start + len(part.text) >= stop:
                return

    def read_spans(
        self, caller: Identity, collection: str, queries: Iterable[SpanQuery]
    ) -> Iterator[SpanText | GroundwireError]:
        """Iterate over what stands at each span, in the order given, or why nothing does; reads it when it is its turn.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        self.catalog.collections.get(caller.tenant, collection)
        known: dict[DocumentReference, Document] = {}
        texts = self.catalog.texts.spans(caller.tenant, collection)
        for query in queries:
            try:
                if query.reference not in known:
                    known[query.reference] = self._seen(caller, collection, query.reference)
                document = known[query.reference]
                generation = query.generation or document.generation
                part = texts.at(document.document_id, generation, query.start, query.end)
                if part is None:
                    raise InvalidRequestError.of("span", f"{query.start}..{query.end} is not within the text")
                span = Span(query.start, query.end, part.start_byte, part.start_byte + len(part.text.encode("utf-8")))
                if query.bytes_ not in {(0, 0), (span.start_byte, span.end_byte)}:
                    raise InvalidRequestError.of("span", f"its bytes are {span.start_byte}..{span.end_byte}")
                pages = texts.pages_at(document.document_id, generation, query.start, query.end)
                yield SpanText(part.text, span, document.document_id, generation, pages)
            except (DocumentNotFoundError, InvalidRequestError, DataLossError) as error:
                yield error

    def locate_documents(self, caller: Identity, document_ids: Sequence[str]) -> list[DocumentLocation]:
        """Return where each of the documents stands, in the order given."""
        live, purged = self.catalog.documents.locate(caller.tenant, document_ids, caller.scopes)
        nowhere = "", 0
        return [DocumentLocation(each, *live.get(each, nowhere), each in purged) for each in document_ids]

    def locate_chunks(self, caller: Identity, references: Sequence[str | int]) -> Iterator[StoredChunk | None]:
        """Iterate over the live chunks with these ids or numbers, in the order given, None where there is none."""
        for at in range(0, len(references), _CHUNKS_PER_SLICE):
            part = references[at : at + _CHUNKS_PER_SLICE]
            chunks = self.catalog.chunks.find(caller.tenant, part)
            found = _by_reference(each for each in chunks if is_in_scopes(each.document, caller.scopes))
            yield from (found.get(reference) for reference in part)

    def list_documents(self, query: DocumentQuery, after: tuple[str, str] | None, limit: int) -> Page[Document]:
        """Return up to `limit` documents above `after` (source, id), by source, then id.

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidFilterError: the filter does not fit the collection's fields.
        """
        where = query.where
        if where is not None:
            where = resolve_filter(
                where, self.catalog.chunks.fields(query.caller.tenant, query.collection, query.caller.scopes), "filter"
            )
        prefix = query.source_prefix
        # Sources with one prefix stand together in the order, and none of them comes before the prefix itself.
        begin = max(after, (prefix, "")) if after is not None else (prefix, "")
        rows = self.catalog.documents.page(
            query.caller.tenant,
            query.collection,
            begin,
            limit + 1,
            scopes=query.caller.scopes,
            where=where,
            include_hidden=query.include_deleted,
        )
        found = tuple(document for document in rows if document.source_uri.startswith(prefix))
        positions = tuple((document.source_uri, document.document_id) for document in found[:limit])
        return Page(found[:limit], positions, positions[-1] if len(found) > limit else None)

    def find_chunks(
        self, caller: Identity, collection: str, references: Sequence[str | int], *, include_embedding: bool
    ) -> Iterator[ChunkWithVector | ChunkNotFoundError]:
        """Iterate over the chunks with these ids or numbers, in the order given; reads some at a time.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        tenant = caller.tenant
        self.catalog.collections.get(tenant, collection)
        for at in range(0, len(references), _CHUNKS_PER_SLICE):
            part = references[at : at + _CHUNKS_PER_SLICE]
            vectors: Mapping[str, Vectors] = {}
            if include_embedding:
                chunks, vectors = self.catalog.chunks.find_with_vectors(tenant, collection, part)
            else:
                chunks = [
                    each for each in self.catalog.chunks.find(tenant, part) if each.document.collection == collection
                ]
            chunks = [each for each in chunks if is_in_scopes(each.document, caller.scopes)]
            found = _by_reference(chunks)
            for reference in part:
                stored = found.get(reference)
                if stored is None:
                    yield ChunkNotFoundError(str(reference))
                else:
                    yield _with_vectors([stored], vectors)[0] if include_embedding else ChunkWithVector(stored)

    def list_chunks(self, query: ChunkQuery, after: int | None, limit: int) -> Page[ChunkWithVector]:
        """Return up to `limit` chunks: of a document in the order of its text, else by chunk number.

        `after` is the sequence number (of a document) or chunk number of the last one before.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
            InvalidFilterError: the filter does not fit the collection's fields.
        """
        document_id = ""
        if query.reference is not None:
            # One that is missing is an error of the listing of its chunks, not of a filter.
            document_id = self.document(query.caller, query.collection, query.reference).document_id
        in_document = bool(document_id) and not query.chunk_id_prefix and query.where is None
        listed = self.catalog.chunks.listed(
            query.caller.tenant,
            query.collection,
            scopes=query.caller.scopes,
            document_id=document_id,
            where=None if in_document else And(tuple(self._clauses(query, document_id))),
            after=(-1 if in_document else 0) if after is None else after,
            limit=limit,
            include_vectors=query.include_embedding,
        )
        positions = tuple(
            (stored.chunk.sequence_num if in_document else stored.chunk_number,) for stored in listed.chunks
        )
        items = (
            _with_vectors(listed.chunks, listed.vectors)
            if query.include_embedding
            else [ChunkWithVector(stored) for stored in listed.chunks]
        )
        return Page(tuple(items), positions, None if listed.is_last else positions[-1])

    def stats(self, tenant: str, names: Iterable[str], budget: Budget) -> Iterator[Stats]:
        """Iterate over the figures of collections, each counted when it is its turn; those gone by then are left out.

        Raises:
            StoreUnavailableError: the engine does not answer.
        """
        for name in names:
            budget.check()
            try:
                counted = self.catalog.collections.statistics(tenant, name)
            except CollectionNotFoundError:
                continue
            yield Stats(counted, self._count(counted.collection.engine_name, budget))

    def _count(self, engine_name: str, budget: Budget) -> int:
        try:
            return self.vectors.count(engine_name, budget)
        except CollectionNotFoundError:  # nothing was ingested yet
            return 0

    def _clauses(self, query: ChunkQuery, document_id: str) -> Iterator[Filter]:
        if query.where is not None:
            yield resolve_filter(
                query.where,
                self.catalog.chunks.fields(query.caller.tenant, query.collection, query.caller.scopes),
                "filter",
            )
        if document_id:
            yield Comparison("document_id", Comparator.EQ, document_id)
        if query.chunk_id_prefix:
            prefix = query.chunk_id_prefix.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
            yield Like("chunk_id", prefix + "%")


def _by_reference(chunks: Iterable[StoredChunk]) -> dict[str | int, StoredChunk]:
    return {reference: stored for stored in chunks for reference in (stored.chunk_id, stored.chunk_number)}


def _with_vectors(found: Sequence[StoredChunk], vectors: Mapping[str, Vectors]) -> list[ChunkWithVector]:
    missing = [stored for stored in found if stored.chunk.embedding_hash not in vectors]
    if missing:
        raise DataLossError("a chunk has no stored vector", what=f"vector of {missing[0].chunk_id}")
    return [ChunkWithVector(stored, vectors[stored.chunk.embedding_hash]) for stored in found]
