"""Cuts Markdown or plain text into blocks and sentences that are exact ranges of it, and reads headings.

Blocks come first, so that sentences never run across a heading, a table or code.
"""

import html
import re
from collections.abc import Iterator, Sequence
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
# A footnote is read like an item: it begins a block, whatever precedes it.
_LIST_ITEM = re.compile(r"\s*(?:[-*+•]|\d{1,4}[.)]|\[\^[^\]\s]{1,40}\]:)\s+\S")
_TABLE_RULE = re.compile(r"\s*+:?-++:?\s*+\|[\s|:-]*+$")
_TABLE = re.compile(rf"\s*\|.*\|?\s*$|{_TABLE_RULE.pattern}")
# Raw HTML, comments, template directives, link definitions, rules: layout, not statements.
_MARKUP = re.compile(
    r"\s*(?:</?[A-Za-z!][^>]*+>?\s*$|<!--|<(?:span|a|img|Listing)\b|\{\{|\[[^\]^][^\]]*\]:\s|\[?!\[|(?:[-*_]\s*){3,}$)"
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
_CODE_INDENT = 2
_PARAGRAPH = re.compile(r"(?:[ \t]*\S[^\n]*(?:\n|\Z))+")
_FULL_STOP = re.compile(r"[^\s./][.!?][\"')\u201d]*\s*\Z")
_CONTINUED = frozenset({BlockKind.PROSE, BlockKind.LIST_ITEM})


def split_blocks(text: str, written: str = "") -> list[Block]:
    """Return the blocks of a text in order; blank lines belong to none.

    The text may be a piece of a larger one, and begin inside a code fence. Spaces may stand in it for the tags of the
    text as it was `written`, of the same length; it is by the indents there that code without a fence is known.
    """
    written = written or text
    blocks: list[Block] = []
    fence = "`" if _begins_in_code([text[start:end] for start, end in _lines(text)]) else ""
    follows = False
    comment_end, last_close = 0, text.rfind("-->")
    code_indent = 0  # of code without a fence
    for start, end in _lines(text):
        line = text[start:end]
        if line.strip() and not fence and start >= comment_end:
            is_code = code_indent > 0 and _indent(written[start:end]) >= code_indent
            if not is_code:
                code_indent = 0 if follows or not blocks else _code_indent(text, written, blocks[-1], start)
            if code_indent:
                _add(blocks, BlockKind.CODE, start, end, joins=is_code)
                follows = True
                continue
        # Inside a comment, or after an unclosed one, searching for an end again would only take time.
        if not fence and start >= comment_end and start < last_close and line.lstrip().startswith("<!--"):
            comment_end = max(end, text.find("-->", start))
        if start < comment_end:
            _add(blocks, BlockKind.MARKUP, start, end, joins=follows)
            follows = True
            continue
        marker = _FENCE.match(line)
        run, info = marker.groups() if marker else ("", "")
        closes = run[:1] == fence[:1] and len(run) >= len(fence) and not info.strip()
        if marker is not None and (not fence or closes):
            _add(blocks, BlockKind.CODE, start, end, joins=bool(fence))
            fence = "" if fence else run
        elif fence:
            _add(blocks, BlockKind.CODE, start, end, joins=True)
        elif line.strip():
            _add_line(blocks, text, start, end, follows=follows)
        follows = bool(line.strip())
    return blocks


def _code_indent(text: str, written: str, above: Block, start: int) -> int:
    """Return the indent of the code that begins below a block and a blank line, 0 where none does.

    Code without a fence stands below a line that ends with a colon, further to the right than that; a quote ends with a
    full stop. CommonMark asks for four columns, but plain text is content with two.
    """
    lead_in = written[above.start : above.end]
    if above.kind not in _CONTINUED or not lead_in.rstrip().endswith(":"):
        return 0
    marker, paragraph = _MARKER.match(lead_in), _PARAGRAPH.match(written, start)
    if marker is None or paragraph is None or _FULL_STOP.search(paragraph[0]):
        return 0
    line, indent = text[start : paragraph.end()].partition("\n")[0], _indent(paragraph[0])
    is_something_else = any(pattern.match(line) for _, pattern in _STARTS)
    return 0 if is_something_else or indent < marker.end() + _CODE_INDENT else indent


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))


def _begins_in_code(lines: Sequence[str]) -> bool:
    """Tell whether the first fence of a text ends code that began before the text.

    Then a language stands where only a closing fence could, or the first of an odd number of fences stands like one:
    right below a line, with a blank one, one further to the left or nothing below it.
    """
    fences = {at: match[2].strip() for at, line in enumerate(lines) if (match := _FENCE.match(line))}
    languages = [*fences.values()]
    if any(languages):
        return any(languages[1::2]) and not any(languages[::2])
    first = next(iter(fences), 0)
    is_below_line = first > 0 and lines[first - 1].strip() != ""
    after = lines[first + 1] if first + 1 < len(lines) else ""
    ends_there = not after.strip() or _indent(after) < _indent(lines[first])
    return len(fences) % 2 == 1 and is_below_line and ends_there


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


def _add_line(blocks: list[Block], text: str, start: int, end: int, *, follows: bool) -> None:
    """Add a line outside code, which directly `follows` the last block or not."""
    line = text[start:end]
    above = blocks[-1].kind if follows else None
    if above is BlockKind.PROSE and _UNDERLINE.match(line):
        blocks[-1] = Block(BlockKind.HEADING, blocks[-1].start, end)
        return
    if above is BlockKind.PROSE and _TABLE_RULE.match(line) and _take_header(blocks, text):
        above = BlockKind.TABLE
    kind = next((kind for kind, pattern in _STARTS if pattern.match(line)), None)
    if kind is None and above is BlockKind.TABLE and "|" in line:
        kind = BlockKind.TABLE
    # Headings and items are blocks of their own, though nothing may separate them.
    joins = follows and kind not in {BlockKind.HEADING, BlockKind.LIST_ITEM}
    continued = above if above in _CONTINUED else BlockKind.PROSE
    _add(blocks, kind or continued, start, end, joins=joins)


def _take_header(blocks: list[Block], text: str) -> bool:
    """Make the last line a table if it has cells: a row needs no border at its ends."""
    block = blocks[-1]
    lines = list(_lines(text[block.start : block.end]))
    start = block.start + lines[-1][0]
    if "|" not in text[start : block.end]:
        return False
    blocks[-1:] = [Block(BlockKind.TABLE, start, block.end)]
    if len(lines) > 1:
        blocks.insert(-1, Block(block.kind, block.start, block.start + lines[-2][1]))
    return True


def _add(blocks: list[Block], kind: BlockKind, start: int, end: int, *, joins: bool) -> None:
    if joins and blocks and blocks[-1].kind is kind:
        blocks[-1] = Block(kind, blocks[-1].start, end)
    else:
        blocks.append(Block(kind, start, end))


# Sentences


@dataclass(frozen=True, slots=True)
class Sentence:
    """A sentence of a text: `text[start:end]`, half-open, in code points, without white space at its ends.

    `begins_block` and `ends_block` tell whether it is the first or last of its paragraph or list item.
    """

    kind: BlockKind
    start: int
    end: int
    begins_block: bool = False
    ends_block: bool = False


QUESTION_MARKS = ("?", "\uff1f", "\u061f")
STOPS = r".!?\u2026\u061f\u06d4\u0964\u0965"
"""Marks that end a sentence before white space, also in Arabic, Urdu and Hindi; to stand in a class of a pattern."""
CJK_STOPS = r"\u3002\uff01\uff1f"
"""Marks that end a sentence without white space behind them."""
_SPLIT_KINDS = frozenset({BlockKind.PROSE, BlockKind.LIST_ITEM})
_MARKER = re.compile(r"\s*(?:(?:[-*+•]|\d{1,4}[.)]|\[\^[^\]\s]{1,40}\]:)\s+)?(?:\[[ xX]\]\s+)?")
# Closing marks belong to the sentence. Every part is possessive or bounded, and a run of stops is looked at once, so
# that no text takes more than linear time.
_STOP = re.compile(
    rf"(?<![{STOPS}])[{STOPS}]++[\"'\u201d\u2019\u00bb)\]*_`]*+"
    # Raised digits refer to notes.
    r"(?:[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]++[,\u2013-]?+){0,8}+"
    # With the page, as in `companies.[23]: 105`.
    r"(?:(?:\[[^\]\s]{1,40}+\]){1,8}+(?::\s?\d{1,4}(?:[-\u2013]\d{1,4})?)?+)?+(?:<!--.{0,500}?-->){0,4}+(?=\s)"
    rf"|[{CJK_STOPS}]+[\u300d\u300f\u201d\u2019\uff09]*"
)
_CJK_STOP = re.compile(f"[{CJK_STOPS}]")
_OPENING = re.compile(r"\s++(?:>\s*+)?[\"'\u201c\u2018\u00ab(\[*_`<]*([^\W_]|[`<&$#@\u00a7\\/.])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\u201c\"'*_])(?:etc|cf|vs?|viz|approx|ca|Messrs|Mr|Mrs|Ms|Mme|Dr|Prof|St|Jr|Sr|Fig|Figs|No|Nos|Vol|pp?|ch|"
    r"sec|eq|al|Inc|Ltd|Co|Corp|Bros|Dept|Univ|Gen|Adm|Col|Maj|Capt|Lt|Sgt|Cpl|Pvt|Rev|Hon|Gov|Sen|Rep|Mts?|Ft|[Oo]p|[Cc]it|[Ll]oc|eds?|trans|"
    r"[A-Z]|[A-Za-z](?:\.[A-Za-z]){1,4}|Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec|"
    # German, French, Spanish, Italian and Dutch. "z. B." has a space inside.
    r"[^\W\d_]\. [^\W\d_]|p\. e[xj]|Nr|Abs|Abb|Ziff|Rn|Bd|bzw|[Vv]gl|ggf|inkl|evtl|sog|geb|Mio|Mrd|Hr|Fr|Dipl|Ing|"
    r"MM|Mlle|Sra|Srta|Dra|Uds?|Sig|Dott|bijv|dhr|mevr)\.$"
)
_BEFORE_NUMBER = re.compile(r"(?:^|[\s(\[\u201c\"'*_])(?:nos?|nr|figs?|vol|[Aa]rt|Kap|Tab|n|n\u00fam|p\u00e1g)\.$")
# A caption is one sentence with its number: "Figure 14.27. The toolbox".
_NUMBER_OF_CAPTION = re.compile(
    r"\W{0,3}(?:Figure|Table|Listing|Abbildung|Tabelle)\s[A-Z]?\d{1,3}(?:[.-]\d{1,3}){0,3}\."
)
# "der 1. FC", "am 3. Oktober", but "I am 31. She is 30."
_ORDINAL = re.compile(
    r"(?:^|\s)(?:(?<!I )am|vom|zum|beim|im|bis|ab|seit|de[rmns]|die|das|eine?[mnrs]?) \d{1,2}\.$", re.IGNORECASE
)
# The first half of "z. B.", which another letter with a stop follows.
_LETTER = re.compile(r"(?:^|[\s(])[^\W\d_]\.$")
_DAY = re.compile(r"(?:^|\s)\d{1,2}\.$")
_GERMAN_MONTH = re.compile(
    r"\s(?:Januar|J\u00e4nner|Februar|M\u00e4rz|Mai|Juni|Juli|Oktober|Dezember|"
    r"(?:April|August|September|November) \d{4})\b"
)
_ALWAYS_INSIDE = re.compile(r"(?:e\.g|i\.e|vs|Mr|Mrs|Ms|Dr|Prof|St|Fig|Figs|cf)\.$")
_LONGEST_ABBREVIATION = 12
# But "einschl." and "voraussichtl." are none.
_LONG_WORD = re.compile(r"(?:(?:^|[\s(])[a-z]{7,10}|[a-z]{11})(?<![bcdfghkmnpstvz]l)\.$")
# Abbreviations that end a sentence where a capital letter follows.
_MAY_END_SENTENCE = ("etc.", "a.m.", "p.m.", "Inc.", "Ltd.", "Corp.")
_QUOTED_LINE = re.compile(r"\s*\n[ \t]{0,3}(?:>[ \t]?)+")
_EMPHASIS = ("***", "**", "__", "*", "_")


def split_sentences(text: str, written: str = "") -> list[Sentence]:
    """Return the sentences of a text in order; headings, tables, code and markup are one item each.

    `written` is what `split_blocks` takes by that name.
    List and quote markers at the front and emphasis around a whole sentence are left outside the range;
    nothing inside a range is ever changed. Takes time linear in the length of the text, whatever it holds.
    """
    sentences: list[Sentence] = []
    for block in split_blocks(text, written):
        if block.kind not in _SPLIT_KINDS:
            whole = _trimmed(text, block.start, block.end)
            sentences.append(Sentence(block.kind, *whole, begins_block=True, ends_block=True))
            continue
        marker = _MARKER.match(text, block.start, block.end)
        begin, end = marker.end() if marker else block.start, block.end
        spans, span = code_spans(text, begin, end), 0
        pieces: list[tuple[int, int]] = []
        for stop in _STOP.finditer(text, begin, end):
            while span < len(spans) and spans[span][1] <= stop.start() + 1:
                span += 1
            inside_code = span < len(spans) and spans[span][0] < stop.start() + 1
            if not inside_code and _ends_sentence(text, begin, stop, end):
                pieces.append(_trimmed(text, begin, stop.end()))
                # The next sentence may begin a new line of a quotation.
                quote = _QUOTED_LINE.match(text, stop.end(), end)
                begin = quote.end() if quote else stop.end()
        pieces.append(_trimmed(text, begin, end))
        ranges = [_without_emphasis(text, first, last) for first, last in pieces if first < last]
        for index, (first, last) in enumerate(ranges):
            begins, ends = index == 0, index == len(ranges) - 1
            sentences.append(Sentence(block.kind, first, last, begins_block=begins, ends_block=ends))
    return sentences


def _ends_sentence(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """Tell whether a stop mark ends a sentence rather than an abbreviation or an ellipsis."""
    if _CJK_STOP.match(stop.group()):  # never part of an abbreviation
        return True
    following = _OPENING.match(text, stop.end(), end)
    if following is None:
        return True
    # No abbreviation is longer; searching from the start of the sentence would be quadratic in its stops.
    up_to_mark = text[max(begin, stop.start() - _LONGEST_ABBREVIATION) : stop.start() + 1]
    if following.group(1).islower():
        # An ellipsis, an abbreviation or a quoted exclamation; but behind a long word the next sentence may begin with
        # the name of a program: "… a filesystem. initramfs contains …".
        return stop.group() == "." and _LONG_WORD.search(up_to_mark) is not None
    if following.group(1) == "." and not text[following.end() : following.end() + 1].strip():
        return False  # an ellipsis with spaces: "one . . . and two"
    if _ALWAYS_INSIDE.search(up_to_mark):
        return False
    if stop.group() != ".":
        return True
    if _ORDINAL.search(up_to_mark) or (_DAY.search(up_to_mark) and _GERMAN_MONTH.match(text, stop.end(), end)):
        return False
    if following.group(1).isdigit() and _BEFORE_NUMBER.search(up_to_mark):
        return False
    if _NUMBER_OF_CAPTION.fullmatch(text, begin, stop.start() + 1):
        return False
    if _LETTER.search(up_to_mark) and text[following.end() : following.end() + 1] == ".":
        return False
    return not _ABBREVIATION.search(up_to_mark) or up_to_mark.endswith(_MAY_END_SENTENCE)


def ends_in_abbreviation(text: str) -> bool:
    """Tell whether the last word is an abbreviation with its full stop, behind which a sentence usually goes on."""
    end = text[-_LONGEST_ABBREVIATION - 1 :]
    is_abbreviation = _ABBREVIATION.search(end) or _BEFORE_NUMBER.search(end) or _ORDINAL.search(end)
    return is_abbreviation is not None and not end.endswith(_MAY_END_SENTENCE)


def _trimmed(text: str, start: int, end: int) -> tuple[int, int]:
    piece = text[start:end]
    front = len(piece) - len(piece.lstrip())
    return (start + front, start + len(piece.rstrip())) if piece.strip() else (start, start)


def _without_emphasis(text: str, start: int, end: int) -> tuple[int, int]:
    """Move the borders inside emphasis marks that enclose the whole range."""
    for mark in _EMPHASIS:
        inner = text[start + len(mark) : end - len(mark)]
        if text.startswith(mark, start, end) and text.endswith(mark, start, end) and inner and mark[0] not in inner:
            return start + len(mark), end - len(mark)
    return start, end


# Headings

MAX_HEADING_CHARS = 200
_ATTRIBUTES = re.compile(r"\{[#.][^{}]*\}$")
_TARGET = r"(?:\([^()]*\)|\[[^\[\]]*\])"
_IMAGE = re.compile(rf"!\[([^\[\]]*)\]{_TARGET}")
_BADGE = re.compile(rf"\[{_IMAGE.pattern}\]{_TARGET}")
_LINK = re.compile(rf"\[([^\[\]]*)\]{_TARGET}")
_TAG = re.compile(r"</?[A-Za-z][^<>]*>|<!--[^<>]*-->")
_STRONG = re.compile(r"(\*\*|__)(?=\S)(.+?)(?<=\S)\1")
_EMPHASISED = re.compile(r"(?<![\w*_\\])([*_])(?=\S)(.+?)(?<=\S)\1(?![\w*_])")
_ESCAPE = re.compile(r"\\([!-/:-@\[-`{-~])")
_SPACES = re.compile(r"\s+")


def without_images(source: str) -> str:
    """Return a text of Markdown without its images and badges, which are images with links."""
    return _IMAGE.sub("", _BADGE.sub("", source))


def heading_text(source: str) -> str:
    """Return the text of a heading without Markdown markup, at most MAX_HEADING_CHARS code points.

    Code spans keep their content, links and images their text; HTML tags, emphasis marks, escapes and a trailing
    `{#id}` go, and badges, which are images with links, unless the heading has nothing else.
    """
    source = _ATTRIBUTES.sub("", source[: 4 * MAX_HEADING_CHARS].rstrip()).rstrip()
    parts, done = list[tuple[str, str]](), 0
    for start, end in code_spans(source, 0, len(source)):
        parts.append((source[done:start], source[start:end].strip("`")))
        done = end
    parts.append((source[done:], ""))
    without_badges = "".join(_plain(_BADGE.sub("", text)) + code for text, code in parts)
    text = without_badges if without_badges.strip() else "".join(_plain(text) + code for text, code in parts)
    return _SPACES.sub(" ", text).strip()[:MAX_HEADING_CHARS].rstrip()


def _plain(text: str) -> str:
    # Links and tags first, because emphasised text may begin or end with them.
    text = _TAG.sub("", _LINK.sub(r"\1", _IMAGE.sub(r"\1", text)))
    text = _EMPHASISED.sub(r"\2", _STRONG.sub(r"\2", text))
    return html.unescape(_ESCAPE.sub(r"\1", text))
