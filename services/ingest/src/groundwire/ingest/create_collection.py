"""Create a collection from a profile, bound to the server's embedding."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from groundwire.catalog.collections import Collections
from groundwire.catalog.idempotency import Receipt
from groundwire.ingest.domain.changing import NewCollection
from groundwire.ingest.read_collections import CollectionFigures, figures_of
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.identifiers import engine_collection_name
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class CreateCollection:
    """Creates a collection in the catalog and its home in the vector store."""

    collections: Collections
    vectors: VectorStore
    identity: EmbeddingIdentity
    clock: Clock

    def __call__(
        self, wanted: NewCollection, budget: Budget, remember: Callable[[CollectionFigures], Receipt] | None = None
    ) -> CollectionFigures:
        """Return the collection; one of the same name and settings is returned as it is.

        Raises:
            AlreadyExistsError: the name is taken by a collection with other settings or another embedding.
        """
        uid, now = str(uuid.uuid4()), self.clock.now()
        collection = Collection(
            uid=uid,
            tenant=wanted.tenant,
            name=wanted.name,
            engine_name=engine_collection_name(wanted.tenant, uid, self.identity.digest),
            profile=wanted.profile,
            identity=self.identity,
            settings=wanted.settings,
            create_time=now,
            update_time=now,
        )
        before = self._figures(collection)
        receipt = None if remember is None else lambda stored: remember(replace(before, collection=stored))
        stored = self.collections.create(collection, receipt)
        # After the row: an engine collection without a row would never be dropped. Made again before each write.
        self.vectors.create_collection(stored.engine_name, stored.identity.dimensions, budget)
        return replace(before, collection=stored)

    def _figures(self, collection: Collection) -> CollectionFigures:
        """Return the figures of the collection that has the name, zeros when there is none."""
        try:
            return figures_of(self.collections, collection)
        except CollectionNotFoundError:
            return CollectionFigures(collection)
