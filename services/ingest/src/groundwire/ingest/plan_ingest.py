"""Say what ingesting a document would do, and do nothing."""

from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.ingest.domain.ingesting import IngestOutcome, IngestRequest
from groundwire.ingest.domain.planning import IngestPlan, compare
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.ingest.ports import Original
from groundwire.ingest.prepare_document import Preparation, PrepareDocument
from groundwire.ingest.skip_duplicates import SkipDuplicates
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import Document

_CHUNKS_PER_READ = 1000


@dataclass(frozen=True, slots=True)
class PlanIngest:
    """Goes the same way as an ingest up to where that begins to write; embeds nothing."""

    prepare: PrepareDocument
    skip_duplicates: SkipDuplicates
    embed_chunks: EmbedChunks
    chunks: Chunks

    def __call__(self, request: IngestRequest, original: Original, budget: Budget) -> IngestPlan:
        """Return what would be done if nothing changes until then.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the document would be refused; see its subclasses.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
        """
        under_way = self.prepare.examine(request, original, *self.prepare.admitted(request, original))
        settled = self.prepare.settled(under_way)
        if settled is not None:
            old = self._stored(request, settled.document)
            return IngestPlan(settled.outcome, settled.document, compare(old, old), ignored=settled.ignored)
        return self._changed(under_way, budget)

    def _changed(self, under_way: Preparation, budget: Budget) -> IngestPlan:
        existing = under_way.existing
        prepared = self.prepare.drafted(under_way, self.prepare.parsed(under_way, budget))
        new = self.skip_duplicates(under_way.collection, prepared.draft.document_id, prepared.draft.chunks)
        new_texts = self.embed_chunks.new_texts(under_way.collection, new)
        return IngestPlan(
            outcome=IngestOutcome.REPLACED if existing else IngestOutcome.CREATED,
            current=existing,
            chunks=compare(self._stored(under_way.request, existing) if existing else [], new),
            embedded=len(new_texts),
            embedded_tokens=sum(new_texts.values()),
            undersized=sum(chunk.undersized for chunk in new),
            beyond_model=self.embed_chunks.beyond_model(new),
            warnings=prepared.warnings,
        )

    def _stored(self, request: IngestRequest, document: Document) -> list[Chunk]:
        found: list[Chunk] = []
        after = -1
        while True:
            page = self.chunks.page(request.tenant, request.collection, document.document_id, after, _CHUNKS_PER_READ)
            found += [stored.chunk for stored in page]
            if len(page) < _CHUNKS_PER_READ:
                return found
            after = page[-1].chunk.sequence_num
