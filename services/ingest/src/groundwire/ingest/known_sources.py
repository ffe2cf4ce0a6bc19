"""Find out what is stored of a source and of its bytes."""

from dataclasses import dataclass

from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import refuse_stale_version
from groundwire.ingest.domain.ingesting import DuplicatePolicy, IngestOutcome, IngestRequest, IngestResult
from groundwire.kernel.document import Document
from groundwire.kernel.errors import DuplicateDocumentError, InvalidRequestError


@dataclass(frozen=True, slots=True)
class KnownSources:
    """Looks for the document of a source, and for another one with the same bytes."""

    documents: Documents

    def existing(self, request: IngestRequest, source_hash: str) -> Document | None:
        """Return the document that the request would replace or leave as it is.

        Raises:
            InvalidRequestError: it has another id than the request wants.
            StaleSourceVersionError: it is of a later version.
        """
        existing = self.of_source(request)
        if existing is None:
            return None
        if existing.source_uri != request.source_uri:
            # An alias that has bytes of its own, or is to be one no more, becomes a document of its own.
            stays = request.duplicate_policy is DuplicatePolicy.REUSE and existing.source_hash == source_hash
            return existing if stays else None
        if request.document_id not in {None, existing.document_id}:
            raise InvalidRequestError.of("document_id", f"the source has the id {existing.document_id!r}")
        refuse_stale_version(existing.document_id, request.source_version, existing.source_version)
        return existing

    def of_source(self, request: IngestRequest) -> Document | None:
        """Return the document with this source or alias."""
        return self.documents.find_by_source(request.tenant, request.collection, request.source_uri)

    def twin(self, request: IngestRequest, existing: Document | None, source_hash: str) -> Document | None:
        """Return another document with the same bytes that stands for this one.

        Raises:
            DuplicateDocumentError: there is one and the policy is REJECT.
        """
        twin = self.documents.find_by_hash(request.tenant, request.collection, source_hash)
        if twin is None or twin.source_uri == request.source_uri or request.duplicate_policy is DuplicatePolicy.ALLOW:
            return None
        if request.duplicate_policy is DuplicatePolicy.REJECT:
            message = f"the same bytes are stored as {twin.source_uri!r}"
            raise DuplicateDocumentError(message, document_id=twin.document_id, source_uri=twin.source_uri)
        return twin if existing is None else None  # a document that became equal to another one stays a document

    def reuse(self, request: IngestRequest, twin: Document) -> IngestResult:
        """Make the source an alias of the other document."""
        self.documents.add_alias(request.tenant, request.collection, twin.document_id, request.source_uri)
        found = self.documents.get(request.tenant, request.collection, twin.document_id)
        return IngestResult(found, IngestOutcome.REUSED, ignored=request.without_effect(found))

    def unchanged(self, request: IngestRequest, existing: Document) -> IngestResult:
        """Leave the document as it is, but for a later version."""
        if request.source_version is not None and request.source_version != existing.source_version:
            existing = self.documents.raise_source_version(existing, request.tenant, request.source_version)
        return IngestResult(existing, IngestOutcome.UNCHANGED)
