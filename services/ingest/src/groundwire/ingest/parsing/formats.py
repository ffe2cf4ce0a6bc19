"""Recognise the format of a document from its content, its name and what the caller declares.

Zip archives are checked here too, before anything in them is inflated.
"""

import io
import re
import zipfile
from contextlib import suppress

from groundwire.ingest.parsing.source_text import ReadingLimits, encrypted, load, malformed, over_limit
from groundwire.ingest.parsing.text_encoding import binary_kind, wide_encoding
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import (
    BinaryDocumentError,
    DocumentFormatMismatchError,
    DocumentMalformedError,
)
from groundwire.kernel.errors import MissingExtraError

_QUERY = re.compile(r"[?#].*", re.DOTALL)
_SUFFIXES = {
    ".csv": DocumentFormat.CSV,
    ".docx": DocumentFormat.DOCX,
    ".eml": DocumentFormat.TEXT,
    ".htm": DocumentFormat.HTML,
    ".html": DocumentFormat.HTML,
    ".ipynb": DocumentFormat.MARKDOWN,
    ".jsonl": DocumentFormat.JSONL,
    ".markdown": DocumentFormat.MARKDOWN,
    ".md": DocumentFormat.MARKDOWN,
    ".ndjson": DocumentFormat.JSONL,
    ".pdf": DocumentFormat.PDF,
    ".rst": DocumentFormat.RST,
    ".text": DocumentFormat.TEXT,
    ".tsv": DocumentFormat.CSV,
    ".txt": DocumentFormat.TEXT,
    ".xhtml": DocumentFormat.HTML,
}
_PDF_TYPE = "application/pdf"
_DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
EPUB_TYPE = "application/epub+zip"
_CONTAINERS = {_PDF_TYPE: DocumentFormat.PDF, _DOCX_TYPE: DocumentFormat.DOCX}
_PDF_HEADER = b"%PDF-"
_PDF_HEADER_WITHIN = 1024
_ZIP = (b"PK\x03\x04", b"PK\x05\x06")
_RTF = rb"{\rtf"
_OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE, _WORD_DOCUMENT = "EncryptedPackage".encode("utf-16-le"), "WordDocument".encode("utf-16-le")
_HTML = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<!--.{0,2000}?-->\s*+)*+<(?:!doctype\s+html|html)\b", re.IGNORECASE | re.DOTALL
)
_SVG = re.compile(
    rb"(?:\xef\xbb\xbf)?\s*+(?:<(?:\?xml|!doctype\s+svg)\b[^>]*+>\s*+|<!--.{0,2000}?-->\s*+)*+<svg\b",
    re.IGNORECASE | re.DOTALL,
)
_HTML_WITHIN = 4096
_SNIFFED_BYTES = 1 << 16
# A directive, target or role, and an underlined title; headings of Markdown, and code or a link as it writes them.
_RST_MARK = re.compile(
    rb"^\.\. (?:[a-z][\w:-]{0,40}::(?:\s|$)|_[\w -]{1,80}:)|(?<!\w):[a-z][\w:-]{0,40}:`[^`\n]", re.MULTILINE
)
_RST_TITLE = re.compile(rb"^\w[^\r\n]*+\r?\n([=~^#*+\"'-])\1{2,}+[ \t]*+\r?$", re.MULTILINE)
_MARKDOWN_HEADING = re.compile(rb"(?:\A|\n[ \t]*+\r?\n)#{1,6}+ [^\s#]")
_MARKDOWN_MARK = re.compile(
    rb"^[ ]{0,3}```|(?:^|[\s(*>])\[[A-Za-z`][^\]\n]{0,200}+\]\([\w./#:-]{2,500}+\)", re.MULTILINE
)

_ZIP_TYPES = {
    "word/": _DOCX_TYPE,
    "xl/": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt/": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "META-INF/MANIFEST.MF": "application/java-archive",
    "META-INF/container.xml": EPUB_TYPE,
}
_NAMED_TYPE_BYTES = 100
_ENCRYPTED = 0x1
# Small entries are often repetitive, and cost nothing when inflated.
_RATIO_FROM_BYTES = 1 << 20
_BAD_ZIP = (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError)


def is_zip(data: bytes) -> bool:
    return data.startswith(_ZIP)


def known_suffix(name: str) -> str:
    """Return the suffix of a name, in lower case, if it promises a format, else nothing.

    The name may be the end of a URL; then query and fragment are no part of the suffix.
    """
    for candidate in (name, _QUERY.sub("", name)):
        stem, _, ending = candidate.rpartition(".")
        suffix = f".{ending.lower()}"
        if stem and suffix in _SUFFIXES:
            return suffix
    return ""


def recognise_format(
    data: bytes,
    declared: DocumentFormat | None,
    name: str,
    limits: ReadingLimits,
    field: str,
    *,
    decoded: bool = False,
) -> DocumentFormat:
    """Return the format to read the bytes as.

    What the bytes are counts more than the name, but nothing is read as another format than the declared one. `name` is
    the last segment of the source, `field` says in errors where the bytes came from. `decoded` bytes are UTF-8.

    Raises:
        DocumentFormatMismatchError: the bytes are not of the declared format, or of the one that the name promises.
        BinaryDocumentError: the bytes are of no format that can be read; says what they look like.
        DocumentEncryptedError: they are an encrypted office document.
        DocumentMalformedError: they should be a DOCX and are a damaged zip.
        DocumentLimitError: they are a zip that would inflate to too much.
    """
    promised = declared or _SUFFIXES.get(known_suffix(name))
    media_type = _container_type(data, promised, limits, field)
    if media_type == EPUB_TYPE and declared in {None, DocumentFormat.HTML}:
        return DocumentFormat.HTML  # its pages are
    container = _CONTAINERS.get(media_type) if media_type else None
    if container is not None:
        if declared not in {None, container}:
            raise _mismatch(declared, promised, container.value, field)
        return container
    if media_type is not None:
        if promised in _CONTAINERS.values():
            raise _mismatch(declared, promised, media_type, field)
        raise _binary(media_type, field)
    # Text in UTF-16 or UTF-32 has bytes that are zero, by which it would pass for binary.
    wide = None if decoded else wide_encoding(data)
    kind = binary_kind(data) if wide is None else None
    if kind is not None:
        with suppress(MissingExtraError):  # without the library its guess is missing from the error, nothing else
            puremagic = load("puremagic")
            with suppress(puremagic.PureError, ValueError):
                guesses = puremagic.magic_string(data[:_SNIFFED_BYTES])
                kind = next((guess.mime_type for guess in guesses if guess.mime_type), kind)
        raise _binary(kind, field)
    if promised in _CONTAINERS.values() and data.strip():
        raise _mismatch(declared, promised, "text", field)
    if promised is not None and (declared is not None or promised is not DocumentFormat.TEXT):
        return promised
    head = data[:_SNIFFED_BYTES]
    if wide is not None:
        head = head.decode(wide, "ignore").lstrip("\ufeff").encode()
    if promised is None:
        if _SVG.match(head, 0, _HTML_WITHIN):
            raise _binary("image/svg+xml", field)  # a picture, although its bytes are text
        if _HTML.match(head, 0, _HTML_WITHIN):
            return DocumentFormat.HTML
    return _format_of_text(head)


def _format_of_text(head: bytes) -> DocumentFormat:
    """Return the format of a text whose name promises no more: manuals in reStructuredText, `llms.txt` in Markdown."""
    if _RST_MARK.search(head) and _RST_TITLE.search(head):
        with suppress(MissingExtraError):  # without the library it is a text as before
            load("docutils.nodes")
            return DocumentFormat.RST
    if _MARKDOWN_HEADING.search(head) and _MARKDOWN_MARK.search(head):
        return DocumentFormat.MARKDOWN
    return DocumentFormat.TEXT


def _container_type(data: bytes, promised: DocumentFormat | None, limits: ReadingLimits, field: str) -> str | None:
    """Return the media type of a PDF, RTF or zip, None for anything else; refuse a damaged zip and what is OLE."""
    # Other bytes may precede the header only if a PDF is expected: texts mention PDF headers too.
    within = _PDF_HEADER_WITHIN if promised is DocumentFormat.PDF else len(_PDF_HEADER)
    if _PDF_HEADER in data[:within]:
        return _PDF_TYPE
    if data.startswith(_RTF):  # text, but its words stand between commands
        return "application/rtf"
    if data.startswith(_ZIP):
        try:
            with open_zip(data, limits, field) as archive:
                names = archive.namelist()
                # Open documents and e-books begin with an entry that names their type.
                if names and names[0] == "mimetype" and archive.getinfo("mimetype").file_size <= _NAMED_TYPE_BYTES:
                    try:
                        return archive.read("mimetype").decode("ascii", "replace").strip()
                    except _BAD_ZIP:
                        return "application/zip"
                types = (kind for start, kind in _ZIP_TYPES.items() if any(name.startswith(start) for name in names))
                return next(types, "application/zip")
        except DocumentMalformedError:
            if promised is DocumentFormat.DOCX:
                raise
            raise _binary("application/zip, damaged or truncated", field) from None
    if data.startswith(_OLE):  # an encrypted package, or an office document of before 2007
        if _ENCRYPTED_PACKAGE in data:
            raise encrypted(field, DocumentFormat.DOCX)
        raise _binary("application/msword" if _WORD_DOCUMENT in data else "application/x-ole-storage", field)
    return None


def _binary(media_type: str, field: str) -> BinaryDocumentError:
    return BinaryDocumentError.of(field, f"cannot be read: it looks like {media_type}", found=media_type)


def _mismatch(
    declared: DocumentFormat | None, promised: DocumentFormat | None, actual: str, field: str
) -> DocumentFormatMismatchError:
    promise = promised.value if promised else "unknown"
    where, says = ("format", "is declared as") if declared else (field, "is named like")
    said = f"the content {says} {promise} but is {actual}"
    return DocumentFormatMismatchError.of(where, said, declared=promise, found=actual)


def open_zip(data: bytes, limits: ReadingLimits, field: str) -> zipfile.ZipFile:
    """Return the archive after checking how many entries it has and what they would inflate to.

    The sizes are those of the directory. They can be believed: zipfile inflates no entry beyond the size it names, and
    entries that lie over one another are refused here.

    Raises:
        DocumentMalformedError: no directory, or entries overlap.
        DocumentEncryptedError: an entry is encrypted.
        DocumentLimitError: too many entries, too many bytes, or too high a ratio; names the limit.
    """
    try:
        archive = zipfile.ZipFile(io.BytesIO(data))
    except _BAD_ZIP as error:
        raise malformed(field, DocumentFormat.DOCX, "its zip archive is damaged or truncated") from error
    entries = archive.infolist()
    if any(entry.flag_bits & _ENCRYPTED for entry in entries):
        raise encrypted(field, DocumentFormat.DOCX)
    if len(entries) > limits.zip_entries:
        why = f"has {len(entries)} zip entries, the limit is {limits.zip_entries}"
        raise over_limit(field, "zip_entries", limits.zip_entries, why)
    inflated = sum(entry.file_size for entry in entries)
    if inflated > limits.inflated_bytes:
        why = f"inflates to {inflated} bytes, the limit is {limits.inflated_bytes}"
        raise over_limit(field, "inflated_bytes", limits.inflated_bytes, why)
    for entry in entries:
        if entry.file_size > max(_RATIO_FROM_BYTES, entry.compress_size * limits.zip_ratio):
            why = f"has a zip entry that inflates more than {limits.zip_ratio} times"
            raise over_limit(field, "zip_ratio", limits.zip_ratio, why)
    # A bomb may name the same bytes as the content of many entries.
    if sum(entry.compress_size for entry in entries) > len(data):
        raise malformed(field, DocumentFormat.DOCX, "entries of its zip archive overlap")
    return archive
