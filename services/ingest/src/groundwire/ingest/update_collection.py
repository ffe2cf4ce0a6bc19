"""Change the settings of a collection."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from groundwire.catalog.collections import Collections
from groundwire.catalog.idempotency import Receipt
from groundwire.ingest.read_collections import CollectionFigures, figures_of
from groundwire.kernel.collection import Collection, CollectionSettings


@dataclass(frozen=True, slots=True)
class UpdateCollection:
    """Changes settings; what is stored already stays as it is."""

    collections: Collections

    def __call__(
        self,
        tenant: str,
        name: str,
        change: Callable[[Collection], CollectionSettings],
        etag: str,
        remember: Callable[[CollectionFigures], Receipt] | None = None,
    ) -> CollectionFigures:
        """Return the collection after `change`, which gets it as it is and runs alone.

        Raises:
            CollectionNotFoundError: no such collection.
            ConflictError: its etag is not the given one, if one is given.
            InvalidRequestError: `change` refuses.
        """
        before = figures_of(self.collections, self.collections.get(tenant, name))
        receipt = None if remember is None else lambda stored: remember(replace(before, collection=stored))
        return replace(before, collection=self.collections.update(tenant, name, change, receipt, etag=etag))
