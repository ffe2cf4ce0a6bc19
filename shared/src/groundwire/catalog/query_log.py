"""The log of queries: written in batches, read newest first."""

from collections.abc import Sequence
from datetime import datetime, timedelta

from sqlalchemy import Connection, delete, func, select, tuple_

from groundwire.catalog.audit import Aggregate
from groundwire.catalog.database import in_transaction
from groundwire.catalog.dialects import insert_rows
from groundwire.catalog.schema import collections, query_logs
from groundwire.kernel.clock import epoch_ms, from_epoch_ms
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.query_log import LoggedQuery, QueryType

_REPLACEMENT = "\ufffd"


class QueryLogs(Aggregate):
    """Log entries of all tenants; each reading call sees those of one."""

    @in_transaction
    def append(self, connection: Connection, entries: Sequence[LoggedQuery]) -> None:
        """Store entries in one transaction; one that is stored already, by its id, stays.

        Those of a collection that was deleted meanwhile are left out.
        """
        # Empty is the uid of searches that failed because there was no such collection.
        there = {"", *connection.execute(select(collections.c.uid)).scalars()}
        steady_ms = self._database.steady.with_downtime_ms()
        rows = [
            {
                "log_id": entry.log_id,
                "tenant": entry.tenant,
                # As they were sent, valid or not. PostgreSQL holds no U+0000, and an entry that cannot be stored
                # would hold up all that wait with it.
                "collection": entry.collection.replace("\0", _REPLACEMENT),
                "collection_uid": entry.collection_uid,
                "query_text": entry.query.replace("\0", _REPLACEMENT),
                "query_type": entry.query_type and entry.query_type.value,
                "result_count": entry.result_count,
                "average_relevance": entry.average_relevance,
                "processing_us": round(entry.processing_s * 1_000_000),
                "log_time": epoch_ms(entry.log_time),
                "log_steady": steady_ms,
                "user_agent": entry.user_agent,
                "mode": entry.mode and entry.mode.value,
                "error_reason": entry.error_reason,
            }
            for entry in entries
            if entry.collection_uid in there
        ]
        insert_rows(connection, query_logs, rows, skip_existing=True)

    def page(
        self,
        tenant: str,
        *,
        collection: str | None = None,
        start: datetime | None = None,
        end: datetime | None = None,
        after: tuple[int, int] | None = None,
        limit: int,
    ) -> list[tuple[LoggedQuery, tuple[int, int]]]:
        """Return up to `limit` entries with their positions, newest first.

        `collection` is the name that one has now; of a name that no collection has, the searches that failed for it are
        returned. Entries are received at or after `start` and before `end`; `after` is the
        position of the last one before them.
        """
        statement = select(query_logs).where(query_logs.c.tenant == tenant)
        if start is not None:
            statement = statement.where(query_logs.c.log_time >= epoch_ms(start))
        if end is not None:
            statement = statement.where(query_logs.c.log_time < epoch_ms(end))
        if collection is not None:
            # By uid as well: entries of a collection that was deleted are not those of the next one of its name.
            of_tenant = collections.c.tenant == tenant, collections.c.name == collection
            uid = select(collections.c.uid).where(*of_tenant).scalar_subquery()
            statement = statement.where(
                query_logs.c.collection == collection, query_logs.c.collection_uid == func.coalesce(uid, "")
            )
        if after is not None:
            statement = statement.where(tuple_(query_logs.c.log_time, query_logs.c.id) < tuple_(*after))
        statement = statement.order_by(query_logs.c.log_time.desc(), query_logs.c.id.desc()).limit(limit)
        return [
            (
                LoggedQuery(
                    log_id=row.log_id,
                    tenant=row.tenant,
                    collection=row.collection,
                    collection_uid=row.collection_uid,
                    query=row.query_text,
                    query_type=row.query_type and QueryType(row.query_type),
                    result_count=row.result_count,
                    average_relevance=row.average_relevance,
                    processing_s=row.processing_us / 1_000_000,
                    log_time=from_epoch_ms(row.log_time),
                    user_agent=row.user_agent,
                    mode=row.mode and SearchMode(row.mode),
                    error_reason=row.error_reason,
                ),
                (row.log_time, row.id),
            )
            for row in self._database.query(statement)
        ]

    def forget(self, retention: timedelta) -> int:
        """Remove the entries of all tenants that were stored longer ago; return how many."""
        # With the time without a server: what people asked is not kept longer because it was switched off.
        oldest = self._database.steady.with_downtime_ms() - retention // timedelta(milliseconds=1)
        statement = delete(query_logs).where(query_logs.c.log_steady < oldest)
        return self._database.change(statement)
