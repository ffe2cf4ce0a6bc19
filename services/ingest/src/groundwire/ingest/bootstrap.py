"""Composition root of the ingest service."""

from dataclasses import dataclass

from google.longrunning import operations_pb2_grpc

from groundwire.api.ingest.v1 import collection_service_pb2_grpc, ingest_service_pb2_grpc, maintenance_service_pb2_grpc
from groundwire.catalog.changes import DocumentChanges
from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import CollectionPositions, Collections
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.database import Database
from groundwire.catalog.deletions import Deletions, Leftovers
from groundwire.catalog.documents import Documents
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.generations import ExpiredGenerations, Recovery
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.inspection import BookkeepingInspection, Integrity, PointInspection, TextInspection
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.catalog.operations import Operations
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.soft_deletes import SoftDeletes
from groundwire.catalog.texts import Sources
from groundwire.catalog.uploads import Uploads
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.changes import DocumentUpkeep
from groundwire.ingest.collections import CollectionUpkeep
from groundwire.ingest.deletions import DeletionCompleter
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.ingest.engine_upkeep import EngineTasks, IndexRecovery, RepeatedChunks, StaleIndexes
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.housekeeping_jobs import OUTBOX, REPEATED_CHUNKS, Upkeep, WordRenewal
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.keyed_locks import MAX_WAITING, KeyedLocks, Slots
from groundwire.ingest.parsing.parser_pool import ParserPool
from groundwire.ingest.parsing.parser_process import ParserLimits
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.point_check import AnswerCheck, PointCheck
from groundwire.ingest.preparing import DocumentPreparer
from groundwire.ingest.purging import DocumentPurge
from groundwire.ingest.servicer.batches import BatchIngest
from groundwire.ingest.servicer.calls import CallParts, ExactlyOnce, Pools, WriteTokens
from groundwire.ingest.servicer.chunk_stream import ChunkStream
from groundwire.ingest.servicer.collection_calls import CollectionServicer
from groundwire.ingest.servicer.ingest_calls import IngestServicer
from groundwire.ingest.servicer.long_work import LongUseCases, LongWork
from groundwire.ingest.servicer.maintenance_calls import MaintenanceServicer, OperationsServicer
from groundwire.ingest.servicer.operation_runner import OperationRunner
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.ingest.store_check import CatalogCheck, EngineCheck, StoreCheck
from groundwire.ingest.uploads import StagingFolder, UploadReceiver
from groundwire.ingest.wire.collections import SettingsReader
from groundwire.ingest.writing import GenerationWriter
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.rpc.pagination import PageTokens, load_key
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import engine_name

INGEST = "groundwire.api.ingest.v1.IngestService"
COLLECTIONS = "groundwire.api.ingest.v1.CollectionService"
MAINTENANCE = "groundwire.api.ingest.v1.MaintenanceService"
OPERATIONS = "google.longrunning.Operations"
STAGING_FOLDER = "staging"
PAGE_TOKEN_KEY_FILE = "page-token.key"  # noqa: S105 - the name of a file
_MIB = 1 << 20
_OPERATIONS_AT_A_TIME = 16
"""Long work that is done at a time; more waits for its turn."""


@dataclass(frozen=True, slots=True)
class IngestService:
    """The running service. Catalog, engine, embedder and the threads of the reads belong to whoever built it."""

    ingest: IngestServicer
    collections: CollectionServicer
    maintenance: MaintenanceServicer
    operations: OperationsServicer
    use: LongUseCases
    housekeeping: Housekeeping
    upkeep: Upkeep
    parser: ParserPool

    def services(self) -> list[Service]:
        """Return what a server of this process offers."""
        add_collections = collection_service_pb2_grpc.add_CollectionServiceServicer_to_server
        add_maintenance = maintenance_service_pb2_grpc.add_MaintenanceServiceServicer_to_server
        return [
            Service(INGEST, self.ingest, ingest_service_pb2_grpc.add_IngestServiceServicer_to_server),
            Service(COLLECTIONS, self.collections, add_collections),
            Service(MAINTENANCE, self.maintenance, add_maintenance),
            Service(OPERATIONS, self.operations, operations_pb2_grpc.add_OperationsServicer_to_server),
        ]

    def start(self) -> None:
        """Recover, then start the parser process and the background work."""
        self.parser.start()
        self.recover()
        self.housekeeping.start()
        self.operations.operations.resume()

    def recover(self) -> None:
        """Take back what a dead process left half written, and find out what the engine has lost meanwhile."""
        self.upkeep.recover()
        self.upkeep.find_lost_indexes()

    def close(self) -> None:
        """End the parser process and the threads; a document that is being ingested fails."""
        # Operations first: what they wait for is stopped below, and that must not look like their end.
        self.operations.operations.close()
        self.use.builder.runs.close()
        self.parser.close()
        self.ingest.parts.pools.close()
        self.housekeeping.close()


def build(
    *,
    catalog: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: IngestSettings,
    workers: Workers,
    clock: Clock | None = None,
) -> IngestService:
    """Wire the service up; nothing runs before `start()`."""
    clock, folder = clock or SystemClock(), catalog.path.resolve().parent
    collections, cache, ledger = Collections(catalog, clock), VectorCache(catalog, clock), Ledger(catalog)
    documents = Documents(catalog, clock)  # one object, because it knows which generations are being written
    deletions, duplicates, recovery = Deletions(catalog), DuplicateChunks(catalog), Recovery(catalog)
    builds, full_text, inspection = IndexBuilds(catalog, clock), LexicalCheck(catalog), PointInspection(catalog)
    chunks = Chunks(catalog)

    # What housekeeping does, and calls do at once where the engine lets them.
    chunk_embedder = ChunkEmbedder(cache, embedder, settings.embed_batch_tokens)
    tasks = EngineTasks(collections, Outbox(catalog), cache, vectors, KeyedLocks())
    completer = DeletionCompleter(
        tasks,
        deletions,
        Leftovers(catalog),
        vectors,
        clock,
        quiet_s=settings.scrub_after_quiet_s,
        within_s=settings.scrub_within_s,
    )
    points = PointCheck(inspection, cache, vectors, chunk_embedder, tasks.engines)
    uploads = UploadReceiver(Uploads(catalog), StagingFolder(folder / STAGING_FOLDER), settings.max_staged_bytes)
    stale = StaleIndexes(vectors, cache)
    upkeep = Upkeep(
        documents=documents,
        recovery=recovery,
        builds=builds,
        cache=cache,
        ledger=ledger,
        deletions=deletions,
        expired=ExpiredGenerations(catalog),
        uploads=uploads,
        tasks=tasks,
        repeated=RepeatedChunks(collections, duplicates, cache, vectors),
        stale=stale,
        completer=completer,
        index_recovery=IndexRecovery(collections, cache, points, vectors),
        words=WordRenewal(full_text),
        identity_digest=embedder.identity.digest,
    )
    housekeeping = Housekeeping(upkeep.lanes(), clock, settings.sweep_every_s)

    def after_write(collection: Collection) -> None:
        stale.wrote(collection)
        housekeeping.nudge()

    # Documents.
    parser = ParserPool(embedder.tokenizer.definition, _parser_limits(settings), settings.parser_processes)
    preparer = DocumentPreparer(
        collections, documents, Sources(catalog), parser, embedder.identity, settings.max_document_bytes
    )
    writer = GenerationWriter(
        documents,
        duplicates,
        builds,
        vectors,
        chunk_embedder,
        embedder.tokenizer.name,
        Slots(settings.concurrent_documents),
    )
    sources = KeyedLocks(MAX_WAITING)
    ingest = DocumentIngest(preparer, writer, sources, chunks, cache, embedder.tokenizer, after_write)
    changes = DocumentUpkeep(
        collections=collections,
        documents=documents,
        changes=DocumentChanges(catalog, clock),
        soft_deletes=SoftDeletes(catalog, clock),
        tasks=tasks,
        completer=completer,
        embedder=chunk_embedder,
        vectors=vectors,
        sources=sources,
        after_write=housekeeping.nudge,
    )

    # Long work.
    runs = SharedRuns()
    builder = IndexBuilder(collections, builds, cache, full_text, vectors, chunk_embedder, runs, housekeeping.nudge)
    check = StoreCheck(
        collections,
        CatalogCheck(
            integrity=Integrity(catalog),
            full_text=full_text,
            bookkeeping=BookkeepingInspection(catalog),
            recovery=recovery,
            documents=documents,
            sweep=lambda budget: housekeeping.run_now((OUTBOX, REPEATED_CHUNKS), budget),
        ),
        EngineCheck(collections, TextInspection(catalog), points, AnswerCheck(inspection, vectors), builder, vectors),
        runs,
    )
    purge = DocumentPurge(collections, documents, chunks, housekeeping.nudge)

    # Calls.
    key = load_key(folder / PAGE_TOKEN_KEY_FILE)
    tokens = PageTokens(key)
    pools = Pools.beside(workers, settings.concurrent_documents)
    write_tokens = WriteTokens(CollectionPositions(catalog), ConsistencyTokens(key))
    parts = CallParts(pools, ExactlyOnce(ledger), write_tokens, deletions)
    use = LongUseCases(builder, check, purge, ingest, uploads, parts)
    operations = OperationRunner(
        use.by_method(),
        Operations(catalog, clock),
        parts.once,
        _OPERATIONS_AT_A_TIME,
        settings.max_unfinished_operations,
    )
    long_work = LongWork(use, operations)
    return IngestService(
        ingest=IngestServicer(
            parts,
            ingest,
            changes,
            BatchIngest(ingest, parts),
            UploadStream(ingest, uploads, operations, parts),
            ChunkStream(ingest, uploads.staging, parts, settings.max_staged_bytes),
            long_work,
        ),
        collections=CollectionServicer(
            parts,
            CollectionUpkeep(
                collections,
                vectors,
                engine_name(vectors),
                completer,
                embedder.identity,
                settings.max_document_bytes,
                clock,
                housekeeping.nudge,
            ),
            tokens,
            SettingsReader(settings.max_document_bytes),
        ),
        maintenance=MaintenanceServicer(parts, long_work, housekeeping),
        operations=OperationsServicer(parts, operations, tokens),
        use=use,
        housekeeping=housekeeping,
        upkeep=upkeep,
        parser=parser,
    )


def _parser_limits(settings: IngestSettings) -> ParserLimits:
    return ParserLimits(
        base_s=settings.parser_base_s,
        s_per_mib=settings.parser_s_per_mib,
        memory_base_bytes=settings.parser_memory_base_mib * _MIB,
        memory_per_byte=settings.parser_memory_per_byte,
        memory_bytes=settings.parser_memory_mib * _MIB,
        stall_s=settings.parser_stall_s,
        reading=ReadingLimits(
            zip_entries=settings.parser_zip_entries,
            inflated_bytes=settings.parser_inflated_mib * _MIB,
            zip_ratio=settings.parser_zip_ratio,
            pages=settings.parser_pages,
        ),
    )
