"""Turn the bytes of a file into its canonical text, exactly, or say why that is impossible.

The canonical text is the decoded UTF-8 without a leading byte order mark; nothing else is changed: line
ends, tabs, normalisation forms and trailing white space stay as they are.
"""

import codecs
import re

from groundwire.kernel.document_errors import (
    BinaryDocumentError,
    DocumentEncodingError,
    DocumentTooLargeError,
    EmptyDocumentError,
)
from groundwire.kernel.errors import FieldViolation

_SIGNATURES = {
    b"%PDF-": "PDF",
    b"PK\x03\x04": "ZIP or office",
    b"\x89PNG": "PNG",
    b"\xff\xd8\xff": "JPEG",
    b"GIF8": "GIF",
    b"\x7fELF": "ELF",
    b"\x1f\x8b": "gzip",
    b"\xd0\xcf\x11\xe0": "office",
    b"SQLite format 3\x00": "SQLite",
}
_NOT_IN_TEXT = bytes(set(range(0x20)) - {0x08, 0x09, 0x0A, 0x0B, 0x0C, 0x0D, 0x1B}) + b"\x7f"
_MAX_CONTROL_SHARE = 0.01
_BLOCK_BYTES = 1 << 20
_CONTINUATION_MASK, _CONTINUATION = 0xC0, 0x80
_NON_BLANK = re.compile(r"\S")


def check_size(size_bytes: int, limit_bytes: int, field: str) -> None:
    """Return if the size is allowed.

    Raises:
        DocumentTooLargeError: naming `field`.
    """
    if size_bytes > limit_bytes:
        violation = FieldViolation(field, f"has {size_bytes} bytes, the limit is {limit_bytes}")
        raise DocumentTooLargeError([violation], size_bytes=size_bytes, limit_bytes=limit_bytes)


def checked_text(data: bytes, field: str) -> str:
    """Return the canonical text of a file's bytes after checking that it is text.

    Raises:
        EmptyDocumentError: no bytes, or white space only.
        BinaryDocumentError: `binary_kind` says what it is.
        DocumentEncodingError: not UTF-8; says where, in bytes of the file.
    """
    if not data:
        raise EmptyDocumentError([FieldViolation(field, "is empty")])
    kind = binary_kind(data)
    if kind is not None:
        raise BinaryDocumentError([FieldViolation(field, f"is {kind}, not text")], found=kind)
    try:
        text = canonical_text(data)
    except UnicodeDecodeError as error:
        violation = FieldViolation(field, f"is not valid UTF-8 at byte {error.start}: {error.reason}")
        raise DocumentEncodingError([violation], offset=error.start) from None
    if _NON_BLANK.search(text) is None:
        raise EmptyDocumentError([FieldViolation(field, "has white space only")])
    return text


def canonical_text(data: bytes) -> str:
    """Return the decoded UTF-8 without a leading byte order mark.

    Raises:
        UnicodeDecodeError: `start` is the offset of the first bad byte in `data`.
    """
    return decoded(data, len(codecs.BOM_UTF8) if data.startswith(codecs.BOM_UTF8) else 0)


def decoded(data: bytes | bytearray, start: int = 0) -> str:
    """Return the text of UTF-8 bytes from `start` on, decoded in blocks of 1 MiB.

    Other threads get the interpreter in between.

    Raises:
        UnicodeDecodeError: `start` is the offset of the first bad byte in `data`.
    """
    view, parts = memoryview(data), []
    while start < len(data):
        end = _character_end(data, min(start + _BLOCK_BYTES, len(data)))
        try:
            parts.append(str(view[start:end], "utf-8"))
        except UnicodeDecodeError as error:
            raise UnicodeDecodeError(
                "utf-8", bytes(data), start + error.start, start + error.end, error.reason
            ) from None
        start = end
    return "".join(parts)


def _character_end(data: bytes | bytearray, end: int) -> int:
    """Move `end` back, by at most 3 bytes, so that it does not lie inside a character (RFC 3629)."""
    for candidate in range(end, max(end - 4, 0), -1):
        if candidate == len(data) or data[candidate] & _CONTINUATION_MASK != _CONTINUATION:
            return candidate
    return end


def binary_kind(data: bytes) -> str | None:
    """Return what binary content seems to be, None for what may be text.

    Content is binary with a known signature at its start, a NUL byte, or more than 1 % control characters.
    """
    kind = next((name for signature, name in _SIGNATURES.items() if data.startswith(signature)), None)
    if kind is not None:
        return f"a {kind} file"
    nul = data.find(0)
    if nul >= 0:
        return f"binary data with NUL at byte {nul}"
    controls = len(data) - len(data.translate(None, _NOT_IN_TEXT))
    return f"binary data with {controls} control characters" if controls > _MAX_CONTROL_SHARE * len(data) else None
