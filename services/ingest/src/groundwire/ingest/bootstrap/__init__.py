"""Composition root of the ingest service."""

from dataclasses import dataclass

from google.longrunning import operations_pb2_grpc

from groundwire.api.ingest.v1 import collection_service_pb2_grpc, ingest_service_pb2_grpc, maintenance_service_pb2_grpc
from groundwire.catalog.collections import CollectionPositions
from groundwire.catalog.consistency_tokens import ConsistencyTokens
from groundwire.catalog.database import Database
from groundwire.catalog.generations import ExpiredGenerations
from groundwire.catalog.lexical_check import LexicalCheck
from groundwire.catalog.operations import Operations as StoredOperations
from groundwire.catalog.uploads import Uploads
from groundwire.ingest.adapters.parser_pool import ParserPool
from groundwire.ingest.adapters.staged_upload import StagingFolder
from groundwire.ingest.bootstrap.documents import ingest_document, parser_of, use_cases
from groundwire.ingest.bootstrap.foundation import Foundation
from groundwire.ingest.changes import ChangeParts, Changes
from groundwire.ingest.create_collection import CreateCollection
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.index_orphans import IndexOrphans
from groundwire.ingest.index_recovery import IndexRecovery
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.operations import OperationParts, Operations
from groundwire.ingest.read_collections import GetCollection, ListCollections
from groundwire.ingest.rebuild_index import RebuildIndex
from groundwire.ingest.receive_upload import ReceiveUpload
from groundwire.ingest.renew_words import RenewWords
from groundwire.ingest.servicer import CollectionServicer, IngestServicer, MaintenanceServicer, OperationsServicer
from groundwire.ingest.servicer.calls import Calls, UseCases
from groundwire.ingest.servicer.chunk_stream import ChunkStream
from groundwire.ingest.servicer.collection_calls import CollectionCalls, CollectionUseCases
from groundwire.ingest.servicer.long_work import LongCalls, LongWork
from groundwire.ingest.servicer.operation_calls import OperationCalls
from groundwire.ingest.servicer.pools import Pools
from groundwire.ingest.servicer.staged_ingest import StagedIngest
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.sweep_leftovers import OUTBOX, REPEATED_CHUNKS, SweepLeftovers
from groundwire.ingest.update_collection import UpdateCollection
from groundwire.ingest.wire.collections import SettingsReader
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.rpc.pagination import PageTokens, load_key
from groundwire.rpc.server import Service
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.engine_names import engine_name

INGEST = "groundwire.api.ingest.v1.IngestService"
COLLECTIONS = "groundwire.api.ingest.v1.CollectionService"
MAINTENANCE = "groundwire.api.ingest.v1.MaintenanceService"
OPERATIONS = "google.longrunning.Operations"
STAGING_FOLDER = "staging"
PAGE_TOKEN_KEY_FILE = "page-token.key"  # noqa: S105 - the name of a file
_FIND_LOST_S = 30.0
_OPERATIONS_AT_A_TIME = 16
"""Long work that is done at a time; more waits for its turn."""


@dataclass(frozen=True, slots=True)
class IngestService:
    """The running service. Catalog, engine, embedder and `workers` belong to whoever built it."""

    servicer: IngestServicer
    collection_servicer: CollectionServicer
    maintenance_servicer: MaintenanceServicer
    operations_servicer: OperationsServicer
    use_cases: UseCases
    housekeeping: Housekeeping
    sweep: SweepLeftovers
    parser: ParserPool
    pools: Pools
    operations: OperationCalls
    long_calls: LongCalls
    index_recovery: IndexRecovery
    renew_words: RenewWords

    def services(self) -> list[Service]:
        """Return what a server of this process offers."""
        return [
            Service(INGEST, self.servicer, ingest_service_pb2_grpc.add_IngestServiceServicer_to_server),
            Service(
                COLLECTIONS,
                self.collection_servicer,
                collection_service_pb2_grpc.add_CollectionServiceServicer_to_server,
            ),
            Service(
                MAINTENANCE,
                self.maintenance_servicer,
                maintenance_service_pb2_grpc.add_MaintenanceServiceServicer_to_server,
            ),
            Service(OPERATIONS, self.operations_servicer, operations_pb2_grpc.add_OperationsServicer_to_server),
        ]

    def start(self) -> None:
        """Recover, then start the parser process and the background work."""
        self.parser.start()
        self.recover()
        self.housekeeping.start()
        self.operations.resume()

    def recover(self) -> None:
        """Take back what a dead process left half written, and find out what the engine has lost meanwhile."""
        self.renew_words.begin()
        self.sweep.recover()
        self.index_recovery.find_lost(Budget(_FIND_LOST_S))

    def close(self) -> None:
        """End the parser process and the threads; a document that is being ingested fails."""
        self.operations.close()
        self.long_calls.use.runs.close()
        self.parser.close()
        self.pools.close()
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
    base = Foundation(catalog, vectors, embedder, settings, clock or SystemClock())
    parser = parser_of(base)
    receive = ReceiveUpload(Uploads(catalog), StagingFolder(base.folder / STAGING_FOLDER), settings.max_staged_bytes)
    sweep, rebuild = _sweep(base, receive), RebuildIndex(vectors, base.cache)
    # A hung engine must not keep the catalog from being tidied, nor a rebuild of minutes the points from being deleted.
    index_recovery = IndexRecovery(base.collections, base.cache, base.check_points, vectors)
    renew_words = RenewWords(LexicalCheck(catalog))
    rewriting = [rebuild.job(), base.complete_deletion.job(), renew_words.job()]
    lanes = (sweep.catalog_jobs(), sweep.engine_jobs(), rewriting, [index_recovery.job()])
    housekeeping = Housekeeping(lanes, base.clock, settings.sweep_every_s)

    def after_write(collection: Collection) -> None:
        rebuild.wrote(collection)
        housekeeping.nudge()

    ingest = ingest_document(base, parser, after_write)
    pools = Pools.beside(workers, settings.concurrent_documents)
    long_work, key = _operations(base, housekeeping), load_key(base.folder / PAGE_TOKEN_KEY_FILE)
    write_tokens = WriteTokens(CollectionPositions(base.catalog), ConsistencyTokens(key))
    staged = StagedIngest(ingest, base.remember, receive, write_tokens)
    operations = OperationCalls(
        LongWork(long_work, staged).by_method(),
        StoredOperations(catalog, base.clock),
        base.remember,
        _OPERATIONS_AT_A_TIME,
    )
    long_calls = LongCalls(long_work, staged, operations)
    changes = _changes(base, ingest, housekeeping)
    servicer = _servicer(base, changes, long_calls, pools)
    return IngestService(
        servicer,
        CollectionServicer(_collection_calls(base, changes, PageTokens(key)), pools),
        MaintenanceServicer(long_calls, housekeeping, base.deletions, pools),
        OperationsServicer(operations, pools, PageTokens(key)),
        servicer.calls.use,
        housekeeping,
        sweep,
        parser,
        pools,
        operations,
        long_calls,
        index_recovery,
        renew_words,
    )


def _servicer(base: Foundation, changes: Changes, long_calls: LongCalls, pools: Pools) -> IngestServicer:
    staged = long_calls.staged
    calls = Calls(use_cases(base, staged.ingest_document, changes), staged.write_tokens)
    return IngestServicer(
        calls,
        UploadStream(staged, pools, long_calls.operations),
        ChunkStream(calls, staged.receive.staging, pools, staged.receive.quota_bytes),
        long_calls,
        pools,
    )


def _changes(base: Foundation, ingest: IngestDocument, housekeeping: Housekeeping) -> Changes:
    return ChangeParts(
        catalog=base.catalog,
        documents=base.documents,
        apply=base.apply_outbox,
        complete=base.complete_deletion,
        embed_chunks=base.embed_chunks,
        vectors=base.vectors,
        sources=ingest.locks,
        nudge=housekeeping.nudge,
        clock=base.clock,
    ).assemble()


def _collection_calls(base: Foundation, changes: Changes, tokens: PageTokens) -> CollectionCalls:
    use = CollectionUseCases(
        create=CreateCollection(base.collections, base.vectors, base.embedder.identity, base.clock),
        get=GetCollection(base.collections),
        list=ListCollections(base.collections),
        update=UpdateCollection(base.collections),
        delete=changes.delete_collection,
        deletions=base.deletions,
        remember=base.remember,
    )
    return CollectionCalls(use, tokens, SettingsReader(base.settings.max_document_bytes), engine_name(base.vectors))


def _sweep(base: Foundation, receive: ReceiveUpload) -> SweepLeftovers:
    return SweepLeftovers(
        documents=base.documents,
        recovery=base.recovery,
        builds=base.builds,
        outbox=base.outbox,
        cache=base.cache,
        ledger=base.ledger,
        deletions=base.deletions,
        receive=receive,
        apply=base.apply_outbox,
        identity_digest=base.embedder.identity.digest,
        index_orphans=IndexOrphans(base.collections, base.duplicates, base.cache, base.vectors),
        expired=ExpiredGenerations(base.catalog),
    )


def _operations(base: Foundation, housekeeping: Housekeeping) -> Operations:
    return OperationParts(
        catalog=base.catalog,
        documents=base.documents,
        vectors=base.vectors,
        embed_chunks=base.embed_chunks,
        check_points=base.check_points,
        sweep=lambda budget: housekeeping.run_now((OUTBOX, REPEATED_CHUNKS), budget),
        nudge=housekeeping.nudge,
        clock=base.clock,
    ).assemble()
