"""The formats that names promise."""

from groundwire.kernel.document import DocumentFormat

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
    """Return the format that the suffix of a name promises, None for any other suffix."""
    stem, dot, suffix = name.rpartition(".")
    return _SUFFIXES.get(f".{suffix.lower()}") if dot and stem else None
