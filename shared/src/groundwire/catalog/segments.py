"""How a canonical text is cut for storage, and the check that chunks are exactly what they say."""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from groundwire.kernel.chunk import MAX_CHUNK_CHARS, Chunk

SEGMENT_CHARS = 65_536
"""Code points of a stored segment: decoded in well under a millisecond, and few rows for a large text."""


@dataclass(frozen=True, slots=True)
class Segment:
    """A part of a text: `content` begins at code point `char_start` and at byte `byte_start` of the UTF-8."""

    number: int
    char_start: int
    byte_start: int
    content: str


@dataclass(frozen=True, slots=True)
class TextFigures:
    """SHA-256 (hex) of the UTF-8 bytes of a text and its lengths in code points and bytes."""

    digest: str
    total_chars: int
    total_bytes: int


def cut(text: str) -> Iterator[Segment]:
    """Iterate over the segments of a text in order; an empty text has none."""
    byte_start = 0
    for number, char_start in enumerate(range(0, len(text), SEGMENT_CHARS)):
        content = text[char_start : char_start + SEGMENT_CHARS]
        yield Segment(number, char_start, byte_start, content)
        byte_start += len(content.encode("utf-8"))


def measure(text: str) -> TextFigures:
    """Return digest and lengths, in steps of a segment so that other threads run in between."""
    digest, total_bytes = hashlib.sha256(), 0
    for segment in cut(text):
        encoded = segment.content.encode("utf-8")
        digest.update(encoded)
        total_bytes += len(encoded)
    return TextFigures(digest.hexdigest(), len(text), total_bytes)


def check_chunks(text: str, chunks: Sequence[Chunk]) -> None:
    """Return if chunk i has sequence number i and every span cuts exactly its content in both units.

    Raises:
        ValueError: our chunker is wrong; nothing may be stored.
    """
    spans = [chunk.span for chunk in chunks]
    byte_of = _byte_offsets(text, {offset for span in spans for offset in (span.start, span.end)})
    for expected, chunk in enumerate(chunks):
        span = chunk.span
        if chunk.sequence_num != expected:
            raise ValueError(f"chunk {expected} has sequence number {chunk.sequence_num}")
        if not 0 <= span.start < span.end <= len(text) or not _is_content(text, chunk):
            raise ValueError(f"chunk {expected} is not the text of its span {span.start}..{span.end}")
        if (byte_of[span.start], byte_of[span.end]) != (span.start_byte, span.end_byte):
            raise ValueError(f"chunk {expected} has wrong byte offsets {span.start_byte}..{span.end_byte}")


def _is_content(text: str, chunk: Chunk) -> bool:
    start, end = chunk.span.start, chunk.span.end
    if end - start > MAX_CHUNK_CHARS:
        return chunk.upper and not chunk.content
    return text[start:end] == chunk.content


def _byte_offsets(text: str, wanted: Iterable[int]) -> dict[int, int]:
    """Return the byte offset of each code point offset; one pass over the text whatever their number."""
    offsets: dict[int, int] = {}
    last_char = last_byte = 0
    for char in sorted(wanted):
        last_byte += char - last_char if text.isascii() else len(text[last_char:char].encode("utf-8"))
        last_char = char
        offsets[char] = last_byte
    return offsets
