"""What a process that died, or a call that could not clean up after itself, left unfinished."""

from collections.abc import Callable
from collections.abc import Set as AbstractSet

from sqlalchemy import Connection, RowMapping, select

from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.database import Database
from groundwire.catalog.generations import GenerationState, PendingGeneration
from groundwire.catalog.tables import chunks, collections, documents, generations


class Recovery:
    """Finds generations that nobody writes any more."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def leftovers(self, under_way: Callable[[], AbstractSet[int]] | None = None) -> list[PendingGeneration]:
        """Return the pending generations that nobody writes, oldest first, to be abandoned; payloads are left out.

        Args:
            under_way: returns the keys of those that are being written, each from before its row can be read; None at
                the start of a process, when there is none.
        """
        is_pending = generations.c.state == GenerationState.PENDING.value
        with self._database.read() as connection:
            pending = set(connection.execute(select(generations.c.generation_key).where(is_pending)).scalars())
        # Asked behind the look at the rows, so that whatever is still being written is among them, and before a second
        # look: what was published in between is pending no more.
        unwritten = pending - (set() if under_way is None else under_way())
        statement = (
            select(generations, documents.c.document_id, documents.c.live_generation, *collections.c)
            .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
            .join(collections, generations.c.collection_key == collections.c.collection_key)
            .where(is_pending, generations.c.generation_key.in_(unwritten))
            .order_by(generations.c.generation_key)
        )
        with self._database.read() as connection:
            return [_to_pending(connection, row) for row in connection.execute(statement).mappings().all()]


def _to_pending(connection: Connection, row: RowMapping) -> PendingGeneration:
    key = row[generations.c.generation_key]
    statement = select(chunks.c.chunk_number, chunks.c.chunk_id).where(chunks.c.generation_key == key)
    written = connection.execute(statement.order_by(chunks.c.sequence_num)).all()
    return PendingGeneration(
        key=key,
        document_id=row[documents.c.document_id],
        generation=row[generations.c.generation],
        expected_generation=row[documents.c.live_generation],
        tenant=row[generations.c.tenant],
        collection=to_collection(row),
        numbers=[each.chunk_number for each in written],
        chunk_ids=[each.chunk_id for each in written],
        payloads=(),
    )
