"""Cut a document into chunks: sections first, then the best places inside them, then the overlap."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from groundwire.ingest.domain.boundaries import restart_near
from groundwire.ingest.domain.cuts import Cut, SectionPaths, trim
from groundwire.ingest.domain.outline import CHAPTER_LEVEL, Outline, Section, runs_of, sections_of
from groundwire.ingest.domain.packing import Limits, Piece, pack
from groundwire.ingest.domain.pieces import PieceMaker, Splitter
from groundwire.kernel.collection import ChunkingPolicy

_OVERLAP_SLACK = 0.3
_MAX_OVERLAP_OF_NEIGHBOUR = 0.49


@dataclass(frozen=True, slots=True)
class StructureChunker:
    """Cuts texts at the seams of their structure.

    Promises: chunks are in order, cover every character but white space, never reach over a heading of
    `border_level` or above, and end at the best seams near the target size. Sections under the minimum are joined
    with neighbours between such headings as far as the maximum allows; what stays small is flagged. A chunk repeats
    the end of the one before only when it begins inside a section.
    """

    policy: ChunkingPolicy
    splitter: Splitter
    border_level: int = CHAPTER_LEVEL

    def cut(self, text: str, outline: Outline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space."""
        sections = [part for part in sections_of(outline, start, len(text)) if text[part.start : part.end].strip()]
        runs = runs_of(text, sections, self.border_level)
        cuts = [cut for run in runs for cut in self._cut_run(text, outline, run)]
        return self._counted(text, cuts)

    def _cut_run(self, text: str, outline: Outline, sections: Sequence[Section]) -> Iterator[Cut]:
        # With the overlap, a chunk that begins inside a section must still keep the maximum.
        room = 1.0 - self.policy.overlap_ratio * (1.0 + _OVERLAP_SLACK)
        maker = PieceMaker(self.policy, self.splitter, max(1, int(self.policy.maximum * room)))
        pieces = list(maker.pieces(text, sections, outline.verbatim))
        section_starts = frozenset(section.start for section in sections)
        paths = SectionPaths.of(text, sections)
        previous: tuple[int, int] | None = None
        for first, after in pack(pieces, self._limits()):
            run = pieces[first:after]
            start, end = trim(text, run[0].start, run[-1].end)
            if start >= end:
                continue
            inside = previous is not None and run[0].start not in section_starts
            begin = self._overlap_start(text, previous, start, end) if inside and previous is not None else start
            yield Cut(begin, end, start, paths.path(start, end), self._is_small(run, end - start))
            previous = (start, end)

    def _limits(self) -> Limits:
        return Limits(self.policy.minimum, self.policy.target, self.policy.min_chars)

    def _is_small(self, run: Sequence[Piece], chars: int) -> bool:
        return sum(piece.size for piece in run) < self.policy.minimum or chars < self.policy.min_chars

    def _overlap_start(self, text: str, previous: tuple[int, int], start: int, end: int) -> int:
        """Return where the chunk begins when it repeats the end of the one before, less than half of that.

        The overlap is `overlap_ratio` of the chunk's whole length, give or take 30 % to begin at a seam.
        """
        ratio = self.policy.overlap_ratio
        limit = int((previous[1] - previous[0]) * _MAX_OVERLAP_OF_NEIGHBOUR)
        wish = min(limit, round((end - start) * ratio / (1.0 - ratio)))
        if wish < 1:
            return start
        base = previous[1]
        lowest = base - min(limit, int(wish * (1 + _OVERLAP_SLACK)))
        begin = restart_near(text, base - wish, lowest, base - int(wish * (1 - _OVERLAP_SLACK)))
        return start if begin is None or begin >= base else begin

    def _counted(self, text: str, cuts: Sequence[Cut]) -> list[Cut]:
        """Fill in token counts; a chunk that its overlap took over the maximum loses the overlap."""
        counts = self.splitter.count_tokens([text[cut.start : cut.end] for cut in cuts])
        counted = [replace(cut, token_count=count) for cut, count in zip(cuts, counts, strict=True)]
        return [self._without_excess(text, cut) for cut in counted]

    def _without_excess(self, text: str, cut: Cut) -> Cut:
        size = self.policy.size_of(cut.end - cut.start, cut.token_count)
        if size <= self.policy.maximum or cut.start == cut.core_start:
            return cut
        [count] = self.splitter.count_tokens([text[cut.core_start : cut.end]])
        return replace(cut, start=cut.core_start, token_count=count)
