"""Read Markdown: its outline with markdown-it-py, its front matter with PyYAML; the text itself stays as it is.

Front matter is lines between `---` and `---` (or `...`), the first at the very top, that begin with `key: value` pairs.
The block stays in the canonical text, but no chunk is made of it.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from itertools import pairwise

import yaml
from markdown_it import MarkdownIt
from markdown_it.token import Token

from groundwire.ingest.chunking.headings import Heading, TextOutline
from groundwire.ingest.parsing.source_properties import SourceProperties, source_properties
from groundwire.ingest.parsing.source_text import REPLACEMENT, SourceText
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.sentences import heading_text

MAX_BLOCK_CHARS = 65_536
"""A longer block is no front matter."""
_BLOCK = re.compile(r"---[ \t]*(?:\r\n|\n|\r)(.*?)^(?:---|\.\.\.)[ \t]*(?:\r\n|\n|\r|\Z)", re.DOTALL | re.MULTILINE)
_KEY = re.compile(r"([A-Za-z][\w-]*)[ \t]*:(?:[ \t].*)?$")
_ALIASES = {"author": "creators", "authors": "creators", "creator": "creators", "keywords": "subjects"}
_ALIASES |= {"subject": "subjects", "lang": "language", "summary": "description", "date_created": "date"}

_LINE_END = re.compile(r"\r\n?|\n")
# The inline rules would take ten times as long as the rules for blocks (5 MB/s) and find nothing that is needed.
_PARSER = MarkdownIt("commonmark").disable(["inline", "text_join"])
_VERBATIM = frozenset({"fence", "code_block", "html_block"})


@dataclass(frozen=True, slots=True)
class FrontMatter:
    """What a front matter block says; `end` is the code point after the block, 0 when there is none."""

    end: int = 0
    properties: SourceProperties = field(default_factory=SourceProperties)


def read_markdown(text: str) -> SourceText:
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


def markdown_outline(text: str, start: int = 0) -> TextOutline:
    """Return the headings and verbatim blocks of `text` from code point `start`, a line start, on.

    Headings in code, HTML, lists and quotes are not structure. Headings without words are left out.
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
    verbatim = [code_points(token) for token in tokens if token.type in _VERBATIM]
    return TextOutline(tuple(heading for heading in headings if heading.text), tuple(verbatim))


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

    date, date_created, ignored = one("date"), None, 0
    try:
        date_created = datetime.fromisoformat(date) if date else None
    except ValueError:
        ignored = 1
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
    return FrontMatter(block.end(), replace(properties, ignored=properties.ignored + ignored))


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
    # What is nested deeper fits into no field: the replacement character makes it one of the ignored values.
    stripped = (each.strip() if isinstance(each, str) else REPLACEMENT for each in texts)
    return [each for each in stripped if each]
