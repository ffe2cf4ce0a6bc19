"""Chunks that are left out of the index because another chunk of the collection has the same content."""

from collections.abc import Sequence

from sqlalchemy import Connection, exists, func, literal_column, select, true, update

from groundwire.catalog.aggregate import Aggregate
from groundwire.catalog.database import advance_position
from groundwire.catalog.dialects import among
from groundwire.catalog.lexical_index import add_chunks, numbered
from groundwire.catalog.rows import IS_INDEXED, IS_LIVE, key_of, live_generation_keys
from groundwire.catalog.schema import chunks, collections, documents, generations
from groundwire.kernel.collection import Collection

_PER_QUERY = 5000

_WITH_DUPLICATES = (
    select(collections.c.tenant, collections.c.name)
    .distinct()
    .join_from(generations, collections, generations.c.collection_key == collections.c.collection_key)
    .where(
        # Not joined: SQLite would look at every live generation instead of the few chunks, which have an index.
        generations.c.generation_key.in_(
            select(chunks.c.generation_key).where(chunks.c.indexed + chunks.c.upper == literal_column("0"))
        ),
        IS_LIVE,
    )
)


class DuplicateChunks(Aggregate):
    """Repeated chunks of all collections; each call sees those of one."""

    def indexed(self, collection: Collection, document_id: str | None, content_hashes: Sequence[str]) -> set[str]:
        """Return those of the contents that live and indexed chunks of other documents of the collection have.

        Records do not count: not everybody who finds a document finds them.
        """
        found: set[str] = set()
        with self._database.read() as connection:
            for start in range(0, len(content_hashes), _PER_QUERY):
                statement = (
                    select(chunks.c.content_hash)
                    .distinct()
                    .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
                    .join(documents, generations.c.document_key == documents.c.document_key)
                    .where(
                        among(chunks.c.content_hash, content_hashes[start : start + _PER_QUERY]),
                        generations.c.collection_key == key_of(collection),
                        IS_LIVE,
                        IS_INDEXED,
                        documents.c.record.is_(None),
                        true() if document_id is None else documents.c.document_id != document_id,
                    )
                )
                found.update(connection.execute(statement).scalars())
        return found

    def orphaned(self, collection: Collection, limit: int) -> list[int]:
        """Return the numbers of live chunks that repeat no indexed chunk of the collection any more, ascending.

        Of chunks with equal content only the first is returned; at most `limit` of all.
        """
        first = func.min(chunks.c.chunk_number)
        twin, of_twin = chunks.alias("twin"), generations.alias("of_twin")
        statement = (
            select(first)
            .join_from(chunks, generations, chunks.c.generation_key == generations.c.generation_key)
            .where(
                chunks.c.indexed + chunks.c.upper == 0,
                generations.c.collection_key == key_of(collection),
                IS_LIVE,
                ~exists(
                    select(1)
                    .join_from(twin, of_twin, twin.c.generation_key == of_twin.c.generation_key)
                    .join(documents, of_twin.c.document_key == documents.c.document_key)
                    .where(
                        documents.c.record.is_(None),
                        twin.c.content_hash == chunks.c.content_hash,
                        twin.c.indexed == 1,
                        of_twin.c.collection_key == key_of(collection),
                        of_twin.c.state == "LIVE",
                    )
                ),
            )
            .group_by(chunks.c.content_hash)
            .order_by(first)
            .limit(limit)
        )
        with self._database.read() as connection:
            return list(connection.execute(statement).scalars())

    def collections_with_duplicates(self) -> list[tuple[str, str]]:
        """Return tenant and name of the collections that have chunks that are not indexed."""
        with self._database.read() as connection:
            return [(row[0], row[1]) for row in connection.execute(_WITH_DUPLICATES)]

    def index(self, collection: Collection, numbers: Sequence[int]) -> bool:
        """Let searches find chunks whose vectors the engine collection has; leaves alone what is not live any more.

        Returns False and changes nothing when the collection is served from another engine collection now.
        """

        def work(connection: Connection) -> bool:
            # The points were written to this engine collection; another one may serve by now, and lack them.
            served = select(collections.c.collection_key).where(collections.c.engine_name == collection.engine_name)
            key = connection.execute(served).scalar()
            if key is None:
                return False
            repeats = (chunks.c.indexed + chunks.c.upper == 0, chunks.c.generation_key.in_(live_generation_keys(key)))
            found = select(chunks.c.chunk_number).where(numbered(numbers), *repeats)
            new = numbered(connection.execute(found).scalars())
            connection.execute(update(chunks).where(new).values(indexed=1))
            add_chunks(connection, new)
            advance_position(connection, key)
            return True

        return self._database.write(work)
