"""Say where a chunk stands in its document: chapter, section, headings above it and depth."""

from dataclasses import dataclass

from groundwire.ingest.domain.outline import CHAPTER_LEVEL, SECTION_LEVEL, Heading


@dataclass(frozen=True, slots=True)
class Place:
    """The chapter is never empty; `path` holds the headings above, outermost first.

    `level` is the depth of the text in the tree document (0), chapter (1), section (2), paragraph (3): text
    in a section has 3, text of a chapter outside its sections 2, text of a document without headings 1.
    """

    chapter: str
    section: str | None
    path: tuple[str, ...]
    level: int


def place_of(path: tuple[Heading, ...], fallback_chapter: str) -> Place:
    """Return the place of text below the headings `path`.

    The chapter is the level-1 heading above; without one it is `fallback_chapter`, which is the first
    heading of the document, else its title, else its file name (requirement C26).
    """
    chapter = next((heading.text for heading in path if heading.level == CHAPTER_LEVEL), fallback_chapter)
    section = next((heading.text for heading in path if heading.level == SECTION_LEVEL), None)
    in_section = any(heading.level >= SECTION_LEVEL for heading in path)
    return Place(chapter, section, tuple(heading.text for heading in path), 3 if in_section else 2 if path else 1)
