"""Recognise the format of a document from its content, its name and what the caller declares."""

import re
from dataclasses import dataclass

from groundwire.ingest.adapters.readers.libraries import load
from groundwire.ingest.adapters.readers.text_encoding import wide_encoding
from groundwire.ingest.adapters.readers.zip_check import DOCX_TYPE, open_zip, type_of_zip
from groundwire.ingest.domain.decoding import binary_kind
from groundwire.ingest.domain.format_detection import format_of_name
from groundwire.ingest.domain.reading_limits import ReadingLimits
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import (
    BinaryDocumentError,
    DocumentEncryptedError,
    DocumentFormatMismatchError,
    DocumentMalformedError,
)
from groundwire.kernel.errors import FieldViolation, MissingExtraError

_PDF_HEADER = b"%PDF-"
_PDF_HEADER_WITHIN = 1024
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<!--.{0,2000}?-->\s*+)*+<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_HTML_WITHIN = 4096
_SNIFFED_BYTES = 1 << 16
_CONTAINERS = frozenset({DocumentFormat.PDF, DocumentFormat.DOCX})


@dataclass(frozen=True, slots=True)
class FormatSniffer:
    """Recognises the format of one document.

    `declared` is what the caller says, `name` the last segment of the source, `field` where the bytes came from.
    """

    declared: DocumentFormat | None
    name: str
    field: str
    limits: ReadingLimits

    def recognise(self, data: bytes) -> DocumentFormat:
        """Return the format to read the bytes as.

        What the bytes are counts more than the name, but nothing is read as another format than the declared one.

        Raises:
            DocumentFormatMismatchError: the bytes are not of the declared format, or of the one that the name promises.
            BinaryDocumentError: the bytes are of no format that can be read; says what they look like.
            DocumentEncryptedError: they are an encrypted office document.
            DocumentMalformedError: they should be a DOCX and are a damaged zip.
            DocumentLimitError: they are a zip that would inflate to too much.
        """
        wanted = self.declared or format_of_name(self.name)
        if self._is_pdf(data, wanted):
            return self._agreed(DocumentFormat.PDF)
        if data.startswith(_ZIP):
            return self._recognise_zip(data, wanted)
        if data.startswith(_OLE):
            raise self._office_refusal(data)
        wide = wide_encoding(data)
        kind = binary_kind(data) if wide is None else None
        if kind is not None:
            raise self._binary(_media_type(data) or kind)
        if wanted in _CONTAINERS and data.strip():
            raise self._mismatch(wanted, "text")
        head = data if wide is None else data[: 2 * _HTML_WITHIN].decode(wide, "ignore").lstrip("\ufeff").encode()
        is_html = wanted is None and _HTML.match(head, 0, _HTML_WITHIN) is not None
        return DocumentFormat.HTML if is_html else wanted or DocumentFormat.TEXT

    def _is_pdf(self, data: bytes, wanted: DocumentFormat | None) -> bool:
        """Tell whether it begins as PDF; behind a little of something else only where a PDF is expected."""
        within = _PDF_HEADER_WITHIN if wanted is DocumentFormat.PDF else len(_PDF_HEADER)
        return _PDF_HEADER in data[:within]

    def _recognise_zip(self, data: bytes, wanted: DocumentFormat | None) -> DocumentFormat:
        try:
            with open_zip(data, self.limits, self.field) as archive:
                found = type_of_zip(archive)
        except DocumentMalformedError:
            if wanted is DocumentFormat.DOCX:
                raise
            raise self._binary("application/zip, damaged or truncated") from None
        if found == DOCX_TYPE:
            return self._agreed(DocumentFormat.DOCX)
        if wanted in _CONTAINERS:
            raise self._mismatch(wanted, found)
        raise self._binary(found)

    def _agreed(self, found: DocumentFormat) -> DocumentFormat:
        if self.declared not in {None, found}:
            raise self._mismatch(self.declared, found.value)
        return found

    def _office_refusal(self, data: bytes) -> Exception:
        """Return the error for an OLE file: an encrypted package, or an office document of before 2007."""
        if _ENCRYPTED_PACKAGE in data:
            violation = FieldViolation(self.field, "is encrypted and needs a password")
            return DocumentEncryptedError([violation], format=DocumentFormat.DOCX.value)
        is_word = "WordDocument".encode("utf-16-le") in data
        return self._binary("application/msword" if is_word else "application/x-ole-storage")

    def _binary(self, found: str) -> BinaryDocumentError:
        return BinaryDocumentError([FieldViolation(self.field, f"cannot be read: it looks like {found}")], found=found)

    def _mismatch(self, promised: DocumentFormat | None, found: str) -> DocumentFormatMismatchError:
        name = promised.value if promised else "unknown"
        field, says = ("format", "is declared as") if self.declared else (self.field, "is named like")
        violation = FieldViolation(field, f"the content {says} {name} but is {found}")
        return DocumentFormatMismatchError([violation], declared=name, found=found)


def _media_type(data: bytes) -> str | None:
    """Return what puremagic takes binary content for, None when it does not know it or is not installed."""
    try:
        puremagic = load("puremagic")
    except MissingExtraError:
        return None
    try:
        guesses = puremagic.magic_string(data[:_SNIFFED_BYTES])
    except (puremagic.PureError, ValueError):
        return None
    return next((guess.mime_type for guess in guesses if guess.mime_type), None)
