"""A memory as a file of a vault holds it: the chunk of schema version 1.0, field by field (rows S2-01 to S2-19).

    {"id": "chunk-2026-02-10-a1b2c3d4", "content": "…", "tokens": 145, "type": "decision",
     "metadata": {"created": "2026-02-10T21:37:00Z", "conversation_id": "conv-abc123", "source": "interaction",
                  "confidence": 0.95, "access_count": 3, "last_accessed": "2026-02-10T22:15:00Z"},
     "links": {"context_of": ["conv-abc123"], "follows": [], "related_to": [], "supports": [], "contradicts": []},
     "tags": ["architecture"]}

The values obey the rules of `groundwire.schemas`. A file that `groundwire vault export` wrote may have an object
`extra` besides, with what the catalog knows of a record and this schema has no field for.
"""

import codecs
import re
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, ValidationError

from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.records import MAX_ACCESSES, LinkedMemory, is_memory_id
from groundwire.schemas.kinds import Confidence, Conversation, DocumentTime, MemoryKind, Tags, not_blank

SCHEMA_VERSION = "1.0"
MANUAL_LINK_TYPES = ("supports", "contradicts")

# Vaults of others have ids whose end is not eight hexadecimal digits (trap T17); these characters do no harm in a path.
_HARMLESS_ID = re.compile(r"chunk-\d{4}-\d{2}-\d{2}-[0-9a-z]{1,32}", re.ASCII)


def parse_chunk_id(value: str, field: str = "chunk_id") -> str:
    """Return an id that may be made part of a path (requirement S2-34).

    Raises:
        InvalidRequestError: naming `field`, for everything else.
    """
    if _HARMLESS_ID.fullmatch(value) is None:
        raise InvalidRequestError.of(field, "must be 'chunk-', a date like 2026-02-10, '-' and 8 hexadecimal digits")
    return value


def _chunk_id(value: str) -> str:
    if not is_memory_id(value):
        raise ValueError("must be 'chunk-', a date like 2026-02-10, '-' and 8 hexadecimal digits")
    return value


def _link_target(value: str) -> str:
    if _HARMLESS_ID.fullmatch(value) is None:
        raise ValueError("must be the id of a chunk")
    return value


# Looser than the id of a chunk itself, because links may lead to chunks of other vaults.
_Targets = list[Annotated[str, AfterValidator(_link_target)]]


class _Part(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True, frozen=True)


class ChunkMetadata(_Part):
    """Where a chunk comes from, and how often it was read."""

    created: DocumentTime
    conversation_id: Conversation | None = None
    source: Literal["interaction", "import", "derived"] = "interaction"
    confidence: Confidence = 1.0
    access_count: Annotated[int, Field(ge=0, lt=MAX_ACCESSES)] = 0
    last_accessed: DocumentTime | None = None


class ChunkLinks(_Part):
    """Links to other chunks by their ids, and in `context_of` to the conversation."""

    context_of: list[Conversation] = Field(default_factory=list)
    follows: _Targets = Field(default_factory=list)
    related_to: _Targets = Field(default_factory=list)
    supports: _Targets = Field(default_factory=list)
    contradicts: _Targets = Field(default_factory=list)


class Chunk(_Part):
    """One memory; equal to another when all fields are."""

    id: Annotated[str, AfterValidator(_chunk_id)]
    content: Annotated[str, AfterValidator(not_blank)]
    tokens: Annotated[int, Field(ge=1)]
    type: MemoryKind
    metadata: ChunkMetadata
    links: ChunkLinks = Field(default_factory=ChunkLinks)
    tags: Tags = Field(default_factory=list)
    extra: dict[str, Any] | None = None

    @classmethod
    def of_json(cls, content: bytes) -> "Chunk":
        """Read a file.

        Raises:
            InvalidRequestError: naming every field that breaks a rule; `file` for what is no JSON.
        """
        try:
            return cls.model_validate_json(content.removeprefix(codecs.BOM_UTF8))  # editors of Windows write it
        except ValidationError as error:
            raise InvalidRequestError(_violations(error)) from error

    def to_json(self) -> str:
        """Return the file: UTF-8 as it is, an indent of 2, a line end; `extra` only where there is one."""
        absent = {"extra"} if self.extra is None else None
        return self.model_dump_json(indent=2, exclude=absent) + "\n"

    def changed(self, **fields: Any) -> "Chunk":
        """Return the chunk with other values, checked.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.
        """
        return checked_chunk({**self.model_dump(), **fields})

    def linked_memory(self) -> LinkedMemory:
        """Return what the rules of automatic links look at."""
        return LinkedMemory(self.id, self.metadata.created, self.metadata.conversation_id, frozenset(self.tags))


def checked_chunk(fields: dict[str, Any]) -> Chunk:
    """Make a chunk of Python values.

    Raises:
        InvalidRequestError: naming every field that breaks a rule.
    """
    try:
        return Chunk.model_validate(fields)
    except ValidationError as error:
        raise InvalidRequestError(_violations(error)) from error


def _violations(error: ValidationError) -> list[FieldViolation]:
    return [
        FieldViolation(".".join(map(str, each["loc"])) or "file", each["msg"].removeprefix("Value error, "))
        for each in error.errors(include_url=False, include_input=False)
    ]
