"""Cut a document into chunks: sections first, then the best places inside them, then the overlap."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from groundwire.ingest.chunking.boundaries import restart_near
from groundwire.ingest.chunking.cuts import Cut, trim
from groundwire.ingest.chunking.headings import (
    CHAPTER_LEVEL,
    SectionPaths,
    TextOutline,
    TextSection,
    runs_of,
    sections_of,
)
from groundwire.ingest.chunking.packing import Limits, pack, pieces_of
from groundwire.ingest.chunking.splitter import Splitter
from groundwire.kernel.collection import ChunkingPolicy

_OVERLAP_SLACK = 0.3
_MAX_OVERLAP_OF_NEIGHBOUR = 0.49


@dataclass(frozen=True, slots=True)
class StructureChunker:
    """Cuts texts at the seams of their structure.

    Promises: chunks are in order, cover every character but white space, never reach over a heading of
    `border_level` or above, and end at the best seams near the target size. Sections under the minimum are joined
    with neighbours between such headings as far as the maximum allows; what stays small is flagged. A chunk repeats
    the end of the one before only when it begins inside a section: `overlap_ratio` of its whole length, give or take
    30 % to begin at a seam, and less than half of the chunk before.
    """

    policy: ChunkingPolicy
    splitter: Splitter
    border_level: int = CHAPTER_LEVEL

    def cut(self, text: str, outline: TextOutline, start: int) -> list[Cut]:
        sections = [part for part in sections_of(outline, start, len(text)) if text[part.start : part.end].strip()]
        runs = runs_of(text, sections, self.border_level)
        cuts = [cut for run in runs for cut in self._cut_run(text, outline, run)]
        counts = self.splitter.count_tokens([text[cut.start : cut.end] for cut in cuts])
        counted = []
        for cut, tokens in zip(cuts, counts, strict=True):
            begin, own = cut.start, tokens
            # The room that was left for the overlap is an estimate; the maximum binds, so the overlap goes.
            if self.policy.size_of(cut.end - begin, tokens) > self.policy.maximum and begin < cut.core_start:
                begin = cut.core_start
                [own] = self.splitter.count_tokens([text[begin : cut.end]])
            counted.append(replace(cut, start=begin, token_count=own))
        return counted

    def _cut_run(self, text: str, outline: TextOutline, sections: Sequence[TextSection]) -> Iterator[Cut]:
        policy = self.policy
        # With the overlap, a chunk that begins inside a section must still keep the maximum.
        room = 1.0 - policy.overlap_ratio * (1.0 + _OVERLAP_SLACK)
        after_cut = max(1, int(policy.maximum * room))
        pieces = list(pieces_of(text, sections, outline.verbatim, policy, self.splitter, after_cut))
        section_starts = frozenset(section.start for section in sections)
        paths = SectionPaths(text, sections)
        previous: tuple[int, int] | None = None
        for first, after in pack(pieces, Limits(policy.minimum, policy.target, policy.min_chars)):
            run = pieces[first:after]
            start, end = trim(text, run[0].start, run[-1].end)
            if start >= end:
                continue
            begin = start
            if previous is not None and run[0].start not in section_starts:
                begin = self._overlap_start(text, previous, start, end)
            size = sum(piece.size for piece in run)
            undersized = size < policy.minimum or end - start < policy.min_chars
            yield Cut(begin, end, start, paths.path(start, end), undersized)
            previous = (start, end)

    def _overlap_start(self, text: str, previous: tuple[int, int], start: int, end: int) -> int:
        """Return where the chunk start..end begins when it repeats the end of the one before."""
        ratio = self.policy.overlap_ratio
        limit = int((previous[1] - previous[0]) * _MAX_OVERLAP_OF_NEIGHBOUR)
        # The ratio is that of the whole length, overlap and all.
        ideal = min(limit, round((end - start) * ratio / (1.0 - ratio)))
        if ideal < 1:
            return start
        base = previous[1]
        lowest = base - min(limit, int(ideal * (1 + _OVERLAP_SLACK)))
        begin = restart_near(text, base - ideal, lowest, base - int(ideal * (1 - _OVERLAP_SLACK)))
        return start if begin is None or begin >= base else begin
