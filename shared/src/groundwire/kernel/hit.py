"""A search result as the retrieve service makes it and the answer service reads it."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.kernel.bounded_cache import bytes_of
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document
from groundwire.kernel.filters import Payload, Value
from groundwire.kernel.identifiers import etag_of
from groundwire.kernel.payload import all_metadata, all_tags, chunk_payload


@dataclass(frozen=True, slots=True)
class ChunkLinks:
    """Ids of the chunks around one in its document, None where there is none.

    `parent` and `grandparent` are one and two levels up, where levels have chunks of their own; such chunks have no
    `previous` and `following`.
    """

    previous: str | None = None
    following: str | None = None
    parent: str | None = None
    grandparent: str | None = None


@dataclass(frozen=True, slots=True)
class StoredChunk:
    """A chunk with its identity in the catalog and the document it belongs to.

    `chunk_number` is unique in the system and never reused, 1 <= n < 2^53. `embed_time` is when its vector was
    made, `ingest_time` when its generation was stored.
    """

    chunk_number: int
    chunk_id: str
    generation: int
    chunk: Chunk
    document: Document
    embed_time: datetime
    ingest_time: datetime
    links: ChunkLinks = ChunkLinks()

    @property
    def tags(self) -> tuple[str, ...]:
        """Return the tags of the document and of the chunk itself."""
        return all_tags(self.document.fields, self.chunk)

    @property
    def metadata(self) -> dict[str, Value]:
        """Return the caller's own keys of the document, overlaid by those of the chunk."""
        return all_metadata(self.document.fields, self.chunk)

    @property
    def etag(self) -> str:
        """Return a tag of all about it that callers can change: its tags and metadata, and those of its document."""
        return etag_of((self.chunk_number, self.chunk.tags, self.tags, self.metadata))

    @property
    def held_bytes(self) -> int:
        """Return about the memory of what may be large in it and its document, which counts with each chunk."""
        chunk, document, fields = self.chunk, self.document, self.document.fields
        return bytes_of(
            *(chunk.content, chunk.chapter, chunk.section, chunk.hierarchy_path, chunk.page_numbers),
            *(chunk.tags, chunk.metadata, document.source_uri, document.alias_uris),
            *(fields.title, fields.creators, fields.subjects, fields.description, fields.tags, fields.metadata),
        )

    @property
    def payload(self) -> Payload:
        """Return the filter keys, made anew."""
        return chunk_payload(
            document_id=self.document.document_id,
            chunk_id=self.chunk_id,
            chunk_number=self.chunk_number,
            source_uri=self.document.source_uri,
            document_format=self.document.format,
            fields=self.document.fields,
            chunk=self.chunk,
            ingested=self.ingest_time,
        )
