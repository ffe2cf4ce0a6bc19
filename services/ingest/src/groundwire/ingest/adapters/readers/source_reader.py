"""Read the bytes of a document: recognise its format and hand it to the reader of that format."""

from dataclasses import dataclass, field, replace

from groundwire.ingest.adapters.markdown_outline import markdown_outline
from groundwire.ingest.adapters.readers.docx_reader import read_docx
from groundwire.ingest.adapters.readers.format_sniffing import FormatSniffer
from groundwire.ingest.adapters.readers.html_reader import read_html
from groundwire.ingest.adapters.readers.pdf_reader import read_pdf
from groundwire.ingest.adapters.readers.record_readers import read_csv, read_jsonl
from groundwire.ingest.adapters.readers.rst_outline import rst_outline
from groundwire.ingest.adapters.readers.text_encoding import read_text
from groundwire.ingest.domain.front_matter import read_front_matter
from groundwire.ingest.domain.parsing import ParseRules
from groundwire.ingest.domain.reading_limits import ReadingLimits
from groundwire.ingest.domain.source_text import SourceText
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import FieldViolation


@dataclass(frozen=True, slots=True)
class SourceReader:
    """Reads documents of all formats within the limits; the same bytes always give the same text."""

    limits: ReadingLimits = field(default_factory=ReadingLimits)

    def __call__(self, data: bytes, rules: ParseRules) -> SourceText:
        """Return the canonical text of a file's bytes and what is known of it.

        Raises:
            InvalidRequestError: the bytes are refused; see `groundwire.kernel.document_errors`.
            MissingExtraError: the library of the format is not installed.
        """
        if not data:
            raise EmptyDocumentError([FieldViolation(rules.field, "is empty")])
        match FormatSniffer(rules.format, rules.file_name, rules.field, self.limits).recognise(data):
            case DocumentFormat.PDF:
                return read_pdf(data, self.limits, rules.field)
            case DocumentFormat.DOCX:
                return read_docx(data, self.limits, rules.field)
            case DocumentFormat.HTML:
                return read_html(data, rules.field)
            case found:
                text, encoding = read_text(data, rules.field)
                return replace(_read_text(text, found, rules.field), encoding=encoding)


def _read_text(text: str, document_format: DocumentFormat, field_name: str) -> SourceText:
    match document_format:
        case DocumentFormat.MARKDOWN:
            return _read_markdown(text)
        case DocumentFormat.RST:
            return SourceText(document_format, text, rst_outline(text))
        case DocumentFormat.CSV:
            return read_csv(text, field_name)
        case DocumentFormat.JSONL:
            return read_jsonl(text, field_name)
        case _:
            return SourceText(DocumentFormat.TEXT, text)


def _read_markdown(text: str) -> SourceText:
    """Return a Markdown text with its headings and its front matter."""
    front_matter = read_front_matter(text)
    return SourceText(
        format=DocumentFormat.MARKDOWN,
        text=text,
        outline=markdown_outline(text, front_matter.end),
        body_start=front_matter.end,
        properties=front_matter.properties.fields,
        warnings=front_matter.properties.warnings,
    )
