"""Read HTML with selectolax: headings, paragraphs, lists, table rows and preformatted text, without the noise."""

import re
from collections.abc import Sequence
from itertools import islice
from typing import Any

from groundwire.ingest.parsing.source_text import (
    SourceText,
    TextBuilder,
    iso_date,
    load,
    on_one_line,
    over_limit,
    raised_number,
    source_properties,
)
from groundwire.ingest.parsing.text_encoding import UTF_8, checked_text, decode_html
from groundwire.ingest.parsing.titles import is_question_or_numbered
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError

# How a tokenizer of HTML cuts its input (HTML Standard, section 13.2.5); every part is possessive, so that the scan is
# linear. A quote that never closes swallows the rest of the page.
_TAG = re.compile(r"<(/?)([a-zA-Z][^\s/>]*+)")
_ATTRIBUTE = re.compile(r"[\s/]*+[^\s/>][^\s/>=]*+(?:\s*+=\s*+(?:\"[^\"]*+(\"|\Z)|'[^']*+('|\Z)|[^\s>]*+))?+")
_TAG_END = re.compile(r"[\s/]*+>")
_END_OF_RAW_TEXT = {
    name: re.compile(f"</{name}", re.IGNORECASE)
    for name in ("script", "style", "textarea", "title", "xmp", "iframe", "noembed", "noframes")
}
_VOID = frozenset(
    ["area", "base", "br", "col", "embed", "hr", "img", "input", "link", "meta", "param", "source", "track", "wbr"]
)
_ENDS_ITSELF = _VOID | frozenset(["p", "li", "dt", "dd", "tr", "td", "th", "thead", "tbody", "tfoot", "option"])
MAX_DEPTH = 4096
"""The parser takes quadratic time on open elements: 16 s for 100,000 of them."""
MAX_ATTRIBUTES = 1000
"""The parser compares each attribute of an element with all before it: 9 s for 80,000 of them."""
_NOISE_NAMES = (
    "head script style noscript template nav svg math iframe object embed canvas audio video select datalist dialog "
    "button textarea noframes"
)
_BLOCK_NAMES = (
    "address article aside blockquote body caption center dd details dialog dir div dl dt fieldset figcaption figure "
    "footer form header hr legend li main menu ol p section summary ul table thead tbody tfoot tr"
)
_NOISE = frozenset(_NOISE_NAMES.split())
_NOISE_ROLES = frozenset({"navigation", "search", "menu", "menubar", "dialog", "alertdialog"})
_NOT_SHOWN = re.compile(r"\bdisplay\s*+:\s*+none\b", re.IGNORECASE)
_COOKIES = re.compile(
    r"cookie[-_]?(?:banner|bar|consent|dialog|law|message|modal|notice|policy-?bar|popup)", re.IGNORECASE
)
_BLOCKS = frozenset(_BLOCK_NAMES.split())
_HEADINGS = {f"h{level}": level for level in range(1, 7)}
_CELLS = frozenset({"td", "th"})
_ENDS_LINE = _BLOCKS | _CELLS | {*_HEADINGS, "pre"}
_MAX_STEPS = 50
# Of a menu or a table of contents: fewer links refer to what is told elsewhere, and lists inside of each other would
# take quadratic time.
_FEWEST_ENTRIES = 3
_MOST_NODES = 2000
# Of an item of a list that is a section: its title and what stands below it.
_FEWEST_BLOCKS = 3
# Elements such as `<code>` between a link and its text.
_MOST_MARKS = 4
_ORDINAL = re.compile(r"[0-9]{1,6}")
# Cells that span a hundred rows and columns would fill a hundred rows of ten thousand cells.
_MOST_COLUMNS = 100
_SPAN = re.compile(r"\d{1,2}")
# Classes of elements that DocBook, Sphinx, Javadoc, Texinfo, Doxygen and others write around links to other pages and
# places, and around hints that show at the pointer.
_NAVIGATION_NAMES = (
    "nav navheader navfooter docnav navbar navigation toc breadcrumb breadcrumbs sphinxsidebar related topnav subnav "
    "pagination genindextable modindextable nav_table nav-panel ttc"
)
_NAVIGATION = frozenset(_NAVIGATION_NAMES.split())
# Classes of boxes within a section; their titles begin no section of their own.
_BOX_NAMES = "admonition attention caution danger example hint important note tip warning"
_BOXES = frozenset(_BOX_NAMES.split())
# Of references, what is described: `class datetime.timedelta(days=0)`, `time.time() → float`, `-o FILE, --output FILE`.
# What C has in front of a name is its type, and shown with what it takes: `PyObject *PyList_New(Py_ssize_t len)`.
_SIGNATURE = re.compile(
    r"(?P<option>-.+)"
    r"|(?P<kind>(?:[a-z]+ )*+)(?P<type>(?:[^(]*[ *&])?)(?P<name>[@$]?[A-Za-z_][\w.$:]*+)(?P<rest>(?:<[^()]*>)? ?\(.*)"
    r"|(?P<words>(?:[a-z]+ )*)(?P<value>[A-Za-z_][\w.$]*)(?P<told>(?:[ \[:=].*)?)",
    re.DOTALL,
)
_OPTION = re.compile(r"--?[A-Za-z]")
_DESCRIBES_CODE = frozenset({"function", "method", "class", "attribute", "data", "exception", "option"})
"""Classes of lists of what a module or a program has, as Sphinx wrote them before its signatures had their own."""
# What rustdoc has beside signatures and code: hints that show at the pointer, versions, links to the source, buttons.
_BESIDE_CODE = frozenset({"notable-traits", "rightside", "srclink", "test-arrow"})
# Items that lay out the members of a class in Javadoc before version 16.
_LAYOUT_ITEMS = frozenset({"blockList", "blockListLast"})
# What docutils, pandoc and books call links to notes.
_NOTE_REFERENCES = frozenset({"footnote-reference", "footnote-ref", "doc-noteref", "noteref"})
_NOTE_NUMBER = re.compile(r"\d{1,3}")
# "Next: Owls, Previous: Mice, Up: Top [Contents][Index]", as Texinfo writes it.
_TO_NEIGHBOUR = 'p > a[rel="next"], p > a[rel="prev"], p > a[rel="previous"], p > a[rel="up"]'
_MOST_LABELS = 6
# What links of headings to themselves show; fonts of icons have theirs where Unicode has no characters.
_ANCHOR = re.compile("[\u00b6#\U0001f517]|[\ue000-\uf8ff]+|TOC")
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
    text = HtmlText()
    page = text.add_page(source, field)
    if not text.builder.text():
        frames = " of its own: ingest the pages that its frames show" if page.css_first("frame, iframe") else ""
        raise EmptyDocumentError.of(field, f"is a page without text{frames}")
    title = page.css_first("head > title")
    root = page.css_first("html")
    named: dict[str, list[str]] = {}
    for node in page.css("head > meta[content]"):
        name = node.attributes.get("name") or node.attributes.get("property") or ""
        named.setdefault(name.lower(), []).append(node.attributes["content"] or "")
    one = {name: values[0] for name, values in named.items()}
    said = source_properties(
        title=title.text() if title is not None else one.get("og:title"),
        creators=named.get("author", []),
        subjects=one.get("keywords", "").split(","),
        description=one.get("description"),
        date_created=iso_date(one.get("date") or one.get("article:published_time") or ""),
        language=root.attributes.get("lang") if root is not None else None,
    )
    return text.builder.source(DocumentFormat.HTML, said, encoding)


def _checked(source: str, field: str) -> str:
    """Return the source with an end for each element that XHTML closes in its own tag, which HTML leaves open.

    Raises DocumentLimitError for what the parser would take quadratic time on, before it sees any of it.
    """
    parts: list[str] = []
    depth = position = done = 0
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
            if attribute is None:  # the tag has no end: a parser drops it with all that follows
                return "".join([*parts, source[done:]])
            position, attributes = attribute.end(), attributes + 1
            if attributes > MAX_ATTRIBUTES:
                why = f"has an element of more than {MAX_ATTRIBUTES} attributes"
                raise over_limit(field, "attributes", MAX_ATTRIBUTES, why)
        position, name = tag_end.end(), tag.group(2).lower()
        if tag_end[0].endswith("/>") and name not in _VOID:
            parts += source[done : tag_end.start()], f"></{name}>"
            done = position
            continue
        if name in _ENDS_ITSELF:  # many of them are never closed, which does not make them deep
            continue
        depth = max(0, depth - 1) if tag.group(1) else depth + 1
        if depth > MAX_DEPTH:
            why = f"has elements nested more than {MAX_DEPTH} deep"
            raise over_limit(field, "nesting_depth", MAX_DEPTH, why)
        if not tag.group(1) and name in _END_OF_RAW_TEXT:  # `<` in a script begins no tag
            raw_end = _END_OF_RAW_TEXT[name].search(source, position)
            position = raw_end.start() if raw_end is not None else len(source)
    return "".join([*parts, source[done:]])


class _Table:
    """Puts the rows of a table together; a cell that spans several rows stands in each of them."""

    def __init__(self) -> None:
        self.rows: list[list[str]] = []
        self.has_header = False
        self._row: list[str] = []
        self._is_header = True
        # For each column the text of a cell that reaches into rows below, and into how many.
        self._reaching: dict[int, tuple[str, int]] = {}

    def add_cell(self, node: Any, text: str) -> None:
        spans = (node.attributes.get(name) or "" for name in ("colspan", "rowspan"))
        columns, rows = (max(1, int(span)) if _SPAN.fullmatch(span) else 1 for span in spans)
        self._fill()
        columns = max(1, min(columns, _MOST_COLUMNS - len(self._row)))
        for content in (text, *[""] * (columns - 1)):
            if rows > 1:
                self._reaching[len(self._row)] = (content, rows - 1)
            self._row.append(content)
        self._is_header = self._is_header and node.tag == "th"

    def end_row(self, *, in_head: bool) -> None:
        if self._row:
            self._fill()
            self.has_header = self.has_header or (not self.rows and (in_head or self._is_header))
            self.rows.append(self._row)
        self._row, self._is_header = [], True

    def _fill(self) -> None:
        """Add the cells of rows above that reach down to here."""
        while (above := self._reaching.pop(len(self._row), None)) is not None:
            text, rows = above
            if rows > 1:
                self._reaching[len(self._row)] = (text, rows - 1)
            self._row.append(text)


class HtmlText:
    """Builds the text of pages, one after the other, from their nodes in document order.

    Tables become those of Markdown, whatever is inside their cells, unless they lay out the page.
    """

    def __init__(self) -> None:
        self.builder = TextBuilder()
        # For each open table, whether it lays out the page; its cells are blocks then.
        self._tables: list[bool] = []
        self._layout: set[int] = set()
        # The paragraphs that hold nothing but links to the next page and the like.
        self._between_pages: set[int] = set()
        self._table = _Table()
        self._terms: list[str] = []
        # Functions, classes and options whose description follows; they have sections of their own.
        self._signatures: list[str] = []
        self._level = 0
        self._has_headings = False
        self._inline: list[str] = []
        # For each open list the number of its last item, None where they have none.
        self._lists: list[int | None] = []
        # The lists that were open where each open section began.
        self._lists_around: list[list[int | None]] = []
        # For each open `dd` whether it is an item of a list and, if it is the section of a signature, the level around.
        self._described: list[tuple[bool, int | None]] = []
        self._marker = ""
        self._pre = 0
        self._cell_depth = 0

    def add_page(self, source: str, field: str, title: str = "") -> Any:
        """Add the text of a page, below `title` if it has text and no heading of its own; return the parsed page.

        Raises:
            DocumentLimitError: its elements are nested too deeply, or one has too many attributes.
        """
        page = load("selectolax.lexbor").LexborHTMLParser(_checked(source, field))
        self._has_headings = page.css_first(", ".join(_HEADINGS)) is not None
        if title and not self._has_headings and page.body is not None and page.body.text(strip=True):
            self.builder.heading(1, title)
        # A table with tables or headings inside, and without header cells, lays out the page.
        inside = page.css("td table, td h1, td h2, td h3") if page.css_first("td") is not None else []
        self._layout = {_table_above(node) for node in inside} - {_table_above(node) for node in page.css("th")}
        paragraphs = {link.parent.mem_id: link.parent for link in page.css(_TO_NEIGHBOUR)}
        self._between_pages = {name for name, paragraph in paragraphs.items() if _is_between_pages(paragraph)}
        node = page.root
        while node is not None:
            descends = self._enter(node)
            child = node.first_child if descends else None
            if child is not None:
                node = child
                continue
            if descends:
                self._leave(node)
            while node is not None and node.next is None:
                node = node.parent
                if node is not None:
                    self._leave(node)
            node = None if node is None else node.next
        return page

    def _enter(self, node: Any) -> bool:
        """Enter a node; return whether to descend into its children."""
        tag = node.tag
        if tag == "-text":
            # Between the lines of code of Doxygen, which are blocks, line ends would be empty lines.
            if not _is_fragment(node.parent):
                self._inline.append(node.text_content or "")
            return False
        if _is_noise(node) or node.mem_id in self._between_pages or self._is_contents(node):
            return False
        if tag == "sup" and (raised := raised_number(_only_text(node).strip())) is not None:
            self._inline.append(raised)
            return False
        if (note := _note(node)) and not self._pre:
            # Close to the word that it belongs to, as in print.
            self._inline[-1:] = [text.rstrip() for text in self._inline[-1:]]
            self._inline.append(f"[{note}]")
            return False
        if tag == "br":
            self._inline.append("\n" if self._pre else _BREAK)
        elif self._cell_depth:
            self._cell_depth += tag in _CELLS
            if tag in _ENDS_LINE:
                self._inline.append(" ")
        elif tag in _ENDS_LINE:
            self._flush(ends_verbatim=tag in _HEADINGS or tag == "table")
            self._begin_block(node)
        return True

    def _is_contents(self, node: Any) -> bool:
        """Tell whether a node is a list of links only: the menu of a site above all headings, or a table of contents.

        What a sentence introduces is neither. A page without headings may consist of such a list.
        """
        is_of_text = self._lists or self._cell_depth or not self._has_headings
        links = [] if is_of_text else _links_of(node)
        if len(links) < _FEWEST_ENTRIES:
            return False
        if not all(link.startswith("#") for link in links):
            return not self._level
        self._flush()
        above = self.builder.last()
        return not above.endswith(":") or len(above.split()) <= _MOST_LABELS

    def _is_title(self, node: Any) -> bool:
        """Tell whether a paragraph in bold is surely the title of what follows."""
        if node.tag != "p" or self._lists or self._terms or self._pre or not _is_bold(node):
            return False
        return is_question_or_numbered(on_one_line(node.text())) or _has_title(node.parent)

    def _begin_block(self, node: Any) -> None:
        match node.tag:
            case "ol":
                self._lists.append(_ordinal(node, "start", 1) - 1)
            case "ul" | "menu" | "dir":
                self._lists.append(None)
            case _ if _sets_apart(node):
                self._lists_around.append(self._lists)
                self._lists, self._marker = [], ""
            case "li":
                self._begin_item(node)
            case "dd":
                self._begin_description(node)
            case "pre" | "div" if _is_code(node):
                self._pre += 1
            case "table":
                self._tables.append(node.mem_id in self._layout)
            case "td" | "th" if not self._tables[-1]:
                self._cell_depth = 1

    def _leave(self, node: Any) -> None:
        tag = node.tag
        if self._cell_depth:
            self._leave_in_cell(node)
        elif tag in _HEADINGS:
            if self._lists or _is_box(node.parent):  # the heading of an item or a note is no heading of the page
                self._flush()
            else:
                self._end_terms()
                self._level = _HEADINGS[tag]
                if _names_member(node):
                    self._add_entry(self._level, [self._take_line()])
                else:
                    self.builder.heading(self._level, self._take_line())
        elif _is_code(node):
            self._pre -= 1
            if _is_member(node) and (line := self._take_line()):
                self.builder.add(f"`{line}`")
            else:
                self._end_verbatim()
        elif tag == "dt":
            line = self._take_line()
            is_entry = _is_signature(node) or line.endswith("?") or _OPTION.match(line) is not None
            terms = self._signatures if is_entry and not self._lists else self._terms
            terms += filter(None, [line])
        elif tag in _BLOCKS:
            if self._is_title(node):
                self.builder.heading(self._level_below(), self._take_line())
            else:
                self._flush()
            self._leave_block(node)

    def _leave_block(self, node: Any) -> None:
        match node.tag:
            case _ if _sets_apart(node):
                self._lists = self._lists_around.pop()
            case "tr":
                self._table.end_row(in_head=node.parent is not None and node.parent.tag == "thead")
            case "table" if not self._tables.pop():
                self._end_terms()
                self.builder.table(self._table.rows, has_header=self._table.has_header)
                self._table = _Table()
            case "dl":
                self._end_terms()
            case "dd":
                is_item, level_around = self._described.pop()
                if level_around is not None:
                    self._level = level_around
                    self.builder.end_section(self._level_below())
                if is_item:
                    self._lists.pop()
                    self._marker = ""
            case "li":
                self._marker = ""
            case "ul" | "ol" | "menu" | "dir":
                self._lists.pop()

    def _leave_in_cell(self, node: Any) -> None:
        """Leave an element inside a cell, or the cell."""
        if node.tag in _CELLS:
            self._cell_depth -= 1
            if not self._cell_depth:
                self._table.add_cell(node, self._take_line())
        elif node.tag in _ENDS_LINE:
            self._inline.append(" ")

    def _begin_item(self, node: Any) -> None:
        number = self._lists[-1] if self._lists else None
        self._marker = "- "
        if number is not None:
            self._lists[-1] = number = _ordinal(node, "value", number + 1)
            self._marker = f"{number}. "

    def _begin_description(self, node: Any) -> None:
        """Make what describes a term in several blocks an item, so that it shows where the last of them ends."""
        texts = (each.text_content for each in node.traverse(include_text=True) if each.tag == "-text")
        is_entry = bool(self._signatures) and any(text.strip() for text in texts)
        level_around = self._level if is_entry else None
        if is_entry:
            self._level = self._level_below()
            self._add_entry(self._level, self._signatures)
            self._signatures.clear()
        blocks = [child.tag for child in node.iter() if child.tag in _ENDS_LINE]
        # Below the text of an item, a description of one block would go on with that.
        has_end = len(blocks) > 1 or (bool(self._lists) and not self._marker)
        is_item = bool(self._terms) and has_end and _HEADINGS.keys().isdisjoint(blocks)
        self._described.append((is_item, level_around))
        if is_item:
            self._lists.append(None)
            self._marker = "- "

    def _add_entry(self, level: int, signatures: Sequence[str]) -> None:
        """Add the heading of what the signatures are of: its names. What it takes stands below, as code.

        A long signature would fill the headings that each chunk is embedded with.
        """
        matches = [None if each.endswith("?") else _SIGNATURE.fullmatch(each) for each in signatures]
        if not all(matches):
            self.builder.heading(level, ", ".join(signatures))
            return
        parts = [each.groupdict("") for each in matches if each]
        kind = parts[0]["kind"] + parts[0]["words"]
        names = ", ".join(dict.fromkeys(each["name"] + each["option"] + each["value"] for each in parts))
        self.builder.heading(level, f"{kind}{names}", marked=f"{kind}`{names}`")
        taken = (
            signature if each["type"] else (each["rest"] + each["told"]).strip()
            for signature, each in zip(signatures, parts, strict=True)
        )
        self.builder.add("\n".join(f"`{each}`" for each in taken if each))

    def _level_below(self) -> int:
        return min(len(_HEADINGS), self._level + 1)

    def _end_verbatim(self) -> None:
        text = "".join(self._inline).strip("\n")
        self._inline.clear()
        marker = self._take_marker()
        if self._terms:
            # "Undo a commit:", and below it how that is done.
            self._terms[-1] = f"{self._terms[-1].rstrip(':')}:"
            marker = ""
        self._end_terms()
        self.builder.verbatim(text, marker=marker)

    def _flush(self, *, ends_verbatim: bool = False) -> None:
        """End the paragraph, item or line that was being collected."""
        if self._pre:
            if ends_verbatim:
                self._end_verbatim()
            elif self._inline and not self._inline[-1].endswith("\n"):
                self._inline.append("\n")
            return
        lines = [on_one_line(line) for line in "".join(self._inline).split(_BREAK)]
        self._inline.clear()
        text = "\n".join(lines).strip()
        if not text:
            return
        if self._terms:
            text = f"{', '.join(self._terms).rstrip(':')}: {text}"
            self._terms.clear()
        if not self._lists:
            self.builder.add(text)
            return
        indent = _INDENT * min(_MAX_INDENTS, len(self._lists) - 1)
        marker = self._take_marker()
        lead = marker or _INDENT
        following = "\n" + indent + " " * len(lead)
        self.builder.add(indent + lead + text.replace("\n", following), tight=True)

    def _end_terms(self) -> None:
        """Add a term or a signature that no text of its own follows."""
        self.builder.add(", ".join(self._signatures + self._terms))
        self._signatures.clear()
        self._terms.clear()

    def _take_marker(self) -> str:
        marker, self._marker = self._marker, ""
        return marker

    def _take_line(self) -> str:
        line = on_one_line("".join(self._inline).replace(_BREAK, " "))
        self._inline.clear()
        return line


def _is_noise(node: Any) -> bool:
    tag = node.tag
    if tag in _BLOCKS and tag != "body":  # whose attributes say how a script shows the page
        said = node.attributes
        return "hidden" in said or (
            said.get("role") in _NOISE_ROLES
            or not _NAVIGATION.isdisjoint(_classes(node))
            or _NOT_SHOWN.search(said.get("style") or "") is not None
            or _COOKIES.search(f"{said.get('id')} {said.get('class')}") is not None
        )
    if tag in {"a", "span"} and not _BESIDE_CODE.isdisjoint(_classes(node)):
        return True
    return tag in _NOISE or (tag == "a" and _ANCHOR.fullmatch(_only_text(node).strip()) is not None)


def _is_code(node: Any) -> bool:
    return node.tag == "pre" or _is_fragment(node) or _is_member(node)


def _is_member(node: Any) -> bool:
    """Tell whether an element holds the signature of a member below its heading, as Javadoc writes it."""
    return (node.tag == "div" and "member-signature" in _classes(node)) or (
        node.tag == "pre" and node.parent is not None and _is_layout_item(node.parent)
    )


def _is_fragment(node: Any) -> bool:
    """Tell whether an element holds code of Doxygen, with a block for each line."""
    return node is not None and node.tag == "div" and node.attributes.get("class") == "fragment"


def _classes(node: Any) -> list[str]:
    return [] if node is None else (node.attributes.get("class") or "").split()


def _is_signature(node: Any) -> bool:
    """Tell whether a term is the signature of a function, class or option, as Sphinx writes them."""
    is_old = "id" in node.attributes and not _DESCRIBES_CODE.isdisjoint(_classes(node.parent))
    return is_old or "sig" in _classes(node)


def _names_member(node: Any) -> bool:
    """Tell whether a heading is that of a function or a member of a class, as rustdoc and Javadoc write them."""
    below = node.parent
    is_detail = below is not None and below.tag == "section" and "detail" in _classes(below)
    is_old = below is not None and node.tag == "h4" and _is_layout_item(below)
    return is_detail or is_old or "code-header" in _classes(node)


def _sets_apart(node: Any) -> bool:
    """Tell whether a block is a section, whatever list it stands in."""
    return node.tag == "section" or _is_layout_item(node) or _has_title(node)


def _has_title(node: Any) -> bool:
    """Tell whether an item of a list consists of a title in bold and several blocks below it."""
    if node is None or node.tag != "li":
        return False
    blocks = [each for each in islice(node.iter(), _FEWEST_BLOCKS) if each.tag in _ENDS_LINE]
    return len(blocks) == _FEWEST_BLOCKS and blocks[0].tag == "p" and _is_bold(blocks[0])


def _is_layout_item(node: Any) -> bool:
    return node.tag == "li" and not _LAYOUT_ITEMS.isdisjoint(_classes(node))


def _is_box(node: Any) -> bool:
    return node.tag in _BLOCKS and not _BOXES.isdisjoint(map(str.casefold, _classes(node)))


def _is_bold(node: Any) -> bool:
    """Tell whether all text of a paragraph is bold."""
    children = node.iter(include_text=True)
    parts = [*islice((each for each in children if each.tag != "-text" or each.text_content.strip()), 2)]
    return len(parts) == 1 and parts[0].tag in {"b", "strong"}


def _note(node: Any) -> str:
    """Return the number of the note that a link refers to, empty for all else."""
    if node.tag != "a":
        return ""
    said = node.attributes
    names = f"{said.get('class')} {said.get('role')} {said.get('epub:type')}".split()
    number = "" if _NOTE_REFERENCES.isdisjoint(names) else node.text(strip=True)
    return number if _NOTE_NUMBER.fullmatch(number) else ""


def _ordinal(node: Any, name: str, default: int) -> int:
    value = node.attributes.get(name) or ""
    return int(value) if _ORDINAL.fullmatch(value) else default


def _only_text(node: Any) -> str:
    """Return the text that is all there is in an element or in a link in it, else an empty one."""
    child = node.first_child
    if child is not None and child.tag == "a" and child.next is None:
        child = child.first_child
    is_alone = child is not None and child.tag == "-text" and child.next is None
    return child.text_content or "" if is_alone else ""


def _is_between_pages(node: Any) -> bool:
    """Tell whether a paragraph says nothing but where its links lead."""
    linked = sum(len(each.text().split()) for each in node.css("a"))
    return len(node.text().split()) - linked <= _MOST_LABELS


def _links_of(node: Any) -> list[str]:
    """Return where the links of a list lead that consists of nothing else, empty for any other node."""
    links: list[str] = []
    nodes = node.traverse(include_text=True) if node.tag in {"ol", "ul"} else ()
    for number, each in enumerate(nodes):
        if number == _MOST_NODES:
            return []
        if each.tag == "a":
            links.append(each.attributes.get("href") or "")
        elif each.tag == "-text" and each.text_content.strip() and not _is_linked(each):
            return []
    return links


def _is_linked(text: Any) -> bool:
    for _ in range(_MOST_MARKS):
        text = text.parent
        if text is None or text.tag == "a":
            break
    return text is not None and text.tag == "a"


def _table_above(node: Any) -> int:
    """Return the id of the table that a node is in, 0 for none near."""
    for _ in range(_MAX_STEPS):
        node = node.parent
        if node is None or node.tag == "table":
            break
    return node.mem_id if node is not None and node.tag == "table" else 0
