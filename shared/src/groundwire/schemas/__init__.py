"""Schemas of metadata as pydantic models, for services and for Python callers."""

from groundwire.schemas.documents import ChunkMetadata, DocumentMetadata
from groundwire.schemas.records import (
    FAQMetadata,
    MemoryMetadata,
    PersonaMetadata,
    RecordMetadata,
    SummaryMetadata,
    TurnMetadata,
)
from groundwire.schemas.registry import (
    MODELS,
    OWN_KEYS,
    Schema,
    check_metadata,
    get_all_schemas,
    schema_of,
    validate_metadata,
)

__all__ = [
    "MODELS",
    "OWN_KEYS",
    "ChunkMetadata",
    "DocumentMetadata",
    "FAQMetadata",
    "MemoryMetadata",
    "PersonaMetadata",
    "RecordMetadata",
    "Schema",
    "SummaryMetadata",
    "TurnMetadata",
    "check_metadata",
    "get_all_schemas",
    "schema_of",
    "validate_metadata",
]
