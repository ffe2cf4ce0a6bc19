"""Read reStructuredText: its outline with docutils; the text itself stays as it is."""

from collections.abc import Sequence
from typing import Any

from groundwire.ingest.chunking.headings import Heading, TextOutline
from groundwire.ingest.parsing.source_text import SourceText, load, on_one_line
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.sentences import MAX_HEADING_CHARS

_LINE_ENDS = "\r\n\x1c\x1d\x1e\x85\u2028\u2029"
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
    "line_length_limit": 1 << 30,
}


def read_rst(text: str) -> SourceText:
    """Return a text with its section titles as headings."""
    return SourceText(DocumentFormat.RST, text, rst_outline(text))


def rst_outline(text: str) -> TextOutline:
    """Return the section titles of `text`; none when it is nested too deeply for docutils."""
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
        heading = _heading(title, nodes, text, lines)
        if heading is not None and (not headings or headings[-1].end <= heading.start):
            headings.append(heading)
    return TextOutline(tuple(headings))


def _heading(title: Any, nodes: Any, text: str, lines: Sequence[tuple[int, int]]) -> Heading | None:
    """Return the heading with its line and the lines of punctuation around it; None for other titles."""
    level, parent = 0, title.parent
    while isinstance(parent, nodes.section):
        level, parent = level + 1, parent.parent
    source, words = on_one_line(title.rawsource), on_one_line(title.astext())
    if not level or not words or title.line is None:
        return None
    # docutils counts the line of a title from its underline, its overline or itself: the likeliest first.
    for number in (title.line - 1, title.line, title.line - 2, title.line + 1):
        if 1 <= number <= len(lines) and on_one_line(text[slice(*lines[number - 1])]) == source:
            first = number - 2 if number > 1 and _is_rule(text[slice(*lines[number - 2])]) else number - 1
            last = number if number < len(lines) and _is_rule(text[slice(*lines[number])]) else number - 1
            return Heading(min(_MAX_LEVEL, level), words[:MAX_HEADING_CHARS].rstrip(), lines[first][0], lines[last][1])
    return None


def _is_rule(line: str) -> bool:
    """Tell whether a line is one punctuation character over and over."""
    mark = line.strip()
    return len(set(mark)) == 1 and not mark[0].isalnum()
