"""Cut a text by its sections, and give document, chapters and sections chunks of their own."""

from collections import Counter
from dataclasses import dataclass, replace

from groundwire.ingest.chunking.cuts import Branch, Cut, trim
from groundwire.ingest.chunking.headings import CHAPTER_LEVEL, SECTION_LEVEL, Heading, TextOutline, sections_of
from groundwire.ingest.chunking.splitter import Splitter
from groundwire.ingest.chunking.structure import StructureChunker
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.collection import ChunkingPolicy

_PARAGRAPH_LEVEL = 3


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
