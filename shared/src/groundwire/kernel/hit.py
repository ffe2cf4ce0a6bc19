"""A search result as the retrieve service makes it and the answer service reads it."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document
from groundwire.kernel.filters import Value
from groundwire.kernel.payload import all_metadata, all_tags


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its identity in the catalog and the document it belongs to.

    `chunk_number` is unique in the system and never reused, 1 <= n < 2^53. `embedding_time` is when its vector was
    made, `ingestion_time` when its generation was stored.
    """

    chunk_number: int
    chunk_id: str
    generation: int
    chunk: Chunk
    document: Document
    embedding_time: datetime
    ingestion_time: datetime

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags of the document and of the chunk itself."""
        return all_tags(self.document.fields, self.chunk)

    @property
    def metadata(self) -> dict[str, Value]:
        """Return the caller's own keys of the document, overlaid by those of the chunk."""
        return all_metadata(self.document.fields, self.chunk)
