"""The request, the progress and the result of an ingest, and how a request overrides the chunking policy."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import TypeAlias

from groundwire.ingest.parsing.source_text import SourceWarning
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import MAX_CHUNK_SIZES, ChunkerKind, ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.errors import refuse_broken

# A smaller target makes more rows and vectors of a text than the text is worth.
_MIN_TARGETS = {ChunkUnit.TOKENS: 16, ChunkUnit.CHARS: 64}
# From half on, the unique part of a chunk would end before it begins (T09).
_MAX_OVERLAP = 0.5
_MAX_WINDOW = 10


@dataclass(frozen=True, slots=True)
class ChunkingOverrides:
    """The chunking of a request; None keeps the value in force."""

    unit: ChunkUnit | None = None
    target: int | None = None
    minimum: int | None = None
    maximum: int | None = None
    overlap_ratio: float | None = None
    min_chars: int | None = None
    chunker: ChunkerKind | None = None
    window_size: int | None = None

    def over(self, policy: ChunkingPolicy, field: str) -> ChunkingPolicy:
        """Return the policy with these overrides; `field` is the path of the overrides in the request.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.
        """
        given = {name: value for name in self.__slots__ if (value := getattr(self, name)) is not None}
        policy = replace(policy, **given)
        least, most, unit = _MIN_TARGETS[policy.unit], MAX_CHUNK_SIZES[policy.unit], policy.unit.value
        is_maximum = policy.target <= policy.maximum <= most
        rules = {
            f"target_size must be {least} to {most} {unit}": least <= policy.target <= most,
            "minimum_size must be at least 1 and at most target_size": 1 <= policy.minimum <= policy.target,
            f"maximum_size must be at least target_size and at most {most} {unit}": is_maximum,
            # NaN fails as well: no comparison with it holds.
            "overlap_ratio must be at least 0 and below 0.5": 0.0 <= policy.overlap_ratio < _MAX_OVERLAP,
            f"min_chars must be 1 to {MAX_CHUNK_CHARS}": 1 <= policy.min_chars <= MAX_CHUNK_CHARS,
            f"window_size must be 0 to {_MAX_WINDOW}": 0 <= policy.window_size <= _MAX_WINDOW,
        }
        refuse_broken(f"{field}.", rules.items())
        return policy


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
    collection's policy. `decoded` says that the caller sent a text: the bytes are its UTF-8.
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
    decoded: bool = False

    def without_effect(self, document: Document) -> "Remarks":
        """Return the remarks that name settings without effect, because the source becomes an alias of the document."""
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
