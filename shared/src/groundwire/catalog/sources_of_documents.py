"""The several sources of one document: any of them may go while another is left."""

from dataclasses import replace

from sqlalchemy import Connection, RowMapping, delete, exists, false, or_, select, update

from groundwire.catalog.change_document import rename_chapter
from groundwire.catalog.collection_rows import collection_key
from groundwire.catalog.deletion_traces import trace_document
from groundwire.catalog.deletions import Deleted
from groundwire.catalog.document_rows import count_aliases, to_fields
from groundwire.catalog.generation_keys import IS_LIVE
from groundwire.catalog.payload_rewrites import rewrite_payloads
from groundwire.catalog.tables import chunks, document_aliases, documents, generations
from groundwire.catalog.visible_rows import IS_VISIBLE, visible_row

_a = document_aliases.c


def row_of_source(connection: Connection, tenant: str, collection: str, source_uri: str) -> RowMapping | None:
    """Return the columns of the visible document with this source or alias, as `visible_row` does, if there is one."""
    key = collection_key(connection, tenant, collection)
    of_alias = select(_a.document_key).where(_a.collection_key == key, _a.source_path == source_uri)
    of_source = or_(documents.c.source_path == source_uri, documents.c.document_key.in_(of_alias))
    found = select(documents.c.document_id).where(documents.c.collection_key == key, IS_VISIBLE, of_source)
    document_id = connection.execute(found.order_by(documents.c.source_path != source_uri).limit(1)).scalar()
    return None if document_id is None else visible_row(connection, tenant, collection, document_id)


def has_aliases(connection: Connection, row: RowMapping) -> bool:
    """Tell whether the document of a row has more than one source."""
    return bool(connection.execute(select(exists().where(_a.document_key == row["document_key"]))).scalar_one())


def drop_source(connection: Connection, row: RowMapping, source_uri: str, now: int, *, permanent: bool) -> Deleted:
    """Take a source from the document of a visible row; when it is the first one, the next in order takes its place."""
    key, tasks = row["document_key"], list[int]()
    gone = source_uri
    if source_uri == row["source_path"]:
        aliases = select(_a.source_path).where(_a.document_key == key).order_by(_a.source_path).limit(1)
        gone = connection.execute(aliases).scalar_one()
        connection.execute(
            update(documents).where(documents.c.document_key == key).values(source_path=gone, last_modified=now)
        )
        connection.execute(
            update(generations).where(generations.c.document_key == key, IS_LIVE).values(source_path=gone)
        )
        fields = to_fields(dict(row))
        rename_chapter(connection, row, (source_uri, fields), (gone, fields))
    of_this = (_a.collection_key == row["collection_key"], _a.source_path == gone)
    connection.execute(delete(document_aliases).where(*of_this))
    count_aliases(connection, [key], -1)
    if gone != source_uri:
        tasks = rewrite_payloads(connection, row, chunks.c.document_key == key)
    nothing = select(generations.c.generation_key).where(false())
    traces = trace_document(connection, row, nothing, permanent=permanent)
    traces = replace(traces, document_ids=[], document_keys=[])
    return Deleted.now(traces, tasks, now, texts=0, embeddings=0, messages=0)
