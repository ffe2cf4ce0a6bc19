"""Answers of finished calls by request id, so that a repeated call has one effect and one answer."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, TypeVar

from sqlalchemy import Connection, Row, bindparam, delete, select, update

from groundwire.catalog.database import Database, SteadyTime, in_transaction
from groundwire.catalog.dialects import among, execute, replacing
from groundwire.catalog.schema import operations, requests
from groundwire.kernel.document import Document
from groundwire.kernel.errors import (
    ConflictError,
    DocumentNotFoundError,
    RequestIdReusedError,
    SessionNotFoundError,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import RequestKey

T = TypeVar("T")

ANSWER_RETENTION = timedelta(hours=24)
"""How long a repetition gets the same answer, while the catalog is served."""


class Ledger:
    """The ledger of answers, which are kept for a day."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tenant: str, key: RequestKey) -> bytes | None:
        """Return the stored answer, None when the id is new or older than a day.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
            NotFoundError: the answer was about a document or session that has been deleted for good.
        """
        return _answer(self._database.rows(_REMEMBERED, _given(self._database.steady, tenant, key)), key)

    @in_transaction
    def record(
        self, connection: Connection, tenant: str, key: RequestKey, response: bytes, resource_id: str = ""
    ) -> bytes:
        """Store the answer of a call that wrote nothing else; return the first answer, which is the one that counts.

        `resource_id` names the document or session that the answer is about, if any.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """
        earlier = _store(connection, self._database.steady, tenant, key, response, resource_id)
        return response if earlier is None else earlier

    def sweep(self) -> int:
        return self._database.change(
            delete(requests).where(requests.c.create_time < oldest_kept(self._database.steady))
        )


def settle(
    connection: Connection,
    steady: SteadyTime,
    tenant: str,
    receipt: Receipt[T] | None,
    result: T,
    resource_id: str = "",
) -> str:
    """Store the answer in the transaction of the effect; return the request id, empty without receipt.

    `resource_id` names the document or session that the answer is about, if any, so that its texts go with it.

    Raises:
        ConflictError: the same call finished meanwhile; its answer is in the ledger, this effect rolls back.
        RequestIdReusedError: the id was used for another method or body.
    """
    if receipt is None:
        return ""
    # The lookup came before the work; a concurrent call with the same id may have finished first.
    if _store(connection, steady, tenant, receipt.key, receipt.encode(result), resource_id) is not None:
        raise ConflictError("the same request was completed meanwhile", request_id=receipt.key.request_id)
    return receipt.key.request_id


def document_told_of(result: object) -> str:
    """Return the id of the document that the answer for this result is about, empty without one."""
    document = getattr(result, "document", result)
    return document.document_id if isinstance(document, Document) else ""


def redact_answers(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    """Erase the answers and outcomes about documents or sessions that are being deleted.

    Their request ids stay used, and the operations ended.
    """
    concerned = requests.c.tenant == tenant, among(requests.c.resource_id, ids)
    connection.execute(update(requests).where(*concerned).values(response=b""))
    ended = operations.c.tenant == tenant, among(operations.c.resource_id, ids), operations.c.resource_id != ""
    connection.execute(update(operations).where(*ended).values(outcome=b""))


def oldest_kept(steady: SteadyTime) -> int:
    """Return the service time, in milliseconds, before which answers have expired."""
    return steady.now_ms() - ANSWER_RETENTION // timedelta(milliseconds=1)


_REMEMBERED = select(requests).where(
    requests.c.tenant == bindparam("tenant"),
    requests.c.request_id == bindparam("id"),
    requests.c.create_time >= bindparam("oldest"),
)


_IS_FORGOTTEN = requests.c.create_time < bindparam("oldest")


def _given(steady: SteadyTime, tenant: str, key: RequestKey) -> dict[str, Any]:
    return {"tenant": tenant, "id": key.request_id, "oldest": oldest_kept(steady)}


def _answer(rows: Sequence[Row[Any]], key: RequestKey) -> bytes | None:
    if not rows:
        return None
    row = rows[0]
    if (row.method, row.body_digest) != (key.method, key.body_digest):
        raise RequestIdReusedError("the request id was used before with another body", request_id=key.request_id)
    # An answer without a subject may be empty as such, a count of 0 for example.
    if not row.response and row.resource_id:
        # The answer was erased, because its subject was deleted for good.
        raise (SessionNotFoundError if row.method.endswith("Session") else DocumentNotFoundError)(row.resource_id)
    return bytes(row.response)


def _store(
    connection: Connection, steady: SteadyTime, tenant: str, key: RequestKey, response: bytes, resource_id: str
) -> bytes | None:
    """Store an answer unless there is one already; return the one that is stored."""
    values = {
        "tenant": tenant,
        "request_id": key.request_id,
        "method": key.method,
        "body_digest": key.body_digest,
        "response": response,
        "resource_id": resource_id,
        "create_time": steady.now_ms(),
        "oldest": oldest_kept(steady),
    }
    # An answer older than a day stays until the sweeper runs, but its id may be used again.
    changed = ("method", "body_digest", "response", "resource_id", "create_time")
    keys = ("tenant", "request_id")
    storing = replacing(connection, requests, keys, changed, _IS_FORGOTTEN, returning=requests.c.request_id)
    if execute(connection, storing, values).first() is not None:
        return None
    return _answer(execute(connection, _REMEMBERED, _given(steady, tenant, key)).all(), key)
