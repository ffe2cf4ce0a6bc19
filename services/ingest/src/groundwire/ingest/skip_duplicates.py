"""Leave chunks out of the index whose content is there already, as the collection wants it (requirement C06)."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection, DuplicateChunkPolicy


@dataclass(frozen=True, slots=True)
class SkipDuplicates:
    """Decides which chunks of a document are indexed."""

    duplicates: DuplicateChunks

    def __call__(self, collection: Collection, document_id: str | None, chunks: Sequence[Chunk]) -> list[Chunk]:
        """Return the chunks, those that repeat an earlier one with `indexed` false.

        Two documents that are ingested at the same time do not know of each other: both are indexed.
        """
        policy = collection.settings.duplicate_chunks
        if policy is DuplicateChunkPolicy.KEEP:
            return list(chunks)
        seen: set[str] = set()
        if policy is DuplicateChunkPolicy.SKIP_IN_COLLECTION:
            seen = self.duplicates.indexed(collection, document_id, [chunk.content_hash for chunk in chunks])
        kept = []
        for chunk in chunks:
            repeats = not chunk.upper and chunk.content_hash in seen
            kept.append(replace(chunk, indexed=False) if repeats else chunk)
            if not chunk.upper:
                seen.add(chunk.content_hash)
        return kept
