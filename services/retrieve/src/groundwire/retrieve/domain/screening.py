"""Which chunks may be returned at all: approved sources, complete metadata (requirements S3-19, S3-34, S3-36)."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from groundwire.kernel.approved_sources import is_approved
from groundwire.kernel.hit import StoredChunk


class Objection(StrEnum):
    """Why a chunk is withheld."""

    SOURCE_REJECTED = "source_rejected"
    INCOMPLETE = "incomplete"


@dataclass(frozen=True, slots=True)
class Screen:
    """The rules of one search; every list of prefixes has to approve a source, an empty one approves all."""

    approved_prefixes: tuple[Sequence[str], ...] = ()

    def __call__(self, stored: StoredChunk) -> Objection | None:
        """Return why a chunk must not be returned, or None."""
        if not all(is_approved(stored.document.source_uri, prefixes) for prefixes in self.approved_prefixes):
            return Objection.SOURCE_REJECTED
        chunk = stored.chunk
        required = (stored.document.source_uri, chunk.section_title, chunk.chapter)
        is_complete = all(value.strip() for value in required) and chunk.sequence_num >= 0
        return None if is_complete else Objection.INCOMPLETE
