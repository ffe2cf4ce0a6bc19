"""How far the catalog is, as a search in one collection sees it."""

from dataclasses import dataclass

from sqlalchemy import select

from groundwire.catalog.database import Database
from groundwire.catalog.tables import collections
from groundwire.kernel.errors import CollectionNotFoundError


@dataclass(frozen=True, slots=True)
class CollectionPosition:
    """A position of the catalog, and the uid of a collection that existed then."""

    uid: str
    position: int


class CollectionPositions:
    """Reads positions; a write that was acknowledged is at or before every position read afterwards."""

    def __init__(self, database: Database) -> None:
        self._database = database

    def of(self, tenant: str, collection: str) -> CollectionPosition:
        """Return the current position.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        statement = select(collections.c.uid).where(collections.c.tenant == tenant, collections.c.name == collection)
        with self._database.read() as connection:
            uid = connection.execute(statement).scalar()
            if uid is None:
                raise CollectionNotFoundError(collection)
            return CollectionPosition(uid, self._database.position(connection))
