"""What a reader makes of the bytes of a file: the canonical text and what is known of it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum

from groundwire.ingest.domain.outline import Outline
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.spans import PageSpan


class SourceWarning(StrEnum):
    """What the caller should know about a source that could be read."""

    PAGE_WITHOUT_TEXT = "PAGE_WITHOUT_TEXT"
    PROPERTY_IGNORED = "PROPERTY_IGNORED"


@dataclass(frozen=True, slots=True)
class SourceText:
    """A canonical text with its outline.

    Chunks are made from code point `body_start` on. `pages` are in order, empty for formats without pages. `properties`
    is what the source says about itself. `warnings` counts how often each occurred, at least once. `encoding` is
    that of the bytes, empty for formats that are no text.
    """

    format: DocumentFormat
    text: str
    outline: Outline = field(default_factory=Outline)
    body_start: int = 0
    pages: tuple[PageSpan, ...] = ()
    properties: DocumentFields = field(default_factory=DocumentFields)
    warnings: Mapping[SourceWarning, int] = field(default_factory=dict)
    encoding: str = ""
