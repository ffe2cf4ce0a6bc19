"""Records of a server as the files of a vault, and back, over the public calls.

What the schema of a chunk has no field for goes to `extra`:

    "extra": {"collection": "ada", "document_id": "…", "record": {"record_id": "…", "scope": "entity:alice", …}}

`document_id` is what records that quote it call it. `record` is the message `groundwire.api.common.v1.Record` in JSON,
without what the chunk says itself and without what only the server that holds it can say. Where both say something the
chunk is right, so that a file may be changed by hand. A file without `extra` is a memory that `ChunkStore` made.
"""

import hashlib
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC
from itertools import islice
from typing import Any, Final

from google.protobuf import json_format

from groundwire.api.common.v1.record_pb2 import MemoryKind, Record, RecordOrigin, RecordType
from groundwire.api.common.v1.role_pb2 import Role
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.client.records import record_batches
from groundwire.client.values import enum_name, held_by, named_value
from groundwire.kernel.errors import AlreadyExistsError, GroundwireError, InvalidRequestError, UnavailableError
from groundwire.kernel.records import is_memory_id
from groundwire.rpc.error_status import from_status
from groundwire.vault.chunk import Chunk, checked_chunk
from groundwire.vault.store import ChunkStore

_PAGE = 100
_LINK_KINDS = {"supports": pb.LINK_KIND_SUPPORTS, "contradicts": pb.LINK_KIND_CONTRADICTS}
# What the three sources of a chunk stand for (C08); the first of each is what a chunk of that source becomes.
_SOURCES = {
    RecordOrigin.RECORD_ORIGIN_CHAT: "interaction",
    RecordOrigin.RECORD_ORIGIN_INTERACTION: "interaction",
    RecordOrigin.RECORD_ORIGIN_KB: "import",
    RecordOrigin.RECORD_ORIGIN_IMPORT: "import",
    RecordOrigin.RECORD_ORIGIN_SYSTEM: "derived",
    RecordOrigin.RECORD_ORIGIN_DERIVED: "derived",
}
_NOT_IN_EXTRA: Final = (
    "text",
    "links",
    "access_count",
    "last_accessed_time",
    "create_time",
    "delete_time",
    "update_time",
    "etag",
    "document_id",
    "generation",
    "token_count",
)
_DETAILS_SAID_BY_CHUNK = ("kind", "confidence", "tags", "conversation_id")


@dataclass(frozen=True, slots=True)
class ExportReport:
    """What an export did: how many files are new or changed, unchanged, and removed."""

    written: int
    unchanged: int
    removed: int


@dataclass(frozen=True, slots=True)
class ImportReport:
    """What an import did: how many records were stored or unchanged, how many links added, and what failed and why.

    `failed` has the ids of chunks; files that cannot be read are in the report of `ChunkStore.check`.
    """

    stored: int
    unchanged: int
    archived: int
    linked: int
    failed: dict[str, str] = field(default_factory=dict)


def export_records(client: GroundwireClient, collection: str, store: ChunkStore) -> ExportReport:
    """Make the vault hold what the caller may see of a collection, deleted records in the archive.

    Files that hold the same already are not touched, so an export that was interrupted is simply repeated. Files of
    records that the collection has no more are removed for good; those of other collections, and those that
    `ChunkStore` made, stay.
    """
    live, archive = ({chunk.id: chunk for chunk in store.list_chunks(archived=each)} for each in (False, True))
    records = [
        each.message for each in client.collection(collection).records(include_deleted=True, order_by="timestamp-asc")
    ]
    chunk_ids: dict[str, str] = {}
    for chunk in (*live.values(), *archive.values()):
        match chunk.extra:  # which people may have changed
            case {"record": {"record_id": str(record_id)}}:
                chunk_ids[record_id] = chunk.id
    taken = set(chunk_ids.values())
    for record in records:
        record_id = record.record_id
        if record_id in chunk_ids:
            continue
        chunk_id, attempt = record_id, 0
        while not is_memory_id(chunk_id) or chunk_id in taken:
            digest = hashlib.sha256(f"{record_id}\x00{attempt}".encode()).hexdigest()
            chunk_id, attempt = f"chunk-{record.create_time.ToDatetime():%Y-%m-%d}-{digest[:8]}", attempt + 1
        chunk_ids[record_id] = chunk_id
        taken.add(chunk_id)
    chunks = {
        chunk_ids[each.record_id]: (_chunk_of(each, collection, chunk_ids), each.HasField("delete_time"))
        for each in records
    }
    # In both places: an export that was interrupted may have left a file in the other one, too.
    changed = [
        (chunk, archived)
        for chunk_id, (chunk, archived) in chunks.items()
        if (live.get(chunk_id), archive.get(chunk_id)) != ((None, chunk) if archived else (chunk, None))
    ]
    for archived in (False, True):
        store.put_chunks((chunk for chunk, is_archived in changed if is_archived == archived), archived=archived)
    gone = [
        chunk_id
        for chunk_id, chunk in (live | archive).items()
        if chunk_id not in chunks and (chunk.extra or {}).get("collection") == collection
    ]
    for chunk_id in gone:
        store.delete_chunk(chunk_id, permanent=True)
    return ExportReport(len(changed), len(chunks) - len(changed), len(gone))


def mirror_records(
    client: GroundwireClient,
    collection: str,
    store: ChunkStore,
    *,
    interval_s: float,
    on_round: Callable[[ExportReport | UnavailableError], bool],
) -> None:
    """Export again and again, with a pause between, until `on_round` returns False.

    Rounds depend on nothing but the files, so that a mirror may be stopped at any moment and started again. While the
    server does not answer, rounds fail and the files stay as they are.
    """
    while True:
        try:
            report: ExportReport | UnavailableError = export_records(client, collection, store)
        except UnavailableError as error:
            report = error
        if not on_round(report):
            return
        time.sleep(interval_s)


def import_records(client: GroundwireClient, collection: str, store: ChunkStore) -> ImportReport:
    """Store the chunks of a vault as records: over those of the same ids, links between them, and the archive deleted.

    Records keep their ids but for those that are taken by what the caller may not see; these get others, the same ones
    each time. Links and quotes name what the records are called now. What cannot be stored is reported and stops
    nothing else. An import that was interrupted is simply repeated.
    """
    archived = {chunk.id for chunk in store.list_chunks(archived=True)}
    chunks = {chunk.id: chunk for chunk in (*store.list_chunks(archived=True), *store.list_chunks())}
    failed: dict[str, str] = {}
    records: dict[str, Record] = {}
    called: dict[str, str] = {}
    # A file that was copied by hand holds the same record, which a call takes once only; live ones go first.
    for chunk in sorted(chunks.values(), key=lambda each: each.id in archived):
        try:
            record = _record_of(chunk)
        except InvalidRequestError as error:
            failed[chunk.id] = error.message
            continue
        first = called.setdefault(record.record_id or chunk.id, chunk.id)
        if first == chunk.id:
            records[chunk.id] = record
        else:
            failed[chunk.id] = f"extra: holds the record of {first}"
    # Suggestions name records by the ids that they were exported with, which may have to change here.
    suggested = {chunk_id: list(record.links.suggested_contradicts) for chunk_id, record in records.items()}
    for record in records.values():
        record.ClearField("links")
    # In the order in which they were made, the two sides of an exchange too: links to the one before follow from it.
    moments = {chunk_id: record.timestamp.ToMilliseconds() for chunk_id, record in records.items()}
    before = {
        chunk_id: earlier
        for chunk_id in records
        for earlier in map(called.get, chunks[chunk_id].links.follows)
        if earlier is not None and moments.get(earlier) == moments[chunk_id]
    }
    places = _places(before)
    ordered = sorted(
        records,
        key=lambda each: (
            moments[each],
            places.get(each, 0),
            records[each].turn.role == Role.ROLE_ASSISTANT,
            chunks[each].metadata.created,
            each,
        ),
    )
    named = {each: (chunks[each].extra or {}).get("document_id") for each in ordered}
    held = {document_id: each for each, document_id in named.items() if isinstance(document_id, str)}
    # The server gives documents of records new ids, so records that quote them wait until all are stored.
    quotes: dict[str, list[str]] = {}
    for chunk_id in ordered:
        quoted = list(records[chunk_id].quoted_document_ids)
        if not held.keys().isdisjoint(quoted):
            quotes[chunk_id] = quoted
            records[chunk_id].quoted_document_ids[:] = [each for each in quoted if each not in held]
    results = _upsert(client, collection, {each: records[each] for each in ordered}, failed)
    taken = {
        chunk_id: records[chunk_id] for chunk_id, error in results.items() if isinstance(error, AlreadyExistsError)
    }
    for record in taken.values():
        record.record_id = _other_id(record, collection)
    results |= _upsert(client, collection, taken, failed)
    stored = {chunk_id: each for chunk_id, each in results.items() if isinstance(each, pb.RecordResult)}
    for chunk_id in quotes.keys() & stored.keys():
        now = (stored[held[each]].document_id if held.get(each) in stored else each for each in quotes[chunk_id])
        records[chunk_id].quoted_document_ids[:] = dict.fromkeys(now)
    _upsert(client, collection, {each: records[each] for each in ordered if each in quotes and each in stored}, failed)
    targets = {
        chunk_id: [
            *((kind, each) for name, kind in _LINK_KINDS.items() for each in getattr(chunks[chunk_id].links, name)),
            *((pb.LINK_KIND_SUGGESTED_CONTRADICTS, called.get(each, "")) for each in suggested[chunk_id]),
        ]
        for chunk_id in stored
    }
    linked = _add_links(client, collection, targets, {each: stored[each].record_id for each in stored}, failed)
    deleted = [stored[chunk_id].record_id for chunk_id in stored if chunk_id in archived]
    for start in range(0, len(deleted), _PAGE):
        client.collection(collection).delete_records(deleted[start : start + _PAGE])
    unchanged = sum(each.outcome == pb.RECORD_OUTCOME_UNCHANGED for each in stored.values())
    return ImportReport(len(stored) - unchanged, unchanged, len(deleted), linked, failed)


def _places(before: Mapping[str, str]) -> dict[str, int]:
    """Return how many chunks stand before each that one stands before, one behind the other."""
    places: dict[str, int] = {}
    for chunk_id in before:
        chain, earlier = [], chunk_id
        while earlier in before and earlier not in places:
            places[earlier] = 0  # so that a circle, which somebody may write by hand, ends
            chain.append(earlier)
            earlier = before[earlier]
        places |= {each: place for place, each in enumerate(reversed(chain), places.get(earlier, 0) + 1)}
    return places


def _upsert(
    client: GroundwireClient, collection: str, records: dict[str, Record], failed: dict[str, str]
) -> dict[str, pb.RecordResult | GroundwireError]:
    """Store records, by the ids of their chunks; return what became of each, and note in `failed` what was refused."""
    results: dict[str, pb.RecordResult | GroundwireError] = {}
    chunk_ids = iter(records)
    for batch in record_batches(records.values()):
        request = pb.BatchUpsertRecordsRequest(
            collection=collection, records=batch, allow_partial=True, keep_history=True
        )
        response = client.batch_upsert_records.send(request)
        for chunk_id, outcome in zip(list(islice(chunk_ids, len(batch))), response.outcomes, strict=True):
            failed.pop(chunk_id, None)
            if outcome.HasField("error"):
                error = from_status(outcome.error)
                results[chunk_id], failed[chunk_id] = error, error.message
            else:
                results[chunk_id] = outcome.result
    return results


def _other_id(record: Record, collection: str) -> str:
    """Return a deterministic id for a record whose own is taken in a collection."""
    digest = hashlib.sha256(f"{collection}\x00{record.record_id}".encode()).hexdigest()
    if record.record_type == RecordType.RECORD_TYPE_MEMORY:
        return f"{record.record_id[:-8]}{digest[:8]}"
    return f"doc-{uuid.UUID(digest[:32])}"


def _chunk_of(record: Record, collection: str, chunk_ids: dict[str, str]) -> Chunk:
    details: Any = getattr(record, record.WhichOneof("details") or "memory")
    said: dict[str, Any] = {
        name: getattr(details, name) for name in _DETAILS_SAID_BY_CHUNK if name in details.DESCRIPTOR.fields_by_name
    }
    rest = Record()
    rest.CopyFrom(record)
    for name in _NOT_IN_EXTRA:
        rest.ClearField(name)
    for name in said:
        getattr(rest, record.WhichOneof("details") or "memory").ClearField(name)
    if record.links.suggested_contradicts:
        rest.links.suggested_contradicts.extend(record.links.suggested_contradicts)
    accessed = record.last_accessed_time.ToDatetime(UTC) if record.HasField("last_accessed_time") else None
    links = {kind: list(getattr(record.links, kind)) for kind in ("follows", "related_to", "supports", "contradicts")}
    return checked_chunk(
        {
            "id": chunk_ids[record.record_id],
            "content": record.text,
            "tokens": max(1, record.token_count),
            "type": enum_name(MemoryKind.DESCRIPTOR, said.get("kind", 0)) or "note",
            "metadata": {
                "created": record.create_time.ToDatetime(UTC),
                "conversation_id": said.get("conversation_id") or None,
                "source": _SOURCES.get(record.origin, "derived"),
                "confidence": said.get("confidence", 1.0),
                "access_count": record.access_count,
                "last_accessed": accessed,
            },
            "links": {
                "context_of": list(record.links.context_of),
                **{kind: [chunk_ids[each] for each in ids if each in chunk_ids] for kind, ids in links.items()},
            },
            "tags": list(said.get("tags", ())),
            "extra": {
                "collection": collection,
                "document_id": record.document_id,
                "record": json_format.MessageToDict(rest, preserving_proto_field_name=True),
            },
        }
    )


def _record_of(chunk: Chunk) -> Record:
    """Return the record of a chunk, with the links of `extra`.

    Raises:
        InvalidRequestError: `extra` is not what an export wrote.
    """
    record = Record(record_id=chunk.id, record_type=RecordType.RECORD_TYPE_MEMORY)
    record.timestamp.FromDatetime(chunk.metadata.created)
    if chunk.extra is not None:
        try:
            record = json_format.ParseDict(chunk.extra["record"], Record())
        except (json_format.ParseError, KeyError, TypeError, AttributeError) as error:
            raise InvalidRequestError.of("extra", f"holds no record: {error}") from error
    kind = held_by(record, "record_type")
    if kind not in Record.DESCRIPTOR.fields_by_name:  # each type has details of its name
        raise InvalidRequestError.of("extra", "holds a record without a type that this version knows")
    details: Any = getattr(record, kind)
    record.text, record.access_count = chunk.content, chunk.metadata.access_count
    record.create_time.FromDatetime(chunk.metadata.created)
    if chunk.metadata.last_accessed is not None:
        record.last_accessed_time.FromDatetime(chunk.metadata.last_accessed)
    if _SOURCES.get(record.origin) != chunk.metadata.source:
        record.origin = named_value("source", RecordOrigin, chunk.metadata.source)
    if chunk.metadata.conversation_id and "conversation_id" in details.DESCRIPTOR.fields_by_name:
        details.conversation_id = chunk.metadata.conversation_id
    if kind == "memory":
        details.kind = named_value("type", MemoryKind, chunk.type)
        details.confidence = chunk.metadata.confidence
        details.tags.extend(chunk.tags)
    return record


def _add_links(
    client: GroundwireClient,
    collection: str,
    targets: Mapping[str, Sequence[tuple["pb.LinkKind.ValueType", str]]],
    record_ids: Mapping[str, str],
    failed: dict[str, str],
) -> int:
    """Add links, each from a chunk to another; return how many there are. What cannot be added is noted in `failed`."""
    linked = 0
    for chunk_id, record_id in record_ids.items():
        # Only between records that are there: one target that is missing would cost the others.
        links = [
            pb.RecordLink(kind=kind, target_record_id=record_ids[target])
            for kind, target in targets[chunk_id]
            if target in record_ids
        ]
        try:
            for start in range(0, len(links), _PAGE):
                batch = links[start : start + _PAGE]
                client.add_links(collection=collection, record_id=record_id, links=batch)
                linked += len(batch)
        except GroundwireError as error:
            failed[chunk_id] = f"links: {error.message}"
    return linked
