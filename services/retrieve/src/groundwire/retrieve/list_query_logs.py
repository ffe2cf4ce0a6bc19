"""List the queries that were logged, newest first."""

from dataclasses import dataclass
from datetime import datetime

from groundwire.retrieve.log_ports import LoggedPage, QueryLogReader
from groundwire.retrieve.query_recorder import QueryRecorder


@dataclass(frozen=True, slots=True)
class LogQuery:
    """Which entries are wanted: of one collection or all, received from `start` on and before `end`."""

    tenant: str
    collection: str | None
    start: datetime | None
    end: datetime | None


@dataclass(frozen=True, slots=True)
class ListQueryLogs:
    """Reads the log; what this process recorded before the call is in it."""

    store: QueryLogReader
    recorder: QueryRecorder

    def __call__(self, query: LogQuery, after: tuple[int, int] | None, limit: int) -> LoggedPage:
        """Return up to `limit` entries behind the position `after`.

        Raises:
            StoreUnavailableError: the catalog cannot be written or read.
        """
        self.recorder.flush()
        return self.store.page(
            query.tenant, collection=query.collection, start=query.start, end=query.end, after=after, limit=limit
        )
