"""Look at the directory of a zip before anything in it is inflated, and say what the zip is."""

import io
import zipfile

from groundwire.ingest.adapters.readers.refusing import malformed, over_limit
from groundwire.ingest.domain.reading_limits import ReadingLimits
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import DocumentEncryptedError
from groundwire.kernel.errors import FieldViolation

DOCX_TYPE = "application/vnd.openxmlformats-officedocument.wordprocessingml.document"
_ENCRYPTED = 0x1
_RATIO_FROM_BYTES = 1 << 20
_NAMED_TYPE_BYTES = 100
_BAD_ZIP = (zipfile.BadZipFile, NotImplementedError, ValueError, OSError, EOFError)
_TYPES = {
    "word/": DOCX_TYPE,
    "xl/": "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
    "ppt/": "application/vnd.openxmlformats-officedocument.presentationml.presentation",
    "META-INF/MANIFEST.MF": "application/java-archive",
}


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
        violation = FieldViolation(field, "is encrypted and needs a password")
        raise DocumentEncryptedError([violation], format=DocumentFormat.DOCX.value)
    _check_costs(entries, limits, field)
    if sum(entry.compress_size for entry in entries) > len(data):
        raise malformed(field, DocumentFormat.DOCX, "entries of its zip archive overlap")
    return archive


def type_of_zip(archive: zipfile.ZipFile) -> str:
    """Return the media type of what the archive is."""
    names = archive.namelist()
    if names and names[0] == "mimetype" and archive.getinfo("mimetype").file_size <= _NAMED_TYPE_BYTES:
        try:
            return archive.read("mimetype").decode("ascii", "replace").strip()
        except _BAD_ZIP:
            return "application/zip"
    found = (kind for start, kind in _TYPES.items() if any(name.startswith(start) for name in names))
    return next(found, "application/zip")


def _check_costs(entries: list[zipfile.ZipInfo], limits: ReadingLimits, field: str) -> None:
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
