"""Read the bytes of a file: find its format and hand it to the reader of that format."""

from groundwire.ingest.adapters.markdown_outline import markdown_outline
from groundwire.ingest.domain.decoding import checked_text
from groundwire.ingest.domain.format_detection import detect_format
from groundwire.ingest.domain.front_matter import fields_of, read_front_matter
from groundwire.ingest.domain.parsing import ParseRules
from groundwire.ingest.domain.source_text import SourceText
from groundwire.kernel.document import DocumentFormat


def read_source(data: bytes, rules: ParseRules) -> SourceText:
    """Return the canonical text of a file's bytes and what is known of it.

    Raises:
        EmptyDocumentError: no text.
        BinaryDocumentError: not text.
        DocumentEncodingError: not UTF-8.
    """
    found = detect_format(rules.format, rules.file_name)
    text = checked_text(data, rules.field)
    return read_markdown(text) if found is DocumentFormat.MARKDOWN else SourceText(found, text)


def read_markdown(text: str) -> SourceText:
    """Return a Markdown text with its headings and its front matter."""
    front_matter = read_front_matter(text)
    return SourceText(
        format=DocumentFormat.MARKDOWN,
        text=text,
        outline=markdown_outline(text, front_matter.end),
        body_start=front_matter.end,
        properties=fields_of(front_matter),
    )
