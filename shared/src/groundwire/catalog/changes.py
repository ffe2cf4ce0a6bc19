"""Documents and chunks: changing the fields that callers gave them, without embedding anything again."""

from sqlalchemy import ColumnElement, Connection, RowMapping, and_, exists, select, update

from groundwire.catalog.database import advance_position
from groundwire.catalog.dialects import update_json
from groundwire.catalog.lexical_index import add_chunks, numbered, remove_chunks
from groundwire.catalog.outbox import OutboxKind, queue_points
from groundwire.catalog.records import set_records
from groundwire.catalog.rows import (
    IS_LIVE,
    SELECT_LIVE_CHUNKS,
    field_values,
    set_tags,
    to_fields,
    to_stored_chunks,
)
from groundwire.catalog.schema import chunks, collections, documents, generations
from groundwire.kernel.document import DocumentFields, file_name


def change_fields(connection: Connection, row: RowMapping, after: DocumentFields, now: int) -> list[int]:
    """Give the document of a visible row other fields; return the outbox tasks, none when they are the same."""
    before = to_fields(dict(row))
    if after == before:
        return []
    key, values = row["document_key"], field_values(after)
    connection.execute(update(documents).where(documents.c.document_key == key).values(**values, last_modified=now))
    connection.execute(update(generations).where(generations.c.document_key == key, IS_LIVE).values(fields=values))
    set_tags(connection, {key: after.tags}, [key])
    set_records(connection, row["collection_key"], [(key, row["source_path"], after)], [key])
    source = row["source_path"]
    rename_chapter(connection, row, (source, before), (source, after))
    return rewrite_payloads(connection, row, chunks.c.document_key == key)


def rename_chapter(
    connection: Connection, row: RowMapping, before: tuple[str, DocumentFields], after: tuple[str, DocumentFields]
) -> None:
    """Let what stands in for a chapter in documents without any heading follow their title or else their source."""
    old, new = (fields.title or file_name(source) for source, fields in (before, after))
    live = select(generations.c.generation_key).where(generations.c.document_key == row["document_key"], IS_LIVE)
    of_live = chunks.c.generation_key.in_(live)
    # A heading of its own is a chapter; what stands in for one is the title, else the name of the file.
    has_headings = exists().where(of_live, chunks.c.hierarchy_path != [])
    if old == new or connection.execute(select(has_headings)).scalar_one():
        return
    stands_in = and_(of_live, chunks.c.chapter == old, chunks.c.section_heading == old)
    changing = select(chunks.c.chunk_number).where(stands_in)
    numbers = list(connection.execute(changing).scalars())
    # Headings are part of the full-text index, so the old words are replaced by the new ones.
    remove_chunks(connection, stands_in)
    connection.execute(update(chunks).where(stands_in).values(chapter=new, section_heading=new))
    add_chunks(connection, numbered(numbers))


def rewrite_payloads(connection: Connection, document: RowMapping, which: ColumnElement[bool]) -> list[int]:
    """Recompute the filter keys of live chunks from their rows and their document.

    Counts as a change that readers see. Until the engine has the new keys too, a search answers filters from the
    catalog (`SearchView.engine_keeps_up`).

    Args:
        connection: of the transaction that changed them.
        document: what `visible_row` returned.
        which: the condition on the chunks of this document.

    Returns:
        The ids of the tasks in the outbox that bring the engine up to this.
    """
    of_document = SELECT_LIVE_CHUNKS.where(chunks.c.document_key == document["document_key"], which)
    found = list(to_stored_chunks(connection.execute(of_document)))
    new = ((stored.chunk_number, stored.payload) for stored in found)
    update_json(connection, chunks.c.chunk_number, chunks.c.payload, new)
    position = advance_position(connection, document["collection_key"])
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == document["collection_key"])
        .values(rewritten_position=position)
    )
    numbers = sorted(stored.chunk_number for stored in found)
    return queue_points(connection, OutboxKind.MATCH_POINTS, document["tenant"], document["engine_name"], numbers)
