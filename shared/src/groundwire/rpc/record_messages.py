"""Records as messages, and their metadata under the stored keys that `groundwire.schemas` knows."""

from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any

from google.protobuf.descriptor import EnumDescriptor, FieldDescriptor

from groundwire.api.common.v1 import record_pb2 as pb
from groundwire.kernel.filters import Value
from groundwire.kernel.records import HISTORY, QUOTED, RecordLinks, StoredRecord, record_time
from groundwire.rpc.value_messages import to_metadata, to_timestamp

RECORD_TYPES = ("persona", "faq", "memory", "turn", "summary")
"""Types of records as they are stored; each has details of this name."""
_TYPE, _ORIGIN = pb.RecordType.DESCRIPTOR, pb.RecordOrigin.DESCRIPTOR
_PLACES = {"type": "record_type", "source": "origin", "timestamp": "timestamp", "scope": "scope", "custom": "metadata"}


def record_type_of(message: pb.Record) -> str:
    """Return the stored name of the type of a record, empty for none or one that this version does not know."""
    return _stored_name(_TYPE, message.record_type) if message.record_type in _TYPE.values_by_number else ""


def stored_metadata(message: pb.Record) -> dict[str, Any]:
    """Return what a message says under its stored keys, without time and the caller's own keys; unset is left out."""
    metadata: dict[str, Any] = {"type": record_type_of(message)}
    if message.origin:
        metadata["source"] = _stored_name(_ORIGIN, message.origin)
    if message.scope:
        metadata["scope"] = message.scope
    details = message.WhichOneof("details")
    for field, value in getattr(message, details).ListFields() if details else ():
        is_enum = field.enum_type is not None
        stored = _stored_name(field.enum_type, value) if is_enum else list(value) if field.name == "tags" else value
        metadata[_stored_key(field)] = stored
    return metadata


def place_of(record_type: str, parts: Sequence[int | str]) -> str:
    """Return where a message has a stored key and what is below it, as in `memory.tags[1]`."""
    key, *below = parts
    name = _PLACES.get(str(key)) or f"{record_type}.{str(key).removeprefix('_')}"
    return name + "".join(f"[{part!r}]" for part in below)


def to_record_message(record: StoredRecord) -> pb.Record:
    document, metadata = record.document, record.metadata
    record_type, history = metadata["type"], metadata.get(HISTORY, {})
    accessed = record.last_accessed or _moment(history, "last_accessed_time")
    message = pb.Record(
        record_id=record.record_id,
        record_type=pb.RecordType.Value(f"RECORD_TYPE_{record_type.upper()}"),
        text=record.text,
        timestamp=to_timestamp(record_time(metadata)),
        origin=pb.RecordOrigin.Value(f"RECORD_ORIGIN_{metadata['source'].upper()}"),
        scope=metadata["scope"],
        metadata=to_metadata(document.fields.metadata),
        links=to_links_message(record.links),
        access_count=record.access_count + history.get("access_count", 0),
        last_accessed_time=None if accessed is None else to_timestamp(accessed),
        create_time=to_timestamp(_moment(history, "create_time") or document.ingest_time),
        update_time=to_timestamp(document.update_time),
        delete_time=None if document.delete_time is None else to_timestamp(document.delete_time),
        etag=document.etag,
        document_id=document.document_id,
        generation=document.generation,
        token_count=record.token_count,
        quoted_document_ids=metadata.get(QUOTED, ()),
    )
    details = getattr(message, record_type)
    details.SetInParent()
    for field in details.DESCRIPTOR.fields:
        _set_detail(details, field, document.fields.tags if field.name == "tags" else metadata.get(_stored_key(field)))
    return message


def _moment(history: Mapping[str, Any], name: str) -> datetime | None:
    return datetime.fromisoformat(history[name]) if name in history else None


def to_links_message(links: RecordLinks) -> pb.RecordLinks:
    return pb.RecordLinks(
        context_of=links.context_of,
        follows=links.follows,
        related_to=links.related_to,
        supports=links.supports,
        contradicts=links.contradicts,
        suggested_contradicts=links.suggested_contradicts,
    )


def custom_values(metadata: Mapping[str, Value]) -> dict[str, Any]:
    """Return the caller's own keys as JSON has them: with lists."""
    return {key: list(value) if isinstance(value, tuple) else value for key, value in metadata.items()}


def _set_detail(details: Any, field: FieldDescriptor, value: Any) -> None:
    if value is None:
        return
    if field.name == "tags":
        details.tags.extend(value)
    elif field.enum_type is not None:
        setattr(details, field.name, field.enum_type.values_by_name[_prefix(field.enum_type) + value.upper()].number)
    else:
        setattr(details, field.name, value)


def _stored_key(field: FieldDescriptor) -> str:
    # Two keys of FAQs begin with an underscore, which only the JSON name of a field can have (trap T20).
    return field.json_name if field.json_name.startswith("_") else field.name


def _stored_name(enum: EnumDescriptor, number: int) -> str:
    """Return the stored spelling of a value of an enum, the number of one that this version does not know."""
    if number not in enum.values_by_number:
        return str(number)
    return enum.values_by_number[number].name.removeprefix(_prefix(enum)).lower()


def _prefix(enum: EnumDescriptor) -> str:
    """Return what the names of the values of an enum begin with, up to that of the one without meaning."""
    return enum.values_by_number[0].name.removesuffix("UNSPECIFIED")
