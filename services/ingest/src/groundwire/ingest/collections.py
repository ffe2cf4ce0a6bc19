"""Create, read, change and delete collections."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass, replace

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.collections import CollectionCounts
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.upkeep import Upkeep
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection, CollectionSettings, ProfileName
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.identifiers import engine_collection_name
from groundwire.kernel.vector_store import VectorStore


@dataclass(frozen=True, slots=True)
class CollectionFigures:
    """A collection, how much of what is live in it, and what of the server holds for it.

    `vector_engine` is the name of the store, `max_document_bytes` the limit of a document where the collection has none
    of its own.
    """

    collection: Collection
    counts: CollectionCounts
    vector_engine: str
    max_document_bytes: int

    def of(self, stored: Collection) -> "CollectionFigures":
        """Return the figures with the collection as it is stored now."""
        return replace(self, collection=stored)


@dataclass(frozen=True, slots=True)
class CollectionUpkeep:
    """Collections of all tenants; new ones are bound to `identity`, the embedding of the server's model.

    For `vector_engine` and `max_document_bytes` see `CollectionFigures`.
    """

    catalog: Catalog
    vectors: VectorStore
    vector_engine: str
    upkeep: Upkeep
    identity: EmbeddingIdentity
    max_document_bytes: int

    def create(
        self,
        tenant: str,
        name: str,
        profile: ProfileName,
        settings: CollectionSettings,
        budget: Budget,
        receipt: Receipt[CollectionFigures] | None = None,
    ) -> CollectionFigures:
        """Create a collection from a profile; one of the same name and settings is returned as it is.

        Raises:
            AlreadyExistsError: the name is taken by a collection with other settings or another embedding.
        """
        uid, now = str(uuid.uuid4()), self.catalog.database.clock.now()
        collection = Collection(
            uid=uid,
            tenant=tenant,
            name=name,
            engine_name=engine_collection_name(tenant, uid, self.identity.digest),
            profile=profile,
            identity=self.identity,
            settings=settings,
            create_time=now,
            update_time=now,
        )
        try:
            before = self.figures(collection)  # of the collection that has the name already, if any
        except CollectionNotFoundError:
            nothing = CollectionCounts(0, 0, 0, 0)
            before = CollectionFigures(collection, nothing, self.vector_engine, self.max_document_bytes)
        stored = self.catalog.collections.create(collection, receipt and receipt.made_from(before.of))
        if stored.uid == uid:
            # After the row: an engine collection without a row would never be dropped. If this fails, a write makes it.
            self.vectors.create_collection(stored.engine_name, stored.identity.dimensions, budget)
        return before.of(stored)

    def get(self, tenant: str, name: str) -> CollectionFigures:
        return self.figures(self.catalog.collections.get(tenant, name))

    def update(
        self,
        tenant: str,
        name: str,
        change: Callable[[Collection], CollectionSettings],
        etag: str,
        receipt: Receipt[CollectionFigures] | None = None,
    ) -> CollectionFigures:
        """Change settings by `change`, which gets the collection as it is and runs alone; what is stored stays.

        Raises:
            InvalidRequestError: `change` refuses.
        """
        before = self.get(tenant, name)
        of_stored: Receipt[Collection] | None = receipt and receipt.made_from(before.of)
        return before.of(self.catalog.collections.update(tenant, name, change, of_stored, etag=etag))

    def delete(
        self,
        tenant: str,
        name: str,
        budget: Budget,
        receipt: Receipt[Deletion] | None = None,
        *,
        force: bool = False,
        etag: str = "",
    ) -> Deletion:
        """Delete a collection for good, documents that were deleted softly included.

        Raises:
            PreconditionError: it has documents, perhaps ones that were deleted softly, and `force` is not set.
        """
        deleted = self.catalog.collections.delete(tenant, name, receipt, only_empty=not force, etag=etag)
        self.upkeep.nudge()
        return self.upkeep.complete(deleted, budget)

    def figures(self, collection: Collection) -> CollectionFigures:
        counts = self.catalog.collections.counts(collection.tenant, collection.name)
        return CollectionFigures(collection, counts, self.vector_engine, self.max_document_bytes)
