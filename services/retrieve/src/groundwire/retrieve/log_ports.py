"""What logging needs from the catalog; `groundwire.catalog` fits these as it is."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Protocol

from groundwire.kernel.collection import Collection
from groundwire.kernel.query_log import LoggedQuery


class CollectionReader(Protocol):
    """Finds collections."""

    def get(self, tenant: str, name: str) -> Collection:
        """Return a collection.

        Raises:
            CollectionNotFoundError: the tenant has none of this name.
        """
        ...


class LoggedPage(Protocol):
    """Entries newest first, and the position behind the last one: None when no entry follows."""

    @property
    def entries(self) -> Sequence[LoggedQuery]:
        """Return the entries."""
        ...

    @property
    def positions(self) -> Sequence[tuple[int, int]]:
        """Return the position of each entry."""
        ...

    @property
    def next_position(self) -> tuple[int, int] | None:
        """Return the position behind the last entry."""
        ...


class QueryLogReader(Protocol):
    """Reads log entries."""

    def page(
        self,
        tenant: str,
        *,
        collection: str | None,
        start: datetime | None,
        end: datetime | None,
        after: tuple[int, int] | None,
        limit: int,
    ) -> LoggedPage:
        """Return up to `limit` entries of a tenant, newest first."""
        ...


class QueryLogStore(Protocol):
    """Keeps log entries."""

    def append(self, entries: Sequence[LoggedQuery]) -> None:
        """Store entries durably; one that is stored already, by its id, stays."""
        ...

    def forget(self, kept: timedelta) -> int:
        """Remove the entries of all tenants that were stored longer ago; return how many."""
        ...
