"""Answers of finished calls by request id, so that a repeated call has one effect and one answer."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TypeAlias, TypeVar

from sqlalchemy import Connection, delete, select, update

from groundwire.catalog.database import Database, SteadyTime
from groundwire.catalog.schema import operations, requests
from groundwire.catalog.sqlite import among, upsert
from groundwire.kernel.errors import (
    ConflictError,
    DocumentNotFoundError,
    RequestIdReusedError,
    SessionNotFoundError,
)

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Receipt:
    """What is remembered of a call with a request id, so that a repetition gets the same answer.

    `body_digest` identifies the body of the request, `response` is the serialised answer.
    """

    request_id: str
    method: str
    body_digest: str
    response: bytes


Receipted: TypeAlias = Receipt | Callable[[T], Receipt] | None
"""A receipt, or how to make it from the result, or none for a call without request id."""

ANSWER_RETENTION = timedelta(hours=24)
"""How long a repetition gets the same answer, while the catalog is served."""


class Ledger:
    """The answers remembered for a day."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def find(self, tenant: str, request_id: str, method: str, body_digest: str) -> bytes | None:
        """Return the remembered answer, None when the id is new or older than a day.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
            NotFoundError: the answer told of a document or session that was deleted for good since then.
        """
        with self._database.read() as connection:
            return _find(connection, self._database.steady, tenant, request_id, method, body_digest)

    def record(self, tenant: str, receipt: Receipt, resource_id: str = "") -> bytes:
        """Remember the answer of a call that wrote nothing else; return the answer that counts, the first one.

        `resource_id` names the document or session that the answer tells of, if any.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """

        def work(connection: Connection) -> bytes:
            earlier = _find(
                connection, self._database.steady, tenant, receipt.request_id, receipt.method, receipt.body_digest
            )
            if earlier is None:
                _store(connection, self._database.steady, tenant, receipt, resource_id)
            return receipt.response if earlier is None else earlier

        return self._database.write(work)

    def sweep(self) -> int:
        """Forget answers older than a day; return how many."""

        def work(connection: Connection) -> int:
            return connection.execute(
                delete(requests).where(requests.c.create_time < oldest_kept(self._database.steady))
            ).rowcount

        return self._database.write(work)


def settle(
    connection: Connection, steady: SteadyTime, tenant: str, receipt: Receipted[T], result: T, resource_id: str = ""
) -> str:
    """Remember the answer in the transaction of the effect; return the request id, empty without receipt.

    An answer that tells of a document or session names it, so that its texts go with it.

    Raises:
        ConflictError: the same call finished meanwhile; its answer is in the ledger, this effect rolls back.
        RequestIdReusedError: the id was used for another method or body.
    """
    made = receipt(result) if callable(receipt) else receipt
    if made is None:
        return ""
    if _find(connection, steady, tenant, made.request_id, made.method, made.body_digest) is not None:
        raise ConflictError("the same request was completed meanwhile", request_id=made.request_id)
    _store(connection, steady, tenant, made, resource_id)
    return made.request_id


def redact_answers(connection: Connection, tenant: str, ids: Sequence[str]) -> None:
    """Empty the answers and outcomes that tell of documents or sessions which are being deleted.

    Their request ids stay used, and the operations ended.
    """
    concerned = requests.c.tenant == tenant, among(requests.c.resource_id, ids)
    connection.execute(update(requests).where(*concerned).values(response=b""))
    ended = operations.c.tenant == tenant, among(operations.c.resource_id, ids), operations.c.resource_id != ""
    connection.execute(update(operations).where(*ended).values(outcome=b""))


def oldest_kept(steady: SteadyTime) -> int:
    """Return the time of service before which answers are forgotten, in milliseconds."""
    return steady.now_ms() - ANSWER_RETENTION // timedelta(milliseconds=1)


def _find(
    connection: Connection, steady: SteadyTime, tenant: str, request_id: str, method: str, body_digest: str
) -> bytes | None:
    statement = select(requests).where(
        requests.c.tenant == tenant,
        requests.c.request_id == request_id,
        requests.c.create_time >= oldest_kept(steady),
    )
    row = connection.execute(statement).first()
    if row is None:
        return None
    if (row.method, row.body_digest) != (method, body_digest):
        raise RequestIdReusedError("the request id was used before with another body", request_id=request_id)
    if not row.response:
        # Emptied, because what it tells of was deleted for good.
        raise (SessionNotFoundError if row.method.endswith("Session") else DocumentNotFoundError)(row.resource_id)
    return bytes(row.response)


def _store(connection: Connection, steady: SteadyTime, tenant: str, receipt: Receipt, resource_id: str = "") -> None:
    values = {
        "method": receipt.method,
        "body_digest": receipt.body_digest,
        "response": receipt.response,
        "resource_id": resource_id,
        "create_time": steady.now_ms(),
    }
    statement = upsert(requests).values(tenant=tenant, request_id=receipt.request_id, **values)
    # An answer older than a day is still there until the sweeper comes by: its id may be used again.
    connection.execute(statement.on_conflict_do_update(index_elements=["tenant", "request_id"], set_=values))
