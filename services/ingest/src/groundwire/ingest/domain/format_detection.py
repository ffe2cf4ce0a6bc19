"""Decide the format of a document from what the caller says and what its name ends in."""

from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.errors import NotAvailableError

_MARKDOWN_SUFFIXES = (".md", ".markdown")
READABLE = frozenset({DocumentFormat.TEXT, DocumentFormat.MARKDOWN})
"""The formats this version can take apart."""


def detect_format(declared: DocumentFormat | None, file_name: str) -> DocumentFormat:
    """Return the declared format, else Markdown for `.md` and `.markdown` names, else plain text.

    Raises:
        NotAvailableError: the declared format is one that this version does not read.
    """
    if declared is not None and declared not in READABLE:
        raise NotAvailableError(f"documents of format {declared.value} are not supported yet", feature=declared.value)
    if declared is not None:
        return declared
    return DocumentFormat.MARKDOWN if file_name.lower().endswith(_MARKDOWN_SUFFIXES) else DocumentFormat.TEXT
