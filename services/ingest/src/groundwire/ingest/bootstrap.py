"""Composition root of the ingest service."""

from contextlib import suppress
from dataclasses import dataclass
from functools import partial

from google.longrunning import operations_pb2_grpc

from groundwire.api.ingest.v1 import (
    collection_service_pb2_grpc,
    ingest_service_pb2_grpc,
    maintenance_service_pb2_grpc,
    record_service_pb2_grpc,
)
from groundwire.catalog.catalog import Catalog
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.database import Database
from groundwire.ingest.changes import DocumentPurge, DocumentUpkeep
from groundwire.ingest.collections import CollectionUpkeep
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.ingest.housekeeping import Housekeeping, Job
from groundwire.ingest.index_builds import IndexBuilder, SharedRuns
from groundwire.ingest.keyed_locks import MAX_WAITING, KeyedLocks
from groundwire.ingest.parsing.parser_pool import ParserLimits, ParserPool
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.persona_file import PersonaFile
from groundwire.ingest.records import RecordUpkeep
from groundwire.ingest.servicer.batches import BatchIngest
from groundwire.ingest.servicer.calls import CallParts, Pools
from groundwire.ingest.servicer.operations import LongWork
from groundwire.ingest.servicer.put_chunks import ChunkStream
from groundwire.ingest.servicer.servicers import (
    CollectionServicer,
    IngestServicer,
    MaintenanceServicer,
    OperationsServicer,
    RecordServicer,
)
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.store_check import PointCheck, StoreCheck
from groundwire.ingest.upkeep import OUTBOX, REPEATED_CHUNKS, Upkeep
from groundwire.ingest.uploads import StagingFolder, UploadReceiver
from groundwire.ingest.writing import GenerationWriter
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.vector_store import VectorStore
from groundwire.rpc.pagination import KEY_FILE, PageTokens, load_key
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import engine_name

INGEST = "groundwire.api.ingest.v1.IngestService"
COLLECTIONS = "groundwire.api.ingest.v1.CollectionService"
MAINTENANCE = "groundwire.api.ingest.v1.MaintenanceService"
RECORDS = "groundwire.api.ingest.v1.RecordService"
OPERATIONS = "google.longrunning.Operations"
STAGING_FOLDER = "staging"
_MIB = 1 << 20
# Each look is a query, and long work can wait for seconds.
_TAKE_OVER_EVERY_S = 5.0


@dataclass(frozen=True, slots=True)
class IngestService:
    """The running service; its builder owns the catalog, engine, embedder and the threads for reads."""

    ingest: IngestServicer
    collections: CollectionServicer
    records: RecordServicer
    maintenance: MaintenanceServicer
    operations: OperationsServicer
    long_work: LongWork
    housekeeping: Housekeeping
    upkeep: Upkeep
    parser: ParserPool

    def services(self) -> list[Service]:
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
        # First: the process loads its libraries while the stores are recovered.
        self.parser.start()
        self.recover()
        self.housekeeping.start()
        # Last, because operations ingest, which needs everything else.
        self.operations.operations.resume()

    def recover(self) -> None:
        """Roll back what a crashed process left half-written, and find out what the engine has lost."""
        self.upkeep.recover()
        self.upkeep.find_lost_indexes()

    def close(self) -> None:
        """Stop the parser processes and the threads; documents being ingested fail."""
        # Operations first: what they wait for is stopped below, and that must not look like their end.
        self.operations.operations.close()
        self.long_work.builder.runs.close()
        self.parser.close()
        self.ingest.parts.pools.close()
        self.housekeeping.close()
        with suppress(GroundwireError):  # some accesses are not counted then
            self.ingest.parts.catalog.accesses.flush()


def build(
    *,
    database: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: IngestSettings,
    workers: Workers,
    signing_key: bytes | None = None,
) -> IngestService:
    """Wire up the service; nothing runs before `start()`.

    `signing_key` signs tokens; None means the key in the data folder.
    """
    catalog = Catalog(database)
    chunk_embedder = ChunkEmbedder(catalog.embeddings, embedder, settings.embed_batch_tokens)
    engine_locks = KeyedLocks(among_processes=database.exclusive)
    points = PointCheck(catalog, vectors, chunk_embedder, engine_locks)
    staging = StagingFolder(settings.staging or database.folder / STAGING_FOLDER)
    uploads = UploadReceiver(catalog.uploads, staging, settings.max_staged_bytes)
    housekeeping = Housekeeping(database.clock, settings.sweep_every_s)
    runs = SharedRuns()
    builder = IndexBuilder(catalog, vectors, chunk_embedder, runs, housekeeping.nudge)
    upkeep = Upkeep(
        catalog,
        vectors,
        points,
        engine_locks,
        uploads,
        builder,
        housekeeping.nudge,
        quiet_s=settings.scrub_after_quiet_s,
        within_s=settings.scrub_within_s,
    )
    for lane in upkeep.lanes():
        housekeeping.add(lane)
    if database.is_shared:
        # Another process takes over the unfinished work of one that stops.
        look_after = Job("operations", lambda _s, _b: long_work.operations.look_after(), every_s=_TAKE_OVER_EVERY_S)
        housekeeping.add([look_after])
    parser = ParserPool(embedder.tokenizer.definition, _parser_limits(settings), settings.parser_processes)
    slots = KeyedLocks(holders=settings.concurrent_documents)
    writer = GenerationWriter(catalog, vectors, chunk_embedder, slots, upkeep.after_loss)
    # Ingests and changes of a document exclude one another.
    sources = KeyedLocks(MAX_WAITING)
    ingest = DocumentIngest(catalog, parser, writer, sources, settings.max_document_bytes, upkeep.after_write)
    document_upkeep = DocumentUpkeep(catalog, upkeep, chunk_embedder, vectors, sources)
    record_upkeep = RecordUpkeep(catalog, document_upkeep, writer, KeyedLocks())
    collection_upkeep = CollectionUpkeep(
        catalog, vectors, engine_name(vectors), upkeep, embedder.identity, settings.max_document_bytes
    )
    if settings.persona_file is not None:
        persona = PersonaFile(
            settings.persona_file, settings.persona_collection, parser, collection_upkeep, record_upkeep
        )
        housekeeping.add([persona.job()])

    # Page tokens and consistency tokens are signed by one key, which a restart must not change.
    key = signing_key or load_key(database.folder / KEY_FILE)
    page_tokens = PageTokens(key)
    parts = CallParts(Pools.beside(workers, settings.concurrent_documents), catalog, ConsistencyTokens(key))
    sweep = partial(housekeeping.run_now, (OUTBOX, REPEATED_CHUNKS))
    long_work = LongWork(
        builder,
        StoreCheck(catalog, points, builder, vectors, runs, sweep),
        DocumentPurge(catalog, upkeep),
        ingest,
        uploads,
        parts,
        settings.max_unfinished_operations,
    )
    operations = long_work.operations
    return IngestService(
        ingest=IngestServicer(
            parts,
            ingest,
            document_upkeep,
            BatchIngest(ingest, parts),
            UploadStream(ingest, uploads, operations, parts),
            ChunkStream(ingest, staging, parts, settings.max_staged_bytes),
            long_work,
        ),
        collections=CollectionServicer(parts, collection_upkeep, page_tokens),
        records=RecordServicer(parts, record_upkeep, page_tokens),
        maintenance=MaintenanceServicer(parts, long_work, housekeeping),
        operations=OperationsServicer(parts, operations, page_tokens),
        long_work=long_work,
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
