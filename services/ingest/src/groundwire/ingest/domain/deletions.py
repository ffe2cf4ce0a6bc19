"""What deletions return."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime


@dataclass(frozen=True, slots=True)
class StoreDeletion:
    """What one store had of what was deleted, and how much of that is `left`; all of it while nobody has looked."""

    store: str
    total: int
    left: int = 0

    @property
    def removed(self) -> int:
        """Return how many entries are gone."""
        return max(0, self.total - self.left)


@dataclass(frozen=True, slots=True)
class Deletion:
    """What was deleted; no call finds it from `hidden_time` on. `completed_time` is None until every store is clean."""

    deletion_id: str
    permanent: bool
    documents: int
    chunks: int
    stores: tuple[StoreDeletion, ...]
    hidden_time: datetime
    completed_time: datetime | None = None

    def searched(self, left: Mapping[str, int], now: datetime) -> "Deletion":
        """Return it with what a final search found, by store."""
        stores = tuple(replace(each, left=left[each.store]) for each in self.stores)
        return replace(self, stores=stores, completed_time=None if any(left.values()) else now)
