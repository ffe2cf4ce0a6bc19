"""Whether an engine's filter keys may differ from those of a view of the catalog."""

from dataclasses import dataclass

from sqlalchemy import Connection

from groundwire.catalog.database import Database
from groundwire.catalog.outbox import has_points_to_match
from groundwire.catalog.payload_rewrites import last_rewrite


@dataclass(frozen=True, slots=True)
class EngineRewrites:
    """Filter keys are changed in one transaction of the catalog, and in the engine point by point afterwards.

    `connection` is that of the view, which reads at `position`.
    """

    database: Database
    connection: Connection
    engine_name: str
    collection_key: int
    position: int

    def may_show(self) -> bool:
        """Tell whether a search that the engine has just finished may have met other filter keys than the view.

        It may if the engine had not caught up when the view was opened, or if keys have been changed since. Tasks stay
        in the outbox until the engine has acknowledged them.
        """
        if has_points_to_match(self.connection, self.engine_name):
            return True
        with self.database.read() as now:
            return last_rewrite(now, self.collection_key) > self.position
