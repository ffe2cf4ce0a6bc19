"""Delete a document, for good or so that it can be restored."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.deletions import Deletion
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import Receipt
from groundwire.catalog.soft_deletes import SoftDeletes
from groundwire.ingest.complete_deletion import CompleteDeletion
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ProfileName


@dataclass(frozen=True, slots=True)
class DeleteDocument:
    """Deletes one document with all its generations."""

    collections: Collections
    documents: Documents
    soft_deletes: SoftDeletes
    complete: CompleteDeletion
    after_delete: Callable[[], None]

    def __call__(
        self,
        tenant: str,
        collection: str,
        document_id: str,
        permanent: bool | None,
        budget: Budget,
        remember: Callable[[Deletion], Receipt] | None = None,
    ) -> Deletion:
        """Return what was deleted; no reader finds any part of it afterwards.

        A document that was deleted softly can still be deleted for good. `permanent` None leaves it to the profile:
        softly in the memory profile.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
        """
        found = self.collections.get(tenant, collection)
        if permanent is None:
            permanent = found.profile is not ProfileName.MEMORY
        receipt = None if remember is None else lambda deleted: remember(deleted.deletion)
        delete = self.documents.delete if permanent else self.soft_deletes.hide
        deleted = delete(tenant, collection, document_id, receipt)
        self.after_delete()
        return self.complete(deleted, budget)
