"""Full-text search over live chunks: FTS5, Porter stems, BM25."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TypeAlias

from sqlalchemy import Connection, column, func, select, table, text

from groundwire.catalog.collection_rows import collection_key
from groundwire.catalog.database import Database
from groundwire.catalog.filter_split import live_chunks_matching
from groundwire.catalog.index_words import IndexWords
from groundwire.catalog.tables import chunks, documents
from groundwire.kernel.filters import Filter

Words: TypeAlias = tuple[str, ...]
Counts: TypeAlias = dict[tuple[int, Words], int]
"""Document frequencies by collection key and words, of one position of the catalog."""

_COUNTS_KEPT = 20_000

_index = table("chunks_fts", column("rowid"), column("chunks_fts"))

# Weights of the columns chunk_id, content, section_heading, scope: a word in a heading says more about a chunk
# than one in its text, and the scope token, which every chunk of a collection has, says nothing.
_SCORE = text("-bm25(chunks_fts, 0.0, 1.0, 2.0, 0.0)")


@dataclass(frozen=True, slots=True)
class LexicalMatch:
    """A chunk that contains a term. `score` is BM25: positive, higher is better, comparable within one search."""

    number: int
    score: float


class FullText:
    """The index of all tenants; each call searches one collection."""

    def __init__(self, database: Database) -> None:
        self._database = database
        # Replaced as one object, so that a thread never mixes counts of two positions.
        self._counted: tuple[int, Counts] = (-1, {})

    def terms(self, user_text: str) -> list[str]:
        """Return the words of a text as the index cuts it: lower case, no diacritics, in order, not stemmed."""
        return self._words.of(user_text)

    def search(
        self,
        tenant: str,
        collection: str,
        terms: Sequence[str],
        phrases: Sequence[str],
        limit: int,
        where: Filter | None = None,
    ) -> list[LexicalMatch]:
        """Return the best live chunks that contain any term or phrase and match the filter, best first.

        A term or phrase may be any text: it is cut into words, which must stand side by side. The inverse
        document frequencies are those of the whole file.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        quoted = [_quoted(words) for words in self._words.of_each([*terms, *phrases]) if words]
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            if not quoted:
                return []
            statement = select(_index.c.rowid, _SCORE).where(_index.c.chunks_fts.op("MATCH")(_within(key, quoted)))
            if where is not None:
                joined = chunks.c.chunk_number == _index.c.rowid
                statement = statement.join_from(_index, chunks, joined).where(live_chunks_matching(key, where))
            statement = statement.order_by(text("2 DESC"), _index.c.rowid).limit(limit)
            return [LexicalMatch(number, score) for number, score in connection.execute(statement)]

    def document_frequencies(self, tenant: str, collection: str, terms: Sequence[str]) -> dict[str, int]:
        """Return the number of live chunks that contain each term (as stem), 0 for none.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        cut = {term: tuple(words) for term, words in zip(terms, self._words.of_each(terms), strict=True)}
        with self._database.read() as connection:
            key, position = collection_key(connection, tenant, collection), self._database.position(connection)
            counted = self._counted_at(position)
            unknown = {words for words in cut.values() if words and (key, words) not in counted}
            counted |= _count(connection, key, unknown)
        return {term: counted.get((key, words), 0) for term, words in cut.items()}

    def live_chunks(self, tenant: str, collection: str) -> int:
        """Return the number of live chunks, what document frequencies are shares of.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        with self._database.read() as connection:
            key = collection_key(connection, tenant, collection)
            counted = select(func.coalesce(func.sum(documents.c.chunk_count), 0)).where(
                documents.c.collection_key == key, documents.c.live_generation > 0
            )
            return int(connection.execute(counted).scalar_one())

    def _counted_at(self, position: int) -> Counts:
        counted = self._counted
        if counted[0] != position or len(counted[1]) > _COUNTS_KEPT:
            counted = self._counted = (position, {})
        return counted[1]

    @cached_property
    def _words(self) -> IndexWords:
        return IndexWords()


def _count(connection: Connection, key: int, phrases: Collection[Words]) -> Counts:
    if not phrases:
        return {}
    counts = [
        select(func.count())
        .select_from(_index)
        .where(_index.c.chunks_fts.op("MATCH")(_within(key, [_quoted(words)])))
        .scalar_subquery()
        for words in phrases
    ]
    row = connection.execute(select(*counts)).one()
    return {(key, words): count for words, count in zip(phrases, row, strict=True)}


def _quoted(words: Sequence[str]) -> str:
    """Return an FTS5 string; words consist of letters and digits, so nothing in them can end it or be an operator."""
    return f'"{" ".join(words)}"'


def _within(key: int, quoted: Sequence[str]) -> str:
    return f'(scope : "c{key}") AND ({{content section_heading}} : ({" OR ".join(quoted)}))'
