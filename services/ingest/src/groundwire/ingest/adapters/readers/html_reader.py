"""Read HTML with selectolax: headings, paragraphs, lists, table rows and preformatted text, without the noise."""

import re
from datetime import datetime
from typing import Any

from groundwire.ingest.adapters.readers.html_blocks import HtmlBlocks
from groundwire.ingest.adapters.readers.html_encoding import decode_html
from groundwire.ingest.adapters.readers.libraries import load
from groundwire.ingest.adapters.readers.refusing import over_limit
from groundwire.ingest.domain.source_properties import SourceProperties, source_properties
from groundwire.ingest.domain.source_text import SourceText
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import FieldViolation

_TAG = re.compile(r"<(/?)([a-zA-Z][a-zA-Z0-9]*)")
_NAMES_ENDING_THEMSELVES = (
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th thead tbody tfoot option"
)
_ENDS_ITSELF = frozenset(_NAMES_ENDING_THEMSELVES.split())
MAX_DEPTH = 4096
"""The parser takes quadratic time on open elements: 16 s for 100,000 of them."""


def read_html(data: bytes, field: str) -> SourceText:
    """Return the text of a page with its headings, and what its head says about it.

    Raises:
        EmptyDocumentError: there is no text in it.
        DocumentEncodingError: not valid in its encoding.
        DocumentLimitError: its elements are nested too deeply.
    """
    source = decode_html(data, field)
    _refuse_deep(source, field)
    page = load("selectolax.lexbor").LexborHTMLParser(source)
    blocks = HtmlBlocks()
    _walk(page.root, blocks)
    text = blocks.builder.text()
    if not text:
        raise EmptyDocumentError([FieldViolation(field, "is a page without text")])
    outline = blocks.builder.outline()
    told = _properties(page)
    return SourceText(DocumentFormat.HTML, text, outline, properties=told.fields, warnings=told.warnings)


def _refuse_deep(source: str, field: str) -> None:
    """Raise if more elements are open at a place than the parser can bear; unclosed ones that end themselves pass."""
    depth = 0
    for found in _TAG.finditer(source):
        if found.group(2).lower() not in _ENDS_ITSELF:
            depth = max(0, depth - 1) if found.group(1) else depth + 1
            if depth > MAX_DEPTH:
                why = f"has elements nested more than {MAX_DEPTH} deep"
                raise over_limit(field, "nesting_depth", MAX_DEPTH, why)


def _walk(root: Any, blocks: HtmlBlocks) -> None:
    """Enter and leave every node in document order, without recursion."""
    node = root
    while node is not None:
        wanted = blocks.enter(node)
        child = node.first_child if wanted else None
        if child is not None:
            node = child
            continue
        if wanted:
            blocks.leave(node)
        while node is not None and node.next is None:
            node = node.parent
            if node is not None:
                blocks.leave(node)
        node = None if node is None else node.next


def _properties(page: Any) -> SourceProperties:
    title = page.css_first("head > title")
    root = page.css_first("html")
    named: dict[str, list[str]] = {}
    for node in page.css("head > meta[content]"):
        name = node.attributes.get("name") or node.attributes.get("property") or ""
        named.setdefault(name.lower(), []).append(node.attributes["content"] or "")
    one = {name: values[0] for name, values in named.items()}
    return source_properties(
        title=title.text() if title is not None else one.get("og:title"),
        creators=named.get("author", []),
        subjects=one.get("keywords", "").split(","),
        description=one.get("description"),
        date_created=_date(one.get("date") or one.get("article:published_time")),
        language=root.attributes.get("lang") if root is not None else None,
    )


def _date(value: str | None) -> datetime | None:
    try:
        return datetime.fromisoformat((value or "").strip())
    except ValueError:
        return None
