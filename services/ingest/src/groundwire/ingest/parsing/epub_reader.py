"""Read EPUB: the pages of a book in reading order, with the titles that its table of contents gives them.

A book is a zip of XHTML pages; its package document lists them and describes the book (EPUB 3.3, sections 4 and 5).
"""

import posixpath
import re
import zipfile
import zlib
from collections.abc import Iterator, Mapping
from contextlib import suppress
from typing import Any
from urllib.parse import unquote

from groundwire.ingest.parsing.formats import open_zip
from groundwire.ingest.parsing.html_reader import HtmlText
from groundwire.ingest.parsing.source_text import (
    ReadingLimits,
    SourceText,
    iso_date,
    load,
    malformed,
    on_one_line,
    source_properties,
)
from groundwire.ingest.parsing.text_encoding import decode_html
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import (
    DocumentEncodingError,
    DocumentEncryptedError,
    EmptyDocumentError,
)

_FORMAT = "epub"
_CONTAINER, _ENCRYPTION = "META-INF/container.xml", "META-INF/encryption.xml"
# The last one is that of books from before EPUB.
_PAGE_TYPES = frozenset({"application/xhtml+xml", "text/html", "text/x-oeb1-document"})
_CONTENTS_TYPE = "application/x-dtbncx+xml"
# What links to pages beside the table of contents, and has no titles of them.
_OTHER_LISTS = frozenset({"landmarks", "page-list"})
_DUBLIN_CORE = "http://purl.org/dc/elements/1.1/"
_DAMAGE = (KeyError, ValueError, OSError, EOFError, NotImplementedError, zipfile.BadZipFile, zlib.error)
_TAG = re.compile(r"<[^<>]*>")


def read_epub(data: bytes, limits: ReadingLimits, field: str) -> SourceText:
    """Return the text of a book with its headings and its properties, as one HTML document.

    Raises:
        EmptyDocumentError: no page has text.
        DocumentEncryptedError: its pages are encrypted.
        DocumentMalformedError: it is damaged, or does not say which pages it has.
        DocumentEncodingError: a page is not valid in its encoding.
        DocumentLimitError: inflating it or parsing a page would cost too much.
    """
    with open_zip(data, limits, field) as archive:
        try:
            return _read_book(archive, field)
        except (*_DAMAGE, load("lxml.etree").Error) as error:
            raise malformed(field, _FORMAT, f"its parts are damaged ({type(error).__name__})") from error


def _read_book(archive: zipfile.ZipFile, field: str) -> SourceText:
    rootfile = next(_elements(_parsed(archive, _CONTAINER), "rootfile"), None)
    # Many books are made where `Text/One.xhtml` also opens `text/one.xhtml`, or with names that are still quoted.
    present = archive.namelist()
    entries = {unquote(name).lower(): name for name in present} | {name: name for name in present}
    package_name = "" if rootfile is None else _resolved(entries, "", rootfile.get("full-path") or "")
    package = _parsed(archive, package_name)
    items = {item.get("id"): item for item in _elements(package, "item")}
    names = {key: _resolved(entries, package_name, item.get("href") or "") for key, item in items.items()}
    spine = [items[key] for ref in _elements(package, "itemref") if (key := ref.get("idref")) in items]
    pages = [names[item.get("id")] for item in spine if item.get("media-type") in _PAGE_TYPES]
    if _ENCRYPTION in present:  # often of fonts alone
        hidden = {
            unquote(each.get("URI") or "") for each in _elements(_parsed(archive, _ENCRYPTION), "CipherReference")
        }
        if not hidden.isdisjoint(pages):
            why = "is protected against copying, and its pages cannot be read"
            raise DocumentEncryptedError.of(field, why, format=_FORMAT)
    titles: dict[str, str] = {}
    for key, item in items.items():
        if item.get("media-type") == _CONTENTS_TYPE or "nav" in (item.get("properties") or "").split():
            with suppress(*_DAMAGE, load("lxml.etree").Error):  # damaged contents cost titles, not the book
                titles |= _titles(entries, _parsed(archive, names[key]), names[key])
    text = HtmlText()
    for name in dict.fromkeys(name for name in pages if name in entries):
        try:
            source, _ = decode_html(archive.read(name), field)
        except EmptyDocumentError:
            continue
        except DocumentEncodingError as error:
            why = f"has the page {name}, which {error.violations[0].description}"
            raise DocumentEncodingError.of(field, why, **error.metadata) from None
        text.add_page(source, field, title=titles.get(name, ""))
    if not text.builder.text():
        raise EmptyDocumentError.of(field, "is a book without text")

    def said(name: str) -> list[str]:
        return ["".join(each.itertext()) for each in _elements(package, name, _DUBLIN_CORE)]

    properties = source_properties(
        title=next(iter(said("title")), None),
        creators=said("creator"),
        subjects=said("subject"),
        description=_TAG.sub(" ", " ".join(said("description"))),
        date_created=iso_date("".join(said("date")[:1])),
        language=next(iter(said("language")), None),
    )
    return text.builder.source(DocumentFormat.HTML, properties)


def _parsed(archive: zipfile.ZipFile, name: str) -> Any:
    """Return the root element of a part, without reading anything that the part refers to.

    Raises:
        KeyError: there is no such part.
        ValueError: there is no element in it.
    """
    etree = load("lxml.etree")
    parser = etree.XMLParser(resolve_entities=False, no_network=True, recover=True)
    root = etree.fromstring(archive.read(name), parser)
    if root is None:
        raise ValueError(name)
    return root


def _elements(root: Any, name: str, namespace: str = "*") -> Iterator[Any]:
    yield from root.iter(f"{{{namespace}}}{name}")


def _resolved(entries: Mapping[str, str], base: str, href: str) -> str:
    """Return the name of the part that a part named `base` refers to."""
    name = posixpath.normpath(posixpath.join(posixpath.dirname(base), unquote(href.partition("#")[0])))
    return entries.get(name) or entries.get(name.lower(), name)


def _titles(entries: Mapping[str, str], contents: Any, name: str) -> dict[str, str]:
    """Return the title of each page in a table of contents, of EPUB 3 or 2; the first one if it has several."""
    navs = (nav for nav in _elements(contents, "nav") if _OTHER_LISTS.isdisjoint(nav.attrib.values()))
    links = [(link.get("href"), link) for nav in navs for link in _elements(nav, "a")]
    for point in _elements(contents, "navPoint"):
        target, label = next(_elements(point, "content"), None), next(_elements(point, "navLabel"), None)
        if target is not None and label is not None:
            links.append((target.get("src"), label))
    titles: dict[str, str] = {}
    for href, label in links:
        titles.setdefault(_resolved(entries, name, href or ""), on_one_line("".join(label.itertext())))
    return titles
