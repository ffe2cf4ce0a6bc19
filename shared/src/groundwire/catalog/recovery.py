"""What a process that died, or a call that could not clean up after itself, left unfinished."""

from collections.abc import Set as AbstractSet
from datetime import timedelta

from sqlalchemy import Connection, RowMapping, select

from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.database import Database
from groundwire.catalog.generations import GenerationState, PendingGeneration
from groundwire.catalog.tables import chunks, collections, documents, generations
from groundwire.kernel.clock import Clock, SystemClock, epoch_ms

_JUST_BEGUN = timedelta(minutes=1)
"""A generation this young may be under way although nobody has taken note of it yet."""


class Recovery:
    """Finds generations that nobody writes any more."""

    def __init__(self, database: Database, clock: Clock | None = None) -> None:
        self._database = database
        self._clock = clock or SystemClock()

    def leftovers(self, under_way: AbstractSet[int] | None = None) -> list[PendingGeneration]:
        """Return the pending generations, oldest first, to be abandoned; payloads are left out.

        Args:
            under_way: keys of those that are being written; None at the start of a process, when none is.
        """
        statement = (
            select(generations, documents.c.document_id, documents.c.live_generation, *collections.c)
            .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
            .join(collections, generations.c.collection_key == collections.c.collection_key)
            .where(generations.c.state == GenerationState.PENDING.value)
            .order_by(generations.c.generation_key)
        )
        if under_way is not None:
            youngest = epoch_ms(self._clock.now() - _JUST_BEGUN)
            statement = statement.where(
                generations.c.generation_key.not_in(under_way), generations.c.created_time < youngest
            )
        with self._database.read() as connection:
            rows = connection.execute(statement).mappings().all()
            return [_to_pending(connection, row) for row in rows]


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
