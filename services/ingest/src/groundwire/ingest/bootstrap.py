"""Composition root of the ingest service."""

from dataclasses import dataclass

from groundwire.catalog.chunks import Chunks
from groundwire.catalog.collection_positions import CollectionPositions
from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.duplicate_chunks import DuplicateChunks
from groundwire.catalog.expired_generations import ExpiredGenerations
from groundwire.catalog.index_builds import IndexBuilds
from groundwire.catalog.ledger import Ledger
from groundwire.catalog.outbox import Outbox
from groundwire.catalog.recovery import Recovery
from groundwire.catalog.sources import Sources
from groundwire.catalog.texts import Texts
from groundwire.catalog.uploads import Uploads
from groundwire.catalog.vectors import VectorCache
from groundwire.ingest.adapters.parser_lanes import ParserLanes
from groundwire.ingest.adapters.parser_process import ParserLimits
from groundwire.ingest.adapters.staged_upload import StagingFolder
from groundwire.ingest.admit_document import AdmitDocument
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.changes import ChangeParts, Changes
from groundwire.ingest.create_collection import CreateCollection
from groundwire.ingest.domain.reading_limits import ReadingLimits
from groundwire.ingest.embed_chunks import EmbedChunks
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.index_orphans import IndexOrphans
from groundwire.ingest.ingest_document import IngestDocument
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.known_sources import KnownSources
from groundwire.ingest.list_documents import ListDocuments
from groundwire.ingest.operations import OperationParts, Operations
from groundwire.ingest.plan_ingest import PlanIngest
from groundwire.ingest.ports import Parser
from groundwire.ingest.prepare_document import PrepareDocument
from groundwire.ingest.put_chunks import PutChunks
from groundwire.ingest.read_chunks import GetChunk, ListChunks
from groundwire.ingest.read_collections import GetCollection, ListCollections
from groundwire.ingest.read_documents import GetDocument, ReadDocumentText
from groundwire.ingest.rebuild_index import RebuildIndex
from groundwire.ingest.receive_upload import ReceiveUpload
from groundwire.ingest.remember_request import RememberRequest
from groundwire.ingest.servicer import IngestServicer
from groundwire.ingest.servicer.calls import Calls, UseCases
from groundwire.ingest.servicer.change_calls import ChangeCalls
from groundwire.ingest.servicer.collection_calls import CollectionCalls, CollectionUseCases
from groundwire.ingest.servicer.operation_calls import OperationCalls
from groundwire.ingest.servicer.put_chunks_call import PutChunksCall
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.servicer.write_tokens import WriteTokens
from groundwire.ingest.settings import IngestSettings
from groundwire.ingest.skip_duplicates import SkipDuplicates
from groundwire.ingest.sweep_leftovers import SweepLeftovers
from groundwire.ingest.update_collection import UpdateCollection
from groundwire.ingest.wire.collection_settings import SettingsReader
from groundwire.ingest.write_generation import WriteGeneration
from groundwire.kernel.clock import Clock, SystemClock
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.vector_store import VectorStore
from groundwire.rpc.consistency_tokens import ConsistencyTokens
from groundwire.rpc.pagination import PageTokens, load_key
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.engine_names import engine_name

STAGING_FOLDER = "staging"
PAGE_TOKEN_KEY_FILE = "page-token.key"  # noqa: S105 - the name of a file
_MIB = 1 << 20
_WAITING_OPERATIONS = 16
"""Calls that may wait for long work at a time; further ones wait for their turn."""


@dataclass(frozen=True, slots=True)
class IngestService:
    """The running service. Catalog, engine, embedder and `workers` belong to whoever built it."""

    servicer: IngestServicer
    use_cases: UseCases
    housekeeping: Housekeeping
    parser: ParserLanes
    ingest_workers: Workers
    operations: OperationCalls

    def start(self) -> None:
        """Take back what a dead process left half written, start the parser process and the sweeper."""
        self.parser.start()
        self.housekeeping.start()

    def close(self) -> None:
        """End the parser process and the threads; a document that is being ingested fails."""
        self.operations.close()
        self.parser.close()
        self.ingest_workers.close()
        self.housekeeping.close()


@dataclass(frozen=True, slots=True)
class _Stores:
    """The aggregates of the catalog that ingest uses."""

    collections: Collections
    documents: Documents
    chunks: Chunks
    texts: Texts
    sources: Sources
    duplicates: DuplicateChunks
    cache: VectorCache
    ledger: Ledger
    outbox: Outbox
    recovery: Recovery
    builds: IndexBuilds


def build(
    *,
    catalog: Database,
    vectors: VectorStore,
    embedder: Embedder,
    settings: IngestSettings,
    workers: Workers,
    clock: Clock | None = None,
    embedder_url: str = "",
) -> IngestService:
    """Wire the service up; nothing runs before `start()`. `embedder_url` is how operators named the embedder."""
    clock = clock or SystemClock()
    stores = _stores(catalog, clock)
    parser = ParserLanes(embedder.tokenizer.definition, _parser_limits(settings))
    folder = catalog.path.resolve().parent
    receive = ReceiveUpload(Uploads(catalog, clock), StagingFolder(folder / STAGING_FOLDER), settings.max_staged_bytes)
    apply = ApplyOutbox(stores.collections, stores.outbox, stores.cache, vectors, KeyedLocks())
    sweep = SweepLeftovers(
        stores.documents,
        stores.recovery,
        stores.builds,
        stores.outbox,
        stores.cache,
        stores.ledger,
        receive,
        apply,
        embedder.identity.digest,
        IndexOrphans(stores.collections, stores.duplicates, stores.cache, vectors),
        ExpiredGenerations(catalog, clock),
    )
    housekeeping = Housekeeping(sweep, RebuildIndex(vectors, stores.cache), settings.sweep_every_s)
    ingest = _ingest_document(stores, vectors, embedder, parser, settings, housekeeping)
    changes = ChangeParts(
        catalog, apply, ingest.write_generation.embed_chunks, vectors, ingest.locks, housekeeping.nudge, clock
    ).assemble()
    use_cases = _use_cases(stores, ingest, changes)
    ingest_workers = Workers(settings.concurrent_documents, "ingest")
    token_key = load_key(folder / PAGE_TOKEN_KEY_FILE)
    tokens = PageTokens(token_key)
    write_tokens = WriteTokens(CollectionPositions(catalog), ConsistencyTokens(token_key))
    upload = UploadStream(ingest, use_cases.remember, receive, workers, ingest_workers, write_tokens)
    calls = Calls(use_cases, tokens, write_tokens)
    collection_calls = CollectionCalls(
        _collection_use_cases(stores, vectors, embedder, changes, clock),
        tokens,
        SettingsReader(settings.max_document_bytes),
        engine_name(vectors),
    )
    change_calls = ChangeCalls(changes, use_cases.remember, write_tokens)
    operations = OperationCalls(
        _operations(catalog, stores, vectors, embedder, settings, housekeeping, apply.engines, clock),
        use_cases.remember,
        embedder_url,
        Workers(_WAITING_OPERATIONS, "operation"),
    )
    put_chunks = PutChunksCall(_put_chunks(stores, embedder, ingest), use_cases.remember, write_tokens)
    servicer = IngestServicer(
        calls, collection_calls, change_calls, operations, put_chunks, upload, workers, ingest_workers
    )  # type: ignore[abstract]  # other calls answer UNIMPLEMENTED
    return IngestService(servicer, use_cases, housekeeping, parser, ingest_workers, operations)


def _parser_limits(settings: IngestSettings) -> ParserLimits:
    return ParserLimits(
        base_s=settings.parser_base_s,
        s_per_mib=settings.parser_s_per_mib,
        memory_base_bytes=settings.parser_memory_base_mib * _MIB,
        memory_per_byte=settings.parser_memory_per_byte,
        memory_bytes=settings.parser_memory_mib * _MIB,
        reading=ReadingLimits(
            zip_entries=settings.parser_zip_entries,
            inflated_bytes=settings.parser_inflated_mib * _MIB,
            zip_ratio=settings.parser_zip_ratio,
            pages=settings.parser_pages,
        ),
    )


def _operations(
    catalog: Database,
    stores: _Stores,
    vectors: VectorStore,
    embedder: Embedder,
    settings: IngestSettings,
    housekeeping: Housekeeping,
    engines: KeyedLocks,
    clock: Clock,
) -> Operations:
    parts = OperationParts(
        catalog=catalog,
        documents=stores.documents,
        vectors=vectors,
        embed_chunks=EmbedChunks(stores.cache, embedder, settings.embed_batch_tokens),
        engines=engines,
        sweep=housekeeping.sweep_now,
        nudge=housekeeping.nudge,
        clock=clock,
    )
    return parts.assemble()


def _stores(catalog: Database, clock: Clock) -> _Stores:
    return _Stores(
        collections=Collections(catalog, clock),
        documents=Documents(catalog, clock),
        chunks=Chunks(catalog),
        texts=Texts(catalog),
        sources=Sources(catalog),
        duplicates=DuplicateChunks(catalog),
        cache=VectorCache(catalog, clock),
        ledger=Ledger(catalog, clock),
        outbox=Outbox(catalog),
        recovery=Recovery(catalog, clock),
        builds=IndexBuilds(catalog, clock),
    )


def _ingest_document(
    stores: _Stores,
    vectors: VectorStore,
    embedder: Embedder,
    parser: Parser,
    settings: IngestSettings,
    housekeeping: Housekeeping,
) -> IngestDocument:
    embed = EmbedChunks(stores.cache, embedder, settings.embed_batch_tokens)
    return IngestDocument(
        prepare=PrepareDocument(
            AdmitDocument(stores.collections, embedder.identity, settings.max_document_bytes),
            KnownSources(stores.documents),
            stores.sources,
            parser,
        ),
        write_generation=WriteGeneration(
            stores.documents,
            stores.builds,
            vectors,
            embed,
            SkipDuplicates(stores.duplicates),
            embedder.tokenizer.name,
        ),
        locks=KeyedLocks(),
        after_write=housekeeping.wrote,
    )


def _put_chunks(stores: _Stores, embedder: Embedder, ingest: IngestDocument) -> PutChunks:
    return PutChunks(
        admit=ingest.prepare.admit,
        known=ingest.prepare.known,
        cache=stores.cache,
        write_generation=ingest.write_generation,
        locks=ingest.locks,
        tokenizer=embedder.tokenizer,
        after_write=ingest.after_write,
    )


def _use_cases(stores: _Stores, ingest: IngestDocument, changes: Changes) -> UseCases:
    return UseCases(
        ingest_document=ingest,
        plan_ingest=PlanIngest(
            ingest.prepare,
            ingest.write_generation.skip_duplicates,
            ingest.write_generation.embed_chunks,
            stores.chunks,
        ),
        get_document=GetDocument(stores.collections, stores.documents, stores.chunks, stores.texts),
        list_documents=ListDocuments(stores.documents, stores.chunks),
        read_document_text=ReadDocumentText(stores.collections, stores.documents, stores.texts),
        delete_document=changes.delete_document,
        get_chunk=GetChunk(stores.collections, stores.chunks, stores.cache),
        list_chunks=ListChunks(stores.collections, stores.chunks, stores.cache),
        remember=RememberRequest(stores.ledger),
    )


def _collection_use_cases(
    stores: _Stores, vectors: VectorStore, embedder: Embedder, changes: Changes, clock: Clock
) -> CollectionUseCases:
    return CollectionUseCases(
        create=CreateCollection(stores.collections, vectors, embedder.identity, clock),
        get=GetCollection(stores.collections),
        list=ListCollections(stores.collections),
        update=UpdateCollection(stores.collections),
        delete=changes.delete_collection,
        remember=RememberRequest(stores.ledger),
    )
