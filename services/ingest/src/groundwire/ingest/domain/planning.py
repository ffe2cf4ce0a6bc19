"""What ingesting a document would do."""

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from groundwire.ingest.domain.ingesting import IngestOutcome
from groundwire.ingest.parsing.source_text import SourceWarning
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document


class PlannedChange(StrEnum):
    """What would become of a chunk."""

    ADDED = "ADDED"
    KEPT = "KEPT"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """A chunk, new or old, and what would become of it."""

    change: PlannedChange
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest would do, and to how many chunks.

    `current` is the document that is there now. `chunks` stand in the order of the text, removed ones last.
    `embedded` texts of `embedded_tokens` tokens would go through the model. The other counts are those of an
    `IngestResult`.
    """

    outcome: IngestOutcome
    current: Document | None
    chunks: Sequence[PlannedChunk]
    embedded: int = 0
    embedded_tokens: int = 0
    undersized: int = 0
    beyond_model: int = 0
    warnings: Mapping[SourceWarning, int] = field(default_factory=dict)
    ignored: Sequence[str] = ()

    def count(self, change: PlannedChange) -> int:
        """Return the number of chunks with which this would happen."""
        return sum(planned.change is change for planned in self.chunks)


def compare(old: Sequence[Chunk], new: Sequence[Chunk]) -> list[PlannedChunk]:
    """Return all new chunks in order, then the old ones whose content is gone.

    A content is kept as often as it is in both; where it stands does not matter.
    """
    there = Counter(map(_content_of, old))
    planned = list(_matched(new, there, PlannedChange.KEPT, PlannedChange.ADDED))
    wanted = Counter(map(_content_of, new))
    gone = _matched(old, wanted, PlannedChange.KEPT, PlannedChange.REMOVED)
    return planned + [each for each in gone if each.change is PlannedChange.REMOVED]


def _matched(
    chunks: Sequence[Chunk], others: Counter[str], found: PlannedChange, alone: PlannedChange
) -> Iterator[PlannedChunk]:
    left = others.copy()
    for chunk in chunks:
        content = _content_of(chunk)
        if left[content] > 0:
            left[content] -= 1
            yield PlannedChunk(found, chunk)
        else:
            yield PlannedChunk(alone, chunk)


def _content_of(chunk: Chunk) -> str:
    """Return what tells contents apart; an upper chunk that holds none is known by what is embedded of it."""
    return chunk.content_hash if chunk.content else chunk.embedding_hash
