"""Why a document is refused: the bytes are wrong whatever the state of the system."""

from groundwire.kernel.errors import InvalidRequestError


class EmptyDocumentError(InvalidRequestError):
    """The document has no text."""

    reason = "DOCUMENT_EMPTY"


class DocumentWithoutTextError(EmptyDocumentError):
    """The document has pages but no text layer, as scans have; metadata: pages."""

    reason = "DOCUMENT_WITHOUT_TEXT"


class BinaryDocumentError(InvalidRequestError):
    """The content is of no format that can be read; metadata: found, what it looks like."""

    reason = "DOCUMENT_BINARY"


class DocumentFormatMismatchError(InvalidRequestError):
    """The content is not of the declared format; metadata: declared, found."""

    reason = "DOCUMENT_FORMAT_MISMATCH"


class DocumentEncodingError(InvalidRequestError):
    """The content is not valid in its encoding, or that cannot be told for certain; metadata: offset (bytes)."""

    reason = "DOCUMENT_ENCODING"


class DocumentEncryptedError(InvalidRequestError):
    """The document needs a password; metadata: format."""

    reason = "DOCUMENT_ENCRYPTED"


class DocumentMalformedError(InvalidRequestError):
    """The document is damaged, truncated or built wrongly; metadata: format."""

    reason = "DOCUMENT_MALFORMED"


class DocumentTooLargeError(InvalidRequestError):
    """The content exceeds the limit; metadata: size_bytes, limit_bytes."""

    reason = "DOCUMENT_TOO_LARGE"


class DocumentLimitError(InvalidRequestError):
    """Taking the document apart costs more than is allowed; metadata: resource, limit."""

    reason = "DOCUMENT_LIMIT"
