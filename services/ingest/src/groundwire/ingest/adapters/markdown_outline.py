"""Read the outline of a Markdown text with markdown-it-py.

Only the block rules run (5 MB/s, measured); the inline rules would take ten times as long and find nothing that is
needed. Its source maps count lines, which are turned into code points of the untouched text here.
"""

import re
from functools import lru_cache
from itertools import pairwise

from markdown_it import MarkdownIt
from markdown_it.token import Token

from groundwire.ingest.domain.outline import Heading, Outline
from groundwire.kernel.sentences import heading_text

_LINE_END = re.compile(r"\r\n?|\n")
_INLINE_RULES = ["inline", "text_join"]
_VERBATIM = frozenset({"fence", "code_block", "html_block"})


def markdown_outline(text: str, start: int = 0) -> Outline:
    """Return the headings and verbatim blocks of `text` from code point `start`, a line start, on.

    Headings in code, HTML, lists and quotes are not structure. Headings without words are left out.
    """
    body = text[start:]
    line_starts = [start, *(start + found.end() for found in _LINE_END.finditer(body))]
    line_starts.append(len(text))
    tokens = _parser().parse(body)
    headings = [
        _heading(opening, content, line_starts)
        for opening, content in pairwise(tokens)
        if opening.type == "heading_open" and opening.level == 0
    ]
    verbatim = [_range(token, line_starts) for token in tokens if token.type in _VERBATIM]
    return Outline(tuple(heading for heading in headings if heading.text), tuple(verbatim))


@lru_cache(maxsize=1)
def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark").disable(_INLINE_RULES)


def _heading(opening: Token, content: Token, line_starts: list[int]) -> Heading:
    start, end = _range(opening, line_starts)
    return Heading(int(opening.tag[1]), heading_text(content.content), start, end)


def _range(token: Token, line_starts: list[int]) -> tuple[int, int]:
    if token.map is None:
        raise AssertionError("block tokens of markdown-it-py carry a source map")
    first, after_last = token.map
    return line_starts[first], line_starts[min(after_last, len(line_starts) - 1)]
