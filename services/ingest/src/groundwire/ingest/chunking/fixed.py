"""Cut a text into windows of one size that overlap, whatever it says."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from groundwire.ingest.chunking.boundaries import cut_before, is_cluster_boundary
from groundwire.ingest.chunking.cuts import Cut, trim
from groundwire.ingest.chunking.headings import SectionPaths, TextOutline, sections_of
from groundwire.ingest.chunking.splitter import Splitter
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import MAX_CHARS_PER_TOKEN, ChunkingPolicy, ChunkUnit

_MAX_UNIT_CHARS = 64
_MIN_PIECE_CHARS = 8
_Window = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FixedChunker:
    """Windows of `target` that repeat `overlap_ratio` of it.

    Counted in characters a window has exactly the target, but that no character is torn that a reader sees as one.
    Counted in tokens it ends with a whole word where words are shorter than half a window, so that it may be some
    tokens shorter. A last window under the minimum is joined to the one before when the maximum allows.
    """

    policy: ChunkingPolicy
    splitter: Splitter

    def cut(self, text: str, outline: TextOutline, start: int) -> list[Cut]:
        policy = self.policy
        overlap = round(policy.target * policy.overlap_ratio)
        if policy.unit is ChunkUnit.CHARS:
            windows = list(_windows_of_chars(text, start, policy.target, overlap))
        else:
            windows = list(_TokenWindows(text, start, policy, overlap, self.splitter).windows())
        windows = [(first, end) for first, end in windows if text[first:end].strip()]
        if len(windows) > 1:
            (before, _), (last, end) = windows[-2:]
            size, joined = self.splitter.sizes([text[last:end], text[before:end]], policy)
            if size < policy.minimum and joined <= policy.maximum:
                windows[-2:] = [(before, end)]
        paths = SectionPaths(text, list(sections_of(outline, start, len(text))))
        counts = self.splitter.count_tokens([text[first:end] for first, end in windows])
        cuts, previous_end = [], start
        for (first, end), tokens in zip(windows, counts, strict=True):
            small = policy.size_of(end - first, tokens) < policy.minimum or end - first < policy.min_chars
            cuts.append(Cut(first, end, max(first, previous_end), paths.path(first, end), small, tokens))
            previous_end = end
        return cuts


def _windows_of_chars(text: str, start: int, target: int, overlap: int) -> Iterator[_Window]:
    while start < len(text):
        end = _boundary(text, start, min(len(text), start + target))
        yield start, end
        if end == len(text):
            return
        start = _boundary(text, start, max(start + 1, end - overlap))


class _TokenWindows:
    """A text as units of a token or, where tokens lie inside a grapheme cluster, of several; `overlap` is in tokens.

    `_starts` has one entry more than there are units: the end of the text. `_sums[i]` is the size of all units
    before i.
    """

    def __init__(self, text: str, start: int, policy: ChunkingPolicy, overlap: int, splitter: Splitter) -> None:
        self._text = text
        self._policy = policy
        self._overlap = overlap
        self._splitter = splitter
        piece = min(_MAX_UNIT_CHARS, max(_MIN_PIECE_CHARS, policy.target))
        starts, sizes, tokens, begin = [start], [], 0, start
        for token in (*splitter.token_starts(text[start:]), len(text) - start):
            following = start + token
            tokens += following > begin
            if following <= begin or not is_cluster_boundary(text, following):
                continue
            while following - begin > _MAX_UNIT_CHARS:  # a token without end, or characters that are no tokens
                starts.append(_boundary(text, begin, begin + piece))
                sizes.append(-(-(starts[-1] - begin) // MAX_CHARS_PER_TOKEN))
                begin = starts[-1]
            starts.append(following)
            sizes.append(tokens)
            begin, tokens = following, 0
        self._starts = starts
        self._sums = list(accumulate(sizes, initial=0))

    def windows(self) -> Iterator[_Window]:
        """Iterate over the windows, trimmed; each ends behind the one before."""
        starts, sums = self._starts, self._sums
        last, first, reached, reached_char = len(starts) - 1, 0, 0, 0
        while reached < last:
            after = self._end_of(first)
            if after <= reached:  # what is shared fills the window
                first = reached
                continue
            start, end = trim(self._text, starts[first], starts[after])
            if end > max(start, reached_char):
                yield start, end
                reached_char = end
            reached = after
            begin = after
            while begin > first + 1 and sums[after] - sums[begin - 1] <= self._overlap:
                begin -= 1
            first = next((unit for unit in range(begin, after) if self._begins_word(unit)), begin)

    def _end_of(self, first: int) -> int:
        """Return the unit after the window that begins with unit `first`."""
        policy, starts, sums, last = self._policy, self._starts, self._sums, len(self._starts) - 1
        after = first + 1
        limit = starts[first] + MAX_CHUNK_CHARS
        while after < last and sums[after + 1] - sums[first] <= policy.target and starts[after + 1] <= limit:
            after += 1
        if after < last:
            # No further back than half the window: a long word is torn rather than left to a window of its own.
            lowest = first + (after - first) // 2
            after = next((unit for unit in range(after, lowest, -1) if self._begins_word(unit)), after)
        while after > first + 1:
            content = self._text[starts[first] : starts[after]]
            # A tokenizer may see more tokens in a window than in the whole text, where a word was torn.
            if self._splitter.count_tokens([content])[0] <= policy.maximum:
                break
            after -= 1
        return after

    def _begins_word(self, unit: int) -> bool:
        position = self._starts[unit]
        return not (self._text[position - 1 : position].isalnum() and self._text[position : position + 1].isalnum())


def _boundary(text: str, start: int, ideal: int) -> int:
    """Return the last cluster boundary at or before `ideal` that lies behind `start`, else `ideal`."""
    boundary = cut_before(text, ideal)
    return boundary if boundary > start else ideal
