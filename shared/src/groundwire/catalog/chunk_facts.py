"""What ranking needs of chunks: a narrow row for each, so that whole chunks are read only for results."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from groundwire.catalog.generation_keys import IS_LIVE
from groundwire.catalog.superseded_rows import then
from groundwire.catalog.tables import chunks, documents, generations


class ChunkFacts(NamedTuple):
    """Where a chunk stands, and what tells it from others.

    `start` and `end` are code points of the text of its generation. `document_chunk_count` counts the chunks of its
    document.
    """

    number: int
    document_key: int
    generation_key: int
    sequence_num: int
    start: int
    end: int
    chapter: str
    section: str | None
    section_title: str
    hierarchy_path: Sequence[str]
    content: str
    source_uri: str
    document_chunk_count: int

    @property
    def place(self) -> tuple[int, int]:
        """Return the document and the place in it."""
        return self.document_key, self.sequence_num

    @property
    def chapter_key(self) -> tuple[int, str]:
        """Return what chunks of one chapter of one document have in common."""
        return self.document_key, self.chapter

    @property
    def headings(self) -> list[str]:
        """Return the headings that the chunk stands below, in any order."""
        return [heading for heading in (self.chapter, self.section, *self.hierarchy_path) if heading]

    @property
    def words_hash(self) -> int:
        """Return what chunks with the same words in the same order have in common, whatever their case and spaces."""
        return hash(" ".join(self.content.casefold().split()))


_c = chunks.c
_OF_CHUNK = (
    _c.chunk_number,
    _c.document_key,
    _c.generation_key,
    _c.sequence_num,
    _c.char_start,
    _c.char_end,
    _c.chapter,
    _c.section,
    _c.section_heading,
    _c.hierarchy_path,
    _c.content,
)
_OF_DOCUMENT = (documents.c.source_path, documents.c.chunk_count)


def _statement(*of_document: Any) -> Select[Any]:
    given = func.json_each(bindparam("numbers")).table_valued("value").c.value
    return (
        select(*_OF_CHUNK, *of_document)
        .join_from(chunks, generations, _c.generation_key == generations.c.generation_key)
        .join(documents, generations.c.document_key == documents.c.document_key)
        .where(_c.chunk_number.in_(select(given)), generations.c.collection_key == bindparam("collection"))
    )


_NOW = _statement(*_OF_DOCUMENT).where(IS_LIVE)
_THEN = _statement(*map(then, _OF_DOCUMENT))


def facts_now(connection: Connection, collection_key: int, numbers: Sequence[int]) -> list[ChunkFacts]:
    """Return the facts of those of the chunks that are live in the collection."""
    return _read(connection, _NOW, collection_key, numbers)


def facts_then(connection: Connection, collection_key: int, numbers: Sequence[int]) -> list[ChunkFacts]:
    """Return the facts of chunks that were visible once, as they were then."""
    return _read(connection, _THEN, collection_key, numbers)


def _read(
    connection: Connection, statement: Select[Any], collection_key: int, numbers: Sequence[int]
) -> list[ChunkFacts]:
    rows = connection.execute(statement, {"numbers": json.dumps(list(numbers)), "collection": collection_key})
    return [ChunkFacts(*row) for row in rows]
