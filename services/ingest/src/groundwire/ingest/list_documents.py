"""List the documents of a collection."""

from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.documents import Documents
from groundwire.ingest.domain.reading import DocumentQuery, Page
from groundwire.kernel.document import Document
from groundwire.kernel.filter_resolving import resolve_filter


@dataclass(frozen=True, slots=True)
class ListDocuments:
    """Returns documents page by page, by source, then id."""

    documents: Documents
    chunks: Chunks

    def __call__(self, query: DocumentQuery, after: tuple[str, str] | None, limit: int) -> Page[Document]:
        """Return up to `limit` documents above `after` (source, id).

        Raises:
            CollectionNotFoundError: no such collection.
            InvalidFilterError: the filter does not fit the collection's fields.
        """
        where = query.where
        if where is not None:
            where = resolve_filter(where, self.chunks.fields(query.tenant, query.collection), "filter")
        prefix = query.source_prefix
        # Sources with one prefix stand together in the order, and none of them comes before the prefix itself.
        begin = max(after, (prefix, "")) if after is not None else (prefix, "")
        rows = self.documents.page(
            query.tenant, query.collection, begin, limit + 1, where=where, include_hidden=query.include_deleted
        )
        found = tuple(document for document in rows if document.source_uri.startswith(prefix))
        if len(found) <= limit:
            return Page(found, None)
        return Page(found[:limit], (found[limit - 1].source_uri, found[limit - 1].document_id))
