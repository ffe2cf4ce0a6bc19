"""What a process that died left unfinished."""

from sqlalchemy import Connection, RowMapping, select

from groundwire.catalog.collection_rows import to_collection
from groundwire.catalog.database import Database
from groundwire.catalog.generations import GenerationState, PendingGeneration
from groundwire.catalog.tables import chunks, collections, documents, generations


class Recovery:
    """To be asked once, before the first ingest of a process."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def leftovers(self) -> list[PendingGeneration]:
        """Return every pending generation, oldest first, to be abandoned; payloads are left out."""
        statement = (
            select(generations, documents.c.document_id, documents.c.live_generation, *collections.c)
            .join_from(generations, documents, generations.c.document_key == documents.c.document_key)
            .join(collections, generations.c.collection_key == collections.c.collection_key)
            .where(generations.c.state == GenerationState.PENDING.value)
            .order_by(generations.c.generation_key)
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
