"""Canonical texts: exact slices, and the whole in parts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, exists, func, select

from groundwire.catalog.database import Database
from groundwire.catalog.generations import GenerationState
from groundwire.catalog.segments import SEGMENT_CHARS
from groundwire.catalog.tables import collections, documents, generations, text_segments
from groundwire.kernel.errors import DataLossError, DocumentNotFoundError

_SEGMENTS_REMEMBERED = 64
"""At most 16 MiB for as long as a call reads spans."""


@dataclass(frozen=True, slots=True)
class TextPart:
    """A part of a text: it begins at code point `start` and at byte `start_byte` of the UTF-8."""

    start: int
    text: str
    start_byte: int


@dataclass(frozen=True, slots=True)
class _Text:
    key: int
    total_chars: int


class Texts:
    """Texts of published generations, the superseded ones too, until their document is deleted."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def slice(
        self, tenant: str, collection: str, document_id: str, generation: int, spans: Sequence[tuple[int, int]]
    ) -> list[str]:
        """Return the code points start..end of each span, in the order given; reads only the segments it needs.

        Raises:
            DocumentNotFoundError: no such document, or no published generation of this number.
            DataLossError: a span is not within the text.
        """
        with self._database.read() as connection:
            return slice_of_generation(connection, tenant, collection, document_id, generation, spans)

    def spans(self, tenant: str, collection: str) -> "SpanReader":
        """Return what reads many spans of a collection."""
        return SpanReader(self._database, tenant, collection)

    def parts(
        self, tenant: str, collection: str, document_id: str, generation: int | None, part_chars: int
    ) -> Iterator[TextPart]:
        """Iterate over a text, by default the live one, in parts of `part_chars` code points (the last is shorter).

        The first error comes from the call, not from the iteration. Each part is a read of its own, so a slow
        consumer holds no connection; a document deleted meanwhile ends the iteration with DocumentNotFoundError.

        Raises:
            DocumentNotFoundError: no such document, or no published generation of this number.
        """
        with self._database.read() as connection:
            found = _find(connection, tenant, collection, document_id, generation)
        return self._iterate(found, document_id, part_chars)

    def _iterate(self, found: _Text, document_id: str, part_chars: int) -> Iterator[TextPart]:
        start_byte = 0
        for start in range(0, found.total_chars, part_chars):
            end = min(start + part_chars, found.total_chars)
            with self._database.read() as connection:
                contents = _contents(connection, found.key, set(_segments(start, end)))
            if not contents:
                raise DocumentNotFoundError(document_id)
            text = _join(contents, start, end)
            yield TextPart(start, text, start_byte)
            start_byte += len(text.encode("utf-8"))


class SpanReader:
    """Reads spans of texts of one collection, for one call: remembers whose texts they are and what it read last."""

    def __init__(self, database: Database, tenant: str, collection: str) -> None:
        self._database = database
        self._owner = tenant, collection
        self._texts: dict[tuple[str, int], _Text] = {}
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
        found = self._texts[name]
        if not 0 <= start < end <= found.total_chars:
            return None
        segments = self._read(document_id, found.key, _segments(start, end))
        text, offset = "".join(content for content, _ in segments), start % SEGMENT_CHARS
        byte = segments[0][1] + len(text[:offset].encode("utf-8"))
        return TextPart(start, text[offset : offset + end - start], byte)

    def _read(self, document_id: str, key: int, numbers: range) -> list[tuple[str, int]]:
        """Return the contents of segments, and at which byte of the text each begins."""
        missing = [number for number in numbers if (key, number) not in self._segments]
        if missing:
            of_text = text_segments.c.generation_key == key
            wanted = select(text_segments).where(of_text, text_segments.c.number.in_(missing))
            with self._database.read() as connection:
                rows = connection.execute(wanted).all()
                is_there = select(exists().where(generations.c.generation_key == key))
                if len(rows) < len(missing) and not connection.execute(is_there).scalar_one():
                    raise DocumentNotFoundError(document_id)  # deleted since the first span of it was read
            if len(rows) < len(missing):
                raise DataLossError("a part of the stored text is missing", what="text")
            self._segments.update({(key, row.number): (row.content, row.byte_start) for row in rows})
        read = [self._segments[key, number] for number in numbers]
        for oldest in list(self._segments)[:-_SEGMENTS_REMEMBERED]:
            del self._segments[oldest]
        return read


def slice_of_generation(
    connection: Connection,
    tenant: str,
    collection: str,
    document_id: str,
    generation: int | None,
    spans: Sequence[tuple[int, int]],
) -> list[str]:
    """Return the code points start..end of each span of a generation, by default the live one; see `Texts.slice`."""
    found = _find(connection, tenant, collection, document_id, generation)
    _refuse_outside(found, spans)
    needed = {number for start, end in spans for number in _segments(start, end)}
    contents = _contents(connection, found.key, needed)
    return [_join(contents, start, end) for start, end in spans]


def _find(connection: Connection, tenant: str, collection: str, document_id: str, generation: int | None) -> _Text:
    wanted = documents.c.live_generation if generation is None else generation
    statement = (
        select(generations.c.generation_key, generations.c.total_chars)
        .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
        .join(collections, documents.c.collection_key == collections.c.collection_key)
        .where(
            documents.c.tenant == tenant,
            documents.c.document_id == document_id,
            documents.c.live_generation > 0,
            collections.c.name == collection,
            generations.c.generation == wanted,
            generations.c.state != GenerationState.PENDING.value,
        )
    )
    row = connection.execute(statement).first()
    if row is None:
        raise DocumentNotFoundError(document_id)
    return _Text(row.generation_key, row.total_chars)


def _refuse_outside(found: _Text, spans: Sequence[tuple[int, int]]) -> None:
    for start, end in spans:
        if not 0 <= start <= end <= found.total_chars:
            raise DataLossError(f"span {start}..{end} is not within the text of {found.total_chars}", what="span")


def _segments(start: int, end: int) -> range:
    return range(start // SEGMENT_CHARS, -(-end // SEGMENT_CHARS))


def _contents(connection: Connection, key: int, numbers: set[int]) -> dict[int, str]:
    given = func.json_each(json.dumps(sorted(numbers))).table_valued("value")
    statement = select(text_segments.c.number, text_segments.c.content).where(
        text_segments.c.generation_key == key, text_segments.c.number.in_(select(given.c.value))
    )
    return {row.number: row.content for row in connection.execute(statement)}


def _join(contents: Mapping[int, str], start: int, end: int) -> str:
    numbers = _segments(start, end)
    if any(number not in contents for number in numbers):
        raise DataLossError("a part of the stored text is missing", what="text")
    first = numbers.start * SEGMENT_CHARS
    return "".join(contents[number] for number in numbers)[start - first : end - first]
