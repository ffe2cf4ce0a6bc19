"""What ranking needs of chunks: a narrow row for each, so that whole chunks are read only for results."""

import json
from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection, Select, bindparam, func, select

from groundwire.catalog.generation_keys import IS_LIVE
from groundwire.catalog.superseded_rows import then
from groundwire.catalog.tables import chunks, documents, generations
from groundwire.kernel.hit import StoredChunk


class ChunkFacts(NamedTuple):
    """Where a chunk stands, and what tells it from others.

    `start` and `end` are code points of the text of its generation. `words_hash` is what chunks with the same words in
    the same order have in common. `document_chunk_count` counts the chunks of its document.
    """

    number: int
    document_id: str
    generation: int
    sequence_num: int
    start: int
    end: int
    chapter: str
    section: str | None
    section_title: str
    hierarchy_path: Sequence[str]
    words_hash: int
    source_uri: str
    document_chunk_count: int

    @property
    def place(self) -> tuple[str, int]:
        """Return the document and the place in it."""
        return self.document_id, self.sequence_num

    @property
    def chapter_key(self) -> tuple[str, str]:
        """Return what chunks of one chapter of one document have in common."""
        return self.document_id, self.chapter

    @property
    def headings(self) -> list[str]:
        """Return the headings that the chunk stands below, in any order."""
        return [heading for heading in (self.chapter, self.section, *self.hierarchy_path) if heading]


_c = chunks.c
_CONTENT = 10
_OF_CHUNK = (
    _c.chunk_number,
    documents.c.document_id,
    generations.c.generation,
    _c.sequence_num,
    _c.char_start,
    _c.char_end,
    _c.chapter,
    _c.section,
    _c.section_heading,
    func.json(_c.hierarchy_path),
    _c.content,
)
_OF_DOCUMENT = (documents.c.source_path, documents.c.chunk_count)


def _statement(*of_document: Any) -> Select[Any]:
    given = func.json_each(bindparam("numbers")).table_valued("value").c.value
    # One row instead of many: the interpreter lock is taken once.
    return (
        select(func.json_group_array(func.json_array(*_OF_CHUNK, *of_document)))
        .join_from(chunks, generations, _c.generation_key == generations.c.generation_key)
        .join(documents, generations.c.document_key == documents.c.document_key)
        # "+ 0" keeps SQLite from beginning with all generations of the collection instead of the few chunks.
        .where(_c.chunk_number.in_(select(given)), generations.c.collection_key + 0 == bindparam("collection"))
    )


_NOW = _statement(*_OF_DOCUMENT).where(IS_LIVE)
_THEN = _statement(*map(then, _OF_DOCUMENT))


def facts_of(stored: StoredChunk) -> ChunkFacts:
    """Return the facts of a chunk that has been read whole."""
    chunk, document = stored.chunk, stored.document
    return ChunkFacts(
        stored.chunk_number,
        document.document_id,
        stored.generation,
        chunk.sequence_num,
        chunk.span.start,
        chunk.span.end,
        chunk.chapter,
        chunk.section,
        chunk.section_title,
        chunk.hierarchy_path,
        words_hash(chunk.content),
        document.source_uri,
        document.chunk_count,
    )


def words_hash(content: str) -> int:
    """Return a number that texts with the same words in the same order share, whatever their case and spaces."""
    return hash(" ".join(content.casefold().split()))


def facts_now(connection: Connection, collection_key: int, numbers: Sequence[int]) -> list[ChunkFacts]:
    """Return the facts of those of the chunks that are live in the collection."""
    return _read(connection, _NOW, collection_key, numbers)


def facts_then(connection: Connection, collection_key: int, numbers: Sequence[int]) -> list[ChunkFacts]:
    """Return the facts of chunks that were visible once, as they were then."""
    return _read(connection, _THEN, collection_key, numbers)


def _read(
    connection: Connection, statement: Select[Any], collection_key: int, numbers: Sequence[int]
) -> list[ChunkFacts]:
    given = {"numbers": json.dumps(list(numbers)), "collection": collection_key}
    rows = json.loads(connection.execute(statement, given).scalar_one())
    for row in rows:
        row[_CONTENT] = words_hash(row[_CONTENT])
    return [ChunkFacts(*row) for row in rows]
