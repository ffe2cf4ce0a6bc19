"""Canonical texts: stored in segments, read in exact slices or in parts, with the properties of their sources."""

import hashlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, bindparam, exists, select

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import Database
from groundwire.catalog.dialects import among
from groundwire.catalog.encoding import encode_json
from groundwire.catalog.rows import IS_VISIBLE, GenerationState, to_fields
from groundwire.catalog.schema import collections, documents, generations, text_pages, text_segments
from groundwire.kernel.chunk import MAX_CHUNK_CHARS, Chunk
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import DataLossError, DocumentNotFoundError
from groundwire.kernel.spans import PageSpan, pages_between

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
    # An error stored here would make every later citation wrong; the check costs a fraction of the embedding.
    spans = [chunk.span for chunk in chunks]
    byte_of: dict[int, int] = {}
    last_char = last_byte = 0
    # One pass over the text, whatever the number of spans.
    for char in sorted({offset for span in spans for offset in (span.start, span.end)}):
        last_byte += char - last_char if text.isascii() else len(text[last_char:char].encode("utf-8"))
        last_char = char
        byte_of[char] = last_byte
    for expected, chunk in enumerate(chunks):
        span = chunk.span
        if chunk.sequence_num != expected:
            raise ValueError(f"chunk {expected} has sequence number {chunk.sequence_num}")
        # An upper chunk that is longer than a chunk may be keeps only its span.
        is_long = span.end - span.start > MAX_CHUNK_CHARS
        is_content = chunk.upper and not chunk.content if is_long else text[span.start : span.end] == chunk.content
        if not 0 <= span.start < span.end <= len(text) or not is_content:
            raise ValueError(f"chunk {expected} is not the text of its span {span.start}..{span.end}")
        if (byte_of[span.start], byte_of[span.end]) != (span.start_byte, span.end_byte):
            raise ValueError(f"chunk {expected} has wrong byte offsets {span.start_byte}..{span.end_byte}")


# At most 16 MiB while a call reads spans.
_SEGMENTS_REMEMBERED = 64


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text: it begins at code point `start` and at byte `start_byte` of the UTF-8."""

    start: int
    text: str
    start_byte: int


class Texts(Aggregate):
    """Texts of published generations, the superseded ones too, until their document is deleted.

    A call for one raises DocumentNotFoundError where there is no such document, or no published generation of this
    number.
    """

    def spans(self, tenant: str, collection: str) -> "SpanReader":
        return SpanReader(self._database, tenant, collection)

    def parts(
        self, tenant: str, collection: str, document_id: str, generation: int | None, part_chars: int
    ) -> Iterator[TextPart]:
        """Iterate over a text, by default the live one, in parts of `part_chars` code points (the last is shorter).

        The first error comes from the call, not from the iteration. Each part is a read of its own, so a slow
        consumer holds no connection; a document deleted meanwhile ends the iteration with DocumentNotFoundError.
        """
        with self._database.read() as connection:
            key, total_chars = _find(connection, tenant, collection, document_id, generation)
        return self._iterate(key, total_chars, document_id, part_chars)

    def _iterate(self, key: int, total_chars: int, document_id: str, part_chars: int) -> Iterator[TextPart]:
        start_byte = 0
        for start in range(0, total_chars, part_chars):
            with self._database.read() as connection:
                text = _read(connection, key, start, min(start + part_chars, total_chars))
            if text is None:  # the document was deleted since the part before
                raise DocumentNotFoundError(document_id)
            yield TextPart(start, text, start_byte)
            start_byte += len(text.encode("utf-8"))

    def properties(self, tenant: str, document_id: str, generation: int) -> DocumentFields:
        """Return the source's own properties: front matter or those of the file."""
        found = self._database.query(
            select(generations.c.generation_key, generations.c.properties)
            .join_from(generations, documents)
            .where(
                documents.c.tenant == tenant,
                documents.c.document_id == document_id,
                generations.c.generation == generation,
                generations.c.state != GenerationState.PENDING.value,
            )
        ).first()
        if found is None:
            raise DocumentNotFoundError(document_id)
        return to_fields(found.properties)


class SpanReader:
    """Reads spans of texts of one collection, for one call; caches the generations and the segments it read last."""

    def __init__(self, database: Database, tenant: str, collection: str) -> None:
        self._database = database
        self._owner = tenant, collection
        self._texts: dict[tuple[str, int], tuple[int, int]] = {}
        self._pages: dict[tuple[str, int], list[PageSpan]] = {}
        self._segments: dict[tuple[int, int], tuple[str, int]] = {}

    def at(self, document_id: str, generation: int, start: int, end: int) -> TextPart | None:
        """Return the code points start..end, at least one; None when they are not within the text.

        Raises:
            DocumentNotFoundError: no such document, or no published generation of this number.
            DataLossError: a part of the stored text is missing.
        """
        name = document_id, generation
        if name not in self._texts:
            with self._database.read() as connection:
                self._texts[name] = _find(connection, *self._owner, document_id, generation)
                rows = connection.execute(_PAGES, {"key": self._texts[name][0]})
                self._pages[name] = [PageSpan(*row) for row in rows]
        key, total_chars = self._texts[name]
        if not 0 <= start < end <= total_chars:
            return None
        numbers = _segments(start, end)
        missing = [number for number in numbers if (key, number) not in self._segments]
        if missing:
            of_text = text_segments.c.generation_key == key
            wanted = select(text_segments).where(of_text, text_segments.c.number.in_(missing))
            with self._database.read() as connection:
                read = connection.execute(wanted).all()
                is_there = select(exists().where(generations.c.generation_key == key))
                if len(read) < len(missing) and not connection.execute(is_there).scalar_one():
                    raise DocumentNotFoundError(document_id)  # deleted since the first span of it was read
            if len(read) < len(missing):
                raise _missing_part()
            self._segments.update({(key, row.number): (row.content, row.byte_start) for row in read})
        segments = [self._segments[key, number] for number in numbers]
        # Dictionaries keep the order of insertion: the first ones were read longest ago.
        for oldest in list(self._segments)[:-_SEGMENTS_REMEMBERED]:
            del self._segments[oldest]
        text, offset = "".join(content for content, _ in segments), start % SEGMENT_CHARS
        byte = segments[0][1] + len(text[:offset].encode("utf-8"))
        return TextPart(start, text[offset : offset + end - start], byte)

    def pages_at(self, document_id: str, generation: int, start: int, end: int) -> tuple[int, ...]:
        """Return the pages of a span that `at` has read, in order; empty for formats without pages."""
        return pages_between(self._pages[document_id, generation], start, end)


def live_text(connection: Connection, tenant: str, collection: str, document_id: str, start: int, end: int) -> str:
    """Return the code points start..end of the live text of a document.

    Raises:
        DocumentNotFoundError: no such document.
        DataLossError: they are not within the text, or a part of it is missing.
    """
    key, total_chars = _find(connection, tenant, collection, document_id, None)
    if not 0 <= start <= end <= total_chars:
        raise DataLossError(f"span {start}..{end} is not within the text of {total_chars}", what="span")
    text = _read(connection, key, start, end)
    if text is None:
        raise _missing_part()
    return text


# Built once: building and compiling a statement takes longer than most reads.
_PUBLISHED = (
    select(generations.c.generation_key, generations.c.total_chars)
    .join_from(generations, documents)
    .join(collections)
    .where(
        documents.c.tenant == bindparam("tenant"),
        documents.c.document_id == bindparam("document_id"),
        IS_VISIBLE,
        collections.c.name == bindparam("collection"),
        generations.c.state != GenerationState.PENDING.value,
    )
)
_LIVE = _PUBLISHED.where(generations.c.generation == documents.c.live_generation)
_OF_GENERATION = _PUBLISHED.where(generations.c.generation == bindparam("generation"))
_PAGES = (
    select(text_pages.c.page, text_pages.c.char_start, text_pages.c.char_end)
    .where(text_pages.c.generation_key == bindparam("key"))
    .order_by(text_pages.c.page)
)
_SEGMENTS = select(text_segments.c.number, text_segments.c.content).where(
    text_segments.c.generation_key == bindparam("key"), among(text_segments.c.number, bindparam("numbers"))
)


def _find(
    connection: Connection, tenant: str, collection: str, document_id: str, generation: int | None
) -> tuple[int, int]:
    """Return the key of a published generation, by default the live one, and the code points of its text."""
    given = {"tenant": tenant, "collection": collection, "document_id": document_id}
    if generation is None:
        row = connection.execute(_LIVE, given).first()
    else:
        row = connection.execute(_OF_GENERATION, given | {"generation": generation}).first()
    if row is None:
        raise DocumentNotFoundError(document_id)
    return row.generation_key, row.total_chars


def _segments(start: int, end: int) -> range:
    return range(start // SEGMENT_CHARS, -(-end // SEGMENT_CHARS))


def _read(connection: Connection, key: int, start: int, end: int) -> str | None:
    """Return the code points start..end of a text; None where nothing of them is there."""
    numbers = _segments(start, end)
    rows = connection.execute(_SEGMENTS, {"key": key, "numbers": encode_json([*numbers])})
    contents = {row.number: row.content for row in rows}
    if numbers and not contents:
        return None
    if len(contents) < len(numbers):
        raise _missing_part()
    first = numbers.start * SEGMENT_CHARS
    return "".join(contents[number] for number in numbers)[start - first : end - first]


def _missing_part() -> DataLossError:
    return DataLossError("a part of the stored text is missing", what="text")
