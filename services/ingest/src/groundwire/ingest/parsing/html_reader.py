"""Read HTML with selectolax: headings, paragraphs, lists, table rows and preformatted text, without the noise."""

import re
from contextlib import suppress
from datetime import datetime
from typing import Any

from groundwire.ingest.parsing.source_text import (
    SourceText,
    TextBuilder,
    load,
    on_one_line,
    over_limit,
    source_properties,
)
from groundwire.ingest.parsing.text_encoding import UTF_8, checked_text, decode_html
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
_NOISE_NAMES = (
    "head script style noscript template nav svg math iframe object embed canvas audio video select datalist dialog"
)
_BLOCK_NAMES = (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form header hr html legend li main menu ol p section summary ul table thead tbody tfoot tr"
)
_NOISE = frozenset(_NOISE_NAMES.split())
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_LISTS = frozenset({"ul", "ol", "menu", "dir"})
_CELLS = frozenset({"td", "th"})
_ENDS_LINE = _BLOCKS | _CELLS | {*_HEADINGS, "pre"}
# Stands for `<br>` until the white space around it is gone; no text has it, because the parser leaves it out.
_BREAK = "\x00"
_INDENT = "  "
_MAX_INDENTS = 8


def read_html(data: bytes, field: str, *, decoded: bool = False) -> SourceText:
    """Return the text of a page with its headings, and what its head says about it.

    Of a `decoded` page, which is UTF-8, the encoding that it declares is that of a file that it was read from.

    Raises:
        EmptyDocumentError: there is no text in it.
        DocumentEncodingError: not valid in its encoding.
        DocumentLimitError: its elements are nested too deeply, or one has too many attributes.
    """
    source, encoding = (checked_text(data, field), UTF_8) if decoded else decode_html(data, field)
    _refuse_costly(source, field)
    page = load("selectolax.lexbor").LexborHTMLParser(source)
    blocks = _Blocks()
    node = page.root
    while node is not None:
        descends = blocks.enter(node)
        child = node.first_child if descends else None
        if child is not None:
            node = child
            continue
        if descends:
            blocks.leave(node)
        while node is not None and node.next is None:
            node = node.parent
            if node is not None:
                blocks.leave(node)
        node = None if node is None else node.next
    text = blocks.builder.text()
    if not text:
        raise EmptyDocumentError([FieldViolation(field, "is a page without text")])
    outline = blocks.builder.outline()
    title = page.css_first("head > title")
    root = page.css_first("html")
    named: dict[str, list[str]] = {}
    for node in page.css("head > meta[content]"):
        name = node.attributes.get("name") or node.attributes.get("property") or ""
        named.setdefault(name.lower(), []).append(node.attributes["content"] or "")
    one = {name: values[0] for name, values in named.items()}
    date_created = None
    with suppress(ValueError):
        date_created = datetime.fromisoformat((one.get("date") or one.get("article:published_time") or "").strip())
    said = source_properties(
        title=title.text() if title is not None else one.get("og:title"),
        creators=named.get("author", []),
        subjects=one.get("keywords", "").split(","),
        description=one.get("description"),
        date_created=date_created,
        language=root.attributes.get("lang") if root is not None else None,
    )
    return SourceText(
        DocumentFormat.HTML, text, outline, properties=said.fields, warnings=said.warnings, encoding=encoding
    )


def _refuse_costly(source: str, field: str) -> None:
    """Raise DocumentLimitError for what the parser would take quadratic time on, before it sees any of it."""
    depth = position = 0
    while (start := source.find("<", position)) >= 0:
        tag = _TAG.match(source, start)
        if tag is None:  # a comment, what a parser treats as one, or a mere `<`
            position = start + 1
            is_comment = source.startswith("<!--", start)
            if is_comment or source[position : position + 1] in {"!", "?", "/"}:
                # `<!-->` is a whole comment.
                mark, after = ("-->", start + 2) if is_comment else (">", position)
                end = source.find(mark, after)
                position = end + len(mark) if end >= 0 else len(source)
            continue
        position, attributes = tag.end(), 0
        while (tag_end := _TAG_END.match(source, position)) is None:
            attribute = _ATTRIBUTE.match(source, position)
            if attribute is None:
                return  # the tag has no end: a parser drops it with all that follows
            position, attributes = attribute.end(), attributes + 1
            if attributes > MAX_ATTRIBUTES:
                why = f"has an element of more than {MAX_ATTRIBUTES} attributes"
                raise over_limit(field, "attributes", MAX_ATTRIBUTES, why)
        position, name = tag_end.end(), tag.group(2).lower()
        if name in _ENDS_ITSELF:  # many of them are never closed, which does not make them deep
            continue
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        if depth > MAX_DEPTH:
            why = f"has elements nested more than {MAX_DEPTH} deep"
            raise over_limit(field, "nesting_depth", MAX_DEPTH, why)
        if not tag.group(1) and name in _END_OF_RAW_TEXT:  # `<` in a script begins no tag
            raw_end = _END_OF_RAW_TEXT[name].search(source, position)
            position = raw_end.start() if raw_end is not None else len(source)


class _Blocks:
    """Takes nodes in document order, each with `enter` and `leave`, and builds the text from them.

    A row of a table becomes a line with its cells between bars, whatever is inside the cells.
    """

    def __init__(self) -> None:
        self.builder = TextBuilder()
        self._inline: list[str] = []
        self._lists: list[int | None] = []
        self._marker = ""
        self._pre = 0
        self._cell_depth = 0
        self._cells: list[str] = []

    def enter(self, node: Any) -> bool:
        """Enter a node; return whether to descend into its children."""
        tag = node.tag
        if tag == "-text":
            self._inline.append(node.text_content or "")
            return False
        if tag in _NOISE or tag.startswith("-") or (tag in _BLOCKS and "hidden" in node.attributes):
            return False
        if tag == "br":
            self._inline.append("\n" if self._pre else _BREAK)
        elif self._cell_depth:
            self._cell_depth += tag in _CELLS
            if tag in _ENDS_LINE:
                self._inline.append(" ")
        else:
            if tag in _ENDS_LINE:
                self._flush()
            if tag in _LISTS:
                self._lists.append(0 if tag == "ol" else None)
            elif tag == "li":
                number = self._lists[-1] if self._lists else None
                self._marker = "- "
                if number is not None:
                    self._lists[-1] = number + 1
                    self._marker = f"{number + 1}. "
            elif tag == "pre":
                self._pre += 1
            elif tag in _CELLS:
                self._cell_depth = 1
        return True

    def leave(self, node: Any) -> None:
        tag = node.tag
        if not self._cell_depth:
            if tag in _HEADINGS:
                if self._lists:  # the heading of an item is no heading of the page
                    self._flush()
                else:
                    self.builder.heading(_HEADINGS[tag], self._take_line())
            elif tag == "pre":
                self._pre = max(0, self._pre - 1)
                text = "".join(self._inline).strip("\n")
                self._inline.clear()
                self.builder.verbatim(self._take_marker() + text if text.strip() else "")
            elif tag == "tr":
                self._flush()
                cells, self._cells = self._cells, []
                if any(cells):
                    self.builder.add(" | ".join(cells), tight=True)
            elif tag in _BLOCKS:
                self._flush()
                if tag in _LISTS and self._lists:
                    self._lists.pop()
                if tag == "li":
                    self._marker = ""
        elif tag in _CELLS:
            self._cell_depth -= 1
            if not self._cell_depth:
                self._cells.append(self._take_line())
        elif tag in _ENDS_LINE:
            self._inline.append(" ")

    def _flush(self) -> None:
        """End the paragraph, item or line that was being collected."""
        if self._pre:
            return
        lines = [on_one_line(line) for line in "".join(self._inline).split(_BREAK)]
        self._inline.clear()
        text = "\n".join(lines).strip()
        if not text:
            return
        if not self._lists:
            self.builder.add(text)
            return
        indent = _INDENT * min(_MAX_INDENTS, len(self._lists) - 1)
        marker = self._take_marker()
        lead = marker or _INDENT
        following = "\n" + indent + " " * len(lead)
        self.builder.add(indent + lead + text.replace("\n", following), tight=True)

    def _take_marker(self) -> str:
        marker, self._marker = self._marker, ""
        return marker

    def _take_line(self) -> str:
        line = on_one_line("".join(self._inline).replace(_BREAK, " "))
        self._inline.clear()
        return line
