"""Metadata of records: what each type must have, may have, and gets by default (requirements S0-06 to S0-45)."""

import re
from typing import Annotated, Any, ClassVar, Literal

from pydantic import (
    BaseModel,
    ConfigDict,
    Field,
    ValidationInfo,
    field_validator,
    model_validator,
)

from groundwire.kernel.filters import RECORD_ALIASES, RECORD_FIELDS
from groundwire.kernel.identifiers import ENTITY_SCOPE, GLOBAL_SCOPE
from groundwire.schemas.kinds import (
    Confidence,
    Conversation,
    Custom,
    Importance,
    MemoryKind,
    Ordinal,
    RecordTime,
    Scope,
    Tags,
    Words,
)

_TURN_RANGE = re.compile(r"([1-9]\d{0,8})-([1-9]\d{0,8})")


class RecordMetadata(BaseModel):
    """What all records have in common; `custom` holds the caller's own flat keys, anything else is refused."""

    model_config = ConfigDict(
        extra="forbid", strict=True, frozen=True, validate_by_name=True, validate_by_alias=True, serialize_by_alias=True
    )

    EXAMPLE: ClassVar[dict[str, Any]] = {}
    REQUIRED: ClassVar[tuple[str, ...]] = ("type", "timestamp")

    type: Literal["persona", "faq", "memory", "turn", "summary"] = Field(description="What the record is.")
    timestamp: RecordTime = Field(description="When the record was made or last updated, ISO 8601 with an offset.")
    source: Literal["chat", "kb", "system", "import"] = Field(default="system", description="Where it came from.")
    scope: Scope = Field(default=GLOBAL_SCOPE, description="Who may find it: `global` or `entity:<name>`.")
    custom: Custom = Field(default_factory=dict, description="The caller's own flat keys.")

    @field_validator("custom")
    @classmethod
    def _is_no_field_of_records(cls, values: dict[str, Any]) -> dict[str, Any]:
        # Scopes and the other fields of records are trusted, so a key of the caller must not shadow one.
        for key in values:
            if key in RECORD_FIELDS or key in RECORD_ALIASES:
                raise ValueError(f"{key!r} is the name of a field of records")
        return values


class PersonaMetadata(RecordMetadata):
    """Identity, tone and rules of the assistant."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("type", "timestamp", "version")
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "type": "persona",
        "timestamp": "2025-12-14T20:12:53.986582+00:00",
        "version": "2025-12-14T20:12:53.986582Z",
        "topic": "tone",
    }

    type: Literal["persona"] = Field(description="Always `persona`.")
    version: Annotated[Words, Field(max_length=64)] = Field(description="Version, usually a time.")
    topic: Words | None = Field(default=None, description="What this part is about, such as `tone` or `safety`.")


class FAQMetadata(RecordMetadata):
    """An entry of a knowledge base. The stored keys of two fields begin with an underscore (trap T03)."""

    EXAMPLE: ClassVar[dict[str, Any]] = {
        "type": "faq",
        "timestamp": "2025-12-16T06:00:00+00:00",
        "source": "kb",
        "topic": "specialists",
        "_specialist_name": "web_search",
        "_version": "auto",
    }

    type: Literal["faq"] = Field(description="Always `faq`.")
    topic: Words | None = Field(default=None, description="What it is about, such as `api` or `troubleshooting`.")
    specialist_name: Words | None = Field(
        default=None, alias="_specialist_name", description="Specialist it belongs to, such as `web_search`."
    )
    version: Words = Field(default="auto", alias="_version", description="Version.")


class MemoryMetadata(RecordMetadata):
    """A long-term fact. `importance` is named among the required fields though it has a default (trap T07)."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("type", "timestamp", "importance")
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "type": "memory",
        "timestamp": "2025-12-16T06:00:00+00:00",
        "source": "chat",
        "scope": "entity:project-alpha",
        "importance": 4,
        "tags": ["deadline", "critical"],
        "conversation_id": "conv-abc123",
    }

    type: Literal["memory"] = Field(description="Always `memory`.")
    source: Literal["chat", "kb", "system", "import", "interaction", "derived"] = Field(  # type: ignore[assignment]  # C08
        default="system", description="Where it came from."
    )
    importance: Importance = Field(default=3, description="From 1 (low) to 5 (critical).")
    kind: MemoryKind = Field(default="note", description="What kind of thing it states.")
    confidence: Confidence = Field(default=1.0, description="How reliable it is, 0.0 to 1.0.")
    tags: Tags = Field(default_factory=list, description="Trimmed, unique, without commas.")
    entity: Words | None = Field(default=None, description="Whom or what it is about; follows from the scope.")
    conversation_id: Conversation | None = Field(default=None, description="Conversation it was made in.")

    @model_validator(mode="before")
    @classmethod
    def _entity_of_scope(cls, values: Any) -> Any:
        """Take the entity from the scope where it is left out (requirement S0-29)."""
        scope = values.get("scope") if isinstance(values, dict) else None
        if isinstance(scope, str) and scope.startswith(ENTITY_SCOPE) and values.get("entity") is None:
            return {**values, "entity": scope.removeprefix(ENTITY_SCOPE)} if scope != ENTITY_SCOPE else values
        return values

    @field_validator("entity")
    @classmethod
    def _entity_agrees(cls, value: str | None, checked: ValidationInfo) -> str | None:
        scope = checked.data.get("scope", GLOBAL_SCOPE)
        if scope != GLOBAL_SCOPE and value != scope.removeprefix(ENTITY_SCOPE):
            raise ValueError(f"must be {scope.removeprefix(ENTITY_SCOPE)!r}, as the scope says")
        return value


class TurnMetadata(RecordMetadata):
    """What one side said in one exchange."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("type", "timestamp", "conversation_id", "role")
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "type": "turn",
        "timestamp": "2025-12-16T06:00:00+00:00",
        "source": "chat",
        "conversation_id": "conv-123e4567-e89b-42d3-a456-426614174000",
        "role": "user",
        "turn_index": 1,
    }

    type: Literal["turn"] = Field(description="Always `turn`.")
    conversation_id: Conversation = Field(description="Conversation, `conv-` and an id.")
    role: Literal["user", "assistant"] = Field(description="Who said it.")
    turn_index: Ordinal | None = Field(default=None, description="Number of the exchange, from 1.")


class SummaryMetadata(RecordMetadata):
    """A summary of several turns."""

    REQUIRED: ClassVar[tuple[str, ...]] = ("type", "timestamp", "conversation_id")
    EXAMPLE: ClassVar[dict[str, Any]] = {
        "type": "summary",
        "timestamp": "2025-12-16T06:00:00+00:00",
        "source": "system",
        "conversation_id": "conv-123e4567-e89b-42d3-a456-426614174000",
        "turn_range": "1-8",
        "summary_index": 1,
        "writer": "extractive",
    }

    type: Literal["summary"] = Field(description="Always `summary`.")
    conversation_id: Conversation = Field(description="Conversation, `conv-` and an id.")
    turn_range: str | None = Field(default=None, description="Exchanges it covers, `<first>-<last>` from 1.")
    summary_index: Ordinal | None = Field(default=None, description="Number of the summary, from 1.")
    writer: Words | None = Field(default=None, description="Who wrote it: `extractive`, or the name of a chat model.")

    @field_validator("turn_range")
    @classmethod
    def _first_is_not_above_last(cls, value: str | None) -> str | None:
        found = None if value is None else _TURN_RANGE.fullmatch(value)
        if value is not None and (found is None or int(found[1]) > int(found[2])):
            raise ValueError("turn_range must be '<first>-<last>' from 1, the first not above the last, such as '1-8'")
        return value
