"""Delete a collection with everything in it, for good."""

from collections.abc import Callable
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.delete_collection import DeletedCollection
from groundwire.catalog.generations import Receipt
from groundwire.ingest.complete_deletion import CompleteDeletion, DeletedParts, new_deletion_id
from groundwire.ingest.domain.deletions import Deletion
from groundwire.kernel.budget import Budget


@dataclass(frozen=True, slots=True)
class DeleteCollection:
    """Deletes a collection, documents that were deleted softly included."""

    collections: Collections
    complete: CompleteDeletion
    after_delete: Callable[[], None]

    def __call__(
        self, tenant: str, name: str, budget: Budget, remember: Callable[[Deletion], Receipt] | None = None
    ) -> Deletion:
        """Return what was deleted.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        deletion_id = new_deletion_id()

        def begin(deleted: DeletedCollection) -> Deletion:
            return self.complete.begin(_parts(deleted), deletion_id)

        receipt = None if remember is None else lambda deleted: remember(begin(deleted))
        deleted = self.collections.delete(tenant, name, receipt)
        self.after_delete()
        return self.complete(tenant, deleted.collection, _parts(deleted), begin(deleted), budget, remember)


def _parts(deleted: DeletedCollection) -> DeletedParts:
    return DeletedParts(
        documents=deleted.documents,
        texts=deleted.generations,
        embeddings=deleted.embeddings,
        messages=deleted.messages,
        traces=deleted.traces,
        tasks=deleted.tasks,
    )
