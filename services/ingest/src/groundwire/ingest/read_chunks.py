"""Read single chunks and the chunks of a document or collection."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.domain.reading import ChunkQuery, ChunkWithVector, Page
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import ChunkNotFoundError, DataLossError
from groundwire.kernel.filter_resolving import resolve_filter
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Like
from groundwire.kernel.hit import StoredChunk


@dataclass(frozen=True, slots=True)
class GetChunk:
    """Returns one chunk of a collection."""

    collections: Collections
    chunks: Chunks
    cache: VectorCache

    def __call__(
        self, tenant: str, collection: str, reference: str | int, *, include_embedding: bool
    ) -> ChunkWithVector:
        """Return the chunk with this id or number.

        Raises:
            CollectionNotFoundError: no such collection.
            ChunkNotFoundError: the collection has no such live chunk.
        """
        found = self.collections.get(tenant, collection)
        stored = self.chunks.get(tenant, reference)
        if stored.document.collection != collection:
            raise ChunkNotFoundError(str(reference))
        if not include_embedding:
            return ChunkWithVector(stored)
        known = self.cache.get(found.identity.digest, [stored.chunk.embedding_hash])
        return _with_vectors([stored], known)[0]


@dataclass(frozen=True, slots=True)
class ListChunks:
    """Returns chunks page by page: of a document in the order of its text, else by chunk number."""

    chunks: Chunks

    def __call__(self, query: ChunkQuery, after: int | None, limit: int) -> Page[ChunkWithVector]:
        """Return up to `limit` chunks after the given sequence number (of a document) or chunk number.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
            InvalidFilterError: the filter does not fit the collection's fields.
        """
        in_document = bool(query.document_id) and not query.chunk_id_prefix and query.where is None
        listed = self.chunks.listed(
            query.tenant,
            query.collection,
            document_id=query.document_id,
            where=None if in_document else And(tuple(self._clauses(query))),
            after=(-1 if in_document else 0) if after is None else after,
            limit=limit + 1,
            include_vectors=query.include_embedding,
        )
        found = listed.chunks[:limit]
        last = found[-1] if len(listed.chunks) > limit else None
        position = None if last is None else (last.chunk.sequence_num if in_document else last.chunk_number,)
        if not query.include_embedding:
            return Page(tuple(ChunkWithVector(stored) for stored in found), position)
        return Page(tuple(_with_vectors(found, listed.vectors)), position)

    def _clauses(self, query: ChunkQuery) -> Iterator[Filter]:
        if query.where is not None:
            yield resolve_filter(query.where, self.chunks.fields(query.tenant, query.collection), "filter")
        if query.document_id:
            yield Comparison("document_id", Comparator.EQ, query.document_id)
        if query.chunk_id_prefix:
            yield Like("chunk_id", _literal(query.chunk_id_prefix) + "%")


def _literal(text: str) -> str:
    """Return a pattern that matches exactly `text`."""
    return text.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")


def _with_vectors(found: Sequence[StoredChunk], vectors: Mapping[str, Vectors]) -> list[ChunkWithVector]:
    missing = [stored for stored in found if stored.chunk.embedding_hash not in vectors]
    if missing:
        raise DataLossError("a chunk has no stored vector", what=f"vector of {missing[0].chunk_id}")
    return [ChunkWithVector(stored, vectors[stored.chunk.embedding_hash]) for stored in found]
