"""RecordService: parses requests, runs the use case, answers; the reading calls are at the end."""
# ruff: noqa: N802 - names of the methods are the contract's

from collections.abc import Sequence
from dataclasses import dataclass, replace

from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.api.ingest.v1 import record_service_pb2_grpc as pb_grpc
from groundwire.catalog.deletions import Deletion
from groundwire.ingest.records import RecordUpkeep, WrittenRecord
from groundwire.ingest.servicer.calls import (
    CallParts,
    change,
    document,
    exactly_once,
    read,
    with_current_receipt,
    with_write_token,
)
from groundwire.ingest.wire.documents import to_deletion_receipt
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
from groundwire.kernel.errors import GroundwireError, InvalidRequestError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.filters import Filter
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.kernel.identity import Right
from groundwire.kernel.records import RecordLinks, StoredRecord, parse_record_id
from groundwire.rpc import request_context
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.pagination import PageTokens, page_size
from groundwire.rpc.record_messages import to_links_message, to_record_message

_MAX_PAGE = 100


@dataclass(frozen=True)
class RecordServicer(pb_grpc.RecordServiceServicer):
    """Writes run where documents are ingested, as they wait for the model; reads and deletions do not wait for them."""

    parts: CallParts
    records: RecordUpkeep
    tokens: PageTokens

    @document
    @with_write_token
    @exactly_once(pb.BatchUpsertRecordsResponse, outcomes=to_outcomes)
    def BatchUpsertRecords(
        self, request: pb.BatchUpsertRecordsRequest, receipt: Receipt[list[WrittenRecord | GroundwireError]] | None
    ) -> list[WrittenRecord | GroundwireError]:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        items = parse_upserts(request, self.records.count_tokens)
        return self.records.upsert(
            current.identity, collection, items, current.budget, receipt, allow_partial=request.allow_partial
        )

    @document
    @with_write_token
    @exactly_once(pb.UpdateRecordResponse, result=to_result)
    def UpdateRecord(self, request: pb.UpdateRecordRequest, receipt: Receipt[WrittenRecord] | None) -> WrittenRecord:
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
    @exactly_once(pb.DeleteRecordsResponse, receipt=to_deletion_receipt)
    def DeleteRecords(self, request: pb.DeleteRecordsRequest, receipt: Receipt[Deletion] | None) -> Deletion:
        current, collection = request_context.current(), parse_collection_name(request.collection)
        if request.permanent:
            current.identity.require_right(Right.ADMIN)
        match request.WhichOneof("selection"):
            case "ids":
                selection: Sequence[str] | Filter = parse_ids(request.ids.record_ids, "ids.record_ids", MAX_IDS)
            case "filter":
                selection = parse_filter_message(request.filter)
            case _:
                raise InvalidRequestError.of("selection", "must be given: either ids or filter")
        return self.records.delete(
            current.identity, collection, selection, current.budget, receipt, permanent=request.permanent
        )

    @change
    @with_write_token
    @exactly_once(pb.RestoreRecordsResponse, results=to_results)
    def RestoreRecords(
        self, request: pb.RestoreRecordsRequest, _receipt: Receipt[list[WrittenRecord]] | None
    ) -> list[WrittenRecord]:
        """Bring records back; a repetition finds them live, if its answer was not remembered."""
        current, collection = request_context.current(), parse_collection_name(request.collection)
        ids = parse_ids(request.record_ids, "record_ids", MAX_RECORDS)
        return self.records.restore(current.identity, collection, ids, current.budget)

    @change
    @exactly_once(pb.AddLinksResponse, links=to_links_message)
    def AddLinks(self, request: pb.AddLinksRequest, receipt: Receipt[RecordLinks] | None) -> RecordLinks:
        return self._change_links(request, receipt, removes=False)

    @change
    @exactly_once(pb.RemoveLinksResponse, links=to_links_message)
    def RemoveLinks(self, request: pb.RemoveLinksRequest, receipt: Receipt[RecordLinks] | None) -> RecordLinks:
        return self._change_links(request, receipt, removes=True)

    def _change_links(
        self,
        request: pb.AddLinksRequest | pb.RemoveLinksRequest,
        receipt: Receipt[RecordLinks] | None,
        *,
        removes: bool,
    ) -> RecordLinks:
        collection, record_id = parse_collection_name(request.collection), parse_record_id(request.record_id)
        links = parse_links(record_id, request.links)
        identity = request_context.current().identity
        return self.records.change_links(identity, collection, record_id, links, receipt, removes=removes)

    @read
    def GetRecord(self, request: pb.GetRecordRequest) -> pb.GetRecordResponse:
        identity, collection = request_context.current().identity, parse_collection_name(request.collection)
        record = self.records.records.get(
            identity.tenant,
            collection,
            parse_record_id(request.record_id),
            scopes=identity.scopes,
            include_deleted=request.include_deleted,
        )
        if request.count_access:
            self.records.accesses.note(identity.tenant, [record.document.document_id])
        response = pb.GetRecordResponse(record=to_record_message(self._with_accesses(record)))
        if request.with_embedding:
            response.embedding.extend(self.records.vector(identity.tenant, collection, record).tolist())
        return response

    @read
    def ListRecords(self, request: pb.ListRecordsRequest) -> pb.ListRecordsResponse:
        identity, collection = request_context.current().identity, parse_collection_name(request.collection)
        tenant, size = identity.tenant, page_size(request.page_size, maximum=_MAX_PAGE)
        order = parse_order(request.order_by)
        where = None
        if request.HasField("filter"):
            where = self.records.resolved(tenant, collection, parse_filter_message(request.filter))
        after = self.tokens.read(request.page_token, tenant=tenant, request=request)
        position = (int(after[0]), int(after[1])) if after else None
        found = self.records.records.page(
            *(tenant, collection, where, order, position, size + 1),
            scopes=identity.scopes,
            include_deleted=request.include_deleted,
        )
        page = ((to_record_message(self._with_accesses(record)), place) for record, place in found[:size])
        last = found[size - 1][1] if len(found) > size else None
        listed, token = self.tokens.fill(page, last, tenant=tenant, request=request)
        return pb.ListRecordsResponse(records=listed, next_page_token=token)

    def _with_accesses(self, record: StoredRecord) -> StoredRecord:
        """Return a record with the accesses that are not written yet."""
        count, last = self.records.accesses.waiting(request_context.current().tenant, record.document.document_id)
        return replace(record, access_count=record.access_count + count, last_accessed=last or record.last_accessed)
