"""Write a generation of a document so that readers see all of it or nothing (design D2)."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import structlog

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.generations import GenerationDraft, IndexMovedError, PendingGeneration
from groundwire.catalog.vectors import NewVectors
from groundwire.ingest.embedding import ChunkEmbedder, EmbeddedChunks, new_texts
from groundwire.ingest.ingesting import Progress, Report, Stage
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection, DuplicateChunkPolicy
from groundwire.kernel.errors import CollectionNotFoundError, EmbeddingMismatchError, GroundwireError
from groundwire.kernel.latencies import Step
from groundwire.kernel.vector_store import PointBatch, Recoverable, VectorStore

_log = structlog.get_logger(__name__)

MAX_INDEX_MOVES = 3
"""How often a write starts over because the index was rebuilt under it; a rebuild takes longer than a write."""
POINTS_PER_WRITE = 250
"""A write to an engine syncs the disk once (ADR 0011), and cancelling takes effect between two of them.

Embedded Chroma holds the interpreter lock about 0.4 ms a record (design D9b).
"""


T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Written:
    """Generations that can be published, with their chunks in order.

    `vectors` are those that the catalog does not have yet, `new_texts` the hashes of texts that were new. The
    model does not read to the end of `beyond_model` chunks.
    """

    pending: Sequence[PendingGeneration] = ()
    chunks: Sequence[Chunk] = ()
    vectors: NewVectors | None = None
    new_texts: frozenset[str] = frozenset()
    beyond_model: int = 0


@dataclass(frozen=True, slots=True)
class GenerationWriter:
    """Rows first, then vectors, then one transaction that makes it visible; any failure takes it all back.

    The last vectors come into the catalog with the transaction that makes the chunks visible. Each of the `slots`
    stands for a generation with its vectors in memory. `lost` gets the name of an engine collection that a server has
    lost, to have the index built anew.
    """

    catalog: Catalog
    vectors: VectorStore
    embedder: ChunkEmbedder
    slots: KeyedLocks
    lost: Callable[[str], None]

    def write(
        self,
        collection: Collection,
        drafts: Sequence[GenerationDraft],
        publish: Callable[[Written], T],
        budget: Budget,
        report: Report = lambda _: None,
    ) -> T:
        """Return what `publish` makes of generations of different documents that are written, with their points.

        Raises:
            ConflictError: the index of the collection was rebuilt again and again meanwhile.
            UnavailableError: the model or the vector store does not answer.
            GroundwireError: whatever `publish` raises; nothing of the generations stays then.
        """
        with self.slots.hold(("generation",), budget):
            drafts = [
                replace(
                    draft,
                    # Of equal records each is found in its scope.
                    chunks=draft.chunks
                    if draft.fields.record is not None
                    else self._without_repeated(collection, draft.document_id, draft.chunks),
                    tokenizer=self.embedder.embedder.tokenizer.name,
                )
                for draft in drafts
            ]
            chunks = [chunk for draft in drafts for chunk in draft.chunks]
            # Counted before its own chunks are in the catalog: they would make every text a known one.
            stored = self.embedder.stored_times(collection, chunks)
            known = {name: made for name, made in stored.items() if made is not None}
            new = frozenset(new_texts(chunks, known))
            with Step("ingest.begin"):
                pending = self.catalog.documents.begin(collection, drafts, known)
            try:
                total = len(chunks)
                with Step("ingest.embed"):
                    embedded = self.embedder.embed(
                        chunks, budget, lambda done: report(Progress(Stage.EMBEDDING, done, total)), stored
                    )
                moves = 0
                while True:
                    try:
                        with Step("ingest.upsert"):
                            self._upsert(pending, chunks, embedded, budget, report)
                        budget.check()  # the last moment: what is published stays, even if the caller has left
                        with Step("ingest.publish"):
                            return publish(Written(pending, chunks, embedded.unstored, new, embedded.beyond_model))
                    except (IndexMovedError, CollectionNotFoundError):
                        moves += 1
                        if moves == MAX_INDEX_MOVES:
                            raise
                        moved = self.catalog.index_builds.follow(pending[0].collection)
                        if moved.identity != collection.identity:  # our vectors would have to be computed anew
                            expected, got = moved.identity.model_name, collection.identity.model_name
                            message = f"collection {moved.name!r} has since been embedded again by {expected}"
                            raise EmbeddingMismatchError(message, expected=expected, got=got) from None
                        pending = [replace(each, collection=moved) for each in pending]
            except BaseException:
                for each in pending:
                    try:
                        self.catalog.documents.abandon(each)
                    except GroundwireError as error:
                        # The failure that led here counts; the sweeper takes the rows back.
                        _log.warning("a generation stays pending", document_id=each.document_id, error=error.message)
                raise

    def _without_repeated(
        self, collection: Collection, document_id: str | None, chunks: Sequence[Chunk]
    ) -> list[Chunk]:
        """Return the chunks, those that repeat an earlier one with `indexed` false if the collection wants it (C06).

        Two documents that are ingested at the same time do not know of each other: both are indexed.
        """
        seen: set[str]
        match collection.settings.duplicate_chunks:
            case DuplicateChunkPolicy.KEEP:
                return list(chunks)
            case DuplicateChunkPolicy.SKIP_IN_DOCUMENT:
                seen = set()
            case DuplicateChunkPolicy.SKIP_IN_COLLECTION:
                seen = self.catalog.duplicates.indexed(
                    collection, document_id, [chunk.content_hash for chunk in chunks]
                )
        marked = []
        for chunk in chunks:
            repeats = not chunk.upper and chunk.content_hash in seen
            marked.append(replace(chunk, indexed=False) if repeats else chunk)
            if not chunk.upper:
                seen.add(chunk.content_hash)
        return marked

    def _upsert(
        self,
        pending: Sequence[PendingGeneration],
        chunks: Sequence[Chunk],
        embedded: EmbeddedChunks,
        budget: Budget,
        report: Report,
    ) -> None:
        collection = pending[0].collection
        every_number = [number for each in pending for number in each.numbers]
        every_payload = [payload for each in pending for payload in each.payloads]
        indexed = [row for row, chunk in enumerate(chunks) if chunk.indexed]
        total = len(indexed)
        for start in range(0, total, POINTS_PER_WRITE):
            budget.check()
            rows = indexed[start : start + POINTS_PER_WRITE]
            numbers, payloads = [every_number[row] for row in rows], [every_payload[row] for row in rows]
            points = PointBatch(numbers, embedded.vectors[rows], payloads)
            try:
                self.vectors.upsert(collection.engine_name, points, budget)
            except CollectionNotFoundError:
                chunk_count = self.catalog.collections.counts(collection.tenant, collection.name).chunks
                if chunk_count and not isinstance(self.vectors, Recoverable):
                    # Made again under its name, it would be searched with these points alone. It is built beside, from
                    # the catalog, and so with these.
                    self.lost(collection.engine_name)
                    return
                self.vectors.create_collection(collection.engine_name, collection.identity.dimensions, budget)
                self.vectors.upsert(collection.engine_name, points, budget)
            report(Progress(Stage.WRITING, min(start + POINTS_PER_WRITE, total), total))
