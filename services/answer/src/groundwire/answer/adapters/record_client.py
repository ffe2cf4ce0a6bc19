"""Records through the ingest service, over gRPC or in process."""

import asyncio
import uuid
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import grpc
from google.protobuf import field_mask_pb2

from groundwire.answer.consolidation import Derived, confirmed
from groundwire.answer.messages import ROLES
from groundwire.answer.recording import Conversation, StoredMemory, Summary, T, made_id
from groundwire.answer.summaries import Turn, WrittenSummary
from groundwire.api.common.v1 import record_pb2, retrieval_options_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import RecordNotFoundError, RequestIdReusedError
from groundwire.kernel.filters import And, Comparator, Comparison, Filter
from groundwire.kernel.identity import Identity
from groundwire.kernel.records import record_id_of
from groundwire.rpc import request_context
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.request_context import RequestContext
from groundwire.rpc.value_messages import to_timestamp

# Key of the metadata of an answer that says nothing.
_REFUSED = "refused"
_SIDES = {number: role for role, number in ROLES.items()}
# A statement that was made before is the closest, or close behind others with its words.
_SIMILAR = 5
_PAGE = 100
# Of what is recorded of one exchange.
_LIMIT_S = 60.0


class RecordClient:
    """See `groundwire.answer.recording.Records`; memories are searched for by the retrieve service.

    Args:
        records: the generated aio stub of the RecordService, or the `InProcessStub` of its servicer.
        retrieve: the same of the RetrieveService.
    """

    def __init__(self, records: Any, retrieve: Any) -> None:
        self._records = records
        self._retrieve = retrieve

    async def write_exchange(self, conversation: Conversation, turns: Sequence[Turn], write_id: str) -> int:
        records = []
        for turn in turns:
            record = record_pb2.Record(
                record_id=turn.record_id,
                record_type=record_pb2.RECORD_TYPE_TURN,
                text=turn.text,
                timestamp=to_timestamp(turn.time),
                origin=record_pb2.RECORD_ORIGIN_CHAT,
                scope=conversation.scope,
                turn=record_pb2.TurnDetails(conversation_id=conversation.conversation_id, role=ROLES[turn.role]),
                quoted_document_ids=sorted(turn.quoted),
            )
            if turn.is_refusal:
                record.metadata[_REFUSED].bool_value = True
            records.append(record)
        outcomes = await self._upsert(conversation, records, write_id)
        return outcomes[0].result.turn_index

    async def turns(self, conversation: Conversation, first: int, last: int | None = None) -> list[Turn]:
        where: list[Filter] = [
            Comparison("record_type", Comparator.EQ, "turn"),
            Comparison("turn_index", Comparator.GTE, first),
        ]
        if last is not None:
            where.append(Comparison("turn_index", Comparator.LTE, last))
        return [
            Turn(
                record.record_id,
                _SIDES[record.turn.role],
                record.text,
                record.timestamp.ToDatetime(UTC),
                is_refusal=_REFUSED in record.metadata,
                supports=frozenset(record.links.supports),
                quoted=frozenset(record.quoted_document_ids),
            )
            async for record in self._listed(conversation, where, pb.RECORD_ORDER_TURN_ASC)
        ]

    async def turn_number(self, conversation: Conversation, record_id: str) -> int:
        request = pb.GetRecordRequest(collection=conversation.collection, record_id=record_id)
        try:
            response: pb.GetRecordResponse = await _answered(self._records.GetRecord(request))
        except RecordNotFoundError:
            return 0
        return response.record.turn.turn_index

    async def summaries(self, conversation: Conversation) -> list[Summary]:
        where = [Comparison("record_type", Comparator.EQ, "summary")]
        written = []
        async for each in self._listed(conversation, where, pb.RECORD_ORDER_TIMESTAMP_ASC):
            first, _, last = each.summary.turn_range.partition("-")
            # Whoever may write to the scope may have written a summary with another range, or none.
            if last:
                written.append(Summary(each.summary.summary_index, int(first), int(last)))
        return sorted(written, key=lambda each: each.index)

    async def write_summary(
        self, conversation: Conversation, summary: Summary, written: WrittenSummary, time: datetime, record_id: str
    ) -> None:
        details = record_pb2.SummaryDetails(
            conversation_id=conversation.conversation_id,
            turn_range=f"{summary.first}-{summary.last}",
            summary_index=summary.index,
            writer=written.writer,
        )
        record = record_pb2.Record(
            record_id=record_id,
            record_type=record_pb2.RECORD_TYPE_SUMMARY,
            text=written.text,
            timestamp=to_timestamp(time),
            origin=record_pb2.RECORD_ORIGIN_SYSTEM,
            scope=conversation.scope,
            summary=details,
            quoted_document_ids=sorted(set[str]().union(*(each.quoted for each in written.turns))),
        )
        # By its text, too: one that quoted what was deleted for good is written once more without it.
        await self._upsert(conversation, [record], made_id(record_id, written.text, written.writer))

    async def similar_memories(self, conversation: Conversation, text: str) -> list[StoredMemory]:
        where = And(
            (
                Comparison("record_type", Comparator.EQ, "memory"),
                Comparison("scope", Comparator.EQ, conversation.scope),
            )
        )
        options = retrieval_options_pb2.RetrievalOptions(
            filter=to_filter_message(where), top_k=_SIMILAR, min_relevance=0.0
        )
        request = retrieve_service_pb2.RetrieveRequest(collection=conversation.collection, query=text, options=options)
        response: retrieve_service_pb2.RetrieveResponse = await _answered(self._retrieve.Retrieve(request))
        return [StoredMemory(record_id_of(hit.chunk.source_uri), hit.chunk.content) for hit in response.results]

    async def write_memory(self, conversation: Conversation, derived: Derived, record_id: str) -> None:
        details = record_pb2.MemoryDetails(
            importance=derived.importance,
            kind=record_pb2.MemoryKind.Value(f"MEMORY_KIND_{derived.kind.upper()}"),
            confidence=derived.confidence,
            conversation_id=conversation.conversation_id,
        )
        record = record_pb2.Record(
            record_id=record_id,
            record_type=record_pb2.RECORD_TYPE_MEMORY,
            text=derived.text,
            timestamp=to_timestamp(derived.turn.time),
            origin=record_pb2.RECORD_ORIGIN_DERIVED,
            scope=conversation.scope,
            memory=details,
            quoted_document_ids=sorted(derived.turn.quoted),
        )
        await self._upsert(conversation, [record], made_id(record_id))

    async def confirm_memory(self, conversation: Conversation, record_id: str, write_id: str) -> None:
        wanted = pb.GetRecordRequest(collection=conversation.collection, record_id=record_id)
        stored: record_pb2.Record = (await _answered(self._records.GetRecord(wanted))).record
        changed = record_pb2.Record(record_id=record_id, etag=stored.etag)
        changed.memory.confidence = confirmed(stored.memory.confidence)
        request = pb.UpdateRecordRequest(
            collection=conversation.collection,
            record=changed,
            update_mask=field_mask_pb2.FieldMask(paths=["memory.confidence"]),
            request_id=write_id,
        )
        # It has been confirmed where the id was used before: with what the memory was then.
        with suppress(RequestIdReusedError):
            await _answered(self._records.UpdateRecord(request))

    async def support(self, conversation: Conversation, source_id: str, memory_id: str) -> None:
        link = pb.RecordLink(kind=pb.LINK_KIND_SUPPORTS, target_record_id=memory_id)
        request = pb.AddLinksRequest(collection=conversation.collection, record_id=source_id, links=[link])
        await _answered(self._records.AddLinks(request))

    async def _upsert(
        self, conversation: Conversation, records: Sequence[record_pb2.Record], write_id: str
    ) -> Sequence[pb.BatchUpsertRecordsOutcome]:
        request = pb.BatchUpsertRecordsRequest(collection=conversation.collection, records=records, request_id=write_id)
        response: pb.BatchUpsertRecordsResponse = await _answered(self._records.BatchUpsertRecords(request))
        return response.outcomes

    async def _listed(
        self, conversation: Conversation, where: Sequence[Filter], order: "pb.RecordOrder.ValueType"
    ) -> AsyncGenerator[record_pb2.Record, None]:
        mine = (
            Comparison("conversation_id", Comparator.EQ, conversation.conversation_id),
            Comparison("scope", Comparator.EQ, conversation.scope),
        )
        request = pb.ListRecordsRequest(
            collection=conversation.collection,
            filter=to_filter_message(And((*mine, *where))),
            order_by=order,
            page_size=_PAGE,
        )
        while True:
            response: pb.ListRecordsResponse = await _answered(self._records.ListRecords(request))
            for record in response.records:
                yield record
            if not response.next_page_token:
                return
            request.page_token = response.next_page_token


async def _answered(call: Any) -> Any:
    try:
        return await call
    except grpc.RpcError as error:
        raise from_rpc_error(error) from error


async def in_call_of(identity: Identity, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
    """Do work as if a call of the identity did it; see `groundwire.answer.recording.Recording`."""

    async def call() -> T:
        context = RequestContext(request_id=str(uuid.uuid4()), identity=identity, budget=Budget(_LIMIT_S))
        request_context.bind(context)
        return await work()

    # A task of its own, because what is bound in one stays for what it does next, for another identity.
    return await asyncio.create_task(call())
