"""List the documents of a collection."""

from dataclasses import dataclass

from groundwire.catalog.documents import Documents
from groundwire.ingest.domain.reading import Page
from groundwire.kernel.document import Document


@dataclass(frozen=True, slots=True)
class ListDocuments:
    """Returns documents page by page, by source, then id."""

    documents: Documents

    def __call__(
        self, tenant: str, collection: str, source_prefix: str, after: tuple[str, str] | None, limit: int
    ) -> Page[Document]:
        """Return up to `limit` documents above `after` (source, id) whose source starts with the prefix.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        # Sources with one prefix stand together in the order, and none of them comes before the prefix itself.
        begin = max(after, (source_prefix, "")) if after is not None else (source_prefix, "")
        rows = self.documents.page(tenant, collection, begin, limit + 1)
        found = tuple(document for document in rows if document.source_uri.startswith(source_prefix))
        if len(found) <= limit:
            return Page(found, None)
        return Page(found[:limit], (found[limit - 1].source_uri, found[limit - 1].document_id))
