"""What can be wrong in the stores, as the checker names it."""

from dataclasses import dataclass
from enum import StrEnum


class FindingKind(StrEnum):
    """What is wrong; the names are those of the contract."""

    VECTOR_MISSING = "VECTOR_MISSING"
    VECTOR_ORPHANED = "VECTOR_ORPHANED"
    VECTOR_DIFFERS = "VECTOR_DIFFERS"
    PAYLOAD_DIFFERS = "PAYLOAD_DIFFERS"
    SEARCH_DIFFERS = "SEARCH_DIFFERS"
    EMBEDDING_MISSING = "EMBEDDING_MISSING"
    FULL_TEXT_DIFFERS = "FULL_TEXT_DIFFERS"
    TEXT_DIFFERS = "TEXT_DIFFERS"
    GENERATION_UNFINISHED = "GENERATION_UNFINISHED"
    GENERATION_INCONSISTENT = "GENERATION_INCONSISTENT"
    OUTBOX_OVERDUE = "OUTBOX_OVERDUE"
    REQUEST_REPEATED = "REQUEST_REPEATED"
    SESSION_INCOMPLETE = "SESSION_INCOMPLETE"
    AUDIT_BROKEN = "AUDIT_BROKEN"
    CATALOG_DAMAGED = "CATALOG_DAMAGED"


@dataclass(frozen=True, slots=True)
class StoreFinding:
    """Something that is wrong.

    `collection` is empty for what belongs to none. `subject` is the id of the document, chunk, session or request
    concerned, empty for the file as a whole. `message` is for people.
    """

    kind: FindingKind
    collection: str
    subject: str
    message: str
    repaired: bool = False
