"""Records as tests write and read them: with few words, over the Python client."""

import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from groundwire.api.common.v1 import record_pb2, role_pb2
from groundwire.api.common.v1.hit_pb2 import Hit
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import GroundwireError, InvalidRequestError
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message

START = datetime(2026, 2, 10, 12, 0, tzinfo=UTC)
PERSONA, FAQ = record_pb2.RECORD_TYPE_PERSONA, record_pb2.RECORD_TYPE_FAQ
MEMORY, TURN, SUMMARY = (
    record_pb2.RECORD_TYPE_MEMORY,
    record_pb2.RECORD_TYPE_TURN,
    record_pb2.RECORD_TYPE_SUMMARY,
)
USER, ASSISTANT = role_pb2.ROLE_USER, role_pb2.ROLE_ASSISTANT


def record(record_type: Any, text: str, *, at: datetime | None = START, **fields: Any) -> record_pb2.Record:
    """Return a record of a time."""
    made = record_pb2.Record(record_type=record_type, text=text, **fields)
    if at is not None:
        made.timestamp.FromDatetime(at)
    return made


def memory(text: str, *, seconds: float = 0, scope: str = "", record_id: str = "", **details: Any) -> record_pb2.Record:
    """Return a memory of so many seconds after START."""
    at = START + timedelta(seconds=seconds)
    given = record_pb2.MemoryDetails(**details)
    return record(MEMORY, text, at=at, scope=scope, record_id=record_id, memory=given)


def turn(role: Any, text: str, conversation_id: str, *, seconds: float = 0, **fields: Any) -> record_pb2.Record:
    """Return one side of an exchange, so many seconds after START."""
    details = record_pb2.TurnDetails(conversation_id=conversation_id, role=role)
    if "turn_index" in fields:
        details.turn_index = fields.pop("turn_index")
    return record(TURN, text, at=START + timedelta(seconds=seconds), turn=details, **fields)


def memory_id(number: int) -> str:
    """Return an id of the form that memories have."""
    return f"chunk-2026-02-10-{number:08x}"


class Keeping:
    """Records of one collection."""

    def __init__(self, client: GroundwireClient, profile: Any = collection_pb2.PROFILE_CONVERSATIONS) -> None:
        self.client = client
        self.collection = f"c-{uuid.uuid4().hex[:12]}"
        client.create_collection(collection=self.collection, profile=profile)

    def put(self, *records: record_pb2.Record, **request: Any) -> list[pb.RecordResult]:
        """Store records and return what was done to each."""
        response = self.client.batch_upsert_records(collection=self.collection, records=records, **request)
        return [outcome.result for outcome in response.outcomes]

    def one(self, new: record_pb2.Record) -> record_pb2.Record:
        """Store a record and return what can be read of it."""
        return self.get(self.put(new)[0].record_id)

    def get(self, record_id: str, **request: Any) -> record_pb2.Record:
        """Read a record."""
        return self.client.get_record(collection=self.collection, record_id=record_id, **request).record

    def texts(self, where: Mapping[str, Any] | None = None, **request: Any) -> list[str]:
        """List records and return their texts in order."""
        if where is not None:
            request["filter"] = to_filter_message(parse_filter(dict(where)))
        return [each.text for each in self.client.list_records(collection=self.collection, **request).records]

    def found(self, query: str, where: Mapping[str, Any] | None = None) -> list[str]:
        """Search and return the texts of the hits, the best one first."""
        return [hit.chunk.content for hit in self.hits(query, where)]

    def hits(self, query: str, where: Mapping[str, Any] | None = None) -> Sequence[Hit]:
        """Search for everything that a filter lets through."""
        options = RetrievalOptions(top_k=20, min_relevance=0.0)
        if where is not None:
            options.filter.CopyFrom(to_filter_message(parse_filter(dict(where))))
        return self.client.retrieve(collection=self.collection, query=query, options=options).results

    def change(self, record_id: str, *paths: str, etag: str = "", **fields: Any) -> pb.RecordResult:
        """Change fields of a record."""
        changed = record_pb2.Record(record_id=record_id, etag=etag, **fields)
        request = pb.UpdateRecordRequest(collection=self.collection, record=changed)
        request.update_mask.paths.extend(paths)
        return self.client.update_record.send(request).result

    def delete(self, *record_ids: str, permanent: bool = False, **request: Any) -> pb.DeleteRecordsResponse:
        """Delete records by id."""
        ids = pb.RecordIds(record_ids=record_ids)
        return self.client.delete_records(collection=self.collection, ids=ids, permanent=permanent, **request)

    def delete_where(self, where: Mapping[str, Any], **request: Any) -> pb.DeleteRecordsResponse:
        """Delete the records that a filter matches."""
        given = to_filter_message(parse_filter(dict(where)))
        return self.client.delete_records(collection=self.collection, filter=given, **request)

    def restore(self, *record_ids: str) -> list[pb.RecordResult]:
        """Bring records back."""
        return list(self.client.restore_records(collection=self.collection, record_ids=record_ids).results)

    def link(self, record_id: str, kind: Any, target: str) -> record_pb2.RecordLinks:
        """Add a link."""
        links = [pb.RecordLink(kind=kind, target_record_id=target)]
        return self.client.add_links(collection=self.collection, record_id=record_id, links=links).links

    def refused(self, new: record_pb2.Record, **request: Any) -> dict[str, str]:
        """Store a record that breaks rules and return what is said of each field, without `records[0].`."""
        with pytest.raises(InvalidRequestError) as caught:
            self.put(new, **request)
        return {each.field.removeprefix("records[0]."): each.description for each in caught.value.violations}


def failure(call: Any, *arguments: Any, **named: Any) -> GroundwireError:
    """Return the error of a call."""
    with pytest.raises(GroundwireError) as caught:
        call(*arguments, **named)
    return caught.value


def until(is_true: Callable[[], bool], within_s: float = 60.0) -> None:
    """Wait for what a server does behind the calls."""
    ends_at = time.monotonic() + within_s
    while not is_true():
        assert time.monotonic() < ends_at
        time.sleep(0.05)
