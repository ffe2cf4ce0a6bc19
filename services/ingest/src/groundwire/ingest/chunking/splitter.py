"""Split texts at natural boundaries, measure the pieces with the model's tokenizer, and pack them into chunks."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import accumulate

from semantic_text_splitter import MarkdownSplitter, TextSplitter

from groundwire.ingest.chunking.cuts import AFTER_HEADING, SECTION_LEVEL, TextSection, cut_before, cut_cost
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit
from groundwire.kernel.document import DocumentFormat
from groundwire.kernel.embedder import Tokenizer

# The library takes quadratic time on long paragraphs (12 s for 1 MB in one line), so it gets blocks of this size.
_BLOCK_CHARS = 8192
# The last blank line, the last line, the last white space: the earlier, the better the seam.
_SEAMS = (re.compile(r"(?s).*(?:\n|\r)[ \t]*(?:\r\n|\n|\r)"), re.compile(r"(?s).*(?:\n|\r)"), re.compile(r"(?s).*\s"))
# Of English prose; pieces of other texts that turn out to have too many are split again.
_CHARS_PER_TOKEN = 4
# Pieces are much smaller than chunks, so that a chunk can end near its target.
_PIECES_PER_CHUNK = 8
# Shorter pieces would be single words.
_MIN_PIECE_CHARS = 16
# Cost of a chunk that continues across a heading of level 2 or less, and of a deeper one.
_JOIN_SECTIONS, _JOIN_SUBSECTIONS = 1.5, 0.8
# Far more than misfits and borders cost: a chunk is undersized only where it cannot be avoided.
_UNDERSIZED_COST = 100.0
# Bounds the time: far more pieces than a chunk near its target has.
_MAX_PIECES = 256


class Splitter:
    """Splits by paragraphs, sentences, words and grapheme clusters, for Markdown also by its blocks."""

    def __init__(self, tokenizer: Tokenizer, document_format: DocumentFormat) -> None:
        self._tokenizer = tokenizer
        self._is_markdown = document_format is DocumentFormat.MARKDOWN

    def split(self, text: str, max_chars: int) -> list[str]:
        """Return pieces of at most `max_chars` that join to `text` exactly, cut at the best seams."""
        splitter = _library_splitter(max_chars, self._is_markdown)
        return [piece for block in _blocks(text) for piece in splitter.chunks(block)]

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        return [self._tokenizer.count(text) for text in texts]

    def sizes(self, texts: Sequence[str], policy: ChunkingPolicy) -> list[int]:
        """Return the size of each text in the unit of the policy."""
        if policy.unit is ChunkUnit.CHARS:
            return [len(text) for text in texts]
        return [policy.size_of(len(text), n) for text, n in zip(texts, self.count_tokens(texts), strict=True)]

    def token_starts(self, text: str) -> Iterator[int]:
        """Iterate over the code points at which tokens begin, in order; block by block, which bounds the memory."""
        offset = 0
        for block in _blocks(text):
            yield from (offset + start for start, _ in self._tokenizer.offsets(block))
            offset += len(block)


# A policy needs few sizes: its own, and halves of it for what is dense.
@lru_cache(maxsize=64)
def _library_splitter(max_chars: int, is_markdown: bool) -> MarkdownSplitter | TextSplitter:
    # Untrimmed, so that the pieces join to the text again.
    return MarkdownSplitter(max_chars, trim=False) if is_markdown else TextSplitter(max_chars, trim=False)


def _blocks(text: str) -> Iterator[str]:
    """Cut a text into blocks of at most 8 KiB at blank lines, else lines, else white space, else clusters."""
    start = 0
    while len(text) - start > _BLOCK_CHARS:
        limit = start + _BLOCK_CHARS
        # A seam in the first half would make small blocks, and more of them than needed.
        searches = (each.match(text, start + _BLOCK_CHARS // 2, limit) for each in _SEAMS)
        seam = next((match.end() for match in searches if match is not None), limit)
        end = cut_before(text, seam)
        yield text[start:end]
        start = end
    if start < len(text):
        yield text[start:]


@dataclass(frozen=True, slots=True)
class Piece:
    """A range of text that is never cut.

    `size` is at least 1, in the unit of the limits; `maximum` is the largest size of a chunk that begins with
    the piece. `cut_cost` is paid when a chunk ends after the piece, `join_cost` when a chunk goes on
    after it; both are >= 0, the smaller the better.
    """

    start: int
    end: int
    size: int
    maximum: int
    cut_cost: float
    join_cost: float


def measured_pieces(
    source: str, offset: int, policy: ChunkingPolicy, splitter: Splitter
) -> Iterator[tuple[int, int, int]]:
    """Yield (start, end, size) of pieces of about an eighth of a chunk, for a source that begins at `offset`.

    They join to the source without gaps.
    """
    target_chars = policy.target * (1 if policy.unit is ChunkUnit.CHARS else _CHARS_PER_TOKEN)
    return _split(source, offset, max(_MIN_PIECE_CHARS, target_chars // _PIECES_PER_CHUNK), policy, splitter)


def _split(
    source: str, offset: int, max_chars: int, policy: ChunkingPolicy, splitter: Splitter
) -> Iterator[tuple[int, int, int]]:
    parts = splitter.split(source, max_chars)
    for part, size in zip(parts, splitter.sizes(parts, policy), strict=True):
        # Characters do not bound tokens: what is above half the maximum is split again, down to one character.
        if size > max(1, policy.maximum // 2) and len(part) > 1 and max_chars > 1:
            yield from _split(part, offset, max(1, min(max_chars, len(part)) // 2), policy, splitter)
        else:
            yield offset, offset + len(part), size
        offset += len(part)


def pieces_of(
    text: str,
    sections: Sequence[TextSection],
    verbatim: Sequence[tuple[int, int]],
    policy: ChunkingPolicy,
    splitter: Splitter,
    maximum_after_cut: int,
) -> Iterator[Piece]:
    """Yield the pieces of neighbouring sections, in order, without gaps, with what it costs to cut behind each.

    `maximum_after_cut` is the largest size of a chunk that begins inside a section, without its overlap.
    """
    for section, following in zip(sections, [*sections[1:], None], strict=True):
        measured = list(measured_pieces(text[section.start : section.end], section.start, policy, splitter))
        for index, (start, end, size) in enumerate(measured):
            cut, join = 0.0, 0.0
            if index < len(measured) - 1:
                cut = AFTER_HEADING if end <= section.body_start else cut_cost(text, end, verbatim)
            elif following is not None:
                if text[section.body_start : section.end].strip():
                    join = _JOIN_SECTIONS if following.level <= SECTION_LEVEL else _JOIN_SUBSECTIONS
                else:  # a heading alone is useless: it belongs to the text below
                    cut = AFTER_HEADING
            yield Piece(start, end, size, policy.maximum if index == 0 else maximum_after_cut, cut, join)


def pack(pieces: Sequence[Piece], policy: ChunkingPolicy) -> list[tuple[int, int]]:
    """Return the chunks as ranges of piece indexes (half-open), in order, covering all pieces.

    The cost of a chunk is ((size - target) / target)^2, plus 100 when it is under a minimum, plus the
    costs of its pieces; one piece above the maximum is a chunk of its own. The sum over all chunks is
    minimal among chunks of at most 256 pieces: optimal line breaking by dynamic programming (Knuth and
    Plass, "Breaking Paragraphs into Lines", Software: Practice and Experience 11, 1981), O(pieces x 256).
    """
    sums = list(accumulate((piece.size for piece in pieces), initial=0))
    joins = list(accumulate((piece.join_cost for piece in pieces), initial=0.0))
    largest = max((piece.maximum for piece in pieces), default=0)
    target, minimum, min_chars = policy.target, policy.minimum, policy.min_chars
    best = [0.0] + [float("inf")] * len(pieces)  # cost of the cheapest cutting of the pieces before i
    begin = [0] * (len(pieces) + 1)  # where its last chunk begins
    for end, last in enumerate(pieces, start=1):
        for start in range(end - 1, max(end - 1 - _MAX_PIECES, -1), -1):
            size = sums[end] - sums[start]
            # Longer ones are too large as well, so none of them needs a look.
            if size > largest and start < end - 1:
                break
            first = pieces[start]
            if size > first.maximum and start < end - 1:
                continue
            misfit = ((size - target) / target) ** 2
            if size < minimum or last.end - first.start < min_chars:
                misfit += _UNDERSIZED_COST
            cost = best[start] + joins[end - 1] - joins[start] + last.cut_cost + misfit
            if cost < best[end]:
                best[end], begin[end] = cost, start
    chunks: list[tuple[int, int]] = []
    end = len(pieces)
    while end > 0:
        chunks.append((begin[end], end))
        end = begin[end]
    return chunks[::-1]
