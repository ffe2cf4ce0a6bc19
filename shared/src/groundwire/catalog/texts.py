"""Canonical texts: exact slices, and the whole in parts."""

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from sqlalchemy import Connection, func, select

from groundwire.catalog.database import Database
from groundwire.catalog.generations import GenerationState
from groundwire.catalog.segments import SEGMENT_CHARS
from groundwire.catalog.tables import collections, documents, generations, text_segments
from groundwire.kernel.errors import DataLossError, DocumentNotFoundError


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

    def at(
        self, tenant: str, collection: str, document_id: str, generation: int, start: int, end: int
    ) -> TextPart | None:
        """Return the code points start..end, at least one; None when they are not within the text.

        Raises:
            DocumentNotFoundError: no such document, or no published generation of this number.
            DataLossError: a part of the stored text is missing.
        """
        with self._database.read() as connection:
            found = _find(connection, tenant, collection, document_id, generation)
            if not 0 <= start < end <= found.total_chars:
                return None
            numbers = _segments(start, end)
            of_text = text_segments.c.generation_key == found.key
            wanted = select(text_segments).where(of_text, text_segments.c.number.in_(numbers))
            segments = connection.execute(wanted.order_by(text_segments.c.number)).all()
        if len(segments) < len(numbers):
            raise DataLossError("a part of the stored text is missing", what="text")
        text, offset = "".join(segment.content for segment in segments), start - segments[0].char_start
        byte = segments[0].byte_start + len(text[:offset].encode("utf-8"))
        return TextPart(start, text[offset : offset + end - start], byte)

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
