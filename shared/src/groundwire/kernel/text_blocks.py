"""Cuts Markdown or plain text into blocks, so that sentences never run across a heading, a table or code."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum


class BlockKind(StrEnum):
    """What a run of lines is."""

    PROSE = "prose"
    LIST_ITEM = "list_item"
    HEADING = "heading"
    CODE = "code"
    TABLE = "table"
    MARKUP = "markup"


@dataclass(frozen=True, slots=True)
class Block:
    """A run of lines, half-open in code points of the text it was cut from.

    Quote marks (`>`) before the first line are outside the range; those between lines are inside.
    """

    kind: BlockKind
    start: int
    end: int


_FENCE = re.compile(r"\s*(`{3,}|~{3,})(.*)")
_HEADING = re.compile(r" {0,3}#{1,6}(?:\s|$)")
_UNDERLINE = re.compile(r" {0,3}(?:={2,}|-{2,})\s*$")
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,4}[.)])\s+\S")
_TABLE = re.compile(r"\s*\|.*\|?\s*$|\s*:?-{2,}:?\s*\|")
# Raw HTML, comments, template directives, link definitions, rules: layout, not statements.
_MARKUP = re.compile(
    r"\s*(?:</?[A-Za-z!][^>]*+>?\s*$|<!--|<(?:span|a|img|Listing)\b|\{\{|\[[^\]]+\]:\s|!\[|(?:[-*_]\s*){3,}$)"
)
_QUOTE = re.compile(r"(?: {0,3}> ?)+")
_LINE_END = re.compile(r"\r\n|\n|\r")
_BACKTICKS = re.compile(r"`+")
_STARTS = (
    (BlockKind.HEADING, _HEADING),
    (BlockKind.MARKUP, _MARKUP),
    (BlockKind.TABLE, _TABLE),
    (BlockKind.LIST_ITEM, _LIST_ITEM),
)
_CONTINUED = frozenset({BlockKind.PROSE, BlockKind.LIST_ITEM})


def split_blocks(text: str) -> list[Block]:
    """Return the blocks of a text in order; blank lines belong to none.

    A text that is itself a piece of a larger one may begin inside a code fence; that is recognised
    by a fence with a language name where only a closing fence could stand.
    """
    blocks: list[Block] = []
    fence = "`" if _begins_in_code(text) else ""
    follows = False
    comment_end, last_close = 0, text.rfind("-->")
    for start, end in _lines(text):
        line = text[start:end]
        # Inside a comment, and behind one that never closes, no further search for an end is needed or finds one.
        if not fence and start >= comment_end and start < last_close and line.lstrip().startswith("<!--"):
            comment_end = max(end, text.find("-->", start))
        if start < comment_end:
            _add(blocks, BlockKind.MARKUP, start, end, joins=follows)
            follows = True
            continue
        marker = _FENCE.match(line)
        if marker is not None and (not fence or _closes(marker, fence)):
            _add(blocks, BlockKind.CODE, start, end, joins=bool(fence))
            fence = "" if fence else marker.group(1)
        elif fence:
            _add(blocks, BlockKind.CODE, start, end, joins=True)
        elif line.strip():
            _add_line(blocks, _kind_of(line, blocks[-1] if follows else None), line, start, end, follows=follows)
        follows = bool(line.strip())
    return blocks


def code_spans(text: str, start: int, end: int) -> list[tuple[int, int]]:
    """Return the code spans of text[start:end], with their backticks, in order (CommonMark 0.31, section 6.1).

    A run of backticks opens a span that the next run of the same length closes. Linear in the length of the text.
    """
    runs = [run.span() for run in _BACKTICKS.finditer(text, start, end)]
    closing: list[int | None] = [None] * len(runs)
    next_of_length: dict[int, int] = {}
    for number in range(len(runs) - 1, -1, -1):
        length = runs[number][1] - runs[number][0]
        closing[number] = next_of_length.get(length)
        next_of_length[length] = number
    spans, number = [], 0
    while number < len(runs):
        closer = closing[number]
        if closer is not None:
            spans.append((runs[number][0], runs[closer][1]))
        number = 1 + (number if closer is None else closer)
    return spans


def _lines(text: str) -> Iterator[tuple[int, int]]:
    """Iterate over the lines without their ends and without quote marks at the front."""
    start = 0
    for match in _LINE_END.finditer(text):
        yield _unquoted(text, start, match.start()), match.start()
        start = match.end()
    if start < len(text):
        yield _unquoted(text, start, len(text)), len(text)


def _unquoted(text: str, start: int, end: int) -> int:
    quote = _QUOTE.match(text, start, end)
    return quote.end() if quote else start


def _closes(fence_line: re.Match[str], fence: str) -> bool:
    run, info = fence_line.group(1), fence_line.group(2)
    return run[0] == fence[0] and len(run) >= len(fence) and not info.strip()


def _begins_in_code(text: str) -> bool:
    """Tell whether reading from outside code would put a language name on a closing fence."""
    fences = [match for start, end in _lines(text) if (match := _FENCE.match(text[start:end]))]
    closing = fences[1::2]
    opening = fences[::2]
    return any(match.group(2).strip() for match in closing) and not any(match.group(2).strip() for match in opening)


def _kind_of(line: str, above: Block | None) -> BlockKind:
    """Return the kind of a line outside code; `above` is the block the line directly follows, if any."""
    if above is not None and above.kind is BlockKind.PROSE and _UNDERLINE.match(line):
        return BlockKind.HEADING
    for kind, pattern in _STARTS:
        if pattern.match(line):
            return kind
    return above.kind if above is not None and above.kind in _CONTINUED else BlockKind.PROSE


def _add_line(blocks: list[Block], kind: BlockKind, line: str, start: int, end: int, *, follows: bool) -> None:
    if kind is BlockKind.HEADING:
        underlined = _HEADING.match(line) is None
        blocks.append(Block(kind, blocks.pop().start if underlined else start, end))
        return
    begins_item = kind is BlockKind.LIST_ITEM and _LIST_ITEM.match(line) is not None
    _add(blocks, kind, start, end, joins=follows and not begins_item)


def _add(blocks: list[Block], kind: BlockKind, start: int, end: int, *, joins: bool) -> None:
    if joins and blocks and blocks[-1].kind is kind:
        blocks[-1] = Block(kind, blocks[-1].start, end)
    else:
        blocks.append(Block(kind, start, end))
