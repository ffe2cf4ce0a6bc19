"""Cut a text into its sentences."""

from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise

from groundwire.ingest.domain.cuts import Cut, trim
from groundwire.ingest.domain.graphemes import cut_before, is_cluster_boundary
from groundwire.ingest.domain.outline import CHAPTER_LEVEL, Heading, Outline, Section, sections_of
from groundwire.ingest.domain.pieces import PieceMaker, Splitter
from groundwire.kernel.collection import ChunkingPolicy, ChunkUnit
from groundwire.kernel.sentences import split_sentences

_BLANKS = " \t\r\n\f\v"
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SentenceChunker:
    """One chunk a sentence; a heading belongs to the first sentence below it when the result keeps the maximum.

    Tables, code and other blocks without sentences count as one. What is longer than the maximum is cut at its best
    seams into chunks of the same sentence number. Of the policy's sizes only the maximum binds; sentences under
    `min_chars` are flagged undersized.
    """

    policy: ChunkingPolicy
    splitter: Splitter

    def cut(self, text: str, outline: Outline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space."""
        parts = [part for part in self._parts(text, outline, start) if text[part[0] : part[1]].strip()]
        sizes = self._sizes(text, parts)
        cuts: list[Cut] = []
        for number, ((first, end, path), size) in enumerate(zip(parts, sizes, strict=True)):
            ranges = [(first, end)] if size <= self.policy.maximum else self._pieces(text, first, end)
            cuts += [Cut(*each, each[0], path, undersized=False, sentence=number) for each in ranges]
        counts = self.splitter.count_tokens([text[cut.start : cut.end] for cut in cuts])
        return [
            Cut(each.start, each.end, each.start, each.path, self._is_small(each), tokens, each.sentence)
            for each, tokens in zip(cuts, counts, strict=True)
        ]

    def _is_small(self, cut: Cut) -> bool:
        return cut.end - cut.start < self.policy.min_chars

    def _parts(self, text: str, outline: Outline, start: int) -> Iterator[tuple[int, int, tuple[Heading, ...]]]:
        """Yield the range and the headings of each sentence; a heading goes with the sentence below it."""
        waiting: list[Section] = []
        verbatim = [(first, first + len(text[first:end].rstrip())) for first, end in outline.verbatim]
        for section in sections_of(outline, start, len(text)):
            if waiting and section.level == CHAPTER_LEVEL:
                yield *trim(text, waiting[0].start, waiting[-1].end), waiting[0].path
                waiting = []
            waiting.append(section)
            if not text[section.body_start : section.end].strip():
                continue
            yield from self._of_section(text, verbatim, waiting[0].start, section)
            waiting = []
        if waiting:
            yield *trim(text, waiting[0].start, waiting[-1].end), waiting[0].path

    def _of_section(
        self, text: str, verbatim: Sequence[_Range], start: int, section: Section
    ) -> Iterator[tuple[int, int, tuple[Heading, ...]]]:
        ranges = list(_sentences(text, section.body_start, section.end, verbatim))
        if start < section.body_start:
            (_, first_end), *others = ranges
            joined, alone = trim(text, start, first_end), trim(text, start, section.body_start)
            fits = self._sizes(text, [(*joined, ())])[0] <= self.policy.maximum
            ranges = [joined, *others] if fits else [alone, *ranges]
        yield from ((first, end, section.path) for first, end in ranges)

    def _sizes(self, text: str, parts: Sequence[tuple[int, int, tuple[Heading, ...]]]) -> list[int]:
        if self.policy.unit is ChunkUnit.CHARS:
            return [end - start for start, end, _ in parts]
        counts = self.splitter.count_tokens([text[start:end] for start, end, _ in parts])
        return [self.policy.size_of(end - start, n) for (start, end, _), n in zip(parts, counts, strict=True)]

    def _pieces(self, text: str, start: int, end: int) -> list[tuple[int, int]]:
        """Cut a range that is too long into as few pieces as its seams allow."""
        maker = PieceMaker(self.policy, self.splitter, self.policy.maximum)
        pieces: list[tuple[int, int]] = []
        first, size = start, 0
        for piece_start, piece_end, piece_size in maker.measured(text[start:end], start):
            if size and size + piece_size > self.policy.maximum:
                pieces.append((first, piece_start))
                first, size = piece_start, 0
            size += piece_size
            end = piece_end
        trimmed = [_tight(text, *piece) for piece in (*pieces, (first, end))]
        return [piece for piece in trimmed if piece[0] < piece[1]]


def _sentences(text: str, start: int, end: int, verbatim: Sequence[_Range]) -> Iterator[_Range]:
    """Yield the sentences of start..end with all marks around them, so that nothing but white space lies between.

    `verbatim` holds blocks of code and HTML without white space at their ends, in order.
    """
    body = text[start:end]
    found = split_sentences(body)
    begin = 0
    for sentence, following in pairwise(found):
        border = _border(body, sentence.end, following.start)
        may_cut = is_cluster_boundary(body, border) and not _inside(start + border, verbatim)
        if not may_cut or not body[begin:border].strip():
            continue
        yield _tight(text, start + begin, start + border)
        begin = border
    yield _tight(text, start + begin, end)


def _inside(position: int, blocks: Sequence[_Range]) -> bool:
    """Tell whether one of the blocks, which are in ascending order, goes on at `position`."""
    index = bisect_right(blocks, position, key=lambda block: block[0]) - 1
    return index >= 0 and blocks[index][0] < position < blocks[index][1]


def _tight(text: str, start: int, end: int) -> tuple[int, int]:
    """Leave out white space at both ends, but for the indentation of a line."""
    start, end = trim(text, start, end)
    if start and text[start - 1] not in "\r\n":
        start += len(text[start:end]) - len(text[start:end].lstrip())
    return cut_before(text, start), end  # a mark that stands on white space keeps it


def _border(body: str, end: int, following: int) -> int:
    """Return where the part after a sentence begins: closing marks belong to it, opening ones to the next."""
    return next((index for index in range(end, following) if body[index] in _BLANKS), following)
