"""What reading calls ask and return."""

from dataclasses import dataclass
from typing import Generic, TypeVar

from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.filters import Filter
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.spans import Span

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class Page(Generic[ItemT]):
    """Entries in order, and where the next page begins; None on the last page."""

    items: tuple[ItemT, ...]
    next_position: tuple[str | int, ...] | None


@dataclass(frozen=True, slots=True)
class CollectionFigures:
    """A collection and how much of what is live in it."""

    collection: Collection
    documents: int = 0
    chunks: int = 0
    total_chars: int = 0


@dataclass(frozen=True, slots=True)
class FoundDocument:
    """A document with what was asked for beside it."""

    document: Document
    chunk_ids: tuple[str, ...] = ()
    text: str = ""


@dataclass(frozen=True, slots=True)
class TextSlice:
    """A part of a canonical text; `total_chars` counts the whole."""

    text: str
    span: Span
    generation: int
    total_chars: int


@dataclass(frozen=True, slots=True)
class ChunkWithVector:
    """A chunk, and its vector (float32, shape (d,)) if it was asked for."""

    stored: StoredChunk
    vector: Vectors | None = None


@dataclass(frozen=True, slots=True)
class DocumentQuery:
    """Which documents of a collection are listed; an empty prefix means all. `where` has the caller's field names."""

    tenant: str
    collection: str
    source_prefix: str
    where: Filter | None
    include_deleted: bool


@dataclass(frozen=True, slots=True)
class ChunkQuery:
    """Which chunks of a collection are listed; empty means all. `where` has the caller's field names."""

    tenant: str
    collection: str
    document_id: str
    chunk_id_prefix: str
    where: Filter | None
    include_embedding: bool
