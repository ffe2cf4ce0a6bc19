"""Cut a text by its sections, and give document, chapters and sections chunks of their own."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundwire.ingest.domain.cuts import Branch, Cut, trim
from groundwire.ingest.domain.outline import CHAPTER_LEVEL, SECTION_LEVEL, Heading, Outline, Section, sections_of
from groundwire.ingest.domain.pieces import Splitter
from groundwire.ingest.domain.structure_chunking import StructureChunker
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

    def cut(self, text: str, outline: Outline, start: int) -> list[Cut]:
        """Return the chunks of `text` from code point `start` on; empty for white space."""
        leaves = StructureChunker(self.policy, self.splitter, SECTION_LEVEL).cut(text, outline, start)
        nodes = _nodes(text, list(sections_of(outline, start, len(text))), start) if leaves else []
        below: Counter[int] = Counter()
        cuts, index = [], 0
        for leaf in leaves:
            index = _owner(nodes, index, leaf.end - 1)
            below[index] += 1
            cuts.append(replace(leaf, branch=_branch(nodes, index, len(leaves), below[index])))
        return cuts + self._uppers(text, nodes, len(leaves))

    def _uppers(self, text: str, nodes: Sequence[_Node], first: int) -> list[Cut]:
        held = [text[node.start : node.end] if _is_held(node) else "" for node in nodes]
        counts = self.splitter.count_tokens(held)
        cuts = []
        for node, tokens in zip(nodes, counts, strict=True):
            branch = _own_branch(nodes, node, first)
            cuts.append(Cut(node.start, node.end, node.start, node.path, False, tokens, branch=branch))  # noqa: FBT003 - not undersized
        return cuts


def _is_held(node: _Node) -> bool:
    return node.end - node.start <= MAX_CHUNK_CHARS


def _nodes(text: str, sections: Sequence[Section], start: int) -> list[_Node]:
    """Return document, chapters and sections in the order of the text, outer ones first."""
    nodes = [_Node(0, *trim(text, start, len(text)), (), None)]
    own = [section for section in sections if 0 < section.level <= SECTION_LEVEL]
    ends: list[int] = []
    following = next_chapter = len(text)
    for section in reversed(own):
        following = next_chapter if section.level == CHAPTER_LEVEL else following
        ends.append(following)
        following = section.start
        next_chapter = section.start if section.level == CHAPTER_LEVEL else next_chapter
    chapter = 0
    for section, end in zip(own, reversed(ends), strict=True):
        if section.level == CHAPTER_LEVEL:
            chapter = len(nodes)
        parent = chapter if section.level == SECTION_LEVEL else 0
        nodes.append(_Node(section.level, *trim(text, section.start, end), section.path, parent))
    return nodes


def _owner(nodes: Sequence[_Node], index: int, position: int) -> int:
    """Return the innermost node around `position`, at or after node `index`."""
    while index + 1 < len(nodes) and nodes[index + 1].start <= position:
        index += 1
    return index


def _branch(nodes: Sequence[_Node], index: int, first: int, paragraph: int) -> Branch:
    above = nodes[index].parent
    return Branch(_PARAGRAPH_LEVEL, first + index, None if above is None else first + above, paragraph)


def _own_branch(nodes: Sequence[_Node], node: _Node, first: int) -> Branch:
    above = None if node.parent is None else nodes[node.parent].parent
    return Branch(
        node.level,
        None if node.parent is None else first + node.parent,
        None if above is None else first + above,
        None,
    )
