"""Make the errors that readers refuse documents with."""

from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentLimitError, DocumentMalformedError
from groundwire.kernel.errors import FieldViolation


def malformed(field: str, document_format: DocumentFormat, why: str) -> DocumentMalformedError:
    """Return the error for a damaged document; `why` goes on after "is no readable pdf: "."""
    violation = FieldViolation(field, f"is no readable {document_format.value}: {why}")
    return DocumentMalformedError([violation], format=document_format.value)


def over_limit(field: str, resource: str, limit: int, why: str) -> DocumentLimitError:
    """Return the error for a document that costs too much."""
    return DocumentLimitError([FieldViolation(field, why)], resource=resource, limit=limit)
