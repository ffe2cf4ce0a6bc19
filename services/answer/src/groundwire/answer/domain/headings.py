"""Finds the headings that stand above a place inside a passage; a passage may span several small sections."""

from groundwire.answer.domain.passage import Passage
from groundwire.kernel.heading_text import heading_text
from groundwire.kernel.text_blocks import BlockKind, split_blocks

_SECTION_LEVEL = 2
_CHAPTER_LEVEL = 1


def section_at(passage: Passage, position: int) -> tuple[str, str]:
    """Return (section, section heading) of the code point at `position` of the passage's content.

    Headings inside the passage win over those it began under. Section is the nearest level-two heading,
    section heading the nearest of any level.
    """
    section, nearest = passage.section, passage.section_heading
    if not passage.has_headings:
        return section, nearest
    for block in split_blocks(passage.content):
        if block.start > position:
            break
        if block.kind is BlockKind.HEADING:
            level, text = _read(passage.content[block.start : block.end])
            if level in {_CHAPTER_LEVEL, _SECTION_LEVEL}:
                section = text if level == _SECTION_LEVEL else ""
            nearest = text or nearest
    return section, nearest


def _read(block: str) -> tuple[int, str]:
    """Return level and text of a heading: `## text ##`, or a text underlined with `===` (1) or `---` (2)."""
    stripped = block.strip()
    level = len(stripped) - len(stripped.lstrip("#"))
    if level:
        return level, heading_text(stripped[level:].strip().rstrip("#"))
    lines = stripped.splitlines()
    return (_CHAPTER_LEVEL if lines[-1].strip().startswith("=") else _SECTION_LEVEL), heading_text(" ".join(lines[:-1]))
