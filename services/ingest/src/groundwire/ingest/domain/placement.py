"""Say where a chunk stands in its document: chapter, section, headings above it and depth."""

from dataclasses import dataclass, replace

from groundwire.ingest.domain.cuts import Cut
from groundwire.ingest.domain.outline import CHAPTER_LEVEL, SECTION_LEVEL, Heading


@dataclass(frozen=True, slots=True)
class Place:
    """The chapter is never empty; `path` holds the headings above, outermost first, of a tree the document before them.

    `level` is the depth of the text in the tree document (0), chapter (1), section (2), paragraph (3): text
    in a section has 3, text of a chapter outside its sections 2, text of a document without headings 1.
    """

    chapter: str
    section: str | None
    path: tuple[str, ...]
    level: int


@dataclass(frozen=True, slots=True)
class Places:
    """The places in one document; `title` stands for it in the paths of a tree."""

    fallback_chapter: str
    title: str

    def of(self, cut: Cut) -> Place:
        """Return where a chunk stands."""
        place = place_of(cut.path, self.fallback_chapter)
        return replace(place, path=(self.title, *place.path), level=cut.branch.level) if cut.branch else place


def place_of(path: tuple[Heading, ...], fallback_chapter: str) -> Place:
    """Return the place of text below the headings `path`.

    The chapter is the level-1 heading above; without one it is `fallback_chapter`, which is the first
    heading of the document, else its title, else its file name (requirement C26).
    """
    chapter = next((heading.text for heading in path if heading.level == CHAPTER_LEVEL), fallback_chapter)
    section = next((heading.text for heading in path if heading.level == SECTION_LEVEL), None)
    in_section = any(heading.level >= SECTION_LEVEL for heading in path)
    return Place(chapter, section, tuple(heading.text for heading in path), 3 if in_section else 2 if path else 1)
