"""New filter keys for chunks that are live already: in the catalog at once, in the engine through the outbox."""

import json
from collections.abc import Iterable
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, func, update

from groundwire.catalog.chunk_rows import SELECT_LIVE_CHUNKS, to_stored_chunk
from groundwire.catalog.connections import encode_json
from groundwire.catalog.outbox import queue_matched_points
from groundwire.catalog.positions import advance_position
from groundwire.catalog.tables import chunks, collections
from groundwire.kernel.document import Document
from groundwire.kernel.filters import Payload


def rewrite_payloads(connection: Connection, document: RowMapping, which: ColumnElement[bool]) -> list[int]:
    """Make the filter keys of live chunks anew of what their rows and their document say now.

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
    seen: dict[int, Document] = {}
    found = [to_stored_chunk(row, seen) for row in connection.execute(of_document)]
    _write(connection, ((stored.chunk_number, stored.payload) for stored in found))
    position = advance_position(connection, document["collection_key"])
    connection.execute(
        update(collections)
        .where(collections.c.collection_key == document["collection_key"])
        .values(rewritten_position=position)
    )
    numbers = sorted(stored.chunk_number for stored in found)
    return queue_matched_points(connection, document["tenant"], document["engine_name"], numbers)


def _write(connection: Connection, payloads: Iterable[tuple[int, Payload]]) -> None:
    """Store filter keys by chunk number, in one statement: the interpreter lock is taken once."""
    rows = json.dumps([[number, encode_json(payload)] for number, payload in payloads])
    each = func.json_each(rows).table_valued("value")
    given: Any = each.c.value
    connection.execute(
        update(chunks)
        .where(chunks.c.chunk_number == func.json_extract(given, "$[0]"))
        .values(payload=func.jsonb(func.json_extract(given, "$[1]"), type_=chunks.c.payload.type))
    )
