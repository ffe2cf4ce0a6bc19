"""What a document is read as: the content decides, and a promise that it breaks is told."""

import sys

import pytest

from groundwire.ingest.parsing.formats import recognise_format
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import (
    BinaryDocumentError,
    DocumentEncryptedError,
    DocumentFormatMismatchError,
    DocumentMalformedError,
)
from tests.unit.ingest.made_files import make_docx, make_pdf, make_zip

OFFICE = "application/vnd.openxmlformats-officedocument"
PDF = make_pdf(["Text."])
DOCX = make_docx("Text.")
XLSX = make_zip({"[Content_Types].xml": b"<Types/>", "xl/workbook.xml": b"<workbook/>"})
OLE = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1" + bytes(504)
PNG = b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR"


def recognise(data: bytes, name: str = "file", declared: DocumentFormat | None = None) -> DocumentFormat:
    return recognise_format(data, declared, name, ReadingLimits(), "content")


@pytest.mark.parametrize(
    ("data", "name", "expected"),
    [
        (PDF, "file", DocumentFormat.PDF),
        (PDF, "file.md", DocumentFormat.PDF),
        (b"junk\n" + PDF, "file.pdf", DocumentFormat.PDF),
        (DOCX, "file", DocumentFormat.DOCX),
        (DOCX, "file.txt", DocumentFormat.DOCX),
        (b"\n<!-- x --><!DOCTYPE HTML><p>a", "file", DocumentFormat.HTML),
        (b"\xef\xbb\xbf<html lang=en>", "file", DocumentFormat.HTML),
        (b"<html>", "file.txt", DocumentFormat.TEXT),
        (b"<p>a", "file.htm", DocumentFormat.HTML),
        ("<p>a".encode("utf-16"), "file.html", DocumentFormat.HTML),
        (b"text", "file.MD", DocumentFormat.MARKDOWN),
        (b"text", "file.rst", DocumentFormat.RST),
        (b"<p>a", "page.html?part=2#top", DocumentFormat.HTML),
        (b"text", "what?.md", DocumentFormat.MARKDOWN),
        (b"a\tb", "file.tsv", DocumentFormat.CSV),
        (b"{}", "file.ndjson", DocumentFormat.JSONL),
        (b"text about %PDF-1.7", "README", DocumentFormat.TEXT),
        (b"text", ".md", DocumentFormat.TEXT),
        (b"text", "file.unknown", DocumentFormat.TEXT),
    ],
)
def test_content_decides_before_the_name(data: bytes, name: str, expected: DocumentFormat) -> None:
    assert recognise(data, name) is expected


DIRECTIVE, FENCE, LINK = ".. note::\n\n   Ebb.\n", "```sh\nls\n```\n", "See [the docs](https://example.org/a).\n"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"Tides\n=====\n\nThey come.\n\n{DIRECTIVE}", DocumentFormat.RST),
        (f"Tides\n=====\n\nThey come.\n\n{DIRECTIVE}".replace("\n", "\r\n"), DocumentFormat.RST),
        (f"# Tides\n\n{FENCE}", DocumentFormat.MARKDOWN),
        (f"Of the sea.\n\n## Tides\n\n{LINK}", DocumentFormat.MARKDOWN),
        ("Tides\n=====\n\nThey come.\n", DocumentFormat.TEXT),
        (DIRECTIVE, DocumentFormat.TEXT),
        (FENCE + LINK, DocumentFormat.TEXT),
        ("# a comment\nhandlers[0](event)\n", DocumentFormat.TEXT),
        ("x = 1\n# a comment\nSee [the docs](https://example.org/a).\n", DocumentFormat.TEXT),
    ],
)
@pytest.mark.parametrize("name", ["tides.txt", "tides", "tides.text"])
def test_a_plain_text_that_shows_its_markup_is_read_with_it(text: str, expected: DocumentFormat, name: str) -> None:
    assert recognise(text.encode(), name) is expected
    assert recognise(text.encode("utf-16"), name) is expected
    assert recognise(text.encode(), name, DocumentFormat.TEXT) is DocumentFormat.TEXT


@pytest.mark.parametrize("declared", list(DocumentFormat))
def test_text_can_be_any_format_of_text_and_no_other(declared: DocumentFormat) -> None:
    if declared in {DocumentFormat.PDF, DocumentFormat.DOCX}:
        with pytest.raises(DocumentFormatMismatchError):
            recognise(b"<html>text", declared=declared)
    else:
        assert recognise(b"<html>text", declared=declared) is declared


@pytest.mark.parametrize(
    ("data", "declared", "found"),
    [
        (PDF, DocumentFormat.TEXT, "pdf"),
        (PDF, DocumentFormat.DOCX, "pdf"),
        (DOCX, DocumentFormat.MARKDOWN, "docx"),
        (DOCX, DocumentFormat.PDF, "docx"),
        (b"text", DocumentFormat.PDF, "text"),
        (XLSX, DocumentFormat.DOCX, f"{OFFICE}.spreadsheetml.sheet"),
    ],
)
def test_content_that_contradicts_the_declared_format_is_refused(
    data: bytes, declared: DocumentFormat, found: str
) -> None:
    with pytest.raises(DocumentFormatMismatchError) as caught:
        recognise(data, "file", declared)
    assert caught.value.violations[0].field == "format"
    assert caught.value.metadata == {"declared": declared.value, "found": found}


def test_a_name_that_promises_what_the_content_is_not_is_refused() -> None:
    with pytest.raises(DocumentFormatMismatchError) as caught:
        recognise(b"text", "file.pdf")
    assert caught.value.violations[0].field == "content"
    assert caught.value.metadata == {"declared": "pdf", "found": "text"}


@pytest.mark.parametrize(
    ("data", "found"),
    [
        (PNG, "image/png"),
        (XLSX, f"{OFFICE}.spreadsheetml.sheet"),
        (
            make_zip({"mimetype": b"application/vnd.oasis.opendocument.text", "a": b""}),
            "application/vnd.oasis.opendocument.text",
        ),
        (
            make_zip({"ppt/presentation.xml": b""}),
            f"{OFFICE}.presentationml.presentation",
        ),
        (make_zip({"META-INF/MANIFEST.MF": b""}), "application/java-archive"),
        (make_zip({"a.txt": b""}), "application/zip"),
        (make_zip({"a.txt": b"", "mimetype": b"image/x"}), "application/zip"),
        (make_zip({"mimetype": b"image/x" * 20}), "application/zip"),
        (make_zip({}), "application/zip"),
        (b"PK\x03\x04 cut off", "application/zip, damaged or truncated"),
        (OLE + "WordDocument".encode("utf-16-le"), "application/msword"),
        (OLE, "application/x-ole-storage"),
        (b'<svg xmlns="http://www.w3.org/2000/svg"><text>0.4</text></svg>', "image/svg+xml"),
        (b'<?xml version="1.0"?>\n<!-- a > b -->\n<!DOCTYPE svg PUBLIC "-//W3C//DTD">\n<svg></svg>', "image/svg+xml"),
        (rb"{\rtf1\ansi{\b Tides} rise.}", "application/rtf"),
    ],
)
def test_what_cannot_be_read_is_refused_naming_what_it_looks_like(data: bytes, found: str) -> None:
    with pytest.raises(BinaryDocumentError) as caught:
        recognise(data)
    assert caught.value.metadata == {"found": found}
    assert found in caught.value.violations[0].description


@pytest.mark.parametrize("entries", [{"mimetype": b"application/epub+zip"}, {"META-INF/container.xml": b""}])
def test_a_book_is_read_as_the_html_of_its_pages(entries: dict[str, bytes]) -> None:
    assert recognise(make_zip(entries), "a.epub") is DocumentFormat.HTML
    assert recognise(make_zip(entries), declared=DocumentFormat.HTML) is DocumentFormat.HTML
    with pytest.raises(DocumentFormatMismatchError) as caught:
        recognise(make_zip(entries), declared=DocumentFormat.PDF)
    assert caught.value.metadata == {"declared": "pdf", "found": "application/epub+zip"}


@pytest.mark.parametrize("data", [b"<svgs>", b"An <svg> element draws.", b"<?xml version='1.0'?><note>svg</note>"])
def test_a_text_that_mentions_svg_is_no_picture(data: bytes) -> None:
    assert recognise(data) is DocumentFormat.TEXT


def test_binary_data_that_nobody_knows_is_refused() -> None:
    with pytest.raises(BinaryDocumentError, match="NUL at byte 3"):
        recognise(b"abc\x00def")
    with pytest.raises(BinaryDocumentError, match=r"binary data with 1 control character$"):
        recognise(b"abc\x01def")


def test_an_encrypted_office_document_is_refused_as_encrypted() -> None:
    with pytest.raises(DocumentEncryptedError):
        recognise(OLE + "EncryptedPackage".encode("utf-16-le"), "file.docx")


def test_a_damaged_zip_named_docx_is_malformed() -> None:
    with pytest.raises(DocumentMalformedError):
        recognise(DOCX[:200], "file.docx")


def test_binary_data_is_refused_without_the_library_that_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "puremagic", None)
    with pytest.raises(BinaryDocumentError, match="PNG"):
        recognise(PNG)
