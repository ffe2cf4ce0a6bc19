"""Check whether a collection takes a document, before anything is done with it."""

from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.ingest.domain.ingesting import IngestRequest
from groundwire.ingest.domain.source_rules import check_source
from groundwire.ingest.parsing.source_text import check_size
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import EmbeddingMismatchError


@dataclass(frozen=True, slots=True)
class AdmitDocument:
    """Finds the collection and holds the document against its rules.

    `identity` is that of the server's embedder; a collection of another one is refused. `max_bytes` is the server's
    bound of the size of a document.
    """

    collections: Collections
    identity: EmbeddingIdentity
    max_bytes: int

    def __call__(self, request: IngestRequest, size_bytes: int | None) -> Collection:
        """Return the collection; the size is None while it is not known.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: its vectors are another model's.
            DocumentTooLargeError: the document is larger than collection or server allow.
            InvalidRequestError: the collection does not take this source, or its rules of chunking cannot be changed
                like this.
        """
        collection = self.collections.get(request.tenant, request.collection)
        refuse_other_model(collection, self.identity)
        check_source(request.source_uri, collection.settings)
        request.chunking.over(collection.settings.chunking, "chunking")
        if size_bytes is not None:
            check_size(size_bytes, self.limit(collection), request.content_field)
        return collection

    def limit(self, collection: Collection) -> int:
        """Return the most bytes that a document of the collection may have."""
        return min(self.max_bytes, collection.settings.limits.max_document_bytes or self.max_bytes)


def refuse_other_model(collection: Collection, identity: EmbeddingIdentity) -> None:
    """Raise EmbeddingMismatchError when the vectors of a collection are another model's."""
    if collection.identity != identity:
        expected, got = _name(collection.identity), _name(identity)
        message = f"collection {collection.name!r} was embedded by {expected}, this server has {got}"
        raise EmbeddingMismatchError(message, expected=expected, got=got)


def _name(identity: EmbeddingIdentity) -> str:
    return f"{identity.model_name}@{identity.probe_digest[:12]}"
