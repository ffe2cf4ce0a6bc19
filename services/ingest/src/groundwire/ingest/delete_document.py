"""Delete a document, so that it can be restored or for good."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.deletions import Deletion
from groundwire.catalog.documents import Documents
from groundwire.catalog.idempotency import Receipt
from groundwire.catalog.soft_deletes import SoftDeletes
from groundwire.ingest.complete_deletion import CompleteDeletion
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import DocumentReference


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
        reference: DocumentReference,
        budget: Budget,
        remember: Callable[[Deletion], Receipt] | None = None,
        *,
        purge: bool = False,
        etag: str = "",
    ) -> Deletion:
        """Return what was deleted; no reader finds any part of it afterwards.

        With `purge` it goes for good, also if it was deleted softly before. By one of several sources only that source
        goes, and the document stays with the others.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
            DocumentChangedError: its etag is not the given one, if one is given.
            InvalidRequestError: several deleted documents have the source, and none is live.
        """
        self.collections.get(tenant, collection)
        receipt = None if remember is None else lambda deleted: remember(deleted.deletion)
        dropped = None
        if reference.source_uri:
            dropped = self.soft_deletes.drop_source(
                tenant, collection, reference.source_uri, receipt, permanent=purge, etag=etag
            )
        if dropped is not None:
            deleted = dropped
        elif purge:
            document_id = self.documents.id_with_deleted(tenant, collection, reference)
            deleted = self.documents.delete(tenant, collection, document_id, receipt, etag=etag)
        else:
            document_id = self.documents.find(tenant, collection, reference).document_id
            deleted = self.soft_deletes.hide(tenant, collection, document_id, receipt, etag=etag)
        self.after_delete()
        return self.complete(deleted, budget)
