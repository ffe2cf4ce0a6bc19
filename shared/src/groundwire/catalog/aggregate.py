"""What the aggregates of the catalog have in common."""

from groundwire.catalog.audit import Audit
from groundwire.catalog.database import Database
from groundwire.kernel.clock import epoch_ms


class Aggregate:
    """A part of the catalog, with the rows of all tenants; a call sees those of one, unless it says otherwise.

    With a `Receipt`, a method that writes stores its result under the request id in the same transaction. It raises
    ConflictError when the same request was completed meanwhile (its answer is in the ledger then) and
    RequestIdReusedError when the id was used with another body; nothing is written in either case.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit = Audit(database)

    def _now(self) -> int:
        """Return the time of day in milliseconds since 1970, as rows hold it."""
        return epoch_ms(self._database.clock.now())
