"""What the aggregates of the catalog have in common."""

from groundwire.catalog.audit import Audit
from groundwire.catalog.database import Database
from groundwire.kernel.clock import epoch_ms


class Aggregate:
    """A part of the catalog, with the rows of all tenants; a call sees those of one, unless it says otherwise.

    The errors that every method may raise are documented only here:

    * CollectionNotFoundError where the tenant has no collection of the given name.
    * With an `etag` that is not empty, DocumentChangedError, or ConflictError of a collection, when what is stored has
      another one.
    * With a `Receipt`, whose answer is stored in the transaction of the change: ConflictError when the same request was
      completed meanwhile, so that its answer is in the ledger, and RequestIdReusedError when the request id was used
      with another body. Nothing is written then.
    """

    def __init__(self, database: Database) -> None:
        self._database = database
        self._audit = Audit(database)

    def _now(self) -> int:
        """Return the time of day in milliseconds since 1970, as rows hold it."""
        return epoch_ms(self._database.clock.now())
