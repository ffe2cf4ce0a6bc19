"""The typed Python client, synchronous and asynchronous; importing it loads gRPC."""

from groundwire.client.clients import AsyncGroundwireClient, GroundwireClient
from groundwire.client.collection import AsyncCollection, Collection
from groundwire.client.results import (
    Answer,
    AnswerEvent,
    CheckedCitation,
    Citation,
    CollectionInfo,
    Deletion,
    Document,
    Hit,
    IngestOperation,
    IngestResult,
    Progress,
    Purge,
    SearchResults,
    Session,
    Sources,
    Span,
    TextDelta,
    Verification,
)

__all__ = [
    "Answer",
    "AnswerEvent",
    "AsyncCollection",
    "AsyncGroundwireClient",
    "CheckedCitation",
    "Citation",
    "Collection",
    "CollectionInfo",
    "Deletion",
    "Document",
    "GroundwireClient",
    "Hit",
    "IngestOperation",
    "IngestResult",
    "Progress",
    "Purge",
    "SearchResults",
    "Session",
    "Sources",
    "Span",
    "TextDelta",
    "Verification",
]
