"""Renders markup as plain text: what a person reads instead of marks, links and line breaks."""

import re
from collections.abc import Sequence

from markdown_it import MarkdownIt

from groundwire.answer.evidence import Markup
from groundwire.kernel.restructured_text import without_roles
from groundwire.kernel.sentences import code_spans

_MARKDOWN = MarkdownIt("commonmark")
_MAY_HOLD_MARKDOWN = re.compile(r"[*_`\[<&\\]")
# `[text][label]` and footnotes need definitions from elsewhere in the document.
_REFERENCE_LINK = re.compile(r"\[([^\[\]]+)\]\[[^\[\]]*\]|\[\^[^\[\]]+\]")
_LINK_OF_CODE = re.compile(r"\[([^\[\]`]*`[^\[\]`]+`[^\[\]`]*)\]\[[^\[\]]*\]")
# `eaten.[12]`, `eaten.[12]: 105` and `eaten[1](#note)`, but neither `items[0]` nor `argv[1].lower()`, whose
# meaning it would change.
_REFERENCE_NUMBER = re.compile(
    r"(?<=[^\s\[(])\[[1-9]\d{0,2}\](?:\([^()\s]*\)|_(?!\w)|:\s?\d{1,4}(?:[-\u2013]\d{1,4})?(?=\s|$))?"
    r"(?![.]?\w|[ ]?=)"
)
# A role of MyST: {class}`~click.Command`.
_ROLE = re.compile(r"(?<!`)\{([a-z][\w:+-]{0,40})\}`([^`]+)`")
_RAISED = re.compile(r"<sup>([^<>]*+)</sup>")
_ORDINALS = frozenset({"st", "nd", "rd", "th"})
_TASK_BOX = re.compile(r"^\[[ xX]\]\s")
# What is possessive here keeps each pattern linear in the text: a match holds the interpreter lock.
_RST_LITERAL = re.compile(r"``([^`]+)``")
_RST_TARGET = re.compile(r"(?<!\s)\s*+<[^<>]*+>$")
_RST = (
    (re.compile(r"(?<![\w.:+-])([^\W_]++(?:[-.+:_][^\W_]++)*+)__?(?=[\s.,;:)!?]|$)"), r"\1"),
    (re.compile(r"`([^`]++)`(?:__?(?!\w))?"), lambda match: _RST_TARGET.sub("", match[1]) or match[1]),
    (re.compile(r"\s?\[[#*\w]{1,20}\]_(?!\w)"), ""),
    (re.compile(r"^\.\. [\w-]{1,30}::\s++"), ""),
    (re.compile(r"(?<=\S)::$"), ":"),
    (re.compile(r"(?<![\w*])\*{1,2}([^\s*](?:[^*]*[^\s*])?)\*{1,2}(?![\w*])"), r"\1"),
    (re.compile(r"\\(?:([^\w\s])|\s)"), r"\1"),
)
# The hyphen of a printed line may be one of its own in Unicode. Letters beyond those of English are hyphenated too.
_HYPHENATED = re.compile(
    r"(?<=[^\W\d_A-Z])[-\u2010\u00ad][ \t]*\n[ \t]*(?=[^\W\d_])(?![A-Z])|(?<=\d-)[ \t]*\n[ \t]*(?=\d)"
)
# Behind a stop or a mark, raised digits refer to notes; elsewhere they may be exponents.
_NOTE = r"[\u00b9\u00b2\u00b3\u2070\u2074-\u2079]{1,4}+"
_REFERENCE_ABOVE = re.compile(rf"(?<=[.,;:!?\"\u201d\u2019]){_NOTE}(?:[,\u2013-]{_NOTE}){{0,8}}+(?=\s|$)")
# Emphasis within a paragraph, which may hold several sentences. The same mark in front of a word begins another, which
# keeps the search linear.
_EMPHASIS = re.compile(
    r"(?<![\w\\*_])(?P<front>\*{1,3}|_{1,3})(?=[^\s*_])"
    r"(?:(?!(?<![\w\\*_])(?P=front)(?=[^\s*_])|\n[^\S\n]*\n)[\s\S])+?"
    r"(?<=\S)(?P<back>(?P=front))(?![\w*_])"
)
_QUOTE_MARKS = re.compile(r"\n[ \t]{0,3}(?:>[ \t]?)+")


def plain_text(text: str, markup: Markup) -> str:
    """Return the text of a sentence, cell or list item on one line, without marks; words are never changed.

    Takes time linear in the length of the text.
    """
    if markup in {Markup.NONE, Markup.BLOCKS, Markup.RECORDS}:
        text = _REFERENCE_ABOVE.sub("", _REFERENCE_NUMBER.sub("", _HYPHENATED.sub("", text)))
        return " ".join(text.split())
    text = _QUOTE_MARKS.sub("\n", text)
    if markup is Markup.RST:
        # A literal is shown verbatim: `__init__` and `argv[1]` are neither references nor emphasis.
        pieces = _RST_LITERAL.split(text)
        for place in range(0, len(pieces), 2):
            pieces[place] = without_roles(_REFERENCE_NUMBER.sub("", pieces[place]))
            for pattern, replacement in _RST:
                pieces[place] = pattern.sub(replacement, pieces[place])
        text = "".join(pieces)
    elif _MAY_HOLD_MARKDOWN.search(text):
        # Reference numbers, labels of links and footnotes go first, outside of code: to the parser they are text.
        text = _ROLE.sub(lambda role: f"`{without_roles(f':{role[1]}:`{role[2]}`')}`", text)
        text = _LINK_OF_CODE.sub(r"\1", _TASK_BOX.sub("", text))
        kept, done = "", 0
        for start, end in (*code_spans(text, 0, len(text)), (len(text), len(text))):
            prose = _REFERENCE_NUMBER.sub("", _REFERENCE_LINK.sub(r"\1", text[done:start]))
            kept += _RAISED.sub(_raised, prose) + text[start:end]
            done = end
        text = ""
        for token in _MARKDOWN.parseInline(kept)[0].children or []:
            if token.type in {"text", "code_inline"}:
                text += token.content
            elif token.type in {"softbreak", "hardbreak"} or token.content.startswith("<br"):
                text += " "
    return " ".join(text.split())


def emphasis_marks(text: str) -> list[tuple[range, range]]:
    """Return where the marks in front of and behind each emphasis of a Markdown text stand, in order."""
    prose, done = "", 0
    for start, end in code_spans(text, 0, len(text)):
        prose += text[done:start] + "x" * (end - start)
        done = end
    return [
        (range(*match.span("front")), range(*match.span("back"))) for match in _EMPHASIS.finditer(prose + text[done:])
    ]


def _raised(match: re.Match[str]) -> str:
    """Return `2^8` and `2^(n - 1)` for raised text, which would be read as 28 without a mark; `1st` needs none."""
    text = match[1].strip()
    if text in _ORDINALS:
        return text
    return f"^{text}" if text.isalnum() else f"^({text})"


GAP = re.compile(r"[ \t]{3,}+")
"""What separates cells in a text without markup; prose that is set to full lines has two spaces in places."""
TABLE_RULE = re.compile(r"[\s|:+=-]*")
_CELL_BORDER = re.compile(r"(?<!\\)\|")
# Columns of a table whose rows read well from left to right.
_NARROW = 3
_EMPTY_CELLS = frozenset({"-", "\u2013", "\u2014"})
_CLOSING = "\"')]\u201d\u2019"


def row_cells(row: str, markup: Markup) -> list[str]:
    """Return the cells of a table row as plain text; without bars, they stand three or more spaces apart."""
    if markup is Markup.NONE and "|" not in row:
        return [plain_text(cell, markup) for cell in GAP.split(row.strip())]
    inner = row.strip().removeprefix("|").removesuffix("|")
    return [plain_text(cell.replace("\\|", "|"), markup) for cell in _CELL_BORDER.split(inner)]


def row_text(names: Sequence[str], cells: Sequence[str]) -> str:
    """Return a table row as a sentence: `Exit code 2: wrong usage`, or `Setting X: default 1; unit s`.

    In a wide row the longest cell, if it is a sentence, says what the others are about, so it comes before them.
    """
    lead = (f"{names[0]} {cells[0]}".strip() if names and cells[0] else cells[0]).removesuffix(":")
    told = [(index, cell) for index, cell in enumerate(cells[1:], start=1) if cell and cell not in _EMPTY_CELLS]
    is_pair = len(cells) == 2  # noqa: PLR2004 - a pair
    rest = [
        cell if is_pair or index >= len(names) or not names[index] else f"{names[index]}: {cell}"
        for index, cell in told
    ]
    longest = max(told, key=lambda each: len(each[1]), default=(0, ""))
    if len(told) > 1 and len(cells) > _NARROW and ends_sentence(longest[1]):
        others = "; ".join(text for text, each in zip(rest, told, strict=True) if each is not longest)
        return f"{lead}: {longest[1]} ({others})" if lead else f"{longest[1]} ({others})"
    return ": ".join(filter(None, (lead, "; ".join(rest))))


def ends_sentence(text: str) -> bool:
    """Tell whether a text ends with a full stop, behind which quotation marks and brackets may close."""
    return text.rstrip(_CLOSING).endswith((".", "!", "\u3002", "\u06d4", "\u0964"))
