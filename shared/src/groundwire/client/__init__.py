"""The typed Python client, synchronous and asynchronous; importing it loads gRPC."""

from groundwire.client.clients import AsyncGroundwireClient, GroundwireClient
from groundwire.client.collection import AsyncCollection, Collection
from groundwire.client.credentials import tls_from_files, token_from_file
from groundwire.client.results import (
    Answer,
    AnswerEvent,
    CheckedCitation,
    Citation,
    CollectionInfo,
    Deletion,
    Document,
    FailedQuestion,
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
    "FailedQuestion",
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
    "tls_from_files",
    "token_from_file",
]
