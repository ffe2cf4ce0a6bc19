"""What a generator hands in: statements with the places they were taken from, not yet checked."""

from dataclasses import dataclass

from groundwire.answer.domain.passage import Passage
from groundwire.kernel.spans import Span


@dataclass(frozen=True, slots=True)
class Source:
    """A claimed place of evidence: `quote` is said to be the canonical text of the passage's document at `span`.

    `page_numbers` are the pages that the span stands on; empty before they were looked up, and for sources without
    pages.
    """

    passage: Passage
    span: Span
    quote: str
    page_numbers: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a draft with the sources it is said to rest on.

    `separator` is what stands between it and the statement before: a space, or a line break where a new
    thought or list item begins.
    """

    text: str
    sources: tuple[Source, ...]
    separator: str = " "
