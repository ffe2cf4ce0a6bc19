"""`groundwire memory`: keep, look at and change what an assistant remembers, and its other records."""

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import click
from google.protobuf.message import Message

from groundwire.api.common.v1.record_pb2 import Record as RecordMessage
from groundwire.api.common.v1.record_pb2 import RecordType
from groundwire.api.ingest.v1 import record_service_pb2 as pb
from groundwire.cli.connection import connect
from groundwire.cli.docs import show_receipt
from groundwire.cli.fields import assign
from groundwire.cli.messages import search_json, shown_name
from groundwire.cli.options import (
    COUNT,
    check_consent,
    collection_option,
    etag_option,
    server_options,
    set_option,
    text_option,
    unset_option,
    yes_option,
)
from groundwire.cli.output import (
    confirm,
    counted,
    excerpt,
    print_fields,
    print_line,
    print_list,
    print_message,
    printed_as_json,
)
from groundwire.client import GroundwireClient
from groundwire.client.values import FilterJson, both_filters, named_value
from groundwire.kernel.errors import CollectionNotFoundError, InvalidRequestError
from groundwire.kernel.records import SOURCE_PREFIX

app = click.Group(
    "memory", help="Keep memories and other records: add, list, show, link, search, change and delete them."
)
_TYPES = ("memory", "persona", "faq", "turn", "summary")
_ORDERS = ("timestamp-desc", "timestamp-asc", "importance-desc", "turn-asc")
_COLUMNS = ("record", "importance", "scope", "when", "text")
_EXCERPT_CHARS = 80

id_argument = click.argument("record_id", metavar="ID", help="Id of the record.")

type_option = click.option(
    "--type", "record_type", type=click.Choice(_TYPES), default="memory", help="Type of the record."
)
entity_option = click.option("--entity", help="Entity that the record is for; everybody if not given.")
memory_filter_option = click.option(
    "--filter", "condition", help='Filter as JSON, such as {"tags": "deadline"}; see docs/reference/records.md.'
)
supports_option = click.option("--supports", multiple=True, metavar="ID", help="Record that it supports.")
contradicts_option = click.option("--contradicts", multiple=True, metavar="ID", help="Record that it contradicts.")


@app.command("add")
@click.argument("text", help="What to remember.")
@collection_option
@type_option
@text_option("--id", "record_id", help="Id; one that exists is replaced. Made by the server if not given.")
@entity_option
@click.option("--importance", help="From 1 (low) to 5 (critical); 3 if not given.")
@click.option("--kind", help="fact, preference, pattern, note or decision; note if not given.")
@click.option("--tag", "tags", multiple=True, help="Tag; may be given several times.")
@click.option("--conversation", help="Conversation it was made in, such as conv-1.")
@set_option
@server_options
def add_record(
    text: str,
    collection: str,
    record_type: str,
    record_id: str,
    entity: str | None,
    importance: str | None,
    kind: str | None,
    tags: tuple[str, ...],
    conversation: str | None,
    assignments: tuple[str, ...],
) -> None:
    """Store a memory or another record; a collection that is not there is made, with the profile `memory`."""
    record = RecordMessage(record_id=record_id, text=text, record_type=named_value("--type", RecordType, record_type))
    record.timestamp.FromDatetime(datetime.now(UTC))
    getattr(record, record_type).SetInParent()
    options = {"importance": importance, "kind": kind, "conversation_id": conversation}
    given = [f"{name}={value}" for name, value in options.items() if value is not None]
    given += [f"tags={json.dumps([tag])}" for tag in tags]
    given += [f"scope=entity:{entity}"] if entity is not None else []
    if given or assignments:
        assign(record, [*given, *assignments], (), _details(record_type))
    with connect() as client:
        ensure_collection(client, collection)
        (outcome,) = client.batch_upsert_records(collection=collection, records=[record]).outcomes
    _show_result(outcome.result)


def ensure_collection(client: GroundwireClient, name: str) -> None:
    """Make a collection for memories if there is none of this name."""
    try:
        client.get_collection(collection=name)
    except CollectionNotFoundError:
        client.collection(name).create(profile="memory")


def _details(record_type: str) -> dict[str, str]:
    """Return the paths of the fields that only this type has, by the names that filters take."""
    details: Message = getattr(RecordMessage(), record_type)
    return {name: f"{record_type}.{name}" for name in details.DESCRIPTOR.fields_by_name}


def _show_result(result: pb.RecordResult) -> None:
    if not printed_as_json(result):
        print_line(f"{shown_name(result, 'outcome')} {result.record_id}")


@app.command("list")
@collection_option
@click.option(
    "--type", "record_type", type=click.Choice([*_TYPES, "any"]), default="memory", help="Type of the records to list."
)
@click.option("--entity", help="Only records of this entity.")
@memory_filter_option
@click.option("--order", type=click.Choice(_ORDERS), default="timestamp-desc", help="Order.")
@click.option("--deleted", is_flag=True, help="Include records that were deleted but can be restored.")
@server_options
def list_records(
    collection: str, record_type: str, entity: str | None, condition: str | None, order: str, deleted: bool
) -> None:
    """List memories, the newest first, or other records."""
    own = {} if record_type == "any" else {"record_type": record_type}
    own |= {} if entity is None else {"entity": entity}
    where = both_filters(own, condition) or None
    with connect() as client:
        records = list(client.collection(collection).records(filter=where, order_by=order, include_deleted=deleted))
    columns = ("state", *_COLUMNS) if deleted else _COLUMNS
    rows = []
    for record in records:
        state = "live" if record.delete_time is None else "deleted"
        importance = "" if record.importance is None else record.importance
        when = record.timestamp.isoformat(timespec="minutes").removesuffix("+00:00") + "Z"
        row = (state, record.record_id, importance, record.scope, when, excerpt(record.text, _EXCERPT_CHARS))
        rows.append(row[-len(columns) :])
    print_list([record.message for record in records], columns, rows, "no records", is_excerpt=True)


@app.command("search")
@click.argument("query", metavar="TEXT", help="What to look for.")
@collection_option
@click.option(
    "--top-k",
    "-k",
    "k",
    type=COUNT,
    help="Maximum number of results; the collection's default if not given.",
)
@click.option("--entity", help="Entity whose memories are searched; global ones if not given.")
@click.option("--include-global", is_flag=True, help="Include global memories too.")
@memory_filter_option
@server_options
def search_memories(
    query: str, collection: str, k: int | None, entity: str | None, include_global: bool, condition: str | None
) -> None:
    """Show the memories that match a text best: global ones, or those of one entity."""
    with connect() as client:
        found = client.collection(collection).recall(
            query, k=k, entity=entity, include_global=include_global, filter=condition
        )
    rows = [(hit.source.removeprefix(SOURCE_PREFIX), round(hit.score, 3), hit.text) for hit in found]
    print_list(search_json(found.message), ("record", "score", "text"), rows, "nothing found")


@app.command("context")
@click.argument("query", metavar="TEXT", help="What the user says.")
@collection_option
@text_option("--conversation", help="Conversation whose latest turns and summaries are included.")
@click.option("--entity", help="Entity whose records are included; global ones if not given.")
@click.option("--include-global", is_flag=True, help="Include global records too.")
@click.option("--max-tokens", type=COUNT, help="Maximum number of tokens of all texts together.")
@server_options
def retrieve_context(
    query: str,
    collection: str,
    conversation: str,
    entity: str | None,
    include_global: bool,
    max_tokens: int | None,
) -> None:
    """Show what an assistant should know before it answers: records by their type, and chunks of documents."""
    with connect() as client:
        known = client.collection(collection).retrieve_context(
            query, conversation_id=conversation, entity=entity, include_global=include_global, max_tokens=max_tokens
        )
    rows = [(name, each.record.record_id, each.record.text) for name, found in known.sections.items() for each in found]
    rows += [("document", hit.chunk_id, hit.text) for hit in known.documents]
    print_list(known.message, ("type", "id", "text"), rows, "nothing found")


@app.command("get")
@id_argument
@collection_option
@click.option("--count", is_flag=True, help="Count this as an access.")
@click.option("--deleted", is_flag=True, help="Show the record even if it was deleted but can be restored.")
@server_options
def get_record(record_id: str, collection: str, count: bool, deleted: bool) -> None:
    """Show a record with its links and its text."""
    with connect() as client:
        found = client.collection(collection).record(record_id, count_access=count, include_deleted=deleted)
    print_message(found.message, text="text")


@app.command("update")
@id_argument
@collection_option
@click.option("--text", help="New text, which is embedded again.")
@set_option
@unset_option
@etag_option
@server_options
def update_record(
    record_id: str,
    collection: str,
    text: str | None,
    assignments: tuple[str, ...],
    cleared: tuple[str, ...],
    etag: str,
) -> None:
    """Change a record; what is not named stays as it is."""
    record = RecordMessage()
    with connect() as client:
        # The type says which fields can be set.
        stored = client.get_record(collection=collection, record_id=record_id).record
        record_type = shown_name(stored, "record_type")
        getattr(record, record_type).SetInParent()
        names = _details(record_type)
        request = pb.UpdateRecordRequest(collection=collection)
        if assignments or cleared or text is None:
            request.update_mask.CopyFrom(assign(record, assignments, cleared, names))
        if text is not None:
            record.text = text
            request.update_mask.paths.append("text")
        record.record_id, record.etag = record_id, etag
        request.record.CopyFrom(record)
        result = client.update_record.send(request).result
    _show_result(result)


@app.command("link")
@id_argument
@collection_option
@supports_option
@contradicts_option
@server_options
def link_records(**links: Any) -> None:
    """Say that a record supports or contradicts others."""
    _change_links("add_links", **links)


@app.command("unlink")
@id_argument
@collection_option
@supports_option
@contradicts_option
@click.option(
    "--suggested",
    "suggested_contradicts",
    multiple=True,
    metavar="ID",
    help="Record that the server wrongly suggested it contradicts.",
)
@server_options
def unlink_records(**links: Any) -> None:
    """Take back that a record supports or contradicts others, or dismiss what the server suggested."""
    _change_links("remove_links", **links)


def _change_links(method: str, record_id: str, collection: str, **targets: tuple[str, ...]) -> None:
    if not any(targets.values()):
        raise InvalidRequestError.of("--supports", "or --contradicts must name a record")
    with connect() as client:
        change = getattr(client.collection(collection), method)
        kinds = asdict(change(record_id, **targets))
    if not printed_as_json(kinds):
        print_fields({"record_id": record_id, **{kind: list(ids) for kind, ids in kinds.items()}})


def _filter_of(record_ids: tuple[str, ...], entity: str | None, condition: str | None) -> FilterJson | None:
    """Return the filter that says which records are meant, None where their ids do."""
    if sum((bool(record_ids), entity is not None, condition is not None)) != 1:
        raise InvalidRequestError.of("ID", "one of ids, --entity and --filter must say which records")
    return condition if entity is None else {"entity": entity}


@app.command("delete")
@click.argument("record_ids", metavar="[ID]...", nargs=-1, help="Ids of the records.")
@collection_option
@click.option("--entity", help="Delete all records of this entity, of any type.")
@memory_filter_option
@click.option("--permanent", is_flag=True, help="Delete permanently: they cannot be restored.")
@yes_option
@server_options
def delete_records(
    record_ids: tuple[str, ...], collection: str, entity: str | None, condition: str | None, permanent: bool, yes: bool
) -> None:
    """Delete records by id, by entity or by filter, so that they can be restored; with --permanent for good."""
    where = _filter_of(record_ids, entity, condition)
    what = f"all records of {entity}" if entity is not None else "these records"
    # Nobody is asked where the records can be restored.
    if permanent and not yes:
        check_consent("memory delete", given=False)
        confirm(f"Delete {what} for good?", abort=True)
    with connect() as client:
        receipt = client.collection(collection).delete_records(record_ids, filter=where, permanent=permanent).message
    if printed_as_json(receipt):
        return
    if receipt.purged:
        show_receipt(what, receipt)
    else:
        deleted = counted(receipt.document_count, "record")
        hint = "; `groundwire memory restore ID...` undoes it" if receipt.document_count else ""
        print_line(f"deleted {deleted}{hint}")


@app.command("restore")
@click.argument("record_ids", metavar="[ID]...", nargs=-1, help="Ids of the records.")
@collection_option
@click.option("--entity", help="Restore all records of this entity, of any type.")
@memory_filter_option
@server_options
def restore_records(record_ids: tuple[str, ...], collection: str, entity: str | None, condition: str | None) -> None:
    """Bring back records that were deleted, by id, by entity or by filter; `memory list --deleted` shows them."""
    where = _filter_of(record_ids, entity, condition)
    with connect() as client:
        results = client.collection(collection).restore_records(record_ids, filter=where)
    if printed_as_json([result.message for result in results]):
        return
    for result in results:
        print_line(f"{'restored' if result.outcome == 'created' else 'unchanged'} {result.record_id}")
