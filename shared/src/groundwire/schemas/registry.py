"""All schemas by the kind of metadata they describe, and metadata checked against them."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from pydantic import ValidationError

from groundwire.kernel.errors import FieldViolation, InvalidRequestError, NotFoundError
from groundwire.schemas.documents import ChunkMetadata, DocumentMetadata
from groundwire.schemas.records import (
    FAQMetadata,
    MemoryMetadata,
    PersonaMetadata,
    SummaryMetadata,
    TurnMetadata,
)

DIALECT = "https://json-schema.org/draft/2020-12/schema"
Model: TypeAlias = (
    type[PersonaMetadata]
    | type[FAQMetadata]
    | type[MemoryMetadata]
    | type[TurnMetadata]
    | type[SummaryMetadata]
    | type[DocumentMetadata]
    | type[ChunkMetadata]
)
OWN_KEYS = "custom"
"""Field that holds the caller's own keys."""
MODELS: dict[str, Model] = {
    "persona": PersonaMetadata,
    "faq": FAQMetadata,
    "memory": MemoryMetadata,
    "turn": TurnMetadata,
    "summary": SummaryMetadata,
    "document": DocumentMetadata,
    "chunk": ChunkMetadata,
}
"""In the order in which they are listed."""


class SchemaNotFoundError(NotFoundError):
    """No such kind of metadata."""

    resource_type = "schema"


@dataclass(frozen=True, slots=True)
class Schema:
    """What is known of one kind: JSON Schema (draft 2020-12), names under which fields are stored, a valid example.

    `required_fields` names what a caller should always give, also where there is a default: JSON Schema's own
    `required` stays true to what is refused (trap T07).
    """

    document_type: str
    json_schema: Mapping[str, Any]
    fields: tuple[str, ...]
    required_fields: tuple[str, ...]
    example: Mapping[str, Any]


def schema_of(document_type: str) -> Schema:
    """Return the schema of one kind.

    Raises:
        SchemaNotFoundError: an unknown kind.
    """
    model = _model(document_type)
    made = model.model_json_schema(by_alias=True)
    return Schema(
        document_type=document_type,
        json_schema={"$schema": DIALECT, **made, "examples": [model.EXAMPLE]},
        fields=tuple(made["properties"]),
        required_fields=model.REQUIRED,
        example=model.EXAMPLE,
    )


def get_all_schemas() -> dict[str, Mapping[str, Any]]:
    """Return the JSON Schema of every kind."""
    return {document_type: schema_of(document_type).json_schema for document_type in MODELS}


def validate_metadata(document_type: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return metadata with defaults filled in and times in the canonical form, under its stored keys, without nulls.

    Raises:
        SchemaNotFoundError: an unknown kind.
        pydantic.ValidationError: a field breaks a rule; it lists all of them.
    """
    found = _model(document_type).model_validate(dict(metadata))
    dumped = found.model_dump(mode="json", by_alias=True, exclude_none=True)
    return {key: value for key, value in dumped.items() if key != "custom" or value}


def _model(document_type: str) -> Model:
    if document_type not in MODELS:
        raise SchemaNotFoundError(document_type)
    return MODELS[document_type]


def check_metadata(
    document_type: str, metadata: Mapping[str, Any], place: Callable[[Sequence[int | str]], str] | None = None
) -> dict[str, Any]:
    """Return what `validate_metadata` returns, with refusals of the contract instead of pydantic's.

    `place` makes the name of a refused field of its stored key and what is below it; else it is `metadata['name']`.

    Raises:
        SchemaNotFoundError: an unknown kind.
        InvalidRequestError: naming every field that breaks a rule.
    """
    try:
        return validate_metadata(document_type, metadata)
    except ValidationError as error:
        violations = []
        for each in error.errors():
            match each["type"]:
                case "missing":
                    reason = "must be given"
                case "extra_forbidden":
                    reason = f"is not a field of this kind; a key of your own is written '{OWN_KEYS}.<key>'"
                case "value_error":
                    reason = str(each["ctx"]["error"])
                case _:
                    reason = each["msg"][0].lower() + each["msg"][1:]
            keys = "".join(f"[{part!r}]" for part in each["loc"])
            violations.append(FieldViolation(f"metadata{keys}" if place is None else place(each["loc"]), reason))
        raise InvalidRequestError(violations) from error
