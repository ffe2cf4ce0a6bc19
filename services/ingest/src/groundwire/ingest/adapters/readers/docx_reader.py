"""Read DOCX with python-docx: headings, paragraphs, lists, tables, text boxes and notes; no headers and footers."""

import io
import zipfile
import zlib
from typing import Any

from groundwire.ingest.adapters.readers.docx_blocks import DocxBlocks
from groundwire.ingest.adapters.readers.libraries import load
from groundwire.ingest.adapters.readers.refusing import malformed
from groundwire.ingest.adapters.readers.zip_check import open_zip
from groundwire.ingest.domain.reading_limits import ReadingLimits
from groundwire.ingest.domain.source_properties import SourceProperties, source_properties
from groundwire.ingest.domain.source_text import SourceText
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import FieldViolation

# What python-docx and its libraries raise on packages that are built wrongly.
_DAMAGE = (
    *(KeyError, ValueError, AttributeError, IndexError, TypeError, AssertionError, OSError, EOFError, RecursionError),
    *(zipfile.BadZipFile, zlib.error),
)
_NOTES = ("footnotes", "endnotes")
_PLACEHOLDERS = frozenset({"python-docx", "word document"})


def read_docx(data: bytes, limits: ReadingLimits, field: str) -> SourceText:
    """Return the text of the document's body with its headings, and its properties.

    Raises:
        EmptyDocumentError: there is no text in it.
        DocumentEncryptedError: parts of it are encrypted.
        DocumentMalformedError: it is no readable package.
        DocumentLimitError: inflating it would cost too much.
    """
    open_zip(data, limits, field).close()
    docx = load("docx")
    damage = (*_DAMAGE, load("lxml.etree").Error, load("docx.opc.exceptions").OpcError)
    try:
        document = docx.Document(io.BytesIO(data))
        blocks = _blocks(document)
        properties = _properties(document)
    except (*damage, load("docx.exceptions").PythonDocxError) as error:
        raise malformed(field, DocumentFormat.DOCX, f"its parts are damaged ({type(error).__name__})") from error
    text = blocks.builder.text()
    if not text:
        raise EmptyDocumentError([FieldViolation(field, "is a document without text")])
    outline = blocks.builder.outline()
    return SourceText(DocumentFormat.DOCX, text, outline, properties=properties.fields, warnings=properties.warnings)


def _blocks(document: Any) -> DocxBlocks:
    blocks = DocxBlocks(document.styles)
    blocks.add_all(document.element.body)
    parse = load("docx.oxml.parser").parse_xml
    for part in document.part.rels.values():
        kind = part.reltype.rpartition("/")[2]
        if kind in _NOTES and not part.is_external:
            blocks.add_all(parse(part.target_part.blob))
    return blocks


def _properties(document: Any) -> SourceProperties:
    told = document.core_properties
    return source_properties(
        title=_said(told.title),
        creators=[_said(name) for name in told.author.split(";")],
        subjects=told.keywords.replace(";", ",").split(","),
        description=told.subject or None,
        date_created=told.created if _said(told.author) else None,
        language=told.language,
    )


def _said(value: str) -> str:
    """Return the value unless it is what a library writes when nobody said anything."""
    return "" if value.strip().lower() in _PLACEHOLDERS else value
