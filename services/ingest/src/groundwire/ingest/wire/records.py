"""Converts and checks the messages of calls on records.

Violations raise InvalidRequestError, which names the field.
"""

from collections.abc import Callable, Sequence
from dataclasses import replace

from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import record_pb2
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.ingest.records import NewRecord, UpsertItem, WriteOutcome, WrittenRecord
from groundwire.ingest.wire.fields import known, parse_metadata
from groundwire.kernel.chunk import MAX_CHUNK_CHARS
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import FieldViolation, GroundwireError, InvalidRequestError, collected, refuse
from groundwire.kernel.filters import Value
from groundwire.kernel.identifiers import WITHOUT_CONTROLS, has_controls
from groundwire.kernel.records import (
    HISTORY,
    MAX_ACCESSES,
    MAX_QUOTED,
    MAX_TOKENS,
    MEMORY,
    MIN_STRICT_TOKENS,
    QUOTED,
    LinkKind,
    RecordOrder,
    StoredRecord,
    entity_of,
    parse_record_id,
)
from groundwire.rpc.error_status import to_status
from groundwire.rpc.messages import (
    RECORD_TYPES,
    place_of,
    record_type_of,
    stored_metadata,
    to_record_message,
)
from groundwire.rpc.value_messages import members_by_number, parse_timestamp

MAX_RECORDS = 100
MAX_IDS = 1000
MAX_LINKS = 100
_ORDERS = members_by_number(pb.RecordOrder, RecordOrder)
_KINDS = members_by_number(pb.LinkKind, LinkKind)
_KEY = "metadata."
_CHANGEABLE = frozenset({"text", "timestamp", "origin", "scope", "metadata", "quoted_document_ids"})


def parse_upserts(request: pb.BatchUpsertRecordsRequest, count_tokens: Callable[[str], int]) -> list[UpsertItem]:
    """Return the records of a request; with `allow_partial` those that break a rule as their errors.

    Raises:
        InvalidRequestError: the request as a whole breaks a rule, or, all or nothing, a record does; names all of them.
    """
    if not 1 <= len(request.records) <= MAX_RECORDS:
        raise InvalidRequestError.of("records", f"must be 1 to {MAX_RECORDS} records")
    parsed: list[UpsertItem] = []
    violations: list[FieldViolation] = []
    first: dict[str, int] = {}
    for number, message in enumerate(request.records):
        path = f"records[{number}]"
        if message.record_id and first.setdefault(message.record_id, number) != number:
            taken = f"is already that of records[{first[message.record_id]}]"
            raise InvalidRequestError.of(f"{path}.record_id", taken)
        try:
            item = parse_record(message, path, count_tokens, strict=request.strict_tokens)
            parsed.append(_with_history(item, message, path) if request.keep_history else item)
        except InvalidRequestError as error:
            parsed.append(error)
            violations += error.violations
    if violations and not request.allow_partial:
        raise InvalidRequestError(violations)
    return parsed


def parse_record(
    message: record_pb2.Record, path: str, count_tokens: Callable[[str], int], *, strict: bool = False
) -> NewRecord:
    """Return a record that keeps the rules of its type; `strict` asks for more than a few words."""
    # Imported late: importing pydantic takes long, and a server without records does not need it.
    from groundwire.schemas.registry import check_metadata  # noqa: PLC0415 - see above

    tokens, wrong, least = 0, "", MIN_STRICT_TOKENS if strict else 1
    if not message.text.strip():
        wrong = "must not be blank"
    elif len(message.text) > MAX_CHUNK_CHARS:
        wrong = f"must have at most {MAX_CHUNK_CHARS} characters"
    elif has_controls(message.text):
        wrong = WITHOUT_CONTROLS
    elif not least <= (tokens := count_tokens(message.text)) <= MAX_TOKENS:
        wrong = f"must have {least} to {MAX_TOKENS} tokens, not {tokens}"
    violations = [FieldViolation(f"{path}.text", wrong)] if wrong else []
    record_type, details = record_type_of(message), message.WhichOneof("details")
    if record_type not in RECORD_TYPES:
        said = f"must be one of {', '.join(RECORD_TYPES)}"
        raise InvalidRequestError([*violations, FieldViolation(f"{path}.record_type", said)])
    if details not in {None, record_type}:
        said = f"are not the details of a {record_type}"
        raise InvalidRequestError([*violations, FieldViolation(f"{path}.{details}", said)])
    metadata, custom, quoted = stored_metadata(message), dict[str, Value](), list[str]()
    if message.record_id:
        with collected(violations):
            parse_record_id(message.record_id, record_type, f"{path}.record_id")
    if message.HasField("timestamp"):
        with collected(violations):
            metadata["timestamp"] = parse_timestamp(message.timestamp, f"{path}.timestamp")
    with collected(violations):
        custom = parse_metadata(message.metadata, f"{path}.metadata")
        # As JSON has them: with lists instead of tuples.
        metadata["custom"] = {key: list(value) if isinstance(value, tuple) else value for key, value in custom.items()}
    with collected(violations):
        quoted = parse_ids(message.quoted_document_ids, f"{path}.quoted_document_ids", MAX_QUOTED, least=0)
    of_schema = list[FieldViolation]()
    with collected(of_schema):
        checked = check_metadata(record_type, metadata, lambda parts: f"{path}.{place_of(record_type, parts)}")
    # A time that cannot be read is not in `metadata`: the schema would call it missing.
    named = {each.field for each in violations}
    violations += [each for each in of_schema if each.field not in named]
    refuse(dict.fromkeys(violations))
    record = {key: value for key, value in checked.items() if key not in {"tags", "custom"}}
    if quoted:
        record[QUOTED] = quoted
    fields = DocumentFields(tags=tuple(checked.get("tags", ())), metadata=custom, record=record)
    return NewRecord(message.record_id, message.text, tokens, fields, message.etag)


def _with_history(item: NewRecord, message: record_pb2.Record, path: str) -> NewRecord:
    """Return a record with the creation and accesses that another server recorded."""
    if not 0 <= message.access_count < MAX_ACCESSES:
        raise InvalidRequestError.of(f"{path}.access_count", f"must be at least 0 and below {MAX_ACCESSES}")
    history: dict[str, object] = {"access_count": message.access_count}
    for name in ("create_time", "last_accessed_time"):
        if message.HasField(name):
            history[name] = parse_timestamp(getattr(message, name), f"{path}.{name}").isoformat()
    return replace(item, fields=replace(item.fields, record={**item.metadata, HISTORY: history}))


def merged_record(
    request: pb.UpdateRecordRequest, stored: StoredRecord, count_tokens: Callable[[str], int]
) -> NewRecord:
    """Return a stored record with the fields of a request that its mask names."""
    record_type = stored.metadata["type"]
    if not request.update_mask.paths:
        raise InvalidRequestError.of("update_mask", "must name at least one field")
    # The library does not support keys of maps in masks.
    keys = [path.removeprefix(_KEY) for path in request.update_mask.paths if path.startswith(_KEY)]
    mask = FieldMask(paths=[path for path in request.update_mask.paths if not path.startswith(_KEY)])
    for path in mask.paths:
        is_field = FieldMask(paths=[path]).IsValidForDescriptor(record_pb2.Record.DESCRIPTOR)
        if not is_field or path.partition(".")[0] not in _CHANGEABLE | {record_type}:
            raise InvalidRequestError.of(
                "update_mask", f"{path!r} is not a field of a {record_type} that can be changed"
            )
    message, given = to_record_message(stored), record_pb2.Record()
    given.CopyFrom(request.record)
    of_scope = entity_of({"scope": stored.metadata["scope"]})
    if record_type == MEMORY and stored.metadata.get("entity") == of_scope:
        message.memory.ClearField("entity")  # it is derived from the scope, which may have changed
    # Details that are not given are empty ones: the library would leave alone what the mask names below them.
    getattr(given, record_type).SetInParent()
    mask.MergeMessage(given, message, replace_message_field=True, replace_repeated_field=True)
    for key in keys:
        if key in given.metadata:
            message.metadata[key].CopyFrom(given.metadata[key])
        else:
            message.metadata.pop(key, None)
    message.etag = request.record.etag
    # Its id is stored, whatever it looks like: earlier versions took memories of the 30th of February.
    message.ClearField("record_id")
    return replace(parse_record(message, "record", count_tokens), record_id=request.record.record_id)


def parse_order(order: int) -> RecordOrder:
    """Return the order of a listing; unset is the newest first."""
    return known(_ORDERS, order, "order_by") or RecordOrder.TIMESTAMP_DESC


def parse_ids(ids: Sequence[str], field: str, most: int, *, least: int = 1) -> list[str]:
    """Return the ids, each once, in order."""
    if not least <= len(ids) <= most:
        raise InvalidRequestError.of(field, f"must be {least} to {most} ids")
    return list(dict.fromkeys(parse_record_id(each, field=f"{field}[{at}]") for at, each in enumerate(ids)))


def parse_links(record_id: str, links: Sequence[pb.RecordLink]) -> list[tuple[LinkKind, str]]:
    """Return kind and target of each link."""
    if not 1 <= len(links) <= MAX_LINKS:
        raise InvalidRequestError.of("links", f"must be 1 to {MAX_LINKS} links")
    parsed = []
    for number, link in enumerate(links):
        kind = known(_KINDS, link.kind, f"links[{number}].kind")
        if kind is None:
            raise InvalidRequestError.of(f"links[{number}].kind", "must be given")
        place = f"links[{number}].target_record_id"
        if parse_record_id(link.target_record_id, field=place) == record_id:
            raise InvalidRequestError.of(place, "is the record itself")
        parsed.append((kind, link.target_record_id))
    return parsed


def to_result(written: WrittenRecord) -> pb.RecordResult:
    """Return the message for the outcome of a write; it contains no text of the record."""
    return pb.RecordResult(
        record_id=written.record_id,
        outcome=pb.RecordOutcome.Value(f"RECORD_OUTCOME_{written.outcome.name}"),
        etag=written.document.etag,
        document_id=written.document.document_id,
        generation=written.document.generation,
        turn_index=(written.document.fields.record or {}).get("turn_index") or 0,
        token_count=written.token_count,
        embedded=written.embedded,
    )


def to_results(written: list[WrittenRecord]) -> list[pb.RecordResult]:
    return [to_result(each) for each in written]


def to_outcomes(written: list[WriteOutcome]) -> list[pb.BatchUpsertRecordsOutcome]:
    return [
        pb.BatchUpsertRecordsOutcome(error=to_status(each))
        if isinstance(each, GroundwireError)
        else pb.BatchUpsertRecordsOutcome(result=to_result(each))
        for each in written
    ]
