"""What the checker asks the catalog about canonical texts and the chunks cut from them."""

import hashlib
from collections.abc import Iterator
from typing import Any

from sqlalchemy import Connection, RowMapping, select

from groundwire.catalog.database import Database
from groundwire.catalog.segments import Segment, cut
from groundwire.catalog.tables import chunks, collections, documents, generations, text_segments
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.store_findings import FindingKind, StoreFinding

_CHUNKS_TOLD = 20


class TextInspection:
    """Reads one generation at a time, each a snapshot of its own."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def next_generation(self, tenant: str, collection: str, after: int) -> int | None:
        """Return the key of the next published generation behind `after`, None when there is none."""
        statement = (
            select(generations.c.generation_key)
            .join_from(generations, collections, generations.c.collection_key == collections.c.collection_key)
            .where(
                collections.c.tenant == tenant,
                collections.c.name == collection,
                generations.c.state != "PENDING",
                generations.c.generation_key > after,
            )
            .order_by(generations.c.generation_key)
            .limit(1)
        )
        with self._database.read() as connection:
            return connection.execute(statement).scalar()

    def problems(self, collection: str, key: int) -> list[StoreFinding]:
        """Return what is wrong with a text: its digest, its parts, or chunks that are not the text of their spans."""
        with self._database.read() as connection:
            generation = connection.execute(_generation(key)).mappings().first()
            if generation is None:
                return []
            parts = _segments(connection, key)
            text = "".join(part.content for part in parts)
            problems = [*_text_problems(generation, parts, text), *_chunk_problems(connection, key, text)]
        return [
            StoreFinding(FindingKind.TEXT_DIFFERS, collection, subject or generation["document_id"], message)
            for subject, message in problems
        ]


def _generation(key: int) -> Any:
    return (
        select(documents.c.document_id, generations.c.generation, generations.c.text_hash)
        .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
        .where(generations.c.generation_key == key)
    )


def _segments(connection: Connection, key: int) -> list[Segment]:
    columns = (text_segments.c.number, text_segments.c.char_start, text_segments.c.byte_start, text_segments.c.content)
    statement = select(*columns).where(text_segments.c.generation_key == key).order_by(text_segments.c.number)
    return [Segment(*row) for row in connection.execute(statement)]


def _text_problems(generation: RowMapping, parts: list[Segment], text: str) -> Iterator[tuple[str, str]]:
    name = f"the text of generation {generation['generation']}"
    if hashlib.sha256(text.encode("utf-8")).hexdigest() != generation["text_hash"]:
        yield "", f"{name} is not the one that was stored; ingest the document again"
    elif parts != list(cut(text)):
        yield "", f"the parts of {name} are at wrong places; ingest the document again"


def _chunk_problems(connection: Connection, key: int, text: str) -> Iterator[tuple[str, str]]:
    c = chunks.c
    statement = (
        select(c.chunk_id, c.content, c.content_hash, c.char_start, c.char_end, c.byte_start, c.byte_end, c.upper)
        .where(c.generation_key == key)
        .order_by(c.sequence_num)
    )
    told = 0
    for row in connection.execute(statement).mappings():
        message = _chunk_problem(row, text)
        if message is not None and told < _CHUNKS_TOLD:
            told += 1
            yield row["chunk_id"], f"{message}; ingest the document again"


def _chunk_problem(row: RowMapping, text: str) -> str | None:
    start, end = row["char_start"], row["char_end"]
    content = text[start:end]
    if row["upper"] and end - start > MAX_CHUNK_CHARS:
        content = ""
    if row["content"] != content:
        return f"the chunk is not the text of its span {start}..{end}"
    if hashlib.sha256(row["content"].encode("utf-8")).hexdigest() != row["content_hash"]:
        return "the content of the chunk has another digest than stored"
    if len(text[start:end].encode("utf-8")) != row["byte_end"] - row["byte_start"]:
        return "the byte offsets of the chunk do not fit its text"
    return None
