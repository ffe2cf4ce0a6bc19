"""Write a generation of a document so that readers see all of it or nothing (design D2)."""

from collections.abc import Callable
from dataclasses import dataclass, replace

import structlog

from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft, IndexMovedError, PendingGeneration
from groundwire.catalog.idempotency import Receipt
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.ingest.domain.ingesting import IngestOutcome, IngestResult, Progress, Report, Stage
from groundwire.ingest.embed_chunks import EmbedChunks, EmbeddedChunks
from groundwire.ingest.keyed_locks import Slots
from groundwire.ingest.skip_duplicates import SkipDuplicates
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import CollectionNotFoundError, EmbeddingMismatchError, GroundwireError
from groundwire.kernel.vector_store import PointBatch, VectorStore

_log = structlog.get_logger(__name__)

MAX_INDEX_MOVES = 3
"""So often a write follows an index that is rebuilt under it; each rebuilding takes longer than the write."""
POINTS_PER_UPSERT = 250
"""Embedded Chroma holds the interpreter lock about 0.4 ms a record (design D9b)."""


@dataclass(frozen=True, slots=True)
class WriteGeneration:
    """Rows first, then vectors, then one transaction that makes it visible; any failure takes it all back.

    The last vectors come into the catalog with the transaction that makes the chunks visible.

    `tokenizer` is the name of the counter of tokens. Each of the `slots` stands for a generation with its vectors in
    memory.
    """

    documents: Documents
    builds: IndexBuilds
    vectors: VectorStore
    embed_chunks: EmbedChunks
    skip_duplicates: SkipDuplicates
    tokenizer: str
    slots: Slots

    def __call__(
        self,
        collection: Collection,
        draft: GenerationDraft,
        budget: Budget,
        report: Report,
        receipt: Callable[[IngestResult], Receipt] | None,
    ) -> IngestResult:
        """Return the document as published.

        Raises:
            DocumentChangedError: someone else changed the document meanwhile.
            ConflictError: the index of the collection was rebuilt again and again meanwhile.
            UnavailableError: the model or the vector store does not answer.
        """
        with self.slots.hold(budget):
            return self._write(collection, draft, budget, report, receipt)

    def _write(
        self,
        collection: Collection,
        draft: GenerationDraft,
        budget: Budget,
        report: Report,
        receipt: Callable[[IngestResult], Receipt] | None,
    ) -> IngestResult:
        chunks = self.skip_duplicates(collection, draft.document_id, draft.chunks)
        draft = replace(draft, chunks=chunks, tokenizer=self.tokenizer)
        new_texts = len(self.embed_chunks.new_texts(collection, chunks))  # before its own chunks are there
        pending = self.documents.begin(collection.tenant, collection, draft)
        try:
            total = len(draft.chunks)
            embedded = self.embed_chunks.all_but_last(
                draft.chunks, budget, lambda done: report(Progress(Stage.EMBEDDING, done, total))
            )
            for _ in range(MAX_INDEX_MOVES - 1):
                try:
                    return self._make_visible(pending, draft, embedded, new_texts, budget, report, receipt)
                except (IndexMovedError, CollectionNotFoundError):
                    moved = self.builds.follow(pending.collection)
                    pending = replace(pending, collection=_same_model(moved, collection))
            return self._make_visible(pending, draft, embedded, new_texts, budget, report, receipt)
        except BaseException:
            self._abandon(pending)
            raise

    def _make_visible(
        self,
        pending: PendingGeneration,
        draft: GenerationDraft,
        embedded: EmbeddedChunks,
        new_texts: int,
        budget: Budget,
        report: Report,
        receipt: Callable[[IngestResult], Receipt] | None,
    ) -> IngestResult:
        self._upsert(pending, draft, embedded, budget, report)
        budget.check()
        return self._publish(pending, draft, embedded, new_texts, receipt)

    def _abandon(self, pending: PendingGeneration) -> None:
        try:
            self.documents.abandon(pending)
        except GroundwireError as error:
            # The failure that led here counts; the sweeper takes the rows back.
            _log.warning("a generation stays pending", document_id=pending.document_id, error=error.message)

    def _upsert(
        self,
        pending: PendingGeneration,
        draft: GenerationDraft,
        embedded: EmbeddedChunks,
        budget: Budget,
        report: Report,
    ) -> None:
        collection = pending.collection
        self.vectors.create_collection(collection.engine_name, collection.identity.dimensions, budget)
        indexed = [row for row, chunk in enumerate(draft.chunks) if chunk.indexed]
        total = len(indexed)
        for start in range(0, total, POINTS_PER_UPSERT):
            budget.check()
            rows = indexed[start : start + POINTS_PER_UPSERT]
            numbers, payloads = [pending.numbers[row] for row in rows], [pending.payloads[row] for row in rows]
            points = PointBatch(numbers, embedded.vectors[rows], payloads)
            self.vectors.upsert(collection.engine_name, points, budget)
            report(Progress(Stage.WRITING, min(start + POINTS_PER_UPSERT, total), total))

    def _publish(
        self,
        pending: PendingGeneration,
        draft: GenerationDraft,
        embedded: EmbeddedChunks,
        new_texts: int,
        receipt: Callable[[IngestResult], Receipt] | None,
    ) -> IngestResult:
        def result_of(document: Document) -> IngestResult:
            return IngestResult(
                document=document,
                outcome=IngestOutcome.REPLACED if pending.expected_generation else IngestOutcome.CREATED,
                embedded=new_texts,
                reused=len(draft.chunks) - new_texts,
                undersized=sum(chunk.undersized for chunk in draft.chunks),
                beyond_model=embedded.beyond_model,
                skipped=sum(not (chunk.indexed or chunk.upper) for chunk in draft.chunks),
            )

        remember = None if receipt is None else lambda document: receipt(result_of(document))
        return result_of(self.documents.publish(pending, remember, embedded.unstored))


def _same_model(moved: Collection, collection: Collection) -> Collection:
    """Return the collection as it is now, if its vectors are still of the model that made ours."""
    if moved.identity != collection.identity:
        expected, got = moved.identity.model_name, collection.identity.model_name
        message = f"collection {moved.name!r} was embedded anew by {expected} meanwhile"
        raise EmbeddingMismatchError(message, expected=expected, got=got)
    return moved
