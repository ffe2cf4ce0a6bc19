"""Delete documents and collections for good."""

import uuid
from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import DeletedCounts, Receipt
from groundwire.ingest.domain.changing import Deletion
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.errors import NotAvailableError


@dataclass(frozen=True, slots=True)
class DeleteDocument:
    """Deletes one document with all its generations."""

    collections: Collections
    documents: Documents
    clock: Clock
    after_delete: Callable[[], None]

    def __call__(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        permanent: bool | None,
        remember: Callable[[Deletion], Receipt] | None = None,
    ) -> Deletion:
        """Return what was deleted; no reader finds any part of it afterwards.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
            NotAvailableError: soft deletion was asked for, or is what the profile does unless told otherwise.
        """
        found = self.collections.get(tenant, collection)
        if not (found.profile is not ProfileName.MEMORY if permanent is None else permanent):
            raise NotAvailableError("documents can only be deleted for good yet", feature="permanent=false")

        deletion_id, now = str(uuid.uuid4()), self.clock.now()

        def deletion_of(counts: DeletedCounts) -> Deletion:
            return Deletion(deletion_id, 1, counts.chunks, counts.generations, now)

        receipt = None if remember is None else lambda counts: remember(deletion_of(counts))
        counts = self.documents.delete(tenant, collection, document_id, receipt)
        self.after_delete()
        return deletion_of(counts)


@dataclass(frozen=True, slots=True)
class DeleteCollection:
    """Deletes a collection with everything in it."""

    collections: Collections
    clock: Clock
    after_delete: Callable[[], None]

    def __call__(self, tenant: str, name: str, remember: Callable[[Deletion], Receipt] | None = None) -> Deletion:
        """Return what was deleted.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        counts = self.collections.counts(tenant, name)
        deletion = Deletion(str(uuid.uuid4()), counts.documents, counts.chunks, counts.documents, self.clock.now())

        receipt = None if remember is None else remember(deletion)
        self.collections.delete(tenant, name, receipt)
        self.after_delete()
        return deletion
