"""Change what was said about a document, on all its chunks, without embedding anything again."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.changes import DocumentChanges
from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.idempotency import Receipt
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.domain.field_changes import DocumentChange
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document, DocumentReference


@dataclass(frozen=True, slots=True)
class UpdateDocument:
    """Changes fields of a document; `locks` are those of the ingests, which read fields and write them later."""

    collections: Collections
    documents: Documents
    changes: DocumentChanges
    apply: ApplyOutbox
    locks: KeyedLocks

    def __call__(
        self,
        tenant: str,
        collection: str,
        reference: DocumentReference,
        change: DocumentChange,
        etag: str,
        budget: Budget,
        remember: Callable[[Document], Receipt] | None = None,
    ) -> Document:
        """Return the document as it is now; every search sees it whole, before or after the change.

        The engine gets the new filter keys before this returns, if it can; until then searches ask the catalog.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
            DocumentChangedError: its etag is not the given one, if one is given.
            InvalidRequestError: the document would have too many metadata keys.
        """
        uid = self.collections.get(tenant, collection).uid
        found = self.documents.find(tenant, collection, reference)
        with self.locks.hold(("source", uid, found.source_uri), budget):
            changed = self.changes.document(tenant, collection, found.document_id, change, remember, etag=etag)
        self.apply.finish(changed.tasks, budget)
        return changed.result
