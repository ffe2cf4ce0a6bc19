"""Messages of sessions that hold text of a document, which goes when the document is deleted for good."""

import json
from collections.abc import Sequence
from typing import Any

from sqlalchemy import Connection, Select, delete, func, insert, select, update

from groundwire.catalog.session_tables import message_documents, messages
from groundwire.catalog.tables import documents, tombstones

_held = message_documents.c


def note_documents(connection: Connection, tenant: str, key: int, cited: Sequence[str], found: Sequence[str]) -> None:
    """Note whose text a new message holds; text of documents that are gone by now is removed from it at once."""
    rows = {document_id: int(document_id in cited) for document_id in (*cited, *found)}
    if not rows:
        return
    shared = {"message_key": key, "tenant": tenant}
    connection.execute(
        insert(message_documents),
        [{**shared, "document_id": name, "cited": is_cited} for name, is_cited in rows.items()],
    )
    # The answer was made while they were being deleted.
    redact_messages(connection, tenant, gone_documents(connection, tenant, list(rows)))


def redact_messages(connection: Connection, tenant: str, document_ids: Sequence[str]) -> int:
    """Remove the text of documents from messages; return how many messages held any.

    What quotes one of them loses its content and says so by its state; of others only what was found for them goes.
    The message itself stays in its place, so that its session goes on.
    """
    if not document_ids:
        return 0
    touched = set(connection.execute(_holding(tenant, document_ids)).scalars())
    redacted = _keys(connection.execute(_holding(tenant, document_ids).where(_held.cited == 1)).scalars())
    nothing: dict[str, Any] = {"found": None}
    connection.execute(update(messages).where(messages.c.message_key.in_(_keys(touched))).values(nothing))
    nothing |= {"content": "", "answer": None, "state": "REDACTED"}
    connection.execute(update(messages).where(messages.c.message_key.in_(redacted)).values(nothing))
    connection.execute(delete(message_documents).where(_held.message_key.in_(redacted)))
    # What was found goes as a whole, so that the message holds no text of the other documents either.
    not_cited = _held.message_key.in_(_keys(touched)), _held.cited == 0
    connection.execute(delete(message_documents).where(*not_cited))
    return len(touched)


def count_quoting_messages(connection: Connection, tenant: str, document_ids: Sequence[str]) -> int:
    """Return how many messages hold text of any of the documents."""
    holding = _holding(tenant, document_ids).subquery()
    return int(connection.execute(select(func.count()).select_from(holding)).scalar_one())


def gone_documents(connection: Connection, tenant: str, document_ids: Sequence[str]) -> list[str]:
    """Return those of the documents that were deleted for good."""
    there = select(documents.c.document_id).where(
        documents.c.tenant == tenant, (documents.c.live_generation > 0) | (documents.c.deleted_generation > 0)
    )
    statement = select(tombstones.c.document_id).where(
        tombstones.c.tenant == tenant,
        tombstones.c.document_id.in_(_given(document_ids)),
        tombstones.c.document_id.not_in(there.where(documents.c.document_id == tombstones.c.document_id)),
    )
    return list(connection.execute(statement).scalars())


def _holding(tenant: str, document_ids: Sequence[str]) -> Select[tuple[int]]:
    statement = select(_held.message_key).distinct()
    return statement.where(_held.tenant == tenant, _held.document_id.in_(_given(document_ids)))


def _keys(numbers: Any) -> Select[Any]:
    return _given(sorted(numbers))


def _given(values: Sequence[Any]) -> Select[Any]:
    return select(func.json_each(json.dumps(list(values))).table_valued("value").c.value)
