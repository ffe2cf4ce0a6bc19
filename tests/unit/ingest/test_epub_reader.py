"""EPUB: the pages of a book in reading order, its titles, its properties, and every way it can be refused."""

import io
import zipfile
from collections.abc import Mapping

import pytest

from groundwire.ingest.parsing.epub_reader import read_epub
from groundwire.ingest.parsing.source_text import ReadingLimits, SourceText
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import (
    DocumentEncodingError,
    DocumentEncryptedError,
    DocumentLimitError,
    DocumentMalformedError,
    EmptyDocumentError,
)
from tests.unit.ingest.made_files import make_zip, with_part

CONTAINER = """<?xml version="1.0"?>
<container xmlns="urn:oasis:names:tc:opendocument:xmlns:container"><rootfiles>
  <rootfile full-path="OEBPS/book.opf" media-type="application/oebps-package+xml"/>
</rootfiles></container>"""
METADATA = """
  <dc:title>Of <!-- the -->Tides</dc:title><dc:creator>Ada Flett</dc:creator><dc:creator>Lin</dc:creator>
  <dc:subject>Sea</dc:subject>
  <dc:description>&lt;p&gt;About the sea.&lt;/p&gt;</dc:description><dc:date>1998-03-01</dc:date>
  <dc:language>en-GB</dc:language>"""
PAGES = {
    "two.xhtml": "<h1>Lamps</h1><p>The lamp burned oil.<sup><a href='#n'>1</a></sup> Then gas.</p>",
    "one.xhtml": "<h2>Tides</h2><p>The tide <a id='p9'/>rises.</p><table><tr><th>A<td>b</tr></table>",
}


def xhtml(body: str) -> bytes:
    return (
        f'<?xml version="1.0"?><html xmlns="http://www.w3.org/1999/xhtml"><head><title/></head>{body}</html>'.encode()
    )


def book(pages: Mapping[str, str | bytes], **parts: bytes) -> bytes:
    """Return a book of these pages, last one first; `parts` are further ones by the name of their file."""
    items = [f'<item id="{name}" href="{name}" media-type="application/xhtml+xml"/>' for name in pages]
    others = {"toc": ("toc.ncx", "application/x-dtbncx+xml", ""), "nav": ("nav.xhtml", "application/xhtml+xml", "nav")}
    items += [
        f'<item id="{key}" href="{name}" media-type="{kind}" properties="{properties}"/>'
        for key, (name, kind, properties) in others.items()
        if key in parts
    ]
    spine = "".join(f'<itemref idref="{name}"/>' for name in reversed(list(pages)))
    package = (
        '<package xmlns="http://www.idpf.org/2007/opf" xmlns:dc="http://purl.org/dc/elements/1.1/">'
        f"<metadata>{METADATA}</metadata><manifest>{''.join(items)}</manifest><spine>{spine}</spine></package>"
    )
    entries = {
        "mimetype": b"application/epub+zip",
        "META-INF/container.xml": CONTAINER.encode(),
        "OEBPS/book.opf": package.encode(),
        **{f"OEBPS/{name}": page if isinstance(page, bytes) else xhtml(page) for name, page in pages.items()},
        **{f"OEBPS/{others[key][0]}": content for key, content in parts.items()},
    }
    return make_zip(entries)


def read(data: bytes) -> SourceText:
    return read_epub(data, ReadingLimits(), "content")


def test_pages_are_read_in_their_order_with_headings_and_tables() -> None:
    found = read(book(PAGES))
    assert found.format is DocumentFormat.HTML
    assert found.text == "## Tides\n\nThe tide rises.\n\n| A | b |\n\n# Lamps\n\nThe lamp burned oil.¹ Then gas."
    assert [(heading.level, heading.text) for heading in found.outline.headings] == [(2, "Tides"), (1, "Lamps")]


def test_the_package_becomes_properties() -> None:
    said = read(book(PAGES)).properties
    assert (said.title, said.creators, said.subjects) == ("Of Tides", ("Ada Flett", "Lin"), ("Sea",))
    assert (said.description, said.language) == ("About the sea.", "en")
    assert said.date_created is not None
    assert said.date_created.year == 1998


NCX = b"""<ncx xmlns="http://www.daisy.org/z3986/2005/ncx/"><navMap>
<navPoint><navLabel><text>Cover</text></navLabel><content src="cover.xhtml"/></navPoint>
<navPoint><navLabel><text>The Tides</text></navLabel><content src="one.xhtml#a"/>
<navPoint><navLabel><text>Inner</text></navLabel><content src="one.xhtml#b"/></navPoint></navPoint></navMap></ncx>"""
NAV = b"""<html xmlns="http://www.w3.org/1999/xhtml"><nav><ol><li><a href="one.xhtml#a">The <b>Tides</b></a>
<a href="cover.xhtml">Cover</a></li></ol></nav></html>"""


@pytest.mark.parametrize("parts", [{"toc": NCX}, {"nav": NAV}])
def test_a_page_without_a_heading_gets_that_of_the_table_of_contents(parts: Mapping[str, bytes]) -> None:
    pages = {"two.xhtml": PAGES["two.xhtml"], "one.xhtml": "<p>It rises.</p>", "cover.xhtml": "<img src='a.png'/>"}
    found = read(book(pages, **parts))
    assert found.text.startswith("# The Tides\n\nIt rises.\n\n# Lamps\n\n")
    assert [(heading.level, heading.text) for heading in found.outline.headings] == [(1, "The Tides"), (1, "Lamps")]


def test_lists_of_printed_pages_and_landmarks_have_no_titles() -> None:
    links = '<ol><li><a href="one.xhtml">{}</a></li></ol>'
    kinds = [("landmarks", "Start"), ("page-list", "12"), ("toc", "Tides")]
    navs = "".join(f'<nav epub:type="{kind}">{links.format(title)}</nav>' for kind, title in kinds)
    contents = f'<html xmlns="http://www.w3.org/1999/xhtml" xmlns:epub="http://www.idpf.org/2007/ops"><body>{navs}</body></html>'
    assert read(book({"one.xhtml": "<p>It rises.</p>"}, nav=contents.encode())).text == "# Tides\n\nIt rises."


@pytest.mark.parametrize("contents", [b"", b"no XML", b"<ncx"])
def test_damaged_contents_cost_titles_and_not_the_book(contents: bytes) -> None:
    assert read(book({"one.xhtml": "<p>It rises.</p>"}, toc=contents)).text == "It rises."


def test_pages_are_found_where_only_case_or_quoting_of_their_names_differs() -> None:
    data = book({"Two.xhtml": "<p>Ebb.</p>", "a%20b.xhtml": "<p>Flow.</p>"})
    assert read(data.replace(b"OEBPS/Two.xhtml", b"OEBPS/two.xhtml")).text == "Flow.\n\nEbb."
    package = read(book(PAGES).replace(b"OEBPS/book.opf", b"oebps/Book.opf").replace(b"OEBPS/", b"oebps/"))
    assert package.text.startswith("## Tides")
    moved = with_part(book({"../text/one.xhtml": "<p>Flow.</p>"}), "text/one.xhtml", xhtml("<p>Ebb.</p>"))
    assert read(moved).text == "Ebb."
    both = book({"one.xhtml": "<p>Ebb.</p>", "One.xhtml": "<p>Flow.</p>"})
    assert read(both).text == "Flow.\n\nEbb."


def test_a_page_of_frames_or_one_that_is_named_twice_adds_nothing() -> None:
    pages = {"two.xhtml#b": "", "two.xhtml": "<p>It rises.</p>", "one.xhtml": "<frameset><frame/></frameset>"}
    assert read(book(pages, toc=NCX)).text == "It rises."


def test_a_package_with_a_slip_is_read() -> None:
    data = book(PAGES)
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        package = archive.read("OEBPS/book.opf").replace(b"Ada Flett", b"Ada & Flett")
    assert read(with_part(data, "OEBPS/book.opf", package)).text.startswith("## Tides")


def test_pages_of_books_from_before_epub_are_read() -> None:
    data = book({"one.xhtml": "<p>It rises.</p>"})
    with zipfile.ZipFile(io.BytesIO(data)) as archive:
        package = archive.read("OEBPS/book.opf")
    old = package.replace(b"application/xhtml+xml", b"text/x-oeb1-document")
    assert read(with_part(data, "OEBPS/book.opf", old)).text == "It rises."


def test_a_page_may_declare_its_encoding_and_blank_or_missing_ones_are_passed_over() -> None:
    page = '<?xml version="1.0" encoding="iso-8859-2"?><html><body>Łódź</body></html>'.encode("iso-8859-2")
    data = book({"gone.xhtml": "x", "one.xhtml": page, "blank.xhtml": b" "})
    assert read(data.replace(b"OEBPS/gone.xhtml", b"OEBPS/lost.xhtml")).text == "Łódź"
    with pytest.raises(DocumentEncodingError, match=r"has the page OEBPS/one\.xhtml, which is not valid") as caught:
        read(book({"one.xhtml": b'<?xml version="1.0" encoding="utf-8"?><p>\xff</p>'}))
    assert caught.value.metadata == {"offset": "41"}


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("META-INF/container.xml", b""),
        ("META-INF/container.xml", b"<container/>"),
        ("OEBPS/book.opf", b"no XML"),
    ],
)
def test_a_damaged_book_is_refused(name: str, content: bytes) -> None:
    with pytest.raises(DocumentMalformedError, match="epub") as caught:
        read(with_part(book(PAGES), name, content))
    assert caught.value.metadata == {"format": "epub"}


def test_a_book_whose_pages_are_encrypted_is_refused_but_not_one_with_encrypted_fonts() -> None:
    def encrypted(name: str) -> bytes:
        reference = f'<CipherReference xmlns="http://www.w3.org/2001/04/xmlenc#" URI="{name}"/>'
        return with_part(book(PAGES), "META-INF/encryption.xml", f"<encryption>{reference}</encryption>".encode())

    assert read(encrypted("OEBPS/font.otf")).text
    with pytest.raises(DocumentEncryptedError, match="protected"):
        read(encrypted("OEBPS/one%2Exhtml"))


def test_a_book_without_text_is_refused() -> None:
    for data in (book({"one.xhtml": "<img/>"}), book({})):
        with pytest.raises(EmptyDocumentError):
            read(data)


def test_entities_are_not_expanded_and_pages_have_limits() -> None:
    bomb = b'<!DOCTYPE a [<!ENTITY a "aaaa"><!ENTITY b "&a;&a;&a;">]>' + NCX.replace(b"The Tides", b"The &b; Tides")
    assert read(book({"one.xhtml": "<p>It rises.</p>"}, toc=bomb)).text.endswith("Tides\n\nIt rises.")
    assert "aaaa" not in read(book({"one.xhtml": "<p>It rises.</p>"}, toc=bomb)).text
    with pytest.raises(DocumentLimitError):
        read(book({"one.xhtml": "<b>" * 5000}))
    with pytest.raises(DocumentLimitError):
        read(book({"one.xhtml": "a" * (8 << 20)}))
