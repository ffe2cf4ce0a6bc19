"""Metadata checked against its schema, with refusals of the contract instead of pydantic's."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.schemas.registry import validate_metadata

OWN_KEYS = "custom"


def check_metadata(document_type: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
    """Return what `validate_metadata` returns.

    Raises:
        SchemaNotFoundError: an unknown kind.
        InvalidRequestError: naming every field that breaks a rule as `metadata['name']`.
    """
    try:
        return validate_metadata(document_type, metadata)
    except ValidationError as error:
        raise InvalidRequestError([_violation(each) for each in error.errors()]) from error


def _violation(error: ErrorDetails) -> FieldViolation:
    place = "".join(f"[{part!r}]" for part in error["loc"])
    return FieldViolation(f"metadata{place}", _reason(error))


def _reason(error: ErrorDetails) -> str:
    match error["type"]:
        case "missing":
            return "must be given"
        case "extra_forbidden":
            return f"is no field of this kind; a key of the caller's own is written '{OWN_KEYS}.<key>'"
        case "value_error":
            return str(error["ctx"]["error"])
        case _:
            return error["msg"][0].lower() + error["msg"][1:]
