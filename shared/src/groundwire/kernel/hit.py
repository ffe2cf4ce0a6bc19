"""A search result as the retrieve service makes it and the answer service reads it."""

from dataclasses import dataclass

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its identity in the catalog and the document it belongs to.

    `chunk_number` is unique in the system and never reused, 1 <= n < 2^53.
    """

    chunk_number: int
    chunk_id: str
    generation: int
    chunk: Chunk
    document: Document
