"""The services of ingest: each method parses its request, runs a use case, and answers.

Streams, batches and operations have modules of their own.
"""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

import asyncio
import time
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import aclosing, suppress
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

from google.longrunning import operations_pb2, operations_pb2_grpc
from google.protobuf import empty_pb2

from groundwire.api.common.v1 import document_pb2, error_reason_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collection_pb
from groundwire.api.ingest.v1 import collection_service_pb2_grpc as collection_grpc
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.ingest.v1 import ingest_service_pb2_grpc as ingest_grpc
from groundwire.api.ingest.v1 import maintenance_service_pb2 as maintenance_pb
from groundwire.api.ingest.v1 import maintenance_service_pb2_grpc as maintenance_grpc
from groundwire.api.ingest.v1 import record_service_pb2 as record_pb
from groundwire.api.ingest.v1 import record_service_pb2_grpc as record_grpc
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.changes import DocumentUpkeep
from groundwire.ingest.collections import CollectionFigures, CollectionUpkeep
from groundwire.ingest.documents import DocumentIngest
from groundwire.ingest.housekeeping import Housekeeping
from groundwire.ingest.records import RecordUpkeep, WriteOutcome, WrittenRecord
from groundwire.ingest.servicer.batches import BatchIngest
from groundwire.ingest.servicer.calls import (
    CallParts,
    change,
    document,
    exactly_once,
    ingest_alone,
    read,
    with_current_receipt,
    with_write_token,
)
from groundwire.ingest.servicer.operations import LongWork, OperationRunner
from groundwire.ingest.servicer.put_chunks import ChunkStream
from groundwire.ingest.servicer.upload_stream import UploadStream
from groundwire.ingest.wire.collections import changed_settings, parse_create_collection, to_collection_message
from groundwire.ingest.wire.documents import (
    parse_chunk_change,
    parse_document_change,
    parse_plan_ingest,
    to_deletion_receipt,
    to_plan_response,
)
from groundwire.ingest.wire.records import (
    MAX_IDS,
    MAX_RECORDS,
    merged_record,
    parse_ids,
    parse_links,
    parse_order,
    parse_upserts,
    to_outcomes,
    to_result,
    to_results,
)
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentReference
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    CollectionNotFoundError,
    DocumentNotFoundError,
    InvalidRequestError,
    PermissionDeniedError,
    fields_below,
)
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filters import Filter, leaves
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.identity import Right
from groundwire.kernel.records import RecordLinks, StoredRecord, parse_record_id
from groundwire.rpc import request_context
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.messages import (
    parse_reference,
    to_chunk_message,
    to_document_message,
    to_links_message,
    to_record_message,
)
from groundwire.rpc.pagination import PageTokens
from groundwire.rpc.request_context import request_key

_MAX_PAGE = 100
# A response that lists all of them might be larger than a message may be.
_SHOWN = 100
_MESSAGE_CHARS = 2000
_LONGEST_WAIT_S = 600.0
# Left of the deadline, so that the caller gets the state of the operation instead of an error.
_ANSWER_S = 0.5


@dataclass(frozen=True)
class IngestServicer(ingest_grpc.IngestServiceServicer):
    """Runs each call in a thread for its kind of work; the event loop only passes messages on."""

    parts: CallParts
    documents: DocumentIngest
    upkeep: DocumentUpkeep
    batches: BatchIngest
    uploads: UploadStream
    chunks: ChunkStream
    long_work: LongWork

    @document
    def IngestDocument(self, request: ingest_pb.IngestDocumentRequest) -> ingest_pb.IngestDocumentResponse:
        if request.run_async:
            return ingest_pb.IngestDocumentResponse(operation=self.long_work.begin_ingest(request))
        result = ingest_alone(self.parts, self.documents, request, request_key("IngestDocument", request))
        return self.parts.with_token(ingest_pb.IngestDocumentResponse(result=result), request.collection)

    async def BatchIngestDocuments(
        self, request: ingest_pb.BatchIngestDocumentsRequest, context: Any
    ) -> ingest_pb.BatchIngestDocumentsResponse:
        return await self.batches.ingest(request)

    async def UploadDocument(
        self, request_iterator: AsyncIterator[ingest_pb.UploadDocumentRequest], context: Any
    ) -> AsyncGenerator[ingest_pb.UploadDocumentResponse, None]:
        current = request_context.current()
        with fields_below("header", ingest_pb.UploadHeader.DESCRIPTOR.fields_by_name):
            async with aclosing(self.uploads.receive(request_iterator, current.tenant, current.budget)) as events:
                async for event in events:
                    yield event

    @document
    def PlanIngest(self, request: ingest_pb.PlanIngestRequest) -> ingest_pb.PlanIngestResponse:
        current = request_context.current()
        return to_plan_response(self.documents.plan(*parse_plan_ingest(request, current.tenant), current.budget))

    async def PutChunks(
        self, request_iterator: AsyncIterator[ingest_pb.PutChunksRequest], context: Any
    ) -> ingest_pb.PutChunksResponse:
        current = request_context.current()
        with fields_below("header", ingest_pb.PutChunksHeader.DESCRIPTOR.fields_by_name):
            return await self.chunks.receive(request_iterator, current.tenant, current.budget)

    @change
    def PurgeDocuments(self, request: ingest_pb.PurgeDocumentsRequest) -> operations_pb2.Operation:
        if request_context.current().identity.scopes is not None:
            # After a restart the caller, and so its scopes, would be unknown.
            raise PermissionDeniedError("a credential with scopes deletes records by DeleteRecords", right="all scopes")
        return self.long_work.begin_purge(request)

    @change
    @with_write_token
    @with_current_receipt
    @exactly_once(ingest_pb.DeleteDocumentResponse, receipt=to_deletion_receipt)
    def DeleteDocument(self, request: ingest_pb.DeleteDocumentRequest, receipt: Receipt[Deletion] | None) -> Deletion:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        if request.purge:
            current.identity.require_right(Right.ADMIN)
        return self.upkeep.delete(
            current.tenant,
            collection,
            self._seen(collection, request.reference),
            current.budget,
            receipt,
            purge=request.purge,
            etag=request.etag,
        )

    @change
    @with_write_token
    @exactly_once(ingest_pb.UpdateDocumentResponse, document=to_document_message)
    def UpdateDocument(self, request: ingest_pb.UpdateDocumentRequest, receipt: Receipt[Document] | None) -> Document:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference, changes = self._seen(collection, request.reference), parse_document_change(request)
        return self.upkeep.update_document(
            current.tenant, collection, reference, changes, request.document.etag, current.budget, receipt
        )

    @change
    @with_write_token
    @exactly_once(ingest_pb.RestoreDocumentResponse, document=to_document_message)
    def RestoreDocument(self, request: ingest_pb.RestoreDocumentRequest, receipt: Receipt[Document] | None) -> Document:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        reference = self._seen(collection, request.reference)
        return self.upkeep.restore(current.tenant, collection, reference, current.budget, receipt, etag=request.etag)

    @change
    @with_write_token
    @exactly_once(ingest_pb.UpdateChunkResponse, chunk=to_chunk_message)
    def UpdateChunk(self, request: ingest_pb.UpdateChunkRequest, receipt: Receipt[StoredChunk] | None) -> StoredChunk:
        current, collection, chunk = request_context.current(), parse_collection_name(request.collection), request.chunk
        if not self._sees(chunk_id=chunk.chunk_id):
            raise ChunkNotFoundError(chunk.chunk_id)
        return self.upkeep.update_chunk(
            current.tenant, collection, chunk.chunk_id, parse_chunk_change(request), chunk.etag, current.budget, receipt
        )

    def _seen(self, collection: str, message: document_pb2.DocumentReference) -> DocumentReference:
        """Return which document is meant, deleted softly or not; a record that the caller may not see does not exist.

        Raises:
            DocumentNotFoundError: there is no such document, or the caller may not see it.
            InvalidRequestError: neither id nor source is given, or several deleted documents have the source.
        """
        identity, reference = request_context.current().identity, parse_reference(message)
        if identity.scopes is None:
            return reference
        document_id = self.parts.catalog.documents.id_with_deleted(identity.tenant, collection, reference)
        if not self._sees(document_id=document_id):
            raise DocumentNotFoundError(str(reference))
        return reference

    def _sees(self, **which: str) -> bool:
        """Tell whether the caller may see a document or chunk, which may be of a record of another scope."""
        identity = request_context.current().identity
        if identity.scopes is None:
            return True
        scope = self.parts.catalog.records.scope_of(identity.tenant, **which)
        return scope is None or identity.allows_scope(scope)


@dataclass(frozen=True)
class CollectionServicer(collection_grpc.CollectionServiceServicer):
    """Reads and changes do not wait for each other."""

    parts: CallParts
    collections: CollectionUpkeep
    tokens: PageTokens

    @change
    @exactly_once(collection_pb.CreateCollectionResponse, collection=to_collection_message)
    def CreateCollection(
        self, request: collection_pb.CreateCollectionRequest, receipt: Receipt[CollectionFigures] | None
    ) -> CollectionFigures:
        current = request_context.current()
        find = self.parts.catalog.collections.find
        new = parse_create_collection(request, current.tenant, self.collections.max_document_bytes, find)
        return self.collections.create(current.tenant, *new, current.budget, receipt)

    @read
    def GetCollection(self, request: collection_pb.GetCollectionRequest) -> collection_pb.GetCollectionResponse:
        figures = self.collections.get(request_context.current().tenant, parse_collection_name(request.collection))
        return collection_pb.GetCollectionResponse(collection=to_collection_message(figures))

    @read
    def ListCollections(self, request: collection_pb.ListCollectionsRequest) -> collection_pb.ListCollectionsResponse:
        after, limit = self.tokens.begin(request)
        tenant, name = request_context.current().tenant, str(after[0]) if after else ""
        rows = self.parts.catalog.collections.page(tenant, name, limit)
        listed, token = self.tokens.page(request, rows, limit, self._message_of, lambda row: (row.name,))
        return collection_pb.ListCollectionsResponse(collections=listed, next_page_token=token)

    def _message_of(self, collection: Collection) -> collection_pb2.Collection | None:
        with suppress(CollectionNotFoundError):  # deleted since it was listed
            return to_collection_message(self.collections.figures(collection))
        return None

    @change
    @exactly_once(collection_pb.UpdateCollectionResponse, collection=to_collection_message)
    def UpdateCollection(
        self, request: collection_pb.UpdateCollectionRequest, receipt: Receipt[CollectionFigures] | None
    ) -> CollectionFigures:
        return self.collections.update(
            request_context.current().tenant,
            parse_collection_name(request.collection.name, "collection.name"),
            lambda current: changed_settings(request, current, self.collections.max_document_bytes),
            request.collection.etag,
            receipt,
        )

    @change
    @with_current_receipt
    @exactly_once(collection_pb.DeleteCollectionResponse, receipt=to_deletion_receipt)
    def DeleteCollection(
        self, request: collection_pb.DeleteCollectionRequest, receipt: Receipt[Deletion] | None
    ) -> Deletion:
        current, name = request_context.current(), parse_collection_name(request.collection)
        return self.collections.delete(
            current.tenant, name, current.budget, receipt, force=request.force, etag=request.etag
        )


@dataclass(frozen=True)
class RecordServicer(record_grpc.RecordServiceServicer):
    """Writes run where documents are ingested, as they wait for the model; reads and deletions do not wait for them."""

    parts: CallParts
    records: RecordUpkeep
    tokens: PageTokens

    @document
    @with_write_token
    @exactly_once(record_pb.BatchUpsertRecordsResponse, outcomes=to_outcomes)
    def BatchUpsertRecords(
        self,
        request: record_pb.BatchUpsertRecordsRequest,
        receipt: Receipt[list[WriteOutcome]] | None,
    ) -> list[WriteOutcome]:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        items = parse_upserts(request, self.records.count_tokens)
        return self.records.upsert(
            current.identity, collection, items, current.budget, receipt, allow_partial=request.allow_partial
        )

    @document
    @with_write_token
    @exactly_once(record_pb.UpdateRecordResponse, result=to_result)
    def UpdateRecord(
        self, request: record_pb.UpdateRecordRequest, receipt: Receipt[WrittenRecord] | None
    ) -> WrittenRecord:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        return self.records.update(
            current.identity,
            collection,
            parse_record_id(request.record.record_id, field="record.record_id"),
            lambda stored: merged_record(request, stored, self.records.count_tokens),
            current.budget,
            receipt,
        )

    @change
    @with_write_token
    @with_current_receipt
    @exactly_once(record_pb.DeleteRecordsResponse, receipt=to_deletion_receipt)
    def DeleteRecords(self, request: record_pb.DeleteRecordsRequest, receipt: Receipt[Deletion] | None) -> Deletion:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        if request.permanent:
            current.identity.require_right(Right.ADMIN)
        match request.WhichOneof("selection"):
            case "ids":
                selection: Sequence[str] | Filter = parse_ids(request.ids.record_ids, "ids.record_ids", MAX_IDS)
            case "filter":
                selection = parse_filter_message(request.filter)
                if not any(leaves(selection)):
                    raise InvalidRequestError.of("filter", "must have a condition; without one, it matches all records")
            case _:
                raise InvalidRequestError.of("selection", "must be given: either ids or filter")
        return self.records.delete(
            current.identity, collection, selection, current.budget, receipt, permanent=request.permanent
        )

    @change
    @with_write_token
    @exactly_once(record_pb.RestoreRecordsResponse, results=to_results)
    def RestoreRecords(
        self, request: record_pb.RestoreRecordsRequest, _receipt: Receipt[list[WrittenRecord]] | None
    ) -> list[WrittenRecord]:
        """Restore records; a repetition whose first answer was not remembered finds them live already."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        ids = parse_ids(request.record_ids, "record_ids", MAX_RECORDS)
        return self.records.restore(current.identity, collection, ids, current.budget)

    @change
    @exactly_once(record_pb.AddLinksResponse, links=to_links_message)
    def AddLinks(self, request: record_pb.AddLinksRequest, receipt: Receipt[RecordLinks] | None) -> RecordLinks:
        return self._change_links(request, receipt, removes=False)

    @change
    @exactly_once(record_pb.RemoveLinksResponse, links=to_links_message)
    def RemoveLinks(self, request: record_pb.RemoveLinksRequest, receipt: Receipt[RecordLinks] | None) -> RecordLinks:
        return self._change_links(request, receipt, removes=True)

    def _change_links(
        self,
        request: record_pb.AddLinksRequest | record_pb.RemoveLinksRequest,
        receipt: Receipt[RecordLinks] | None,
        *,
        removes: bool,
    ) -> RecordLinks:
        collection, record_id = parse_collection_name(request.collection), parse_record_id(request.record_id)
        links = parse_links(record_id, request.links)
        identity = request_context.current().identity
        return self.records.change_links(identity, collection, record_id, links, receipt, removes=removes)

    @read
    def GetRecord(self, request: record_pb.GetRecordRequest) -> record_pb.GetRecordResponse:
        identity, collection = request_context.current().identity, parse_collection_name(request.collection)
        record = self.parts.catalog.records.get(
            identity.tenant,
            collection,
            parse_record_id(request.record_id),
            scopes=identity.scopes,
            include_deleted=request.include_deleted,
        )
        if request.count_access:
            self.parts.catalog.accesses.note(identity.tenant, [record.document.document_id])
        response = record_pb.GetRecordResponse(record=to_record_message(self._with_accesses(record)))
        if request.with_embedding:
            response.embedding.extend(self.records.vector(identity.tenant, collection, record).tolist())
        return response

    @read
    def ListRecords(self, request: record_pb.ListRecordsRequest) -> record_pb.ListRecordsResponse:
        identity, collection = request_context.current().identity, parse_collection_name(request.collection)
        tenant, order = identity.tenant, parse_order(request.order_by)
        where = None
        if request.HasField("filter"):
            where = self.records.resolved(tenant, collection, parse_filter_message(request.filter))
        after, limit = self.tokens.begin(request, maximum=_MAX_PAGE)
        position = (int(after[0]), int(after[1])) if after else None
        rows = self.parts.catalog.records.page(
            *(tenant, collection, where, order, position, limit),
            scopes=identity.scopes,
            include_deleted=request.include_deleted,
        )
        listed, token = self.tokens.page(
            request, rows, limit, lambda row: to_record_message(self._with_accesses(row[0])), itemgetter(1)
        )
        return record_pb.ListRecordsResponse(records=listed, next_page_token=token)

    def _with_accesses(self, record: StoredRecord) -> StoredRecord:
        count, last = self.parts.catalog.accesses.waiting(request_context.current().tenant, record.document.document_id)
        return replace(record, access_count=record.access_count + count, last_accessed=last or record.last_accessed)


@dataclass(frozen=True)
class MaintenanceServicer(maintenance_grpc.MaintenanceServiceServicer):
    """Begins long work, and reports background work."""

    parts: CallParts
    long_work: LongWork
    housekeeping: Housekeeping

    @change
    def Reindex(self, request: maintenance_pb.ReindexRequest) -> operations_pb2.Operation:
        return self.long_work.begin_on_collection(request)

    @change
    def Reembed(self, request: maintenance_pb.ReembedRequest) -> operations_pb2.Operation:
        return self.long_work.begin_on_collection(request)

    @change
    def CheckStore(self, request: maintenance_pb.CheckStoreRequest) -> operations_pb2.Operation:
        return self.long_work.begin_on_collection(request)

    @read
    def GetHousekeeping(self, request: maintenance_pb.GetHousekeepingRequest) -> maintenance_pb.GetHousekeepingResponse:
        tenant = request_context.current().tenant
        incomplete = self.parts.catalog.deletions.incomplete(tenant, _SHOWN)
        response = maintenance_pb.GetHousekeepingResponse(
            incomplete_deletions=[to_deletion_receipt(each) for each in incomplete]
        )
        for name, each in sorted(self.housekeeping.figures(tenant).items()):
            job = response.jobs.add(name=name, run_count=each.runs, failure_count=each.failures, done_count=each.done)
            if each.last_success is not None:
                job.last_success_time.FromDatetime(each.last_success)
        for failure in self.housekeeping.failures(tenant)[:_SHOWN]:
            message = response.failures.add(
                job=failure.job,
                collection=failure.subject.collection,
                failure_count=failure.count,
                reason=error_reason_pb2.ErrorReason.Value(f"ERROR_REASON_{failure.reason}"),
                message=failure.message[:_MESSAGE_CHARS],
            )
            message.start_time.FromDatetime(failure.since)
            message.retry_delay.FromNanoseconds(round(max(0.0, failure.retry_at - time.monotonic()) * 1e9))
        return response


@dataclass(frozen=True)
class OperationsServicer(operations_pb2_grpc.OperationsServicer):  # type: ignore[misc] # ships no types
    """The standard service of long work."""

    parts: CallParts
    operations: OperationRunner
    tokens: PageTokens

    @read
    def GetOperation(self, request: operations_pb2.GetOperationRequest) -> operations_pb2.Operation:
        return self.operations.get(request.name)

    @read
    def ListOperations(self, request: operations_pb2.ListOperationsRequest) -> operations_pb2.ListOperationsResponse:
        if request.name not in {"", "operations"}:
            raise InvalidRequestError.of("name", "must be operations or empty")
        if request.filter:
            raise InvalidRequestError.of("filter", "must be empty: operations are not filtered")
        before, limit = self.tokens.begin(request)
        rows = self.operations.page(None if before is None else int(before[0]), limit)
        listed, token = self.tokens.page(request, rows, limit, itemgetter(0), itemgetter(1))
        return operations_pb2.ListOperationsResponse(operations=listed, next_page_token=token)

    @change
    def CancelOperation(self, request: operations_pb2.CancelOperationRequest) -> empty_pb2.Empty:
        self.operations.cancel(request.name)
        return empty_pb2.Empty()

    @change
    def DeleteOperation(self, request: operations_pb2.DeleteOperationRequest) -> empty_pb2.Empty:
        self.operations.delete(request.name)
        return empty_pb2.Empty()

    async def WaitOperation(
        self, request: operations_pb2.WaitOperationRequest, context: Any
    ) -> operations_pb2.Operation:
        """Return an operation when it ends, or its state after `timeout` or shortly before the deadline."""
        budget, reads = request_context.current().budget, self.parts.pools.reads
        await reads.run(budget, self.operations.get, request.name)  # refuses what there is not, before any waiting
        limits_s = [_LONGEST_WAIT_S]
        if request.HasField("timeout"):
            limits_s.append(request.timeout.seconds + request.timeout.nanos / 1e9)  # any, also beyond a timedelta
        left_s = budget.remaining_s()
        if left_s is not None:
            limits_s.append(left_s - _ANSWER_S)
        ended = self.operations.end_of(request.name)
        if ended is not None:
            # Holds no thread, so that waiting calls do not keep others from being answered.
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(asyncio.wrap_future(ended)), max(0.0, min(limits_s)))
        return await reads.run(budget, self.operations.get, request.name)
