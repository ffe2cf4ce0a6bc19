"""The evidence of answers: passages, the places in them that statements quote, and whether they equal the store."""

import math
import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from pathlib import PurePosixPath

from groundwire.kernel.facts import Discrepancy
from groundwire.kernel.markdown import read_markdown
from groundwire.kernel.restructured_text import descriptions, read_rst, without_roles
from groundwire.kernel.sentences import BlockKind, heading_text, split_blocks, without_images
from groundwire.kernel.spans import Span

_FRONT_PAGES = frozenset({"readme", "index"})
# A title, the address of a link of Markdown, and an image of reStructuredText with its options.
_SAYS_NOTHING = re.compile(
    r"^(?:#++[ \t][^\n]*+|\[[^\]\n]++\]:[^\n]*+"
    r"|\.\.[ \t]++(?:\|[^|\n]++\|[ \t]++)?image::[^\n]*+(?:\n[ \t]++\S[^\n]*+)*+|:target:[^\n]*+)",
    re.MULTILINE,
)


class Markup(StrEnum):
    """The markup of a canonical text.

    With BLOCKS, only headings, lists, tables and code are those of Markdown; with RECORDS, each paragraph is a record
    of `name: value` lines.
    """

    NONE = "none"
    BLOCKS = "blocks"
    RECORDS = "records"
    MARKDOWN = "markdown"
    RST = "rst"


@dataclass(frozen=True, slots=True)
class Passage:
    """A chunk that a search found, with what a citation says about it.

    `content` is the canonical text of `document_id` in `generation` at `span`. `relevance` is in [0, 1],
    higher is better. `chapter`, `section_heading`, `title` and `source_uri` are never empty, `section` may be. One that
    `is_persona` says who the assistant is and how it speaks.
    """

    rank: int
    chunk_id: str
    chunk_number: int
    document_id: str
    generation: int
    source_uri: str
    title: str
    chapter: str
    section: str
    section_heading: str
    page_numbers: tuple[int, ...]
    span: Span
    content: str
    relevance: float
    markup: Markup = Markup.MARKDOWN
    creators: tuple[str, ...] = ()
    date_created: datetime | None = None
    doi: str = ""
    url: str = ""
    is_persona: bool = False

    @property
    def is_front_page(self) -> bool:
        """Tell whether the document says what the folder is about that it stands in, as a README does."""
        return PurePosixPath(self.source_uri).stem.casefold() in _FRONT_PAGES

    def tells(self) -> bool:
        """Tell whether there is more than titles, badges and other images, and addresses of links."""
        return any(map(str.isalpha, _SAYS_NOTHING.sub("", without_images(self.content))))

    @property
    def document_name(self) -> str:
        """Return the title of the document, or else the name of its file, of a front page that of its folder."""
        path = PurePosixPath(self.source_uri)
        if self.title != path.name:
            return self.title
        return (path.parent.name if self.is_front_page else path.stem) or self.title

    def span_of(self, start: int, end: int) -> Span:
        """Return the span in the canonical text of `content[start:end]`, code points within the content."""
        first = self.span.start_byte + len(self.content[:start].encode())
        return Span.of(self.content[start:end], self.span.start + start, first)


@dataclass(frozen=True, slots=True)
class Source:
    """Claimed evidence: `quote` should be the canonical text of the passage's document at `span`.

    `page_numbers` are the pages that the span stands on; empty before they were looked up, and for sources without
    pages. `assessed` is the probability in [0, 1] that the quote supports what it is cited for, None where nobody
    estimated it. `goes_on` means that it continues the quote of the source before it, in the next chunk.
    """

    passage: Passage
    span: Span
    quote: str
    page_numbers: tuple[int, ...] = ()
    assessed: float | None = None
    goes_on: bool = False

    @property
    def support(self) -> float:
        """Return how well it supports its claim, in [0, 1]: an estimate, or else the relevance of its chunk."""
        return self.passage.relevance if self.assessed is None else self.assessed


@dataclass(frozen=True, slots=True)
class OpposingSource:
    """A source that contradicts a statement by another number, date, name or negation."""

    source: Source
    discrepancy: Discrepancy

    def order(self) -> tuple[float, int]:
        """Return the key that sorts the newest first, those without a date last, and then by rank."""
        passage = self.source.passage
        return (-passage.date_created.timestamp() if passage.date_created else math.inf, passage.rank)


@dataclass(frozen=True, slots=True)
class Statement:
    """A sentence of a draft with the sources that should support it; without any it is unsupported.

    One that needs no source, such as "Here is how.", claims nothing. `separator` is what stands between it and the
    statement before: a space, or a line break where a new thought or list item begins. `opposing` are places that
    contradict it.
    """

    text: str
    sources: tuple[Source, ...]
    separator: str = " "
    needs_source: bool = True
    opposing: tuple[OpposingSource, ...] = ()

    @property
    def quoted(self) -> tuple[Source, ...]:
        """Return all sources, those that oppose it last."""
        return (*self.sources, *(each.source for each in self.opposing))


@dataclass(frozen=True, slots=True)
class Closest:
    """What a generator that abstains would have said: no answer, and perhaps of use to whoever reads the refusal."""

    statement: Statement


@dataclass(frozen=True, slots=True)
class StoredSpan:
    """What is stored at the place that a source names: the chunk, and the canonical text of its generation at the span.

    `page_numbers` are the pages of the span, which may be fewer than those of the chunk.
    """

    chunk_id: str
    document_id: str
    generation: int
    chunk_span: Span
    span: Span
    text: str
    page_numbers: tuple[int, ...] = ()


def agrees(source: Source, stored: StoredSpan | None) -> bool:
    """Tell whether a source is exactly what is stored: chunk, document, generation, text, code points and bytes."""
    if stored is None or source.quote != stored.text or source.span != stored.span:
        return False
    passage, chunk, span = source.passage, stored.chunk_span, stored.span
    identity = (passage.chunk_id, passage.document_id, passage.generation)
    is_inside = chunk.start <= span.start < span.end <= chunk.end
    return is_inside and identity == (stored.chunk_id, stored.document_id, stored.generation)


def with_agreeing_sources(
    statements: Sequence[Statement], stored: Sequence[Sequence[StoredSpan | None]]
) -> list[Statement]:
    """Return the statements with those of their sources that agree, and with their pages; some may be left with none.

    `stored` has for each statement, for each source that it quotes, what is stored there, or None.
    """
    checked = []
    for statement, found in zip(statements, stored, strict=True):
        good = [
            replace(source, page_numbers=text.page_numbers) if text is not None and agrees(source, text) else None
            for source, text in zip(statement.quoted, found, strict=True)
        ]
        count = len(statement.sources)
        opposing = tuple(
            replace(each, source=source)
            for each, source in zip(statement.opposing, good[count:], strict=True)
            if source is not None
        )
        sources = tuple(source for source in good[:count] if source is not None)
        checked.append(replace(statement, sources=sources, opposing=opposing))
    return checked


_SECTION_LEVEL = 2
_CHAPTER_LEVEL = 1


# The only mark in what was extracted from HTML: "class `owls.Owl`" names a class.
_NAME_OF_CODE = re.compile(r"`([^`]+)`\Z")


def section_at(passage: Passage, position: int) -> tuple[str, str]:
    """Return (section, section heading) of the code point at `position` of the passage's content.

    Headings inside the passage win over those it began under. Section is the nearest level-two heading,
    section heading the nearest of any level.
    """
    section, nearest = passage.section, passage.section_heading
    if passage.markup is Markup.RST:
        return _section_of_rst_at(passage, position)
    if passage.markup not in {Markup.MARKDOWN, Markup.BLOCKS}:
        return section, nearest
    is_markdown = passage.markup is Markup.MARKDOWN
    content = read_markdown(passage.content) if is_markdown else passage.content
    for block in split_blocks(content, passage.content):
        if block.start > position:
            break
        # What `<summary>` names ends with its block, where no heading tells it. A comment of code that began before the
        # passage, such as "# Count owls", has the next line right below it.
        is_summary = passage.content.startswith("summary", block.start)
        is_comment = not is_markdown and content[block.end : block.end + 2] not in {"\n\n", "\n", ""}
        if block.kind is BlockKind.HEADING and not (is_summary or is_comment):
            heading = content[block.start : block.end].strip()
            level = len(heading) - len(heading.lstrip("#"))
            if level:
                text = heading[level:].strip()
                text = heading_text(text.rstrip("#")) if is_markdown else _NAME_OF_CODE.sub(r"\1", text)
            else:  # underlined with `===` (level 1) or `---` (level 2)
                *lines, underline = heading.splitlines()
                level = _CHAPTER_LEVEL if underline.strip().startswith("=") else _SECTION_LEVEL
                text = heading_text(" ".join(lines))
            if level in {_CHAPTER_LEVEL, _SECTION_LEVEL}:
                section = text if level == _SECTION_LEVEL else ""
            nearest = text or nearest
    return section, nearest


def _section_of_rst_at(passage: Passage, position: int) -> tuple[str, str]:
    section, nearest = passage.section, passage.section_heading
    mark_of_sections = ""
    for block in read_rst(passage.content)[1]:
        if block.start > position:
            break
        *lines, underline = passage.content[block.start : block.end].split("\n")
        if block.kind is BlockKind.HEADING and lines:
            nearest = heading_text(without_roles(lines[-1].strip()))
            # Which marks underline which level is said by the whole document alone.
            mark_of_sections = underline[0] if nearest == section else mark_of_sections
            section = nearest if underline[0] == mark_of_sections else section
    around = [each.name for each in descriptions(passage.content) if each.start <= position < each.end]
    return section, around[-1] if around else nearest
