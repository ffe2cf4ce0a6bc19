"""Read single chunks and the chunks of a document or collection."""

from collections.abc import Iterator
from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.domain.reading import ChunkQuery, ChunkWithVector, Page
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
        return _with_vectors([stored], self.cache, found.identity.digest)[0]


@dataclass(frozen=True, slots=True)
class ListChunks:
    """Returns chunks page by page: of a document in the order of its text, else by chunk number."""

    collections: Collections
    chunks: Chunks
    cache: VectorCache

    def __call__(self, query: ChunkQuery, after: int | None, limit: int) -> Page[ChunkWithVector]:
        """Return up to `limit` chunks after the given sequence number (of a document) or chunk number.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
            InvalidFilterError: the filter does not fit the collection's fields.
        """
        collection = self.collections.get(query.tenant, query.collection)
        in_document = bool(query.document_id) and not query.chunk_id_prefix and query.where is None
        rows = self._of_document(query, after, limit + 1) if in_document else self._matching(query, after, limit + 1)
        found = rows[:limit]
        last = found[-1] if len(rows) > limit else None
        position = None if last is None else (last.chunk.sequence_num if in_document else last.chunk_number,)
        if not query.include_embedding:
            return Page(tuple(ChunkWithVector(stored) for stored in found), position)
        return Page(tuple(_with_vectors(found, self.cache, collection.identity.digest)), position)

    def _of_document(self, query: ChunkQuery, after: int | None, limit: int) -> list[StoredChunk]:
        start = -1 if after is None else after
        return self.chunks.page(query.tenant, query.collection, query.document_id, start, limit)

    def _matching(self, query: ChunkQuery, after: int | None, limit: int) -> list[StoredChunk]:
        tenant, name = query.tenant, query.collection
        if query.document_id:
            self.chunks.page(tenant, name, query.document_id, -1, 1)  # it must exist
        where = And(tuple(self._clauses(query)))
        numbers = self.chunks.matching(tenant, name, where, limit, after=after or 0)
        return list(self.chunks.live(tenant, name, numbers).values())

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


def _with_vectors(found: list[StoredChunk], cache: VectorCache, identity_digest: str) -> list[ChunkWithVector]:
    vectors = cache.get(identity_digest, [stored.chunk.embedding_hash for stored in found])
    missing = [stored for stored in found if stored.chunk.embedding_hash not in vectors]
    if missing:
        raise DataLossError("a chunk has no stored vector", what=f"vector of {missing[0].chunk_id}")
    return [ChunkWithVector(stored, vectors[stored.chunk.embedding_hash]) for stored in found]
