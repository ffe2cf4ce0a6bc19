"""The four ways to cut a text: by structure, by structure with chunks for parents, into windows, into sentences."""

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import accumulate, pairwise

from groundwire.ingest.chunking.cuts import (
    CHAPTER_LEVEL,
    SECTION_LEVEL,
    Branch,
    Cut,
    Heading,
    SectionPaths,
    TextOutline,
    TextSection,
    cut_before,
    is_cluster_boundary,
    lies_inside,
    restart_near,
    runs_of,
    sections_of,
    trim,
)
from groundwire.ingest.chunking.splitter import Splitter, measured_pieces, pack, pieces_of
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import MAX_CHARS_PER_TOKEN, ChunkingPolicy, ChunkUnit
from groundwire.kernel.sentences import split_sentences

# How far an overlap may differ from the ratio, so that it begins at a sentence or a word.
_OVERLAP_SLACK = 0.3
_MAX_OVERLAP_OF_NEIGHBOUR = 0.49
_PARAGRAPH_LEVEL = 3
_MAX_UNIT_CHARS = 64
_MIN_PIECE_CHARS = 8
_BLANKS = " \t\r\n\f\v"
_Range = tuple[int, int]


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
        policy = self.policy
        # With the overlap, a chunk that begins inside a section must still keep the maximum.
        room = 1.0 - policy.overlap_ratio * (1.0 + _OVERLAP_SLACK)
        after_cut = max(1, int(policy.maximum * room))
        cuts: list[Cut] = []
        for run in runs_of(text, sections, self.border_level):
            pieces = list(pieces_of(text, run, outline.verbatim, policy, self.splitter, after_cut))
            section_starts, paths = {section.start for section in run}, SectionPaths(text, run)
            previous: _Range | None = None
            for first, after in pack(pieces, policy):
                start, end = trim(text, pieces[first].start, pieces[after - 1].end)
                if start >= end:
                    continue
                begin = start
                if previous is not None and pieces[first].start not in section_starts:
                    # Less than half of the chunk before, whose unique part must not end before it begins (T09).
                    limit = int((previous[1] - previous[0]) * _MAX_OVERLAP_OF_NEIGHBOUR)
                    # The ratio refers to the whole length, including the overlap.
                    ideal = min(limit, round((end - start) * policy.overlap_ratio / (1.0 - policy.overlap_ratio)))
                    if ideal >= 1:
                        base = previous[1]
                        lowest = base - min(limit, int(ideal * (1 + _OVERLAP_SLACK)))
                        near = restart_near(text, base - ideal, lowest, base - int(ideal * (1 - _OVERLAP_SLACK)))
                        begin = start if near is None or near >= base else near
                size = sum(piece.size for piece in pieces[first:after])
                undersized = size < policy.minimum or end - start < policy.min_chars
                cuts.append(Cut(begin, end, start, paths.path(start, end), undersized))
                previous = (start, end)
        counts = self.splitter.count_tokens([text[cut.start : cut.end] for cut in cuts])
        counted = []
        for cut, tokens in zip(cuts, counts, strict=True):
            begin, own = cut.start, tokens
            # The room left for the overlap is only an estimate, but the maximum must hold: drop the overlap.
            if policy.size_of(cut.end - begin, tokens) > policy.maximum and begin < cut.core_start:
                begin = cut.core_start
                [own] = self.splitter.count_tokens([text[begin : cut.end]])
            counted.append(replace(cut, start=begin, token_count=own))
        return counted


@dataclass(frozen=True, slots=True)
class _Node:
    """A document, chapter or section: its level, its range with all that is below it, its headings, its parent."""

    level: int
    start: int
    end: int
    path: tuple[Heading, ...]
    parent: int | None


@dataclass(frozen=True, slots=True)
class HierarchyChunker:
    """Chunks by structure that never reach over the border of a section, then their parents in the order of the text.

    The parents are the section, else the chapter, else the document; levels that a text does not have are left out.
    """

    policy: ChunkingPolicy
    splitter: Splitter

    def cut(self, text: str, outline: TextOutline, start: int) -> list[Cut]:
        leaves = StructureChunker(self.policy, self.splitter, SECTION_LEVEL).cut(text, outline, start)
        if not leaves:
            return []
        sections = [each for each in sections_of(outline, start, len(text)) if 0 < each.level <= SECTION_LEVEL]
        # From the last to the first: a section ends at the next heading of either level, a chapter at the next chapter.
        next_start = {CHAPTER_LEVEL: len(text), SECTION_LEVEL: len(text)}
        ends: list[int] = []
        for section in reversed(sections):
            ends.append(next_start[section.level])
            next_start[SECTION_LEVEL] = section.start
            if section.level == CHAPTER_LEVEL:
                next_start[CHAPTER_LEVEL] = section.start
        # In the order of the text, outer ones before what is in them.
        nodes = [_Node(0, *trim(text, start, len(text)), (), None)]
        chapter = 0
        for section, end in zip(sections, reversed(ends), strict=True):
            if section.level == CHAPTER_LEVEL:
                chapter = len(nodes)
            parent = chapter if section.level == SECTION_LEVEL else 0
            nodes.append(_Node(section.level, *trim(text, section.start, end), section.path, parent))

        def place(number: int | None) -> int | None:  # nodes follow after all leaves in the list of chunks
            return None if number is None else len(leaves) + number

        cuts: list[Cut] = []
        paragraphs: Counter[int] = Counter()
        owner = 0
        for leaf in leaves:
            # The last node that begins before its end is the innermost one around it: outer ones come first.
            while owner + 1 < len(nodes) and nodes[owner + 1].start < leaf.end:
                owner += 1
            paragraphs[owner] += 1
            branch = Branch(_PARAGRAPH_LEVEL, place(owner), place(nodes[owner].parent), paragraphs[owner])
            cuts.append(replace(leaf, branch=branch))
        # What is too long to be stored as a chunk has no content, and so no tokens.
        stored = [text[each.start : each.end] if each.end - each.start <= MAX_CHUNK_CHARS else "" for each in nodes]
        for node, tokens in zip(nodes, self.splitter.count_tokens(stored), strict=True):
            above = None if node.parent is None else nodes[node.parent].parent
            branch = Branch(node.level, place(node.parent), place(above), None)
            whole = Cut(
                node.start, node.end, node.start, node.path, undersized=False, token_count=tokens, branch=branch
            )
            cuts.append(whole)
        return cuts


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
            windows, first = [], start
            while first < len(text):
                end = _boundary(text, first, min(len(text), first + policy.target))
                windows.append((first, end))
                first = end if end == len(text) else _boundary(text, first, max(first + 1, end - overlap))
        else:
            windows = list(self._token_windows(text, start, overlap))
        windows = [(first, end) for first, end in windows if text[first:end].strip()]
        if len(windows) > 1:
            (before, _), (last, end) = windows[-2:]
            # The joined window is measured whole: tokens of its parts do not add up.
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

    def _token_windows(self, text: str, start: int, overlap: int) -> Iterator[_Range]:
        """Yield the trimmed windows, which repeat up to `overlap` tokens; each ends after the previous one."""
        policy, (starts, sums) = self.policy, self._units(text, start)

        def begins_word(unit: int) -> bool:
            position = starts[unit]
            return not (text[position - 1 : position].isalnum() and text[position : position + 1].isalnum())

        last, first, reached, reached_char = len(starts) - 1, 0, 0, 0
        while reached < last:
            after = first + 1
            most = starts[first] + MAX_CHUNK_CHARS
            while after < last and sums[after + 1] - sums[first] <= policy.target and starts[after + 1] <= most:
                after += 1
            if after < last:
                # No further back than half the window: a long word is torn rather than left to a window of its own.
                lowest = first + (after - first) // 2
                after = next((unit for unit in range(after, lowest, -1) if begins_word(unit)), after)
            # A tokenizer may see more tokens in a window than in the whole text, where a word was torn.
            while (
                after > first + 1
                and self.splitter.count_tokens([text[starts[first] : starts[after]]])[0] > policy.maximum
            ):
                after -= 1
            if after <= reached:  # what is shared fills the window
                first = reached
                continue
            begin, end = trim(text, starts[first], starts[after])
            if end > max(begin, reached_char):
                yield begin, end
                reached_char = end
            reached = after
            shared = after
            while shared > first + 1 and sums[after] - sums[shared - 1] <= overlap:
                shared -= 1
            first = next((unit for unit in range(shared, after) if begins_word(unit)), shared)

    def _units(self, text: str, start: int) -> tuple[list[int], list[int]]:
        """Return where units begin, and behind the last the end of the text; and the size of all units before each.

        A unit is a token or, where tokens lie inside a grapheme cluster, several.
        """
        piece = min(_MAX_UNIT_CHARS, max(_MIN_PIECE_CHARS, self.policy.target))
        starts, sizes, tokens, begin = [start], [], 0, start
        for token in (*self.splitter.token_starts(text[start:]), len(text) - start):
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
        return starts, list(accumulate(sizes, initial=0))


def _boundary(text: str, start: int, ideal: int) -> int:
    """Return the last cluster boundary at or before `ideal` that lies behind `start`, else `ideal`."""
    boundary = cut_before(text, ideal)
    return boundary if boundary > start else ideal


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
            ranges = [(sentence.start, sentence.end)]
            if size > self.policy.maximum:  # into as few pieces as its boundaries allow
                source = text[sentence.start : sentence.end]
                borders, total = [sentence.start], 0
                for begin, _, piece_size in measured_pieces(source, sentence.start, self.policy, self.splitter):
                    if total and total + piece_size > self.policy.maximum:
                        borders.append(begin)
                        total = 0
                    total += piece_size
                ranges = [_tight(text, *piece) for piece in pairwise([*borders, sentence.end])]
            for first, end in ranges:
                if first < end:
                    small = end - first < self.policy.min_chars
                    cuts.append(Cut(first, end, first, sentence.path, small, sentence=number))
        counts = self.splitter.count_tokens([text[cut.start : cut.end] for cut in cuts])
        return [replace(cut, token_count=tokens) for cut, tokens in zip(cuts, counts, strict=True)]

    def _sentences(self, text: str, outline: TextOutline, start: int) -> Iterator[Cut]:
        """Yield the sentences, whatever their length; they are measured later."""
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
            # The sentences with all marks around them, so that nothing but white space lies between.
            body, start_of_sentence, ranges = text[section.body_start : section.end], section.body_start, []
            for sentence, following in pairwise(split_sentences(body)):
                # The border is the first white space: closing marks belong to the sentence, opening ones to the next.
                between = range(sentence.end, following.start)
                border = next((index for index in between if body[index] in _BLANKS), following.start)
                place = section.body_start + border
                may_cut = is_cluster_boundary(body, border) and not lies_inside(place, verbatim)
                if may_cut and text[start_of_sentence:place].strip():
                    ranges.append(_tight(text, start_of_sentence, place))
                    start_of_sentence = place
            ranges.append(_tight(text, start_of_sentence, section.end))
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


def _tight(text: str, start: int, end: int) -> _Range:
    """Trim white space at both ends, except the indentation of the first line."""
    start, end = trim(text, start, end)
    if start and text[start - 1] not in "\r\n":
        start += len(text[start:end]) - len(text[start:end].lstrip())
    return cut_before(text, start), end  # a combining mark on white space keeps the white space
