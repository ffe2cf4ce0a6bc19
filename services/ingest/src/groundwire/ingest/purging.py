"""Delete the documents that a filter matches, for good."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.ingest.ingesting import Progress, Report, Stage
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import Document
from groundwire.kernel.errors import DocumentChangedError, DocumentNotFoundError
from groundwire.kernel.filter_parsing import resolve_filter
from groundwire.kernel.filters import FieldKind, Filter, leaves

SAMPLE = 100
"""Documents that a count names."""
_DOCUMENTS_PER_READ = 100


@dataclass(frozen=True, slots=True)
class Purge:
    """What is to be deleted: documents that a filter matches, None for all, and that were there when it was asked for.

    `done` of them are deleted already.
    """

    tenant: str
    collection: str
    where: Filter | None
    operation_id: str
    asked: datetime
    done: int = 0


@dataclass(frozen=True, slots=True)
class Purged:
    """How many documents were deleted, with records that quoted them.

    Where they were only counted, `sample` holds the sources of the first ones that match.
    """

    documents: int
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class DocumentPurge:
    """Deletes one document after the other, each in a transaction that also counts it, so that it can stop any time.

    What the engine has of them is removed as after every deletion, by housekeeping.
    """

    collections: Collections
    documents: Documents
    chunks: Chunks
    after_delete: Callable[[], None]

    def check(self, tenant: str, collection: str, where: Filter | None) -> None:
        """Return if a purge like this can begin.

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidFilterError: the filter does not fit the fields of the collection.
        """
        self.collections.get(tenant, collection)
        if where is not None:
            resolve_filter(where, self.chunks.fields(tenant, collection))

    def count(self, purge: Purge) -> Purged:
        """Return how many documents match and the sources of some, deleting nothing.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        where = self._resolved(purge)
        page = self._page(purge, where, None, SAMPLE)
        count = self.documents.count(purge.tenant, purge.collection, where, purge.asked)
        return Purged(count, tuple(document.source_uri for document in page))

    def delete(self, purge: Purge, budget: Budget, report: Report) -> Purged:
        """Delete what matches and return how much that was, with what an earlier process has done of it.

        Raises:
            CollectionNotFoundError: no such collection.
            CallCancelledError: the rest is left.
        """
        where, done = self._resolved(purge), purge.done
        total = done + self.documents.count(purge.tenant, purge.collection, where, purge.asked)
        report(Progress(Stage.DELETING, done, total))
        found_changed = True
        while found_changed:
            found_changed = False
            for document in self._matching(purge, where):
                budget.check()
                try:
                    deleted = self.documents.delete(
                        purge.tenant,
                        purge.collection,
                        document.document_id,
                        etag=document.etag,
                        where=where,
                        operation_id=purge.operation_id,
                    )
                    self.after_delete()
                except DocumentNotFoundError:
                    continue  # somebody else has deleted it
                except DocumentChangedError:
                    found_changed = True  # it may match no more: look again
                    continue
                done += deleted.deletion.documents
                report(Progress(Stage.DELETING, done, max(done, total)))
        return Purged(done)

    def _matching(self, purge: Purge, where: Filter | None) -> Iterator[Document]:
        after: tuple[str, str] | None = None
        while page := self._page(purge, where, after, _DOCUMENTS_PER_READ):
            yield from page
            after = page[-1].source_uri, page[-1].document_id

    def _page(self, purge: Purge, where: Filter | None, after: tuple[str, str] | None, limit: int) -> list[Document]:
        return self.documents.page(
            purge.tenant,
            purge.collection,
            after,
            limit,
            where=where,
            include_hidden=True,
            ingested_by=purge.asked,
        )

    def _resolved(self, purge: Purge) -> Filter | None:
        """Return the filter for the fields of the collection as they are now.

        A metadata key may have gone with the documents that are deleted already; nothing has it then, of whatever kind.
        """
        if purge.where is None:
            return None
        gone = {
            leaf.field: FieldKind.TEXT if isinstance(getattr(leaf, "value", None), str) else FieldKind.NUMBER
            for leaf in leaves(purge.where)
        }
        return resolve_filter(purge.where, gone | self.chunks.fields(purge.tenant, purge.collection))
