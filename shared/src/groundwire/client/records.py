"""What an assistant keeps: personas, FAQs, memories, turns and summaries as plain values, and the methods for them.

Every method is written once and is blocking in `Collection`, awaited in `AsyncCollection`.
"""

from collections.abc import AsyncGenerator, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final, TypedDict, Unpack

from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import record_pb2, retrieval_options_pb2, role_pb2, search_mode_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.client.contract import Contract
from groundwire.client.results import Deletion, Hit, SearchResults, joined
from groundwire.client.transport import Caller, Operation, StreamOperation, all_items
from groundwire.client.values import (
    FilterJson,
    MetadataValue,
    both_filters,
    filled,
    filter_message,
    held_by,
    metadata_messages,
    named_value,
    set_field,
    timestamp_message,
)
from groundwire.kernel.errors import FieldViolation, GroundwireError, InvalidRequestError, collected, refuse
from groundwire.kernel.identifiers import ENTITY_SCOPE, GLOBAL_SCOPE
from groundwire.rpc.error_status import from_status

# As many as one call takes.
_BATCH_RECORDS: Final = 100
# A batch of this size is sent; with its last record it stays below the 4 MiB that servers take.
_BATCH_BYTES: Final = 2 * 1024 * 1024
_OF_ALL_TYPES: Final = ("record_id", "text", "origin", "scope", "etag", "quoted_document_ids")
# What some types alone have, and what others have instead.
_OF_TYPES: Final = {
    **dict.fromkeys(("entity", "kind", "conversation_id", "role", "turn_range", "writer"), ""),
    **dict.fromkeys(("topic", "version", "specialist_name"), ""),
    **dict.fromkeys(("importance", "confidence", "turn_index", "summary_index"), None),
    "tags": (),
}
_ENUMS: Final = {"kind": record_pb2.MemoryKind, "role": role_pb2.Role, "origin": record_pb2.RecordOrigin}


class CommonFields(TypedDict, total=False):
    """Fields that a caller sets for a record of any type.

    `entity` alone makes the scope `entity:<name>`. A `timestamp` has a time zone; it is now unless it is given.
    """

    timestamp: datetime
    origin: str
    scope: str
    entity: str
    metadata: Mapping[str, MetadataValue]


class RecordChanges(CommonFields, total=False):
    """What can be changed beside the text; a field that the type of the record does not have is refused.

    It is deleted for good with the first of `quoted_document_ids`, the documents of the collection whose text it holds.
    With an `etag` of the record a write is refused if somebody else has changed it since.
    """

    importance: int
    kind: str
    confidence: float
    tags: Sequence[str]
    conversation_id: str
    role: str
    turn_index: int
    turn_range: str
    summary_index: int
    writer: str
    topic: str
    version: str
    specialist_name: str
    quoted_document_ids: Sequence[str]
    etag: str


class RecordFields(RecordChanges, total=False):
    """Fields that a caller sets for a new record; the server makes its id unless it is given."""

    record_id: str


class NewRecord(RecordFields):
    """A record for `put_records`: `record_type` is persona, faq, memory, turn or summary."""

    record_type: str
    text: str


@dataclass(frozen=True, slots=True)
class RecordLinks:
    """Ids of the records that a record is linked to; `context_of` holds its conversation."""

    context_of: tuple[str, ...] = ()
    follows: tuple[str, ...] = ()
    related_to: tuple[str, ...] = ()
    supports: tuple[str, ...] = ()
    contradicts: tuple[str, ...] = ()
    suggested_contradicts: tuple[str, ...] = ()

    @classmethod
    def of(cls, message: record_pb2.RecordLinks) -> "RecordLinks":
        return filled(cls, message)


@dataclass(frozen=True, slots=True)
class Record:
    """A stored record; what its type does not have is None, or empty. Times are in UTC."""

    record_id: str
    record_type: str
    text: str
    timestamp: datetime
    origin: str
    scope: str
    entity: str | None
    importance: int | None
    kind: str
    confidence: float | None
    tags: tuple[str, ...]
    conversation_id: str
    role: str
    turn_index: int | None
    turn_range: str
    summary_index: int | None
    writer: str
    topic: str
    version: str
    specialist_name: str
    metadata: Mapping[str, MetadataValue]
    links: RecordLinks
    access_count: int
    last_accessed_time: datetime | None
    create_time: datetime | None
    update_time: datetime | None
    delete_time: datetime | None
    etag: str
    quoted_document_ids: tuple[str, ...]
    message: record_pb2.Record = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: record_pb2.Record) -> "Record":
        details: Any = getattr(message, message.WhichOneof("details") or "memory")
        of_scope = None if message.scope == GLOBAL_SCOPE else message.scope.removeprefix(ENTITY_SCOPE)
        of_type = {
            name: held_by(details, name) if name in details.DESCRIPTOR.fields_by_name else absent
            for name, absent in _OF_TYPES.items()
        }
        return filled(
            cls,
            message,
            entity=of_type.pop("entity") or of_scope,
            timestamp=message.timestamp.ToDatetime(UTC),
            links=RecordLinks.of(message.links),
            **of_type,
        )

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class RecordResult:
    """What a write did: `outcome` is created, replaced or unchanged; `turn_index` is 0 but for turns."""

    record_id: str
    outcome: str
    etag: str
    turn_index: int
    token_count: int
    message: pb.RecordResult = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: pb.RecordResult) -> "RecordResult":
        return filled(cls, message)


@dataclass(frozen=True, slots=True)
class ContextEntry:
    """A record that should be known; `contradicts` has the ids of memories of its section that contradict it."""

    record: Record
    contradicts: tuple[str, ...]
    message: retrieve_pb.ContextEntry = field(repr=False, compare=False)


@dataclass(frozen=True, slots=True)
class Context:
    """What an assistant should know before it answers: records by their type, and chunks of documents.

    `sections` has persona, faq, memory, turn and summary, as far as they were asked for and are switched on.
    """

    sections: Mapping[str, tuple[ContextEntry, ...]]
    documents: tuple[Hit, ...]
    token_count: int
    message: retrieve_pb.RetrieveContextResponse = field(repr=False, compare=False)

    @classmethod
    def of(cls, message: retrieve_pb.RetrieveContextResponse) -> "Context":
        sections = {
            held_by(section, "record_type"): tuple(
                ContextEntry(Record.of(each.record), tuple(each.contradicts), each) for each in section.entries
            )
            for section in message.sections
        }
        return cls(sections, joined(message.document_results, message.documents), message.token_count, message)


class RecordOperations(Caller):
    """The methods of a collection that concern records."""

    name: str

    @Operation
    async def remember(self, text: str, **fields: Unpack[RecordFields]) -> RecordResult:
        """Store a memory: a fact, preference, pattern, note or decision that outlives a conversation.

        Args:
            text: what to remember, 1 to 800 tokens.
            fields: facts about it: `importance` from 1 to 5, `entity` whom alone it is for, `kind`, `tags` and
                so on; see `RecordFields`.

        Raises:
            InvalidRequestError: naming every field that breaks a rule.

        Example:
            client.collection("ada").create(profile="memory")
            ada = client.collection("ada")
            remembered = ada.remember("Alice prefers Python.", importance=4, entity="alice", tags=["languages"])
            print(ada.record(remembered.record_id).importance)
        """
        (outcome,) = await self._upsert([new_record("memory", text, fields)], allow_partial=False)
        return RecordResult.of(outcome.result)

    @Operation
    async def add_exchange(
        self, conversation_id: str, user: str, assistant: str, **fields: Unpack[CommonFields]
    ) -> tuple[RecordResult, RecordResult]:
        """Store both sides of an exchange as turns of a conversation, all or nothing; they get the next number.

        Args:
            conversation_id: `conv-` and 1 to 64 letters, digits or `._-`.
            user: what the person said.
            assistant: what the assistant replied.
            fields: facts about both, such as `entity`; see `CommonFields`.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            question, reply = ada.add_exchange("conv-1", "Where is the key?", "Under the mat.")
            assert question.turn_index == reply.turn_index
        """
        said: dict[str, Any] = {"timestamp": datetime.now(UTC), **fields, "conversation_id": conversation_id}
        sides = (("user", user), ("assistant", assistant))
        turns = [new_record("turn", text, {**said, "role": role}) for role, text in sides]
        question, reply = await self._upsert(turns, allow_partial=False)
        return RecordResult.of(question.result), RecordResult.of(reply.result)

    @Operation
    async def put_records(
        self, records: Iterable[NewRecord], *, allow_partial: bool = False
    ) -> list[RecordResult | GroundwireError]:
        r"""Store records of any type, in batches of 100; one with the id of another replaces it.

        Args:
            records: each with `record_type`, `text`, and what its type has; see `RecordFields`.
            allow_partial: store those that can be stored and return for each other one why it cannot be; otherwise the
                batches are stored up to the first that has such a record, and that raises the error.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            entry = {"record_type": "faq", "text": "Q: Where is the key?\nA: Under the mat.", "topic": "house"}
            for result in ada.put_records([entry]):
                print(result)
        """
        if isinstance(records, Mapping):
            raise InvalidRequestError.of("records", f"must be a list of records, not {records!r}")
        messages: list[record_pb2.Record] = []
        for index, given in enumerate(records):
            said: dict[str, Any] = dict(given)
            record_type, text = said.pop("record_type", ""), said.pop("text", "")
            messages.append(new_record(record_type, text, said, f"records[{index}]."))
        outcomes: list[pb.BatchUpsertRecordsOutcome] = []
        for batch in record_batches(messages):
            outcomes += await self._upsert(batch, allow_partial=allow_partial)
        return [
            RecordResult.of(each.result) if each.HasField("result") else from_status(each.error) for each in outcomes
        ]

    @Operation
    async def record(self, record_id: str, *, count_access: bool = False, include_deleted: bool = False) -> Record:
        """Return a record; `count_access` counts it as read, `include_deleted` finds one that can be restored, too.

        Raises:
            RecordNotFoundError: the collection has none of this id that the caller may see.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            print(ada.record(ada.remember("The key is under the mat.").record_id).text)
        """
        request = pb.GetRecordRequest(
            collection=self.name, record_id=record_id, count_access=count_access, include_deleted=include_deleted
        )
        return Record.of((await self._transport.send(Contract.get_record, request)).record)

    @StreamOperation
    async def records(
        self,
        *,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        order_by: str = "",
        include_deleted: bool = False,
    ) -> AsyncGenerator[Record, None]:
        """Yield records, the newest first.

        Args:
            filter: which ones, in the JSON form of filters, such as `{"type": "memory", "importance": {"$gte": 4}}`.
            order_by: timestamp-desc, timestamp-asc, importance-desc or turn-asc.
            include_deleted: also those that were deleted and can be restored.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            for record in ada.records(filter={"type": "memory", "tags": "deadline"}, order_by="importance-desc"):
                print(record.timestamp, record.text)
        """
        async for record in self._list(filter, order_by, include_deleted=include_deleted):
            yield record

    async def _list(
        self, condition: FilterJson | None, order_by: str = "", *, include_deleted: bool
    ) -> AsyncGenerator[Record, None]:
        async for message in all_items.awaited(
            self,
            Contract.list_records,
            "records",
            collection=self.name,
            filter=filter_message(condition),
            order_by=named_value("order_by", pb.RecordOrder, order_by) if order_by else None,
            include_deleted=include_deleted,
        ):
            yield Record.of(message)

    @Operation
    async def recall(
        self,
        query: str,
        *,
        k: int | None = None,
        entity: str | None = None,
        include_global: bool = False,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
    ) -> SearchResults:
        """Return the memories that match a query best; among equal matches, important and recent ones come first.

        Args:
            query: what to look for.
            k: maximum number of results; the collection's default if not given.
            entity: entity whose memories are searched; global ones if not given.
            include_global: include global ones too.
            filter: which memories may be found, in the JSON form of filters.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            ada.remember("Alice prefers Python.", entity="alice")
            for hit in ada.recall("Which language does she like?", k=5, entity="alice"):
                print(hit.score, hit.text)
        """
        options = retrieval_options_pb2.RetrievalOptions(
            top_k=k,
            filter=filter_message(both_filters({"record_type": "memory"}, filter)),
            entity=entity or "",
            include_global=include_global,
            ranking=search_mode_pb2.RANKING_MEMORY,
        )
        request = retrieve_pb.RetrieveRequest(collection=self.name, query=query, options=options)
        return SearchResults.of(await self._transport.send(Contract.retrieve, request))

    @Operation
    async def retrieve_context(
        self,
        query: str,
        *,
        conversation_id: str = "",
        entity: str | None = None,
        include_global: bool = False,
        sections: Mapping[str, int | None] | None = None,
        k: int | None = None,
        max_tokens: int | None = None,
    ) -> Context:
        """Return what an assistant should know before it answers, in one call.

        Args:
            query: what the user says.
            conversation_id: conversation whose latest turns and summaries are included.
            entity: entity whose records are included; global ones if not given.
            include_global: include global ones too.
            sections: types of records and how many of each, None for the server's default; all types if not given.
            k: maximum number of chunks of documents; the collection's default if not given, 0 for none.
            max_tokens: maximum number of tokens of all texts together; a text that does not fit is left out whole.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            ada.add_exchange("conv-1", "My name is Alice.", "Hello, Alice.", entity="alice")
            known = ada.retrieve_context("Who am I?", conversation_id="conv-1", entity="alice", sections={"turn": 4})
            print([entry.record.text for entry in known.sections["turn"]])
        """
        limits = []
        for name, most in (sections or {}).items():
            limit = retrieve_pb.SectionLimit(record_type=named_value("sections", record_pb2.RecordType, name))
            set_field(limit, "top_k", most, f"sections[{name!r}]")
            limits.append(limit)
        options = retrieval_options_pb2.RetrievalOptions(
            top_k=k or None, entity=entity or "", include_global=include_global
        )
        request = retrieve_pb.RetrieveContextRequest(
            collection=self.name,
            query=query,
            options=options,
            conversation_id=conversation_id,
            sections=limits,
            without_documents=k == 0,
            max_tokens=max_tokens,
        )
        return Context.of(await self._transport.send(Contract.retrieve_context, request))

    @Operation
    async def update_record(
        self,
        record_id: str,
        *,
        text: str | None = None,
        clear: str | Sequence[str] = (),
        **fields: Unpack[RecordChanges],
    ) -> RecordResult:
        """Change a record; what is left out, or None, stays as it is.

        Args:
            record_id: its id.
            text: the new text, if it changes.
            clear: names of fields to empty, or to set back to their defaults.
            fields: what changes; see `RecordChanges`.

        Raises:
            RecordNotFoundError: there is no such record.
            InvalidRequestError: naming every field that breaks a rule.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            remembered = ada.remember("The key is under the mat.")
            ada.update_record(remembered.record_id, text="The key is in the shed.", importance=5)
        """
        # Its type says in which details of the message a field is, and an update cannot change it.
        request = pb.GetRecordRequest(collection=self.name, record_id=record_id)
        stored = (await self._transport.send(Contract.get_record, request)).record
        record_type = held_by(stored, "record_type")
        said = _scoped(record_type, {**fields, "text": text})
        of_all = (*_OF_ALL_TYPES, "timestamp", "metadata")
        names = [name for name in (*said, *_names(clear)) if name != "etag"]
        paths = [name if name in of_all else f"{record_type}.{name}" for name in names]
        record, mask = _record(record_type, {**said, "record_id": record_id}), FieldMask(paths=paths)
        change = pb.UpdateRecordRequest(collection=self.name, record=record, update_mask=mask)
        return RecordResult.of((await self._transport.send(Contract.update_record, change)).result)

    @Operation
    async def delete_records(
        self,
        ids: str | Sequence[str] = (),
        *,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
        permanent: bool = False,
    ) -> Deletion:
        """Delete records by their ids, or those that a filter matches; they can be restored unless `permanent` is set.

        Raises:
            RecordNotFoundError: no record has one of the ids; a filter may match nothing.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            ada.remember("Alice has moved.", entity="alice")
            print(ada.delete_records(filter={"entity": "alice"}, permanent=True).document_count)
        """
        _check_selection(ids, filter)
        request = pb.DeleteRecordsRequest(collection=self.name, filter=filter_message(filter), permanent=permanent)
        if filter is None:
            request.ids.record_ids.extend(_names(ids))
        return Deletion.of((await self._transport.send(Contract.delete_records, request)).receipt)

    @Operation
    async def restore_records(
        self,
        ids: str | Sequence[str] = (),
        *,
        filter: FilterJson | None = None,  # noqa: A002 - what everybody calls it
    ) -> list[RecordResult]:
        """Restore records that were deleted, but not permanently, by their ids or by a filter.

        A hundred are restored at a time, each hundred or none of it.

        Raises:
            RecordNotFoundError: no record has one of the ids, or it is gone; a filter may match nothing.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            remembered = ada.remember("The key is under the mat.")
            ada.delete_records(remembered.record_id)
            ada.restore_records(remembered.record_id)
        """
        _check_selection(ids, filter)
        record_ids = _names(ids)
        if filter is not None:
            deleted = self._list(filter, include_deleted=True)
            record_ids = [each.record_id async for each in deleted if each.delete_time is not None]
        results: list[RecordResult] = []
        for start in range(0, len(record_ids), _BATCH_RECORDS):
            part = record_ids[start : start + _BATCH_RECORDS]
            request = pb.RestoreRecordsRequest(collection=self.name, record_ids=part)
            results += map(RecordResult.of, (await self._transport.send(Contract.restore_records, request)).results)
        return results

    @Operation
    async def add_links(
        self, record_id: str, *, supports: str | Sequence[str] = (), contradicts: str | Sequence[str] = ()
    ) -> RecordLinks:
        """Say that a record supports or contradicts others, and return all of its links.

        Raises:
            RecordNotFoundError: one of them does not exist.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            old = ada.remember("The key is under the mat.").record_id
            new = ada.remember("The key is in the shed.").record_id
            print(ada.add_links(new, contradicts=old).contradicts)
        """
        request = pb.AddLinksRequest(collection=self.name, record_id=record_id, links=_links(supports, contradicts))
        return RecordLinks.of((await self._transport.send(Contract.add_links, request)).links)

    @Operation
    async def remove_links(
        self,
        record_id: str,
        *,
        supports: str | Sequence[str] = (),
        contradicts: str | Sequence[str] = (),
        suggested_contradicts: str | Sequence[str] = (),
    ) -> RecordLinks:
        """Remove links that `add_links` made or that the server suggested, and return the remaining ones.

        A suggestion is removed from both records, and made again only when the text of one of them changes.

        Raises:
            RecordNotFoundError: the record does not exist.

        Example:
            ada = client.collection("ada")
            ada.create(profile="memory")
            old = ada.remember("The key is under the mat.").record_id
            new = ada.remember("The key is in the shed.").record_id
            ada.add_links(new, contradicts=old)
            assert ada.remove_links(new, contradicts=old).contradicts == ()
        """
        links = _links(supports, contradicts, suggested_contradicts)
        request = pb.RemoveLinksRequest(collection=self.name, record_id=record_id, links=links)
        return RecordLinks.of((await self._transport.send(Contract.remove_links, request)).links)

    async def _upsert(
        self, records: Sequence[record_pb2.Record], *, allow_partial: bool
    ) -> Sequence[pb.BatchUpsertRecordsOutcome]:
        request = pb.BatchUpsertRecordsRequest(collection=self.name, records=records, allow_partial=allow_partial)
        return (await self._transport.send(Contract.batch_upsert_records, request)).outcomes


def new_record(record_type: str, text: str, fields: Mapping[str, Any], place: str = "") -> record_pb2.Record:
    """Return the message of a new record, made now unless `fields` has a `timestamp`; `place` begins names in errors.

    Raises:
        InvalidRequestError: naming each field that the type does not have, or whose value no message can hold.
    """
    # The client's time: a record says when it was made, not when it reached the server.
    said = {"timestamp": datetime.now(UTC)} | _scoped(record_type, {**fields, "text": text})
    return _record(record_type, said, place)


def _scoped(record_type: str, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return the fields that are not None, with the scope of an entity that is given alone.

    Only memories have a field for the entity besides.
    """
    said = {name: value for name, value in fields.items() if value is not None}
    if said.get("entity") and "scope" not in said:
        said["scope"] = f"{ENTITY_SCOPE}{said['entity']}"
        if record_type != "memory":
            del said["entity"]
    return said


def _record(record_type: str, fields: Mapping[str, Any], place: str = "") -> record_pb2.Record:
    message = record_pb2.Record(record_type=named_value(f"{place}record_type", record_pb2.RecordType, record_type))
    details: Any = getattr(message, held_by(message, "record_type"))
    details.SetInParent()
    violations: list[FieldViolation] = []
    for name, value in fields.items():
        with collected(violations):
            holder = message if name in _OF_ALL_TYPES else details
            match name:
                case "timestamp":
                    message.timestamp.CopyFrom(timestamp_message(value, place + name))
                case "metadata":
                    for key, each in metadata_messages(value, place).items():
                        message.metadata[key].CopyFrom(each)
                case _ if name not in holder.DESCRIPTOR.fields_by_name:
                    kind = held_by(message, "record_type")
                    names = (
                        *_OF_ALL_TYPES,
                        "timestamp",
                        "metadata",
                        *(each.name for each in details.DESCRIPTOR.fields),
                    )
                    rule = f"is not a field of records of type {kind}; these are {', '.join(names)}"
                    violations.append(FieldViolation(place + name, rule))
                case _:
                    given = named_value(place + name, _ENUMS[name], value) if name in _ENUMS else value
                    set_field(holder, name, given, place + name)
    refuse(violations)
    return message


def record_batches(records: Iterable[record_pb2.Record]) -> Iterator[list[record_pb2.Record]]:
    """Yield records in the batches in which they are sent, in order."""
    batch: list[record_pb2.Record] = []
    size = 0
    for record in records:
        batch.append(record)
        size += record.ByteSize()
        if len(batch) == _BATCH_RECORDS or size >= _BATCH_BYTES:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _check_selection(ids: str | Sequence[str], condition: FilterJson | None) -> None:
    if (condition is None) == (not ids):
        raise InvalidRequestError.of("ids", "either ids or a filter must be given")


def _names(given: str | Sequence[str]) -> list[str]:
    return [given] if isinstance(given, str) else list(given)


def _links(
    supports: str | Sequence[str], contradicts: str | Sequence[str], suggested_contradicts: str | Sequence[str] = ()
) -> list[pb.RecordLink]:
    targets = (
        (pb.LINK_KIND_SUPPORTS, supports),
        (pb.LINK_KIND_CONTRADICTS, contradicts),
        (pb.LINK_KIND_SUGGESTED_CONTRADICTS, suggested_contradicts),
    )
    return [pb.RecordLink(kind=kind, target_record_id=each) for kind, given in targets for each in _names(given)]
