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

# How a tokenizer of HTML cuts its input (HTML Standard, section 13.2.5); every part is possessive, so that the scan is
# linear. A quote that never closes swallows the rest of the page.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)")
_ATTRIBUTE = re.compile(r"[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+(\"|\Z)|'[^']*+('|\Z)|[^\s>]*+))?+")
_TAG_END = re.compile(r"[\s/]*+>")
_END_OF_RAW_TEXT = {
    name: re.compile(f"</{name}", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
_NAMES_ENDING_THEMSELVES = (
    "area base br col embed hr img input link meta source track wbr p li dt dd tr td th thead tbody tfoot option"
)
_ENDS_ITSELF = frozenset(_NAMES_ENDING_THEMSELVES.split())
MAX_DEPTH = 4096
"""The parser takes quadratic time on open elements: 16 s for 100,000 of them."""
MAX_ATTRIBUTES = 1000
"""The parser compares each attribute of an element with all before it: 9 s for 80,000 of them."""


def read_html(data: bytes, field: str) -> SourceText:
    """Return the text of a page with its headings, and what its head says about it.

    Raises:
        EmptyDocumentError: there is no text in it.
        DocumentEncodingError: not valid in its encoding.
        DocumentLimitError: its elements are nested too deeply, or one has too many attributes.
    """
    source, encoding = decode_html(data, field)
    _check_elements(source, field)
    page = load("selectolax.lexbor").LexborHTMLParser(source)
    blocks = HtmlBlocks()
    _walk(page.root, blocks)
    text = blocks.builder.text()
    if not text:
        raise EmptyDocumentError([FieldViolation(field, "is a page without text")])
    outline = blocks.builder.outline()
    told = _properties(page)
    return SourceText(
        DocumentFormat.HTML, text, outline, properties=told.fields, warnings=told.warnings, encoding=encoding
    )


def _check_elements(source: str, field: str) -> None:
    """Raise if the elements cost more than the parser can bear; unclosed ones that end themselves have no depth."""
    depth = position = 0
    while (start := source.find("<", position)) >= 0:
        tag = _TAG.match(source, start)
        if tag is None:
            position = _end_of_comment(source, start)
            continue
        position = _end_of_attributes(source, tag.end(), field)
        name = tag.group(2).lower()
        if name in _ENDS_ITSELF:
            continue
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        if depth > MAX_DEPTH:
            why = f"has elements nested more than {MAX_DEPTH} deep"
            raise over_limit(field, "nesting_depth", MAX_DEPTH, why)
        if not tag.group(1) and name in _END_OF_RAW_TEXT:
            end = _END_OF_RAW_TEXT[name].search(source, position)
            position = end.start() if end is not None else len(source)


def _end_of_comment(source: str, start: int) -> int:
    """Return where a comment, or what is taken for one, ends; behind the sign where there is none."""
    if source.startswith("<!--", start):
        mark, after = "-->", start + 2  # `<!-->` is a whole comment
    elif source[start + 1 : start + 2] in {"!", "?", "/"}:
        mark, after = ">", start + 1
    else:
        return start + 1
    end = source.find(mark, after)
    return end + len(mark) if end >= 0 else len(source)


def _end_of_attributes(source: str, position: int, field: str) -> int:
    """Return where a tag ends, from the end of its name on; raise if it has more attributes than is allowed."""
    for _ in range(MAX_ATTRIBUTES + 1):
        if (end := _TAG_END.match(source, position)) is not None:
            return end.end()
        attribute = _ATTRIBUTE.match(source, position)
        if attribute is None:
            return len(source)
        position = attribute.end()
    why = f"has an element of more than {MAX_ATTRIBUTES} attributes"
    raise over_limit(field, "attributes", MAX_ATTRIBUTES, why)


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
