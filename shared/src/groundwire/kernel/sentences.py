"""Splits a text into sentences that are exact ranges of it."""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from groundwire.kernel.text_blocks import Block, BlockKind, code_spans, split_blocks


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


_SPLIT_KINDS = frozenset({BlockKind.PROSE, BlockKind.LIST_ITEM})
_MARKER = re.compile(r"\s*(?:(?:[-*+•]|\d{1,4}[.)])\s+)?(?:\[[ xX]\]\s+)?")
# A sentence ends at . ! ? \u2026 and closing marks before white space; CJK stops need no white space. Every part is
# possessive or bounded, and a run of stops is looked at once, so that no text takes more than linear time.
_STOP = re.compile(
    r"(?<![.!?\u2026])[.!?\u2026]++[\"'\u201d\u2019\u00bb)\]*_`]*+(?:\[[^\]\s]{1,40}+\]){0,8}+(?:<!--.{0,500}?-->){0,4}+(?=\s)"
    r"|[\u3002\uff01\uff1f]+[\u300d\u300f\u201d\u2019\uff09]*"
)
_OPENING = re.compile(r"\s++(?:>\s*+)?[\"'\u201c\u2018\u00ab(\[*_`<]*([^\W_]|[`<&$#@\\/.])")
_ABBREVIATION = re.compile(
    r"(?:^|[\s(\[\u201c\"'*_])(?:e\.g|i\.e|etc|cf|vs|viz|approx|ca|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|Fig|Figs|No|Nos|Vol|pp?|ch|"
    r"sec|eq|al|Inc|Ltd|Co|Corp|Gen|Col|Lt|Sgt|Rev|Hon|Gov|Sen|Rep|[A-Z]|[A-Z]\.[A-Z]|a\.m|p\.m|"
    r"Jan|Feb|Mar|Apr|Aug|Sept?|Oct|Nov|Dec)\.$"
)
_ALWAYS_INSIDE = re.compile(r"(?:e\.g|i\.e|vs|Mr|Mrs|Ms|Dr|Prof|St|Fig|Figs|cf)\.$")
_QUOTED_LINE = re.compile(r"\s*\n[ \t]{0,3}(?:>[ \t]?)+")
_EMPHASIS = ("***", "**", "__", "*", "_")


def split_sentences(text: str) -> list[Sentence]:
    """Return the sentences of a text in order; headings, tables, code and markup are one item each.

    List and quote markers at the front and emphasis around a whole sentence are left outside the range;
    nothing inside a range is ever changed. Takes time linear in the length of the text, whatever it holds.
    """
    return [sentence for block in split_blocks(text) for sentence in _sentences_of(text, block)]


def _sentences_of(text: str, block: Block) -> Iterator[Sentence]:
    if block.kind not in _SPLIT_KINDS:
        yield Sentence(block.kind, *_trimmed(text, block.start, block.end), begins_block=True, ends_block=True)
        return
    marker = _MARKER.match(text, block.start, block.end)
    start = marker.end() if marker else block.start
    ranges = [piece for piece in _cut(text, start, block.end) if piece[0] < piece[1]]
    for index, (first, last) in enumerate(ranges):
        first_one, last_one = index == 0, index == len(ranges) - 1
        yield Sentence(block.kind, *_without_emphasis(text, first, last), begins_block=first_one, ends_block=last_one)


def _cut(text: str, start: int, end: int) -> Iterator[tuple[int, int]]:
    spans = code_spans(text, start, end)
    begin, span = start, 0
    for stop in _STOP.finditer(text, start, end):
        while span < len(spans) and spans[span][1] <= stop.start() + 1:
            span += 1
        inside_code = span < len(spans) and spans[span][0] < stop.start() + 1
        if not inside_code and _ends_sentence(text, begin, stop, end):
            yield _trimmed(text, begin, stop.end())
            begin = _after_quote_marks(text, stop.end(), end)
    yield _trimmed(text, begin, end)


def _after_quote_marks(text: str, begin: int, end: int) -> int:
    """Return where the next sentence begins if it opens a new line of a quotation, else `begin`."""
    quote = _QUOTED_LINE.match(text, begin, end)
    return quote.end() if quote else begin


def _ends_sentence(text: str, begin: int, stop: re.Match[str], end: int) -> bool:
    """Tell whether a stop mark ends a sentence rather than an abbreviation or an ellipsis."""
    if stop.group()[0] in "\u3002\uff01\uff1f":
        return True
    following = _OPENING.match(text, stop.end(), end)
    if following is None:
        return True
    if following.group(1).islower():
        return False
    up_to_mark = text[max(begin, stop.start() - 12) : stop.start() + 1]
    if _ALWAYS_INSIDE.search(up_to_mark):
        return False
    return not (_ABBREVIATION.search(up_to_mark) and stop.group() == ".") or _is_word_before_new_sentence(up_to_mark)


def _is_word_before_new_sentence(up_to_mark: str) -> bool:
    """Tell whether an abbreviation that may also end a sentence does so: `etc.` before a capital letter does."""
    return up_to_mark.endswith(("etc.", "a.m.", "p.m.", "Inc.", "Ltd.", "Corp."))


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
