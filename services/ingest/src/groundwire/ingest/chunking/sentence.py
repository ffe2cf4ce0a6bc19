"""Cut a text into its sentences."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from groundwire.ingest.chunking.boundaries import cut_before, is_cluster_boundary, lies_inside
from groundwire.ingest.chunking.cuts import Cut, trim
from groundwire.ingest.chunking.headings import CHAPTER_LEVEL, TextOutline, TextSection, sections_of
from groundwire.ingest.chunking.packing import measured_pieces
from groundwire.ingest.chunking.splitter import Splitter
from groundwire.kernel.collection import ChunkingPolicy
from groundwire.kernel.sentences import split_sentences

_BLANKS = " \t\r\n\f\v"
_Range = tuple[int, int]


@dataclass(frozen=True, slots=True)
class SentenceChunker:
    """One chunk a sentence; a heading belongs to the first sentence below it when the result keeps the maximum.

    Tables, code and other blocks without sentences count as one. What is longer than the maximum is cut at its best
    seams into chunks of the same sentence number. Of the policy's sizes only the maximum binds; sentences under
    `min_chars` are flagged undersized. Chunks do not overlap.
    """

    policy: ChunkingPolicy
    splitter: Splitter

    def cut(self, text: str, outline: TextOutline, start: int) -> list[Cut]:
        sentences = [cut for cut in self._sentences(text, outline, start) if text[cut.start : cut.end].strip()]
        sizes = self._sizes(text, [(cut.start, cut.end) for cut in sentences])
        cuts: list[Cut] = []
        for number, (sentence, size) in enumerate(zip(sentences, sizes, strict=True)):
            whole = (sentence.start, sentence.end)
            for first, end in [whole] if size <= self.policy.maximum else self._pieces(text, *whole):
                small = end - first < self.policy.min_chars
                cuts.append(Cut(first, end, first, sentence.path, small, sentence=number))
        counts = self.splitter.count_tokens([text[cut.start : cut.end] for cut in cuts])
        return [replace(cut, token_count=tokens) for cut, tokens in zip(cuts, counts, strict=True)]

    def _sentences(self, text: str, outline: TextOutline, start: int) -> Iterator[Cut]:
        """Yield the sentences, not yet measured, whatever their length."""
        verbatim = [(first, first + len(text[first:end].rstrip())) for first, end in outline.verbatim]
        headings: list[TextSection] = []  # sections of a heading alone, which wait for the first sentence below them

        def alone() -> Cut:
            first, end = trim(text, headings[0].start, headings[-1].end)
            return Cut(first, end, first, headings[0].path, undersized=False)

        for section in sections_of(outline, start, len(text)):
            if headings and section.level == CHAPTER_LEVEL:  # no chunk reaches over the border of a chapter
                yield alone()
                headings = []
            headings.append(section)
            if not text[section.body_start : section.end].strip():
                continue
            ranges = list(_sentences_between(text, section.body_start, section.end, verbatim))
            begin = headings[0].start
            if begin < section.body_start:
                joined = trim(text, begin, ranges[0][1])
                if self._sizes(text, [joined])[0] <= self.policy.maximum:
                    ranges[0] = joined
                else:
                    ranges.insert(0, trim(text, begin, section.body_start))
            yield from (Cut(first, end, first, section.path, undersized=False) for first, end in ranges)
            headings = []
        if headings:
            yield alone()

    def _sizes(self, text: str, ranges: Sequence[_Range]) -> list[int]:
        return self.splitter.sizes([text[start:end] for start, end in ranges], self.policy)

    def _pieces(self, text: str, start: int, end: int) -> list[_Range]:
        """Cut a range that is too long into as few pieces as its seams allow."""
        pieces: list[_Range] = []
        first, size = start, 0
        for piece_start, piece_end, piece_size in measured_pieces(text[start:end], start, self.policy, self.splitter):
            if size and size + piece_size > self.policy.maximum:
                pieces.append((first, piece_start))
                first, size = piece_start, 0
            size += piece_size
            end = piece_end
        trimmed = [_tight(text, *piece) for piece in (*pieces, (first, end))]
        return [piece for piece in trimmed if piece[0] < piece[1]]


def _sentences_between(text: str, start: int, end: int, verbatim: Sequence[_Range]) -> Iterator[_Range]:
    """Yield the sentences of start..end with all marks around them, so that nothing but white space lies between.

    `verbatim` holds blocks of code and HTML without white space at their ends, in order; none of them is cut.
    """
    body = text[start:end]
    begin = 0
    for sentence, following in pairwise(split_sentences(body)):
        # The border is the first white space: closing marks belong to the sentence, opening ones to the next.
        between = range(sentence.end, following.start)
        border = next((index for index in between if body[index] in _BLANKS), following.start)
        may_cut = is_cluster_boundary(body, border) and not lies_inside(start + border, verbatim)
        if may_cut and body[begin:border].strip():
            yield _tight(text, start + begin, start + border)
            begin = border
    yield _tight(text, start + begin, end)


def _tight(text: str, start: int, end: int) -> _Range:
    """Leave out white space at both ends, but for the indentation of a line."""
    start, end = trim(text, start, end)
    if start and text[start - 1] not in "\r\n":
        start += len(text[start:end]) - len(text[start:end].lstrip())
    return cut_before(text, start), end  # a mark that stands on white space keeps it
