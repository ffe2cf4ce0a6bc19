"""Store a document whose chunks, and perhaps vectors, the caller has made; all of it or nothing."""

import hashlib
from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass

from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.admit_document import AdmitDocument
from groundwire.ingest.chunking.ready_chunks import (
    PlacedText,
    ReadyDocument,
    check_vectors,
    make_chunks,
    placed,
    rules_digest,
    unit_vectors,
)
from groundwire.ingest.domain.ingesting import IngestRequest, IngestResult, Report
from groundwire.ingest.ingest_document import Remember
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.known_sources import KnownSources
from groundwire.ingest.write_generation import WriteGeneration
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat, file_name
from groundwire.kernel.embedder import Tokenizer


@dataclass(frozen=True, slots=True)
class PutChunks:
    """Takes a document in whose chunks are ready; `tokenizer` is that of the server's model."""

    admit: AdmitDocument
    known: KnownSources
    cache: VectorCache
    write_generation: WriteGeneration
    locks: KeyedLocks
    tokenizer: Tokenizer
    after_write: Callable[[Collection], None]

    def __call__(
        self, request: IngestRequest, ready: ReadyDocument, budget: Budget, report: Report, remember: Remember = None
    ) -> IngestResult:
        """Return what was done; `remember` makes the receipt of a call with a request id.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection, or the vectors, belong to another model.
            DimensionMismatchError: a vector has another length than the collection.
            InvalidRequestError: a chunk breaks a rule of the collection, or does not fit the text.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
            AlreadyExistsError: a chunk id belongs to another document.
            DocumentChangedError: someone else changed the document meanwhile.
        """
        collection = self.admit(request, None)
        check_vectors(ready, collection.identity)
        text = placed(ready, self.admit.limit(collection))
        encoded = text.text.encode()
        self.admit(request, len(encoded))
        source_hash = request.source_hash or hashlib.sha256(encoded).hexdigest()
        with ExitStack() as held:
            held.enter_context(self.locks.hold(("source", collection.uid, request.source_uri), budget))
            held.enter_context(self.locks.hold(("bytes", collection.uid, source_hash), budget))
            existing = self.known.existing(request, source_hash)
            draft = self._draft(request, ready, text, source_hash, existing, collection)
            settled = self._settled(request, draft, existing)
            return settled or self._write(collection, ready, draft, budget, report, remember)

    def _draft(
        self,
        request: IngestRequest,
        ready: ReadyDocument,
        text: PlacedText,
        source_hash: str,
        existing: Document | None,
        collection: Collection,
    ) -> GenerationDraft:
        kept = existing.fields if existing else DocumentFields()
        fields = kept if request.fields is None else request.fields
        fallback = fields.title or file_name(request.source_uri)
        chunks = make_chunks(ready.chunks, text, collection.settings.chunking, fallback, self.tokenizer.count)
        ids = [chunk.chunk_id for chunk in ready.chunks if chunk.chunk_id is not None] or None
        return GenerationDraft(
            document_id=existing.document_id if existing else request.document_id,
            source_uri=request.source_uri,
            format=request.format or DocumentFormat.TEXT,
            source_hash=source_hash,
            fields=fields,
            text=text.text,
            chunks=chunks,
            expected_generation=existing.generation if existing else 0,
            rules_digest=rules_digest(chunks, ids),
            chunk_ids=ids,
            source_version=request.source_version,
        )

    def _settled(
        self, request: IngestRequest, draft: GenerationDraft, existing: Document | None
    ) -> IngestResult | None:
        """Return the result if nothing has to be written but perhaps an alias."""
        if existing is not None and existing.source_hash == draft.source_hash:
            if existing.source_uri != request.source_uri:
                return self.known.reuse(request, existing)
            before = (existing.rules_digest, existing.fields, existing.format)
            is_same = before == (draft.rules_digest, draft.fields, draft.format)
            return self.known.unchanged(request, existing) if is_same else None
        twin = self.known.twin(request, existing, draft.source_hash)
        return None if twin is None else self.known.reuse(request, twin)

    def _write(
        self,
        collection: Collection,
        ready: ReadyDocument,
        draft: GenerationDraft,
        budget: Budget,
        report: Report,
        remember: Remember,
    ) -> IngestResult:
        if ready.chunks[0].vector is not None:
            # They wait there for their chunks: vectors that no chunk has are kept for an hour.
            hashes = [chunk.embedding_hash for chunk in draft.chunks]
            self.cache.put(collection.identity.digest, hashes, unit_vectors(ready.chunks))
        try:
            return self.write_generation(collection, draft, budget, report, remember)
        finally:
            self.after_write(collection)
