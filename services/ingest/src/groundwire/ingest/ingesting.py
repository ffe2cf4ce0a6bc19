"""What is asked of an ingest and what it answers."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TypeAlias

from groundwire.ingest.chunking.rules import ChunkingOverrides
from groundwire.ingest.parsing.source_text import SourceWarning
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat


class DuplicatePolicy(StrEnum):
    """What to do with bytes that are stored under another source (requirement C06)."""

    REJECT = "REJECT"
    REUSE = "REUSE"
    ALLOW = "ALLOW"


class IngestOutcome(StrEnum):
    """What an ingest did."""

    CREATED = "CREATED"
    REPLACED = "REPLACED"
    UNCHANGED = "UNCHANGED"
    REUSED = "REUSED"


class Stage(StrEnum):
    """Stages of an ingest and of long work, in their order."""

    RECEIVING = "RECEIVING"
    PARSING = "PARSING"
    CHUNKING = "CHUNKING"
    EMBEDDING = "EMBEDDING"
    WRITING = "WRITING"
    INDEXING = "INDEXING"
    CHECKING = "CHECKING"
    DELETING = "DELETING"


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a stage is; counts bytes when receiving, documents when parsing and deleting, else chunks."""

    stage: Stage
    done: int
    total: int


Report: TypeAlias = Callable[[Progress], None]


@dataclass(frozen=True, slots=True)
class IngestRequest:
    """One document to ingest.

    `fields` None keeps what is stored. `source_hash` is what the caller computed, lower-case hex, or None.
    `content_field` names the field of the request that holds the bytes, for errors. `chunking` goes over the
    collection's policy.
    """

    tenant: str
    collection: str
    source_uri: str
    format: DocumentFormat | None
    document_id: str | None
    source_hash: str | None
    fields: DocumentFields | None
    duplicate_policy: DuplicatePolicy
    content_field: str
    chunking: ChunkingOverrides = field(default_factory=ChunkingOverrides)
    source_version: int | None = None

    def without_effect(self, document: Document) -> "Remarks":
        """Return that what the request says otherwise than the document it becomes an alias of has no effect."""
        said = {
            "fields": self.fields is not None and self.fields != document.fields,
            "document_id": self.document_id not in {None, document.document_id},
            "format": self.format not in {None, document.format},
            "chunking": self.chunking != ChunkingOverrides(),
            "source_version": self.source_version is not None,
        }
        return Remarks(ignored=tuple(name for name, is_said in said.items() if is_said))


@dataclass(frozen=True, slots=True)
class Remarks:
    """What the caller should know of an ingest, done or planned.

    `undersized` chunks are shorter than the minimum; of those `beyond_model` the vector ignores the end. `of_source`
    counts what the source gave reason to. `ignored` names the fields of the request that had no effect.
    """

    undersized: int = 0
    beyond_model: int = 0
    of_source: Mapping[SourceWarning, int] = field(default_factory=dict)
    ignored: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class IngestResult:
    """What was done, and to how many chunks; `embedded` + `reused` are all of them when something was written.

    `skipped` chunks are not indexed because others have the same content.
    """

    document: Document
    outcome: IngestOutcome
    embedded: int = 0
    reused: int = 0
    skipped: int = 0
    remarks: Remarks = field(default_factory=Remarks)
