"""Check metadata against its schema and fill in defaults; store nothing."""

from collections.abc import Mapping
from typing import Any

from groundwire.kernel.errors import InvalidRequestError, NotFoundError
from groundwire.schemas import check_metadata


class ValidateMetadata:
    """Says everything that is wrong at once."""

    def __call__(self, document_type: str, metadata: Mapping[str, Any]) -> dict[str, Any]:
        """Return the metadata under its stored keys, with defaults and canonical times.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.
        """
        try:
            return check_metadata(document_type, metadata)
        except NotFoundError as error:
            raise InvalidRequestError.of("doc_type", f"unknown kind {document_type!r}") from error
