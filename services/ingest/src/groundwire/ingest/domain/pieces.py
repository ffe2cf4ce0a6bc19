"""Take sections apart into small measured pieces, from which chunks are put together."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Protocol

from groundwire.ingest.domain.boundaries import AFTER_HEADING, cut_cost
from groundwire.ingest.domain.outline import SECTION_LEVEL, Section
from groundwire.ingest.domain.packing import Piece
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit

_CHARS_PER_TOKEN = 4
_PIECES_PER_CHUNK = 8
_MIN_PIECE_CHARS = 16
_JOIN_SECTIONS, _JOIN_SUBSECTIONS = 1.5, 0.8
"""Costs of a chunk that goes on over a heading of level 2 or less, and of a deeper one."""


class Splitter(Protocol):
    """Cuts text at its natural seams and measures it."""

    def split(self, text: str, max_chars: int) -> list[str]:
        """Return pieces of at most `max_chars` that join to `text` exactly, cut at the best seams."""
        ...

    def count_tokens(self, texts: Sequence[str]) -> list[int]:
        """Return the number of tokens of each text, without special tokens."""
        ...

    def token_starts(self, text: str) -> Iterator[int]:
        """Iterate over the code points at which tokens begin, in order, without special tokens."""
        ...


@dataclass(frozen=True, slots=True)
class PieceMaker:
    """Makes pieces of about an eighth of a chunk.

    `maximum_after_cut` is the largest size of a chunk that begins inside a section, without its overlap.
    """

    policy: ChunkingPolicy
    splitter: Splitter
    maximum_after_cut: int

    def pieces(self, text: str, sections: Sequence[Section], verbatim: Sequence[tuple[int, int]]) -> Iterator[Piece]:
        """Yield the pieces of neighbouring sections, in order, without gaps."""
        for section, following in zip(sections, [*sections[1:], None], strict=True):
            measured = list(self.measured(text[section.start : section.end], section.start))
            for index, (start, end, size) in enumerate(measured):
                maximum = self.policy.maximum if index == 0 else self.maximum_after_cut
                if index == len(measured) - 1:
                    costs = _seam(text, section, following)
                elif end <= section.body_start:
                    costs = (AFTER_HEADING, 0.0)
                else:
                    costs = (cut_cost(text, end, verbatim), 0.0)
                yield Piece(start, end, size, maximum, *costs)

    def measured(self, source: str, offset: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, size) of the pieces of `source`, which begins at code point `offset`."""
        return self._split(source, offset, self._piece_chars())

    def _piece_chars(self) -> int:
        chars = self.policy.target * (1 if self.policy.unit is ChunkUnit.CHARS else _CHARS_PER_TOKEN)
        return max(_MIN_PIECE_CHARS, chars // _PIECES_PER_CHUNK)

    def _split(self, source: str, offset: int, max_chars: int) -> Iterator[tuple[int, int, int]]:
        """Yield (start, end, size); pieces above half the maximum are split again, down to one character."""
        parts = self.splitter.split(source, max_chars)
        for part, size in zip(parts, self._sizes(parts), strict=True):
            if size > max(1, self.policy.maximum // 2) and len(part) > 1 and max_chars > 1:
                yield from self._split(part, offset, max(1, min(max_chars, len(part)) // 2))
            else:
                yield offset, offset + len(part), size
            offset += len(part)

    def _sizes(self, parts: Sequence[str]) -> list[int]:
        if self.policy.unit is ChunkUnit.CHARS:
            return [len(part) for part in parts]
        counts = self.splitter.count_tokens(parts)
        return [self.policy.size_of(len(part), tokens) for part, tokens in zip(parts, counts, strict=True)]


def _seam(text: str, section: Section, following: Section | None) -> tuple[float, float]:
    """Return the costs of cutting and of not cutting between two sections."""
    if following is None:
        return 0.0, 0.0
    if not text[section.body_start : section.end].strip():
        return AFTER_HEADING, 0.0
    return 0.0, _JOIN_SECTIONS if following.level <= SECTION_LEVEL else _JOIN_SUBSECTIONS
