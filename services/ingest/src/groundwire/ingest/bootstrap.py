"""Composition root of the ingest service."""

from contextlib import suppress
from dataclasses import dataclass

from google.longrunning import operations_pb2_grpc

from groundwire.api.ingest.v1 import (
    collection_service_pb2_grpc,
    ingest_service_pb2_grpc,
    maintenance_service_pb2_grpc,
    record_service_pb2_grpc,
)
from groundwire.catalog.changes import DocumentChanges
from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collections import Collections
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.database import Database
from groundwire.catalog.deletions import Deletions
from groundwire.catalog.documents import Documents
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.generations import ExpiredGenerations, Recovery
from groundwire.catalog.idempotency import Ledger
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.inspection import BookkeepingInspection, Integrity, PointInspection, TextInspection
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.catalog.operations import Operations
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.records import RecordAccesses, Records
from groundwire.catalog.soft_deletes import SoftDeletes
from groundwire.catalog.texts import Sources
from groundwire.catalog.uploads import Uploads
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.changes import DocumentUpkeep
from groundwire.ingest.collections import CollectionUpkeep
from groundwire.ingest.contradicting import ContradictionFinder
from groundwire.ingest.deletions import DeletionCompleter
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.ingest.engine_upkeep import EngineTasks, IndexRecovery, RepeatedChunks, StaleIndexes
from groundwire.ingest.housekeeping import Housekeeping, Job
from groundwire.ingest.housekeeping_jobs import OUTBOX, REPEATED_CHUNKS, Upkeep, WordRenewal
from groundwire.ingest.index_builds import IndexBuilder
from groundwire.ingest.keyed_locks import MAX_WAITING, KeyedLocks, Slots
from groundwire.ingest.parsing.parser_pool import ParserPool
from groundwire.ingest.parsing.parser_process import ParserLimits
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.persona_file import PersonaFile
from groundwire.ingest.point_check import AnswerCheck, PointCheck
from groundwire.ingest.preparing import DocumentPreparer
from groundwire.ingest.purging import DocumentPurge
from groundwire.ingest.records import RecordUpkeep
from groundwire.ingest.servicer.batches import BatchIngest
from groundwire.ingest.servicer.calls import CallParts, ExactlyOnce, Pools, WriteTokens
from groundwire.ingest.servicer.chunk_stream import ChunkStream
from groundwire.ingest.servicer.collection_calls import CollectionServicer
from groundwire.ingest.servicer.ingest_calls import IngestServicer
from groundwire.ingest.servicer.long_work import LongUseCases, LongWork
from groundwire.ingest.servicer.maintenance_calls import MaintenanceServicer, OperationsServicer
from groundwire.ingest.servicer.operation_runner import OperationRunner
from groundwire.ingest.servicer.record_calls import RecordServicer
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.shared_runs import SharedRuns
from groundwire.ingest.store_check import CatalogCheck, EngineCheck, StoreCheck
from groundwire.ingest.uploads import StagingFolder, UploadReceiver
from groundwire.ingest.writing import GenerationWriter
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.vector_store import VectorStore
from groundwire.rpc.pagination import PageTokens, load_key
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import engine_name

INGEST = "groundwire.api.ingest.v1.IngestService"
COLLECTIONS = "groundwire.api.ingest.v1.CollectionService"
MAINTENANCE = "groundwire.api.ingest.v1.MaintenanceService"
RECORDS = "groundwire.api.ingest.v1.RecordService"
OPERATIONS = "google.longrunning.Operations"
STAGING_FOLDER = "staging"
PAGE_TOKEN_KEY_FILE = "page-token.key"  # noqa: S105 - the name of a file
_MIB = 1 << 20
_TAKE_OVER_EVERY_S = 5.0
_OPERATIONS_AT_A_TIME = 16
"""Long work that is done at a time; more waits for its turn."""


@dataclass(frozen=True, slots=True)
class IngestService:
    """The running service. Catalog, engine, embedder and the threads of the reads belong to whoever built it."""

    ingest: IngestServicer
    collections: CollectionServicer
    records: RecordServicer
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
            Service(RECORDS, self.records, record_service_pb2_grpc.add_RecordServiceServicer_to_server),
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
        with suppress(GroundwireError):  # some accesses are not counted then
            self.records.records.accesses.flush()


@dataclass(frozen=True, slots=True)
class _Core:
    """What several parts of the service share.

    Other aggregates of the catalog are made where they are used, as they hold nothing but the catalog. `documents` is
    one object because it knows which generations are being written, `tasks` because it has the locks of the engine
    collections, and `sources` because ingests and changes of a document exclude one another.
    """

    catalog: Database
    vectors: VectorStore
    settings: IngestSettings
    clock: Clock
    collections: Collections
    documents: Documents
    cache: VectorCache
    embedder: ChunkEmbedder
    tasks: EngineTasks
    completer: DeletionCompleter
    points: PointCheck
    uploads: UploadReceiver
    sources: KeyedLocks
    accesses: RecordAccesses


def build(
    *,
    catalog: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: IngestSettings,
    workers: Workers,
    clock: Clock | None = None,
    signing_key: bytes | None = None,
) -> IngestService:
    """Wire the service up; nothing runs before `start()`.

    `signing_key` is that of the tokens, None for one in the data folder.
    """
    core = _core(catalog, vectors, embedder, settings, clock or SystemClock())
    upkeep = _upkeep(core)
    # Where several processes share a catalog, what one of them leaves behind is taken over by another one.
    of_others = [Job("operations", lambda _s, _b: operations.look_after(), every_s=_TAKE_OVER_EVERY_S)]
    lanes = [*upkeep.lanes(), of_others] if catalog.is_shared else upkeep.lanes()
    housekeeping = Housekeeping(lanes, core.clock, settings.sweep_every_s)
    parser = ParserPool(embedder.tokenizer.definition, _parser_limits(settings), settings.parser_processes)
    ingest = _document_ingest(core, parser, upkeep.stale, housekeeping)
    # Page tokens and consistency tokens are signed by one key, which a restart must not change.
    key = signing_key or load_key(catalog.folder / PAGE_TOKEN_KEY_FILE)
    page_tokens = PageTokens(key)
    parts = CallParts(
        Pools.beside(workers, settings.concurrent_documents),
        ExactlyOnce(Ledger(catalog)),
        WriteTokens(core.collections, ConsistencyTokens(key)),
        Deletions(catalog),
    )
    use = _long_use_cases(core, ingest, parts, housekeeping)
    operations = OperationRunner(
        use.by_method(),
        Operations(catalog, core.clock),
        parts.once,
        _OPERATIONS_AT_A_TIME,
        settings.max_unfinished_operations,
    )
    long_work, document_upkeep = LongWork(use, operations), _document_upkeep(core, housekeeping)
    collections = _collection_upkeep(core, housekeeping)
    records = _record_upkeep(core, ingest, document_upkeep)
    if settings.persona_file is not None:
        persona = PersonaFile(settings.persona_file, settings.persona_collection, parser, collections, records)
        housekeeping.add([persona.job()])
    return IngestService(
        ingest=IngestServicer(
            parts,
            ingest,
            document_upkeep,
            BatchIngest(ingest, parts),
            UploadStream(ingest, core.uploads, operations, parts),
            ChunkStream(ingest, core.uploads.staging, parts, settings.max_staged_bytes),
            records.records,
            long_work,
        ),
        collections=CollectionServicer(
            parts,
            collections,
            page_tokens,
        ),
        records=RecordServicer(parts, records, page_tokens),
        maintenance=MaintenanceServicer(parts, long_work, housekeeping),
        operations=OperationsServicer(parts, operations, page_tokens),
        use=use,
        housekeeping=housekeeping,
        upkeep=upkeep,
        parser=parser,
    )


def _core(catalog: Database, vectors: VectorStore, embedder: Embedder, settings: IngestSettings, clock: Clock) -> _Core:
    collections, cache = Collections(catalog, clock), VectorCache(catalog, clock)
    chunk_embedder = ChunkEmbedder(cache, embedder, settings.embed_batch_tokens)
    tasks = EngineTasks(collections, Outbox(catalog), cache, vectors, KeyedLocks(among_processes=catalog.exclusive))
    staging = StagingFolder(settings.staging or catalog.folder / STAGING_FOLDER)
    return _Core(
        catalog=catalog,
        vectors=vectors,
        settings=settings,
        clock=clock,
        collections=collections,
        documents=Documents(catalog, clock),
        cache=cache,
        embedder=chunk_embedder,
        tasks=tasks,
        completer=DeletionCompleter(
            tasks,
            Deletions(catalog),
            vectors,
            clock,
            quiet_s=settings.scrub_after_quiet_s,
            within_s=settings.scrub_within_s,
        ),
        points=PointCheck(PointInspection(catalog), cache, vectors, chunk_embedder, tasks.engines),
        uploads=UploadReceiver(Uploads(catalog), staging, settings.max_staged_bytes),
        sources=KeyedLocks(MAX_WAITING),
        accesses=RecordAccesses(catalog, clock),
    )


def _upkeep(core: _Core) -> Upkeep:
    catalog = core.catalog
    return Upkeep(
        documents=core.documents,
        recovery=Recovery(catalog),
        builds=IndexBuilds(catalog, core.clock),
        cache=core.cache,
        ledger=Ledger(catalog),
        deletions=Deletions(catalog),
        expired=ExpiredGenerations(catalog),
        uploads=core.uploads,
        tasks=core.tasks,
        repeated=RepeatedChunks(core.collections, DuplicateChunks(catalog), core.cache, core.vectors),
        stale=StaleIndexes(core.vectors, core.cache),
        completer=core.completer,
        index_recovery=IndexRecovery(core.collections, core.cache, core.points, core.vectors),
        words=WordRenewal(LexicalCheck(catalog)),
        accesses=core.accesses,
        identity_digest=core.embedder.embedder.identity.digest,
    )


def _document_ingest(
    core: _Core, parser: ParserPool, stale: StaleIndexes, housekeeping: Housekeeping
) -> DocumentIngest:
    model = core.embedder.embedder

    def after_write(collection: Collection) -> None:
        stale.wrote(collection)
        housekeeping.nudge()

    return DocumentIngest(
        DocumentPreparer(
            core.collections,
            core.documents,
            Sources(core.catalog),
            parser,
            model.identity,
            core.settings.max_document_bytes,
        ),
        GenerationWriter(
            core.documents,
            DuplicateChunks(core.catalog),
            IndexBuilds(core.catalog, core.clock),
            core.vectors,
            core.embedder,
            model.tokenizer.name,
            Slots(core.settings.concurrent_documents),
        ),
        core.sources,
        Chunks(core.catalog),
        core.cache,
        model.tokenizer,
        after_write,
    )


def _document_upkeep(core: _Core, housekeeping: Housekeeping) -> DocumentUpkeep:
    return DocumentUpkeep(
        collections=core.collections,
        documents=core.documents,
        changes=DocumentChanges(core.catalog, core.clock),
        soft_deletes=SoftDeletes(core.catalog, core.clock),
        tasks=core.tasks,
        completer=core.completer,
        embedder=core.embedder,
        vectors=core.vectors,
        sources=core.sources,
        after_write=housekeeping.nudge,
    )


def _record_upkeep(core: _Core, ingest: DocumentIngest, upkeep: DocumentUpkeep) -> RecordUpkeep:
    records = Records(core.catalog, core.clock)
    return RecordUpkeep(
        core.collections,
        core.documents,
        records,
        core.accesses,
        ingest.chunks,
        upkeep,
        ingest.writer,
        ContradictionFinder(records, ingest.writer.embedder, ingest.writer.vectors),
        KeyedLocks(),
        core.clock,
        ingest.after_write,
    )


def _collection_upkeep(core: _Core, housekeeping: Housekeeping) -> CollectionUpkeep:
    return CollectionUpkeep(
        core.collections,
        core.vectors,
        engine_name(core.vectors),
        core.completer,
        core.embedder.embedder.identity,
        core.settings.max_document_bytes,
        core.clock,
        housekeeping.nudge,
    )


def _long_use_cases(core: _Core, ingest: DocumentIngest, parts: CallParts, housekeeping: Housekeeping) -> LongUseCases:
    catalog, full_text, runs = core.catalog, LexicalCheck(core.catalog), SharedRuns()
    builder = IndexBuilder(
        core.collections,
        IndexBuilds(catalog, core.clock),
        core.cache,
        full_text,
        core.vectors,
        core.embedder,
        runs,
        housekeeping.nudge,
    )
    of_catalog = CatalogCheck(
        integrity=Integrity(catalog),
        full_text=full_text,
        bookkeeping=BookkeepingInspection(catalog),
        recovery=Recovery(catalog),
        documents=core.documents,
        sweep=lambda budget: housekeeping.run_now((OUTBOX, REPEATED_CHUNKS), budget),
    )
    answers = AnswerCheck(core.points.inspection, core.vectors)
    of_engine = EngineCheck(core.collections, TextInspection(catalog), core.points, answers, builder, core.vectors)
    check = StoreCheck(core.collections, of_catalog, of_engine, runs)
    purge = DocumentPurge(core.collections, core.documents, Chunks(catalog), housekeeping.nudge)
    return LongUseCases(builder, check, purge, ingest, core.uploads, parts)


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
