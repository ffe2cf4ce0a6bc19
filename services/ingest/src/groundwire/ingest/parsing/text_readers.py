"""Readers of plain text, Markdown, notebooks, reStructuredText, CSV and JSON Lines."""

import csv
import io
import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from email.parser import HeaderParser
from email.utils import getaddresses
from itertools import pairwise
from typing import Any

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from groundwire.ingest.chunking.cuts import Heading, TextOutline
from groundwire.ingest.parsing.source_text import (
    REPLACEMENT,
    SourceProperties,
    SourceText,
    TextBuilder,
    fenced,
    iso_date,
    load,
    malformed,
    on_one_line,
    source_properties,
    without_blank_lines,
)
from groundwire.ingest.parsing.text_outline import text_outline
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.restructured_text import Description, descriptions, without_roles
from groundwire.kernel.sentences import MAX_HEADING_CHARS, heading_text

MAX_BLOCK_CHARS = 65_536
"""A longer block is no front matter."""
_BLOCK = re.compile(r"---[ \t]*(?:\r\n|\n|\r)(.*?)^(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t].*)?$")
_ALIASES = {"author": "creators", "authors": "creators", "creator": "creators", "keywords": "subjects"}
_ALIASES |= {"subject": "subjects", "lang": "language", "summary": "description", "date_created": "date"}

_LANGUAGE = re.compile(r"[\w+#.-]{1,40}")
_LEAST_FIELDS = 3
_FIELD_MARK = re.compile(r"^:(?=[\w-]+:)", re.MULTILINE)
_LINE_END = re.compile(r"\r\n?|\n")
# The inline rules would take ten times as long as the rules for blocks (5 MB/s) and find nothing that is needed.
_PARSER = MarkdownIt("commonmark").disable(["inline", "text_join"])
_VERBATIM = frozenset({"fence", "code_block", "html_block"})
# What lies between is bounded by the next heading, so that the search is linear.
_HTML_HEADING = re.compile(r"<h([1-6])\b[^<>]*+>((?:(?!</?h[1-6]\b).)*+)</h\1\s*+>", re.IGNORECASE | re.DOTALL)
_LINE_ENDS = "\r\n\x1c\x1d\x1e\x85\u2028\u2029"
# docutils reads vertical tabs and form feeds as spaces, where Python ends a line.
_SPACE_FOR_DOCUTILS = {0x0B: " ", 0x0C: " "}
_MAX_LEVEL = 6
_NEVER = 5
# Nothing outside the text is read, nothing raw is taken over, no configuration file is looked for.
_SETTINGS = {
    "_disable_config": True,
    "file_insertion_enabled": False,
    "raw_enabled": False,
    "report_level": _NEVER,
    "halt_level": _NEVER,
    "syntax_highlight": "none",
    "warning_stream": False,
    # docutils refuses lines above 10,000 characters otherwise.
    "line_length_limit": 1 << 30,
}
_DELIMITERS = ",;\t|"
# The module refuses cells above 131,072 characters otherwise.
_MAX_CELL_CHARS = 1 << 20
# The first line of a file without line ends may be all of it.
_HEAD_CHARS = 1 << 16


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """The fields of a front matter block; `end` is the code point after it, 0 if there is none."""

    end: int = 0
    properties: SourceProperties = field(default_factory=SourceProperties)


def read_markdown(text: str) -> SourceText:
    front_matter = read_front_matter(text)
    return SourceText(
        format=DocumentFormat.MARKDOWN,
        text=text,
        outline=markdown_outline(text, front_matter.end),
        body_start=front_matter.end,
        properties=front_matter.properties.fields,
        warnings=front_matter.properties.warnings,
    )


def read_notebook(text: str, field: str) -> SourceText:
    """Return the Markdown and the code of a Jupyter notebook (nbformat 4) in the order of its cells, as Markdown.

    What the code has printed is left out: it may be anything, and changes with each run. What is no such notebook stays
    the text that it is.

    Raises:
        EmptyDocumentError: no cell has text.
    """
    try:
        book = json.loads(text)
        cells = [(cell["cell_type"], "".join(cell["source"])) for cell in book["cells"]]
        language = str(book["metadata"].get("language_info", {}).get("name", ""))
    except (ValueError, LookupError, TypeError, AttributeError, RecursionError):
        return read_text(text)
    markdown = TextBuilder()
    for kind, content in cells:
        if kind == "markdown":
            markdown.add(content.strip("\r\n"))
        elif kind == "code" and content.strip():
            markdown.add(fenced(content.strip("\r\n"), language if _LANGUAGE.fullmatch(language) else ""))
    if not markdown.text():
        raise EmptyDocumentError.of(field, "is a notebook without text")
    return read_markdown(markdown.text())


def markdown_outline(text: str, start: int = 0) -> TextOutline:
    """Return the headings and verbatim blocks of `text` from code point `start`, a line start, on.

    Headings in code, comments, lists and quotes are not structure. Headings without words are left out.
    """
    body = text[start:]
    # The library counts lines; here they become code points of the untouched text.
    line_starts = [start, *(start + match.end() for match in _LINE_END.finditer(body)), len(text)]

    def code_points(token: Token) -> tuple[int, int]:
        if token.map is None:
            raise AssertionError("block tokens of markdown-it-py carry a source map")
        first, after_last = token.map
        return line_starts[first], line_starts[min(after_last, len(line_starts) - 1)]

    tokens = _PARSER.parse(body)
    headings = [
        Heading(int(opening.tag[1]), heading_text(content.content), *code_points(opening))
        for opening, content in pairwise(tokens)
        if opening.type == "heading_open" and opening.level == 0
    ]
    # Many pages give their title in HTML, which centres it.
    in_html = (
        match
        for token in tokens
        if token.type == "html_block" and token.level == 0 and not token.content.lstrip().startswith("<!--")
        for match in _HTML_HEADING.finditer(text, *code_points(token))
    )
    headings += (Heading(int(match[1]), heading_text(on_one_line(match[2])), *match.span()) for match in in_html)
    named = sorted((heading for heading in headings if heading.text), key=lambda each: each.start)
    return TextOutline(tuple(named), tuple(code_points(token) for token in tokens if token.type in _VERBATIM))


def read_front_matter(text: str) -> FrontMatter:
    """Return the fields of the block at the top of `text`, or an empty result when there is none.

    Values keep the rules for values in requests; those that do not are left out and counted.
    """
    block = _BLOCK.match(text, 0, MAX_BLOCK_CHARS)
    lines = block.group(1).splitlines() if block else []
    keys = [(index, key) for index, line in enumerate(lines) if (key := _KEY.match(line))]
    if block is None or not keys:
        return FrontMatter()
    entries: dict[str, list[str]] = {}
    ends = [*(index for index, _ in keys[1:]), len(lines)]
    for (start, key), end in zip(keys, ends, strict=True):
        name = key.group(1).lower()
        entries[_ALIASES.get(name, name)] = lines[start:end]

    def many(name: str) -> list[str]:
        return _values(entries[name]) if name in entries else []

    def one(name: str) -> str | None:
        values = many(name)
        return values[0] if len(values) == 1 else None

    date = one("date") or ""
    date_created = iso_date(date)
    properties = source_properties(
        title=one("title"),
        creators=many("creators"),
        subjects=many("subjects"),
        description=one("description"),
        date_created=date_created,
        language=one("language"),
        category=one("category"),
        tags=many("tags"),
        project=one("project"),
    )
    return FrontMatter(block.end(), replace(properties, ignored=properties.ignored + bool(date and not date_created)))


def _values(entry: Sequence[str]) -> list[str]:
    """Return the texts that the lines of one key hold: one, or those of a list.

    Each entry is read alone, so that one that is no YAML costs no other; often it is a title with a colon in it, and
    the rest of its line is the value.
    """
    try:
        # Without types, in which a date or a version would come back as another text than the one in the file; and not
        # the loader in C, which ends the process when lists are nested too deeply.
        value = next(iter(yaml.load("\n".join(entry), Loader=yaml.BaseLoader).values()))
    except (yaml.YAMLError, ValueError, RecursionError):  # PyYAML lets the ValueError of `chr` through
        value = entry[0].partition(":")[2]
    texts = value if isinstance(value, list) else [value]
    # Authors are often written with their e-mail addresses and the like beside the name.
    texts = [each.get("name") if isinstance(each, dict) and isinstance(value, list) else each for each in texts]
    # What is nested deeper fits into no field: the replacement character makes it one of the ignored values.
    stripped = (each.strip() if isinstance(each, str) else REPLACEMENT for each in texts)
    return [each for each in stripped if each]


def read_text(text: str) -> SourceText:
    said = read_header(text)
    return SourceText(DocumentFormat.TEXT, text, text_outline(text), properties=said.fields, warnings=said.warnings)


def read_rst(text: str) -> SourceText:
    said = read_header(text)
    return SourceText(DocumentFormat.RST, text, rst_outline(text), properties=said.fields, warnings=said.warnings)


def read_header(text: str) -> SourceProperties:
    """Return title and authors of the header at the top of a text: `Title: Style Guide`, one field to a line.

    Only one that has a title among at least three fields is a header; that of a PEP is one. In reStructuredText each
    line may begin with a colon.
    """
    header = HeaderParser().parsestr(_FIELD_MARK.sub("", text[:_HEAD_CHARS].lstrip()))
    if len(header) < _LEAST_FIELDS or "title" not in header:
        return SourceProperties()
    stated = [str(value) for name in ("author", "authors") for value in header.get_all(name, [])]
    authors: list[tuple[str, str]] = []
    with suppress(RecursionError):  # comments in comments, of which nobody wrote so many
        authors = getaddresses(stated)
    return source_properties(title=str(header["title"]), creators=[name or address for name, address in authors])


def rst_outline(text: str) -> TextOutline:
    """Return the section titles of `text`, and below them the names of what Sphinx describes, such as functions.

    There are none when it is nested too deeply for docutils.
    """
    nodes, rst = load("docutils.nodes"), load("docutils.parsers.rst")
    settings = load("docutils.frontend").get_default_settings(rst.Parser)
    for name, value in _SETTINGS.items():
        setattr(settings, name, value)
    document = load("docutils.utils").new_document("source", settings)
    try:
        rst.Parser().parse(text, document)
        titles = list(document.findall(nodes.title))
    except RecursionError:
        return TextOutline()
    # The code points of each line, without its end, that docutils counts.
    lines: list[tuple[int, int]] = []
    start = 0
    for line in text.translate(_SPACE_FOR_DOCUTILS).splitlines(keepends=True):
        lines.append((start, start + len(line.rstrip(_LINE_ENDS))))
        start += len(line)
    headings: list[Heading] = []
    for title in titles:
        level, parent = 0, title.parent
        while isinstance(parent, nodes.section):
            level, parent = level + 1, parent.parent
        source, words = on_one_line(title.rawsource), on_one_line(without_roles(title.astext()))
        # Titles of topics and tables head no section.
        if not level or not words or title.line is None:
            continue
        # docutils counts the line of a title from its underline, its overline or itself: the likeliest first.
        numbers = (title.line - 1, title.line, title.line - 2, title.line + 1)
        places = (number for number in numbers if 1 <= number <= len(lines))
        number = next((each for each in places if on_one_line(text[slice(*lines[each - 1])]) == source), None)
        if number is None:
            continue
        # With the lines of punctuation around it.
        first = number - 2 if number > 1 and _is_rule(text[slice(*lines[number - 2])]) else number - 1
        last = number if number < len(lines) and _is_rule(text[slice(*lines[number])]) else number - 1
        if not headings or headings[-1].end <= lines[first][0]:
            name = words[:MAX_HEADING_CHARS].rstrip()
            headings.append(Heading(min(_MAX_LEVEL, level), name, lines[first][0], lines[last][1]))
    return TextOutline(tuple(_with_descriptions(text, headings)))


def _with_descriptions(text: str, titles: Sequence[Heading]) -> list[Heading]:
    """Return the titles and the names of what is described below them, in order.

    What stands behind a description belongs to the section around it, which goes on with a heading of no length.
    """
    headings: list[Heading] = []
    section: Heading | None = None
    opened: list[tuple[int, Heading]] = []  # descriptions with their ends, the outermost first

    def close_before(start: int) -> None:
        while opened and opened[-1][0] <= start:
            end = opened.pop()[0]
            around = opened[-1][1] if opened else section
            behind = text[end : min(start, opened[-1][0]) if opened else start]
            # Not for targets of links and the like, which nobody reads.
            has_text = any(line.strip() and not line.lstrip().startswith("..") for line in behind.splitlines())
            if has_text and around is not None:
                place = end + len(behind) - len(behind.lstrip())
                headings.append(replace(around, start=place, end=place))

    entries: list[Heading | Description] = [*titles, *descriptions(text)]
    for each in sorted(entries, key=lambda each: each.start):
        close_before(each.start)
        if isinstance(each, Heading):
            section = each
            headings.append(each)
        else:
            around = opened[-1][1] if opened else section
            level = min(_MAX_LEVEL, around.level + 1 if around else 1)
            headings.append(Heading(level, each.name[:MAX_HEADING_CHARS].rstrip(), each.start, each.body))
            opened.append((each.end, headings[-1]))
    close_before(len(text))
    return headings


def _is_rule(line: str) -> bool:
    """Tell whether a line is one punctuation character over and over."""
    mark = line.strip()
    return len(set(mark)) == 1 and not mark[0].isalnum()


def read_csv(text: str, field: str) -> SourceText:
    """Return the rows below the header as records, each value as `column: value`; empty values are left out.

    The delimiter is the one of `,`, `;`, tab and `|` that the first line has most of.

    Raises:
        EmptyDocumentError: there is no row with a value.
        DocumentMalformedError: the quotes are broken; names the line.
    """
    csv.field_size_limit(_MAX_CELL_CHARS)
    first = next((line for line in text[:_HEAD_CHARS].splitlines() if line.strip()), "")
    delimiter = max(_DELIMITERS, key=first.count)
    rows = csv.reader(io.StringIO(text, newline=""), delimiter=delimiter, strict=True)
    records = TextBuilder()
    header: list[str] | None = None
    try:
        for row in rows:
            if header is None:
                header = [on_one_line(name) or f"column {number}" for number, name in enumerate(row, start=1)]
                continue
            beyond = (f"column {number}" for number in range(len(header) + 1, len(row) + 1))
            values = ((name, without_blank_lines(value)) for name, value in zip((*header, *beyond), row, strict=False))
            records.add("\n".join(f"{name}: {value}" for name, value in values if value))
    except csv.Error as error:
        raise malformed(field, DocumentFormat.CSV, f"line {rows.line_num}: {error}") from None
    return _source(DocumentFormat.CSV, records, field)


def read_jsonl(text: str, field: str) -> SourceText:
    """Return each line as a record: an object as `key: value` lines, keys of inner objects joined by dots.

    Numbers stay as they are written. Empty values and null are left out.

    Raises:
        EmptyDocumentError: there is no line with a value.
        DocumentMalformedError: a line is no JSON; names it.
    """
    records = TextBuilder()
    # A float would come back as another text than the one in the file.
    decoder = json.JSONDecoder(parse_float=_Written, parse_int=_Written, parse_constant=_Written, strict=False)
    for number, line in enumerate(io.StringIO(text), start=1):
        if not line.strip():
            continue
        try:
            lines = list(_lines_of(decoder.decode(line.strip()), ""))
        except RecursionError:
            raise malformed(field, DocumentFormat.JSONL, f"line {number} is nested too deeply") from None
        except json.JSONDecodeError as error:
            why = f"line {number}, column {error.colno}: {error.msg}"
            raise malformed(field, DocumentFormat.JSONL, why) from None
        records.add("\n".join(lines))
    return _source(DocumentFormat.JSONL, records, field)


class _Written(str):
    """A number, kept as the source writes it."""

    __slots__ = ()


def _source(document_format: DocumentFormat, records: TextBuilder, field: str) -> SourceText:
    text = records.text()
    if not text:
        raise EmptyDocumentError.of(field, "has no record with a value")
    return SourceText(document_format, text)


def _lines_of(value: Any, path: str) -> Iterator[str]:
    """Yield the lines of a JSON value; a list of simple values is one line."""
    match value:
        case dict():
            for key, inner in value.items():
                yield from _lines_of(inner, f"{path}.{on_one_line(key)}" if path else on_one_line(key))
        case list() if any(isinstance(inner, dict | list) for inner in value):
            for number, inner in enumerate(value):
                yield from _lines_of(inner, f"{path}[{number}]")
        case _:
            written = _written(value)
            if written:
                yield f"{path}: {written}" if path else written


def _written(value: Any) -> str:
    match value:
        case None:
            return ""
        case bool():
            return "true" if value else "false"
        case list():
            return ", ".join(filter(None, map(_written, value)))
        case _:
            return without_blank_lines(str(value))
