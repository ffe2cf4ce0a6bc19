"""Cut a text into windows of one size that overlap, whatever it says."""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import accumulate

from groundwire.ingest.domain.cuts import Cut, SectionPaths, trim
from groundwire.ingest.domain.graphemes import cut_before, is_cluster_boundary
from groundwire.ingest.domain.outline import Outline, sections_of
from groundwire.ingest.domain.pieces import Splitter
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

    def cut(self, text: str, outline: Outline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space."""
        by_chars = self.policy.unit is ChunkUnit.CHARS
        windows = self._of_chars(text, start) if by_chars else _TokenWindows.of(text, start, self).windows()
        ranges = self._joined([each for each in windows if text[each[0] : each[1]].strip()], text)
        paths = SectionPaths.of(text, list(sections_of(outline, start, len(text))))
        counts = self.splitter.count_tokens([text[first:end] for first, end in ranges])
        cuts, previous_end = [], start
        for (first, end), tokens in zip(ranges, counts, strict=True):
            size = self.policy.size_of(end - first, tokens)
            small = size < self.policy.minimum or end - first < self.policy.min_chars
            cuts.append(Cut(first, end, max(first, previous_end), paths.path(first, end), small, tokens))
            previous_end = end
        return cuts

    @property
    def overlap(self) -> int:
        """Return what neighbours share, in the unit of the policy."""
        return round(self.policy.target * self.policy.overlap_ratio)

    def _of_chars(self, text: str, start: int) -> Iterator[_Window]:
        while start < len(text):
            end = _boundary(text, start, min(len(text), start + self.policy.target))
            yield start, end
            if end == len(text):
                return
            start = _boundary(text, start, max(start + 1, end - self.overlap))

    def _joined(self, windows: list[_Window], text: str) -> list[_Window]:
        """Join a last window under the minimum to the one before if the result keeps the maximum."""
        if len(windows) < 2:  # noqa: PLR2004 - there is no one before
            return windows
        (first, _), (last_start, end) = windows[-2:]
        if self._size(text[last_start:end]) >= self.policy.minimum:
            return windows
        return windows if self._size(text[first:end]) > self.policy.maximum else [*windows[:-2], (first, end)]

    def _size(self, content: str) -> int:
        if self.policy.unit is ChunkUnit.CHARS:
            return len(content)
        return self.policy.size_of(len(content), self.splitter.count_tokens([content])[0])


@dataclass(frozen=True, slots=True)
class _TokenWindows:
    """A text as units of a token or, where tokens lie inside a grapheme cluster, of several.

    `starts` has one entry more than there are units: the end of the text. `sums[i]` is the size of all units
    before i.
    """

    text: str
    starts: list[int]
    sums: list[int]
    chunker: FixedChunker

    @classmethod
    def of(cls, text: str, start: int, chunker: FixedChunker) -> "_TokenWindows":
        piece = min(_MAX_UNIT_CHARS, max(_MIN_PIECE_CHARS, chunker.policy.target))
        starts, sizes, tokens, begin = [start], [], 0, start
        for token in (*chunker.splitter.token_starts(text[start:]), len(text) - start):
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
        return cls(text, starts, list(accumulate(sizes, initial=0)), chunker)

    def windows(self) -> Iterator[_Window]:
        """Iterate over the windows, trimmed; each ends behind the one before."""
        last, first, reached, reached_char = len(self.starts) - 1, 0, 0, 0
        while reached < last:
            after = self._end_of(first)
            if after <= reached:  # what is shared fills the window
                first = reached
                continue
            start, end = trim(self.text, self.starts[first], self.starts[after])
            if end > max(start, reached_char):
                yield start, end
                reached_char = end
            reached = after
            first = self._restart(first, after)

    def _end_of(self, first: int) -> int:
        """Return the unit after the window that begins with unit `first`."""
        policy, last = self.chunker.policy, len(self.starts) - 1
        after = first + 1
        limit = self.starts[first] + MAX_CHUNK_CHARS
        while after < last and self.sums[after + 1] - self.sums[first] <= policy.target:
            if self.starts[after + 1] > limit:
                break
            after += 1
        after = after if after == last else self._word_start(after, first + (after - first) // 2)
        while after > first + 1:
            content = self.text[self.starts[first] : self.starts[after]]
            # A tokenizer may see more tokens in a window than in the whole text, where a word was torn.
            if self.chunker.splitter.count_tokens([content])[0] <= policy.maximum:
                break
            after -= 1
        return after

    def _restart(self, first: int, after: int) -> int:
        """Return the unit that the next window begins with."""
        begin = after
        while begin > first + 1 and self.sums[after] - self.sums[begin - 1] <= self.chunker.overlap:
            begin -= 1
        ahead = next((index for index in range(begin, after) if self._begins_word(index)), None)
        return begin if ahead is None else ahead

    def _word_start(self, index: int, lowest: int) -> int:
        return next((each for each in range(index, lowest, -1) if self._begins_word(each)), index)

    def _begins_word(self, index: int) -> bool:
        position = self.starts[index]
        return not (self.text[position - 1 : position].isalnum() and self.text[position : position + 1].isalnum())


def _boundary(text: str, start: int, wish: int) -> int:
    """Return the last cluster boundary at or before `wish` that lies behind `start`, else `wish`."""
    found = cut_before(text, wish)
    return found if found > start else wish
