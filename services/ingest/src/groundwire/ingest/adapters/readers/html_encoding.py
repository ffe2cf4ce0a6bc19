"""Decode HTML: a byte order mark decides, else what the document declares, else its bytes."""

import codecs
import re

from groundwire.ingest.adapters.readers.text_encoding import read_text
from groundwire.kernel.document_errors import DocumentEncodingError
from groundwire.kernel.errors import FieldViolation

_MARKS = ((codecs.BOM_UTF8, "utf-8"), (codecs.BOM_UTF16_LE, "utf-16-le"), (codecs.BOM_UTF16_BE, "utf-16-be"))
_DECLARED = re.compile(rb"<meta\b[^>]{0,512}?charset\s*+=\s*+[\"']?\s*+([A-Za-z0-9_.:-]{1,40})", re.IGNORECASE)
_SCANNED_BYTES = 1024
# A declaration of UTF-16 that can be read as ASCII is wrong, and pages that declare Latin-1 hold Windows-1252
# (WHATWG, Encoding Standard, sections 4.2 and 6.1; HTML Standard, section 13.2.3.2).
_MEANT = {"utf-16": "utf-8", "utf-16-le": "utf-8", "utf-16-be": "utf-8", "iso8859-1": "cp1252", "ascii": "cp1252"}
# Of Python's codecs only those of the standard; others read escapes or take quadratic time.
_OF_THE_STANDARD = re.compile(
    r"utf-(?:8|16.*)|ascii|cp(?:125\d|866|874)|iso8859-\d+|koi8-[ru]|gb(?:2312|k|18030)|big5\w*|euc_(?:jp|kr)|shift_jis"
    r"|iso2022_jp|mac-\w+"
)


def decode_html(data: bytes, field: str) -> tuple[str, str]:
    """Return the text of the bytes without a byte order mark, and the name of their encoding.

    Raises:
        DocumentEncodingError: the bytes are not valid in that encoding, or it cannot be told; says where.
    """
    mark, encoding = next(
        ((mark, name) for mark, name in _MARKS if data.startswith(mark)), (b"", _declared_encoding(data))
    )
    if encoding is None:
        return read_text(data, field)
    try:
        return data[len(mark) :].decode(encoding), encoding
    except UnicodeDecodeError as error:
        offset = error.start + len(mark)
        violation = FieldViolation(field, f"is not valid {encoding} at byte {offset}: {error.reason}")
        raise DocumentEncodingError([violation], offset=offset) from None


def _declared_encoding(data: bytes) -> str | None:
    found = _DECLARED.search(data[:_SCANNED_BYTES])
    if found is None:
        return None
    try:
        name = codecs.lookup(found.group(1).decode("ascii")).name
    except LookupError:
        return None
    return _MEANT.get(name, name) if _OF_THE_STANDARD.fullmatch(name) else None
