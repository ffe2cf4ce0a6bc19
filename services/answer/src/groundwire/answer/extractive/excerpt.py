"""What can be quoted from a passage."""

from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from groundwire.answer.evidence import Passage
from groundwire.answer.question import exact_words, keywords
from groundwire.kernel.sentences import BlockKind
from groundwire.kernel.words import content_stems

MIN_WORDS = 3
MAX_CHARS = 700
"""Shorter ones are labels, longer ones are no sentences."""
Quoted: TypeAlias = tuple[Passage, int, int]
"""A passage, and a range of its content."""


@dataclass(frozen=True)
class Excerpt:
    """A part of a text that can be quoted, shown as `text`: `content[start:end]` of the passage that it begins in.

    Where it goes on in the next chunks, `end` lies behind the end of the passage, and `rest` has the ranges there.
    `text` is plain: without marks, on one line unless it is code or a list. `about` is what a reader has before the
    eyes when reading it there: the heading above, the lead-in of a list, the sentence that it goes on from.
    `field_of` says what a field of the head of a document is about, empty for all else: its first fields. `tagline_of`
    names what a README is about where this is its tagline: "Fast, minimalist web framework".
    `heading` is the nearest one above; `is_of_code` tells that it is the name of a setting, an option or a function.
    `opens` tells the first of a section, which most often says what it is about.
    `place` counts the excerpts that can be read one after the other. `header` is where the header of a table row
    stands, or the term that an item explains in more than this sentence. `is_whole` tells a whole list or the first
    column of a table from one item of it, `is_joined` a sentence that comes with the one before. `leans` says that it
    opens with something that only text before it explains, which is not part of the excerpt.
    """

    passage: Passage
    kind: BlockKind
    start: int
    end: int
    text: str
    about: str
    field_of: str = ""
    tagline_of: str = ""
    heading: str = ""
    is_of_code: bool = False
    opens: bool = False
    place: int = 0
    header: tuple[Quoted, ...] = ()
    is_whole: bool = False
    is_joined: bool = False
    leans: bool = False
    rest: tuple[Quoted, ...] = ()

    @cached_property
    def stems(self) -> frozenset[str]:
        """Return the stems of its words that carry meaning, with those that name what a field or tagline is about."""
        said = f"{self.field_of} {self.tagline_of} {self.text}"
        source = self.passage.content[self.start : self.end]
        # A sign may be quoted in the source alone, and be written as `&gt;` there.
        return frozenset((*content_stems(said), *exact_words(f"{said}\n{source}"), *keywords(source)))
