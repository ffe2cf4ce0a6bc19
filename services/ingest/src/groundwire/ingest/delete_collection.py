"""Delete a collection, for good."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.deletions import Deletion
from groundwire.catalog.idempotency import Receipt
from groundwire.ingest.complete_deletion import CompleteDeletion
from groundwire.kernel.budget import Budget


@dataclass(frozen=True, slots=True)
class DeleteCollection:
    """Deletes a collection, documents that were deleted softly included."""

    collections: Collections
    complete: CompleteDeletion
    after_delete: Callable[[], None]

    def __call__(
        self,
        tenant: str,
        name: str,
        budget: Budget,
        remember: Callable[[Deletion], Receipt] | None = None,
        *,
        force: bool = False,
        etag: str = "",
    ) -> Deletion:
        """Return what was deleted.

        Raises:
            CollectionNotFoundError: no such collection.
            PreconditionError: it has documents, perhaps ones that were deleted softly, and `force` is not set.
            ConflictError: its etag is not the given one, if one is given.
        """
        receipt = None if remember is None else lambda deleted: remember(deleted.deletion)
        deleted = self.collections.delete(tenant, name, receipt, only_empty=not force, etag=etag)
        self.after_delete()
        return self.complete(deleted, budget)
