"""The chapters and sections of a collection, with a vector for each."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import select

from groundwire.catalog.database import Database
from groundwire.catalog.rows import live_generation_keys, to_collection
from groundwire.catalog.schema import chunks, collections, documents
from groundwire.catalog.vectors import unit_vectors_of
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.chunk import OutlineChunk, Section, sections_of
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError

_BYTES_PER_SECTION = 600
_CACHED_BYTES = 64 << 20
_OUTLINE = select(
    documents.c.document_id,
    chunks.c.chunk_number,
    chunks.c.sequence_num,
    chunks.c.char_start,
    chunks.c.char_end,
    chunks.c.chapter,
    chunks.c.section,
    chunks.c.level,
    chunks.c.upper,
).join_from(chunks, documents, chunks.c.document_key == documents.c.document_key)


@dataclass(frozen=True, slots=True)
class Outline:
    """Sections in the order of documents and texts; row i of `vectors` belongs to `sections[i]`.

    `vectors` is float32 of shape (sections, dimensions); a section without a stored vector has zeros.
    """

    sections: Sequence[Section]
    vectors: Vectors


class Outlines:
    """Reads outlines, and remembers them until their collection changes; safe to use from many threads."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._cache: BoundedCache[tuple[str, int], Outline] = BoundedCache(_CACHED_BYTES)

    def read(self, tenant: str, name: str) -> tuple[Collection, Outline]:
        """Return a collection and the outline of what is live in it.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            statement = select(collections).where(collections.c.tenant == tenant, collections.c.name == name)
            row = connection.execute(statement).mappings().first()
            if row is None:
                raise CollectionNotFoundError(name)
            collection, version = to_collection(row), (row[collections.c.uid], row[collections.c.changed_position])
            outline = self._cache.get(version)
            if outline is None:
                of_live = chunks.c.generation_key.in_(live_generation_keys(row[collections.c.collection_key]))
                # Records have no chapters, and not everybody may see them.
                in_order = _OUTLINE.where(of_live, documents.c.record.is_(None)).order_by(
                    documents.c.document_key, chunks.c.sequence_num
                )
                rows = connection.execute(in_order).all()
                sections = sections_of([OutlineChunk(*found) for found in rows])
                stored = unit_vectors_of(connection, collection.identity, [section.lead for section in sections])
                outline = Outline(sections, _aligned(sections, *stored, collection.identity.dimensions))
                self._cache.put(version, outline, outline.vectors.nbytes + _BYTES_PER_SECTION * len(sections))
        return collection, outline


def _aligned(sections: Sequence[Section], numbers: NDArray[np.int64], rows: Vectors, dimensions: int) -> Vectors:
    at = {int(number): row for row, number in enumerate(numbers)}
    vectors = np.zeros((len(sections), dimensions), np.float32)
    for position, section in enumerate(sections):
        row = at.get(section.lead)
        if row is not None:
            vectors[position] = rows[row]
    return vectors
