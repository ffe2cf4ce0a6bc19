"""Documents whose chunks the caller has made, and where these chunks stand in the text."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import FieldViolation, InvalidRequestError
from groundwire.kernel.filters import Value

SLACK_CHARS = 5
"""So much may the length of a span differ from that of the content (requirement S1-79)."""
_JOINER = "\n\n"
_FILLER = "\n"


@dataclass(frozen=True, slots=True)
class ReadyChunk:
    """A chunk made by the caller; `start` and `end` are code points of the canonical text, both or neither.

    `pages` rise from 1 without gaps. `vector` is float32, shape (d,), finite and not zero.
    """

    content: str
    start: int | None
    end: int | None
    chunk_id: str | None = None
    chapter: str | None = None
    section: str | None = None
    heading: str | None = None
    path: tuple[str, ...] = ()
    level: int = 3
    pages: tuple[int, ...] = ()
    vector: Vectors | None = None
    tags: tuple[str, ...] = ()
    metadata: dict[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ReadyDocument:
    """The chunks in order, at least one, and the text they are cut from if the caller has it.

    `probe_digest` identifies the model of the vectors; empty when there are none.
    """

    text: str | None
    chunks: Sequence[ReadyChunk]
    probe_digest: str


@dataclass(frozen=True, slots=True)
class PlacedText:
    """A canonical text and the half-open range of each chunk in it."""

    text: str
    ranges: Sequence[tuple[int, int]]


def placed(document: ReadyDocument, max_chars: int) -> PlacedText:
    """Return the canonical text and where the chunks stand in it; what a range holds is what is stored.

    Raises:
        InvalidRequestError: a span lies outside the text, or text and contents differ.
    """
    if document.text is not None:
        return PlacedText(document.text, _in_text(document.text, document.chunks))
    spanned = [chunk.start is not None for chunk in document.chunks]
    if all(spanned):
        return _laid_out(document.chunks, max_chars)
    if any(spanned):
        number = spanned.index(False)
        raise InvalidRequestError.of(f"chunks[{number}].char_start", "must be given for all chunks, for none, or text")
    return _joined(document.chunks)


def _in_text(text: str, chunks: Sequence[ReadyChunk]) -> list[tuple[int, int]]:
    ranges: list[tuple[int, int]] = []
    for number, chunk in enumerate(chunks):
        start, end = _found(text, chunk, ranges[-1][0] if ranges else 0, number)
        if end > len(text):
            raise _violation(number, "char_end", f"{end} lies beyond the text, which has {len(text)} characters")
        if not agrees(text[start:end], chunk.content):
            raise _violation(number, "content", f"differs from the text at {start} to {end}")
        ranges.append((start, end))
    return ranges


def _found(text: str, chunk: ReadyChunk, lowest: int, number: int) -> tuple[int, int]:
    if chunk.start is not None and chunk.end is not None:
        return chunk.start, chunk.end
    start = text.find(chunk.content, lowest)
    if start < 0:
        raise _violation(number, "content", "is not in the text behind the start of the chunk before")
    return start, start + len(chunk.content)


def _laid_out(chunks: Sequence[ReadyChunk], max_chars: int) -> PlacedText:
    """Make a text with every content at its place and line feeds between."""
    parts: list[str] = []
    ranges: list[tuple[int, int]] = []
    tail, length = "", 0
    for number, chunk in enumerate(chunks):
        start = chunk.start or 0
        end = start + len(chunk.content)
        if end > max_chars:
            raise _violation(number, "char_end", f"{end} is more than the {max_chars} that a document may have")
        shared = length - start
        if shared > 0 and tail[-shared:] != chunk.content[:shared] and shared <= len(tail):
            raise _violation(number, "content", "differs from the chunk before where both have text; send the text")
        if shared > min(len(tail), len(chunk.content)):
            raise _violation(number, "char_start", "lies inside a chunk further ahead; send the text")
        parts += [_FILLER * -shared, chunk.content[max(0, shared) :]]
        ranges.append((start, end))
        tail, length = chunk.content, end
    return PlacedText("".join(parts), ranges)


def _joined(chunks: Sequence[ReadyChunk]) -> PlacedText:
    ranges: list[tuple[int, int]] = []
    start = 0
    for chunk in chunks:
        ranges.append((start, start + len(chunk.content)))
        start = ranges[-1][1] + len(_JOINER)
    return PlacedText(_JOINER.join(chunk.content for chunk in chunks), ranges)


def agrees(stored: str, content: str) -> bool:
    """Tell whether a part of a text is what a content was made of.

    They may differ in white space, and one may have a run of up to `SLACK_CHARS` characters that the other lacks.
    """
    if stored == content:
        return True
    if not stored.strip() or abs(len(stored) - len(content)) > SLACK_CHARS:
        return False
    shorter, longer = sorted(("".join(stored.split()), "".join(content.split())), key=len)
    ahead = _common(shorter, longer)
    behind = _common(shorter[::-1], longer[::-1])
    return len(longer) - len(shorter) <= SLACK_CHARS and ahead + behind >= len(shorter)


def _common(one: str, other: str) -> int:
    """Return the length of the common beginning; `one` is not the longer."""
    return next((index for index, char in enumerate(one) if char != other[index]), len(one))


def _violation(number: int, name: str, description: str) -> InvalidRequestError:
    return InvalidRequestError([FieldViolation(f"chunks[{number}].{name}", description)])
