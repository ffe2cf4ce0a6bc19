"""Metadata of documents and their chunks (requirements S1-56 to S1-79)."""

import hashlib
from itertools import pairwise
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationInfo, field_validator

from groundwire.schemas.kinds import (
    Count,
    Custom,
    DocumentTime,
    Id,
    Language,
    Ordinal,
    Sha256,
    Source,
    Tags,
    Text,
    TextList,
    Words,
    now,
)

# Both from the source design: what is shorter says nothing (S1-74), and its ranges may be off by a few (S1-79).
_MIN_CONTENT_CHARS = 10
_LENGTH_TOLERANCE = 5
_EXAMPLE_CONTENT = "The quarterly revenue increased by 15%, driven by strong performance in Asia."
_RULES = ConfigDict(extra="forbid", strict=True, frozen=True)


class DocumentMetadata(BaseModel):
    """A parent document; `custom` holds the caller's own flat keys, anything else is refused."""

    model_config = _RULES

    REQUIRED: ClassVar[tuple[str, ...]] = (
        *("doc_id", "source_path", "source_hash", "doc_type"),
        *("chunk_count", "total_chars", "embedding_model"),
    )
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "doc_id": "doc_123e4567-e89b-42d3-a456-426614174000",
        "source_path": "reports/q3.pdf",
        "source_hash": hashlib.sha256(b"q3").hexdigest(),
        "title": "Q3 2024 Financial Report",
        "creator": ["Smith, J.", "Doe, A."],
        "subject": ["finance", "quarterly"],
        "date_created": "2024-10-15T00:00:00Z",
        "doc_type": "pdf",
        "language": "en",
        "chunk_count": 42,
        "total_chars": 15000,
        "embedding_model": "sentence-transformers/all-MiniLM-L6-v2",
        "ingestion_date": "2024-11-26T10:30:00Z",
        "last_modified": "2024-11-26T10:30:00Z",
        "tags": ["finance", "2024"],
        "project": "reporting",
        "custom": {"department": "finance"},
    }

    doc_id: Id = Field(description="Id of the document.")
    source_path: Source = Field(description="Path or URL it is known by; unique in its collection.")
    source_hash: Sha256 = Field(description="SHA-256 of the original bytes, stored in lower case.")
    title: Words | None = Field(default=None, description="Title.")
    creator: TextList = Field(default_factory=list, description="Creators, in order.")
    subject: TextList = Field(default_factory=list, description="Subjects or keywords.")
    description: Text | None = Field(default=None, description="What it is about.")
    date_created: DocumentTime | None = Field(default=None, description="When the content was created.")
    doc_type: Literal["pdf", "text", "markdown", "html", "docx", "rst", "csv", "jsonl"] = Field(
        description="Format of the source."
    )
    language: Language = Field(default="en", description="ISO 639-1 code.")
    category: Words | None = Field(default=None, description="Kind of document to its users, such as `report`.")
    chunk_count: Count = Field(description="Chunks of the live generation.")
    total_chars: Count = Field(description="Code points of the canonical text.")
    embedding_model: Words = Field(description="Model that made the vectors.")
    ingestion_date: DocumentTime = Field(default_factory=now, description="When it was first ingested.")
    last_modified: DocumentTime = Field(default_factory=now, description="When it was last changed.")
    tags: Tags = Field(default_factory=list, description="Trimmed, unique, without commas.")
    project: Words | None = Field(default=None, description="Project it belongs to.")
    custom: Custom = Field(default_factory=dict, description="The caller's own flat keys.")


class ChunkMetadata(BaseModel):
    """A range of a document's text; `custom` holds the caller's own flat keys, anything else is refused."""

    model_config = _RULES

    REQUIRED: ClassVar[tuple[str, ...]] = (
        *("chunk_id", "doc_id", "sequence_num", "char_start", "char_end"),
        *("content", "content_hash", "embedding_model"),
    )
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "chunk_id": "doc_123e4567-e89b-42d3-a456-426614174000#chunk_005",
        "doc_id": "doc_123e4567-e89b-42d3-a456-426614174000",
        "sequence_num": 5,
        "char_start": 2450,
        "char_end": 2450 + len(_EXAMPLE_CONTENT),
        "content": _EXAMPLE_CONTENT,
        "content_hash": hashlib.sha256(_EXAMPLE_CONTENT.encode()).hexdigest(),
        "page_numbers": [5, 6],
        "section_heading": "Revenue Analysis",
        "overlap_prev_chars": 50,
        "overlap_next_chars": 50,
        "prev_chunk_id": "doc_123e4567-e89b-42d3-a456-426614174000#chunk_004",
        "next_chunk_id": "doc_123e4567-e89b-42d3-a456-426614174000#chunk_006",
        "embedding_model": "sentence-transformers/all-MiniLM-L6-v2",
        "embedding_timestamp": "2024-11-26T10:30:00Z",
        "tags": ["reviewed"],
        "custom": {"reviewed_by": "Ada"},
    }

    chunk_id: Id = Field(description="Id of the chunk.")
    doc_id: Id = Field(description="Id of the document it belongs to.")
    sequence_num: Count = Field(description="Place in the document, from 0.")
    char_start: Count = Field(description="First code point in the canonical text.")
    char_end: Annotated[int, Field(gt=0)] = Field(description="Code point after the last.")
    content: Annotated[str, Field(min_length=1)] = Field(description="The text.")
    content_hash: Sha256 = Field(description="SHA-256 of the content, stored in lower case.")
    page_numbers: list[Ordinal] = Field(default_factory=list, description="Pages, rising, without gaps.")
    section_heading: Words | None = Field(default=None, description="Nearest heading above.")
    overlap_prev_chars: Count = Field(default=0, description="Code points shared with the chunk before.")
    overlap_next_chars: Count = Field(default=0, description="Code points shared with the chunk after.")
    prev_chunk_id: Id | None = Field(default=None, description="Chunk before.")
    next_chunk_id: Id | None = Field(default=None, description="Chunk after.")
    embedding_model: Words = Field(description="Model that made its vector.")
    embedding_timestamp: DocumentTime = Field(default_factory=now, description="When its vector was made.")
    tags: Tags = Field(default_factory=list, description="Tags of the chunk itself.")
    custom: Custom = Field(default_factory=dict, description="Keys of the chunk itself.")

    @field_validator("char_end")
    @classmethod
    def _end_is_behind_start(cls, value: int, checked: ValidationInfo) -> int:
        start = checked.data.get("char_start")
        if start is not None and value <= start:
            raise ValueError(f"must be above char_start, which is {start}")
        return value

    # Fields are checked in the order above, so a value that a check compares with was checked before it.
    @field_validator("content")
    @classmethod
    def _content_fits_its_range(cls, value: str, checked: ValidationInfo) -> str:
        if not value.strip():
            raise ValueError("content must not be blank")
        if len(value) < _MIN_CONTENT_CHARS:
            raise ValueError(f"content must have at least {_MIN_CONTENT_CHARS} characters")
        start, end = checked.data.get("char_start"), checked.data.get("char_end")
        if start is not None and end is not None and abs(end - start - len(value)) > _LENGTH_TOLERANCE:
            raise ValueError(f"has {len(value)} characters, its range {end - start}")
        return value

    @field_validator("content_hash")
    @classmethod
    def _hash_is_that_of_the_content(cls, value: str, checked: ValidationInfo) -> str:
        content = checked.data.get("content")
        if content is not None and value != hashlib.sha256(content.encode()).hexdigest():
            raise ValueError("is not the SHA-256 of the content")
        return value

    @field_validator("page_numbers")
    @classmethod
    def _pages_rise_without_gaps(cls, values: list[int]) -> list[int]:
        for before, after in pairwise(values):
            if after <= before:
                raise ValueError(f"page_numbers must be in ascending order: page {after} follows page {before}")
            if after - before > 1:
                raise ValueError(f"page_numbers must have no gap: page {after} follows page {before}")
        return values
