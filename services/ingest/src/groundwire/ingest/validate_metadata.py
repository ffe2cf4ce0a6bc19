"""Check metadata against its schema and fill in defaults; store nothing."""

from collections.abc import Mapping
from typing import Any

from pydantic import ValidationError
from pydantic_core import ErrorDetails

from groundwire.kernel.errors import FieldViolation, InvalidRequestError, NotFoundError
from groundwire.schemas import validate_metadata

OWN_KEYS = "custom"


class ValidateMetadata:
    """Says everything that is wrong at once."""

    def __call__(self, document_type: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata under its stored keys, with defaults and canonical times.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.
        """
        try:
            return validate_metadata(document_type, metadata)
        except NotFoundError as error:
            raise InvalidRequestError.of("doc_type", f"unknown kind {document_type!r}") from error
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
