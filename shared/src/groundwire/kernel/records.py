"""Records: documents of one text with typed metadata, what filters know of these, and links that memories get."""

import re
import secrets
import uuid
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from enum import StrEnum
from typing import Any, NamedTuple

from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.document import Document
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import Value
from groundwire.kernel.identifiers import ENTITY_SCOPE, GLOBAL_SCOPE, parse_caller_id

SOURCE_PREFIX = "record:"
"""What the source of every record begins with, and of no other document."""
MEMORY = "memory"
MIN_STRICT_TOKENS = 100
"""Fewest tokens of a text where more than a few words are asked for (C05); else one is enough."""
MAX_TOKENS = 800
MAX_ACCESSES = 2**53
"""Accesses that a record from elsewhere stays below: those that are counted here fit into a message with them."""
HISTORY = "history"
"""Key of the metadata of a record that came from another server: its creation and accesses there."""
QUOTED = "quoted_document_ids"
"""Key of the metadata of a record that holds text of documents: their ids, in order."""
MAX_QUOTED = 1000
_NO_FILTER_KEYS = frozenset({"timestamp", HISTORY, QUOTED})
_MEMORY_ID = re.compile(r"chunk-(\d{4}-\d{2}-\d{2})-[0-9a-f]{8}", re.ASCII)
_FILTER_NAMES = {"type": "record_type", "source": "origin"}


def record_source(record_id: str) -> str:
    return SOURCE_PREFIX + record_id


def record_id_of(source_uri: str) -> str:
    return source_uri.removeprefix(SOURCE_PREFIX)


def is_memory_id(value: str) -> bool:
    """Tell whether an id has the form of those of memories, which become file names (requirement S2-01)."""
    form = _MEMORY_ID.fullmatch(value)
    try:
        return form is not None and bool(date.fromisoformat(form[1]))
    except ValueError:  # such as the 45th of a month
        return False


def parse_record_id(value: str, record_type: str = "", field: str = "record_id") -> str:
    """Return the id if it has the form of its type; memories become files of this name (requirements C03 and S2-34).

    Raises:
        InvalidRequestError: naming `field`.
    """
    if record_type == MEMORY and not is_memory_id(value):
        raise InvalidRequestError.of(
            field, "must be 'chunk-', a date like 2026-02-10, '-' and 8 hexadecimal digits for a memory"
        )
    return parse_caller_id(value, field)


def new_record_id(record_type: str, now: datetime) -> str:
    """Make an id; that of a memory says on which day in UTC it was made (requirements S0-02 and S2-01)."""
    if record_type == MEMORY:
        return f"chunk-{now.astimezone(UTC):%Y-%m-%d}-{secrets.token_hex(4)}"
    return f"doc-{uuid.uuid4()}"


def record_time(record: Mapping[str, Any]) -> datetime:
    """Return the time of a record, timezone-aware."""
    return datetime.fromisoformat(record["timestamp"])


def entity_of(record: Mapping[str, Any]) -> str | None:
    """Return the entity that a record is about: its own, else that of its scope."""
    scope: str = record.get("scope", GLOBAL_SCOPE)
    entity: str | None = record.get("entity")
    return entity or (scope.removeprefix(ENTITY_SCOPE) if scope.startswith(ENTITY_SCOPE) else None)


def record_keys(source_uri: str, record: Mapping[str, Any]) -> dict[str, Value | None]:
    """Return the filter keys of a record under the names of `RECORD_FIELDS`; its time is that of its chunks."""
    own = {_FILTER_NAMES.get(key, key): value for key, value in record.items() if key not in _NO_FILTER_KEYS}
    return own | {"record_id": record_id_of(source_uri), "entity": entity_of(record)}


class TurnPlace(NamedTuple):
    """Where a turn stands in a conversation: both sides of one exchange have its index, from 1."""

    conversation_id: str
    turn_index: int
    role: str

    def before(self) -> "tuple[TurnPlace, ...]":
        """Return the possible places of the previous turn, likeliest first: some conversations index every turn."""
        assistant, user = (TurnPlace(self.conversation_id, self.turn_index - 1, role) for role in ("assistant", "user"))
        return (self._replace(role="user"), user, assistant) if self.role == "assistant" else (assistant, user)


class RecordFacts(NamedTuple):
    """What ranking needs of a record; `time` is in milliseconds since 1970, `turn` where it stands if it is a turn."""

    record_type: str
    importance: int | None
    time: int
    turn: TurnPlace | None = None

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> "RecordFacts":
        """Return the facts of the metadata that a document holds of its record."""
        turn = None
        if record["type"] == "turn":
            turn = TurnPlace(record["conversation_id"], record["turn_index"], record["role"])
        return cls(record["type"], record.get("importance"), epoch_ms(record_time(record)), turn)


class LinkKind(StrEnum):
    """Links that were added explicitly."""

    SUPPORTS = "supports"
    CONTRADICTS = "contradicts"
    SUGGESTED_CONTRADICTS = "suggested_contradicts"


class RecordOrder(StrEnum):
    """Orders of listings; what is equal stands in the order in which it was first stored."""

    TIMESTAMP_DESC = "TIMESTAMP_DESC"
    TIMESTAMP_ASC = "TIMESTAMP_ASC"
    IMPORTANCE_DESC = "IMPORTANCE_DESC"
    TURN_ASC = "TURN_ASC"


@dataclass(frozen=True, slots=True)
class RecordLinks:
    """Ids of live records of the same scope, and added ones of the scope `global`; as in the contract."""

    context_of: Sequence[str] = ()
    follows: Sequence[str] = ()
    related_to: Sequence[str] = ()
    supports: Sequence[str] = ()
    contradicts: Sequence[str] = ()
    suggested_contradicts: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class StoredRecord:
    """A record with its document; `metadata` is what `Document.fields.record` holds.

    `embedding_hash` is the key of its vector in the catalog.
    """

    document: Document
    text: str
    token_count: int
    embedding_hash: str
    access_count: int = 0
    last_accessed: datetime | None = None
    links: RecordLinks = field(default_factory=RecordLinks)

    @property
    def record_id(self) -> str:
        return record_id_of(self.document.source_uri)

    @property
    def metadata(self) -> Mapping[str, Any]:
        """Return the metadata without tags and the caller's own keys."""
        return self.document.fields.record or {}


FOLLOWS_WINDOW = timedelta(seconds=300)
"""How much older the memory may be that another one follows, inclusive."""
MAX_RELATED = 20
"""Most memories that one is linked to by shared tags."""


@dataclass(frozen=True, slots=True)
class LinkedMemory:
    """What the rules for links look at (requirements S2-14 to S2-16, C18), whatever memories are stored in.

    A memory is linked to its conversation, to the one before it in that conversation, and to those with which it shares
    most tags. All three follow from times, conversations and tags, so they are worked out anew when one of these
    changes. The id orders what was created at the same time.
    """

    memory_id: str
    created: datetime
    conversation_id: str | None
    tags: frozenset[str]

    @property
    def place(self) -> tuple[datetime, str]:
        return self.created, self.memory_id


def predecessor(memory: LinkedMemory, others: Iterable[LinkedMemory]) -> LinkedMemory | None:
    """Return the latest earlier memory of the same conversation that is within the window, None if there is none."""
    earlier = (
        other
        for other in others
        if memory.conversation_id is not None
        and other.conversation_id == memory.conversation_id
        and other.place < memory.place
        and memory.created - other.created <= FOLLOWS_WINDOW
    )
    return max(earlier, key=lambda each: each.place, default=None)


def most_related(memory: LinkedMemory, others: Iterable[LinkedMemory]) -> list[LinkedMemory]:
    """Return those that share most tags, newer ones first among equals: `MAX_RELATED` at most."""
    sharing = [other for other in others if other.memory_id != memory.memory_id and other.tags & memory.tags]
    # Ties go to newer records and then by id, so that every server derives the same links.
    sharing.sort(key=lambda other: (len(other.tags & memory.tags), other.place), reverse=True)
    return sharing[:MAX_RELATED]
