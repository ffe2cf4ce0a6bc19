"""Take documents in: parse and chunk them, or take chunks that the caller has made, and plan what would be done."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.chunking.ready_chunks import (
    ReadyDocument,
    check_vectors,
    make_chunks,
    placed,
    rules_digest,
    unit_vectors,
)
from groundwire.ingest.ingesting import IngestOutcome, IngestRequest, IngestResult, Progress, Remarks, Report, Stage
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.parsing.parsed_document import Original
from groundwire.ingest.parsing.source_text import SourceWarning
from groundwire.ingest.preparing import DocumentPreparer, drafted
from groundwire.ingest.writing import GenerationWriter
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat, file_name
from groundwire.kernel.embedder import Tokenizer
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.latencies import Step

_CHUNKS_PER_READ = 1000


class PlannedChange(StrEnum):
    """What would become of a chunk."""

    ADDED = "ADDED"
    KEPT = "KEPT"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """A chunk, new or old, and what would become of it."""

    change: PlannedChange
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest would do, and to how many chunks.

    `current` is the document that is there now. `chunks` stand in the order of the text, removed ones last.
    `embedded` texts of `embedded_tokens` tokens would go through the model.
    """

    outcome: IngestOutcome
    current: Document | None
    chunks: Sequence[PlannedChunk]
    embedded: int = 0
    embedded_tokens: int = 0
    remarks: Remarks = field(default_factory=Remarks)

    def count(self, change: PlannedChange) -> int:
        """Return the number of chunks with which this would happen."""
        return sum(planned.change is change for planned in self.chunks)


@dataclass(frozen=True, slots=True)
class DocumentIngest:
    """Takes documents in, one at a time for each source and for each content.

    `tokenizer` is that of the server's model. `after_write` is told which collection was written to, also when that
    failed.
    """

    preparer: DocumentPreparer
    writer: GenerationWriter
    locks: KeyedLocks
    chunks: Chunks
    cache: VectorCache
    tokenizer: Tokenizer
    after_write: Callable[[Collection], None]

    def ingest(
        self,
        request: IngestRequest,
        original: Original,
        budget: Budget,
        report: Report,
        receipt: Receipt[IngestResult] | None = None,
    ) -> IngestResult:
        """Ingest a document: nothing if it is unchanged, else a new generation of which only new texts are embedded.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the document is refused; see its subclasses.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
            DocumentChangedError: someone else changed the document meanwhile.
        """
        # Hashed before the locks, so that nobody waits for the reading of another's large file.
        collection, source_hash = self.preparer.admit_bytes(request, original)
        with self._locked(collection, request.source_uri, source_hash, budget):
            under_way = self.preparer.examine(request, original, collection, source_hash)
            settled = self.preparer.settled(under_way)
            if settled is not None:
                return self._without_generation(request, settled)
            report(Progress(Stage.PARSING, 0, 1))
            with Step("ingest.parse"):
                parsed = self.preparer.parse(under_way, budget)
            report(Progress(Stage.PARSING, 1, 1))
            report(Progress(Stage.CHUNKING, len(parsed.chunks), len(parsed.chunks)))
            return self._write(collection, drafted(under_way, parsed), budget, report, receipt, parsed.warnings)

    def put_chunks(
        self, request: IngestRequest, ready: ReadyDocument, budget: Budget, receipt: Receipt[IngestResult] | None = None
    ) -> IngestResult:
        """Store a document whose chunks, and perhaps vectors, the caller has made; all of it or nothing.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection, or the vectors, belong to another model.
            DimensionMismatchError: a vector has another length than the collection.
            InvalidRequestError: a chunk breaks a rule of the collection, or does not fit the text.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
            AlreadyExistsError: a chunk id belongs to another document.
            DocumentChangedError: someone else changed the document meanwhile.
        """
        # Twice: what needs no text is refused before the text is put together, which takes time.
        collection = self.preparer.admit(request, None)
        check_vectors(ready, collection.identity)
        text = placed(ready, self.preparer.limit(collection))
        encoded = text.text.encode()
        self.preparer.admit(request, len(encoded))
        source_hash = request.source_hash or hashlib.sha256(encoded).hexdigest()
        with self._locked(collection, request.source_uri, source_hash, budget):
            existing = self.preparer.existing(request, source_hash)
            stored = existing.fields if existing else DocumentFields()
            fields = stored if request.fields is None else request.fields
            fallback = fields.title or file_name(request.source_uri)
            chunks = make_chunks(ready.chunks, text, collection.settings.chunking, fallback, self.tokenizer.count)
            ids = [chunk.chunk_id for chunk in ready.chunks if chunk.chunk_id is not None] or None
            draft = GenerationDraft(
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
            if existing is None or existing.source_hash != source_hash:
                reused = self.preparer.twin(request, existing, source_hash)
            else:
                reused = existing if existing.source_uri != request.source_uri else None
                before = (existing.rules_digest, existing.fields, existing.format)
                if reused is None and before == (draft.rules_digest, draft.fields, draft.format):
                    return self._without_generation(request, IngestResult(existing, IngestOutcome.UNCHANGED))
            if reused is not None:
                return self._without_generation(request, IngestResult(reused, IngestOutcome.REUSED))
            if ready.chunks[0].vector is not None:
                # They wait there for their chunks: vectors that no chunk has are kept for an hour.
                hashes = [chunk.embedding_hash for chunk in draft.chunks]
                self.cache.put(collection.identity.digest, hashes, unit_vectors(ready.chunks))
            return self._write(collection, draft, budget, lambda _: None, receipt, {})

    def plan(self, request: IngestRequest, original: Original, budget: Budget) -> IngestPlan:
        """Go the same way as an ingest up to where that begins to write; embed nothing.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the document would be refused; see its subclasses.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
        """
        under_way = self.preparer.examine(request, original, *self.preparer.admit_bytes(request, original))
        settled = self.preparer.settled(under_way)
        if settled is not None:
            old = self._stored(request, settled.document)
            return IngestPlan(settled.outcome, settled.document, planned_chunks(old, old), remarks=settled.remarks)
        existing, embedder = under_way.existing, self.writer.embedder
        parsed = self.preparer.parse(under_way, budget)
        draft = drafted(under_way, parsed)
        new = self.writer.without_repeated(under_way.collection, draft.document_id, draft.chunks)
        new_texts = embedder.new_texts(under_way.collection, new)
        return IngestPlan(
            outcome=IngestOutcome.REPLACED if existing else IngestOutcome.CREATED,
            current=existing,
            chunks=planned_chunks(self._stored(request, existing) if existing else [], new),
            embedded=len(new_texts),
            embedded_tokens=sum(new_texts.values()),
            remarks=Remarks(sum(chunk.undersized for chunk in new), embedder.beyond_model(new), parsed.warnings),
        )

    @contextmanager
    def _locked(self, collection: Collection, source_uri: str, source_hash: str, budget: Budget) -> Iterator[None]:
        """Hold the locks of a source and of its bytes, always in this order."""
        with (
            self.locks.hold(("source", collection.uid, source_uri), budget),
            # Two new sources of equal bytes must not both find that the bytes are new.
            self.locks.hold(("bytes", collection.uid, source_hash), budget),
        ):
            yield

    def _without_generation(self, request: IngestRequest, settled: IngestResult) -> IngestResult:
        """Do what is left to do where the content is stored already: note an alias, or a later version."""
        documents, document = self.preparer.documents, settled.document
        if settled.outcome is IngestOutcome.REUSED:
            # The source may be an alias of a document whose bytes it had before.
            holder = self.preparer.of_source(request)
            moved_from = "" if holder is None or holder.document_id == document.document_id else holder.document_id
            documents.add_alias(
                request.tenant, request.collection, document.document_id, request.source_uri, moved_from
            )
            document = documents.get(request.tenant, request.collection, document.document_id)
            return IngestResult(document, IngestOutcome.REUSED, remarks=request.without_effect(document))
        if request.source_version is not None and request.source_version != document.source_version:
            document = documents.raise_source_version(document, request.tenant, request.source_version)
        return IngestResult(document, IngestOutcome.UNCHANGED)

    def _write(
        self,
        collection: Collection,
        draft: GenerationDraft,
        budget: Budget,
        report: Report,
        receipt: Receipt[IngestResult] | None,
        warnings: Mapping[SourceWarning, int],
    ) -> IngestResult:
        # Also after a failure, which has left points for housekeeping to remove.
        try:
            return self.writer.write(collection, draft, budget, report, receipt, warnings)
        finally:
            self.after_write(collection)

    def _stored(self, request: IngestRequest, document: Document) -> list[Chunk]:
        stored: list[Chunk] = []
        after = -1
        while True:
            page = self.chunks.page(request.tenant, request.collection, document.document_id, after, _CHUNKS_PER_READ)
            stored += [each.chunk for each in page]
            if len(page) < _CHUNKS_PER_READ:
                return stored
            after = page[-1].chunk.sequence_num


def planned_chunks(old: Sequence[Chunk], new: Sequence[Chunk]) -> list[PlannedChunk]:
    """Return all new chunks in order, then the old ones whose content is gone.

    A content is kept as often as it is in both; where it stands does not matter.
    """
    old_contents, new_contents = Counter(map(_content_of, old)), Counter(map(_content_of, new))
    planned = []
    for chunk in new:
        stays = old_contents[_content_of(chunk)] > 0
        old_contents[_content_of(chunk)] -= stays
        planned.append(PlannedChunk(PlannedChange.KEPT if stays else PlannedChange.ADDED, chunk))
    for chunk in old:
        stays = new_contents[_content_of(chunk)] > 0
        new_contents[_content_of(chunk)] -= stays
        if not stays:
            planned.append(PlannedChunk(PlannedChange.REMOVED, chunk))
    return planned


def _content_of(chunk: Chunk) -> str:
    """Return what tells contents apart; an upper chunk that holds none is known by what is embedded of it."""
    return chunk.content_hash if chunk.content else chunk.embedding_hash
