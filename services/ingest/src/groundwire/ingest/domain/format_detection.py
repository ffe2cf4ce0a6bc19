"""The formats that names promise."""

import re

from groundwire.kernel.document import DocumentFormat

_QUERY = re.compile(r"[?#].*", re.DOTALL)
_SUFFIXES = {
    ".csv": DocumentFormat.CSV,
    ".docx": DocumentFormat.DOCX,
    ".htm": DocumentFormat.HTML,
    ".html": DocumentFormat.HTML,
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


def format_of_name(name: str) -> DocumentFormat | None:
    """Return the format that the suffix of a name promises, None for any other suffix.

    The name may be the end of a URL; then query and fragment are no part of the suffix.
    """
    for candidate in (name, _QUERY.sub("", name)):
        stem, _, suffix = candidate.rpartition(".")
        if stem and f".{suffix.lower()}" in _SUFFIXES:
            return _SUFFIXES[f".{suffix.lower()}"]
    return None
