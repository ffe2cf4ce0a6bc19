"""Two tenants with the same names: no call of one sees, counts or changes anything of the other, nor learns that it is.

Every method that the running server has is called by reflection with what exists at the other tenant, in every shape
that its `oneof`s allow; a method that is new takes part by itself.
"""

import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor, MethodDescriptor
from google.protobuf.message import Message

from groundwire.api.common.v1 import document_pb2, record_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.identity import Right
from tests.credentials import bearer, call, make_key, methods_of
from tests.e2e.server import ServerProcess
from tests.packages import requires
from tests.stubs import METHOD_PATHS, SERVICES

NAME = "shared"
SOURCE = "notes.txt"
CANARY = "zanzibar"
"""Is in every text, title, name and question of the first tenant, and in no request of the other."""
DESTRUCTIVE = ("Delete", "Purge", "Remove", "End", "Cancel")


@dataclass
class Tenant:
    """A tenant with its client, and ids of what it has by the name of the field that takes them."""

    metadata: tuple[tuple[str, str], ...]
    client: GroundwireClient
    known: dict[str, list[Any]] = field(default_factory=dict)

    def learn(self, name: str, *values: Any) -> None:
        self.known.setdefault(name, []).extend(values)


Pair = tuple[Tenant, Tenant, Any]
"""Two tenants of a server and a channel to it."""


def fill(tenant: Tenant, word: str, documents: int) -> None:
    """Store documents, a record, a session with an answer, and an operation, all with `word` in them."""
    client = tenant.client
    client.create_collection(collection=NAME)
    for number in range(documents):
        text = f"# The {word} tides {number}\n\nThe {word} moon causes the tides of sea number {number}.\n"
        result = client.ingest_document(
            collection=NAME,
            source_uri=SOURCE if number == 0 else f"{word}-{number}.txt",
            text=text,
            fields=document_pb2.DocumentFields(title=f"{word} title", creators=[f"{word} author"]),
        )
        tenant.learn("document_id", result.result.document.document_id)
    for chunk in client.list_chunks(collection=NAME).chunks:
        tenant.learn("chunk_id", chunk.chunk_id)
        tenant.learn("chunk_number", chunk.chunk_number)
    record = record_pb2.Record(
        record_type=record_pb2.RECORD_TYPE_MEMORY,
        text=f"Ada likes the {word} sea. " * 5,
        memory=record_pb2.MemoryDetails(tags=[word]),
    )
    record.timestamp.FromDatetime(datetime.now(UTC))
    made = client.batch_upsert_records(collection=NAME, records=[record])
    tenant.learn("record_id", made.outcomes[0].result.record_id)
    session = client.create_session(collection=NAME, user_id=f"{word}-user").session
    message_id, question = str(uuid.uuid4()), f"What causes the {word} tides?"
    client.ask(collection=NAME, session_id=session.session_id, question=question, message_id=message_id)
    tenant.learn("session_id", session.session_id)
    tenant.learn("message_id", message_id)
    tenant.learn("user_id", f"{word}-user")
    operation = client.reindex(collection=NAME, request_id=str(uuid.uuid4()))
    client.wait_operation(name=operation.name)
    tenant.learn("name", operation.name)


def state(tenant: Tenant) -> list[bytes]:
    """Return what a tenant has, as bytes that are equal when nothing was changed."""
    client = tenant.client
    collection = client.get_collection(collection=NAME)
    sessions = [client.get_session(session_id=each) for each in tenant.known["session_id"]]
    messages = [client.list_messages(session_id=each) for each in tenant.known["session_id"]]
    records = [client.get_record(collection=NAME, record_id=each) for each in tenant.known["record_id"]]
    for each in records:  # searches of its own are counted behind the calls
        each.record.ClearField("access_count")
        each.record.ClearField("last_accessed_time")
    documents, chunks = client.list_documents(collection=NAME), client.list_chunks(collection=NAME)
    held: list[Any] = [collection, client.list_stats(), *sessions, *messages, *records, documents, chunks]
    return [each.SerializeToString(deterministic=True) for each in held]


# Requests


def variants(kind: Descriptor, known: dict[str, list[Any]], depth: int = 0) -> Iterator[Message]:
    """Yield messages with what is known in every field that takes it, one for each alternative of each `oneof`."""
    alternatives: list[FieldDescriptor | None] = [each for one in kind.oneofs for each in one.fields]
    for chosen in alternatives or [None]:
        made: Any = message_factory.GetMessageClass(kind)()
        for each in kind.fields:
            if each.containing_oneof is not None and (chosen is None or each.number != chosen.number):
                continue
            put(made, each, known, depth)
        yield made


def put(made: Any, each: FieldDescriptor, known: dict[str, list[Any]], depth: int) -> None:
    """Give a field what is known under its name, a plausible value where there is one, else leave it out."""
    nested = each.message_type
    value = next(iter(known.get(each.name.removesuffix("s") if each.is_repeated else each.name, ())), None)
    if nested is not None:
        is_plain = nested.GetOptions().map_entry or nested.full_name.startswith("google.")
        if is_plain or depth == 3 or each.name in {"filter", "options", "settings", "fields", "etag", "page_token"}:
            return
        inner = next(variants(nested, known, depth + 1))
        target = getattr(made, each.name)
        target.add().CopyFrom(inner) if each.is_repeated else target.CopyFrom(inner)
    elif value is not None and each.name not in {"request_id", "page_token", "consistency_token"}:
        getattr(made, each.name).append(value) if each.is_repeated else setattr(made, each.name, value)
    elif each.name in {"query", "question"}:
        setattr(made, each.name, "What causes the tides?")
    elif each.cpp_type == FieldDescriptor.CPPTYPE_INT32 and each.name.startswith("end") and not each.is_repeated:
        setattr(made, each.name, 10)


def descriptors() -> dict[str, MethodDescriptor]:
    return {f"/{service.full_name}/{each.name}": each for service in SERVICES.values() for each in service.methods}


@pytest.fixture(
    scope="module",
    params=["memory:", pytest.param("qdrant-edge:", marks=requires("qdrant_edge"))],
)
def pair(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[Tenant, Tenant, Any]]:
    """Start a server for two tenants, of which the first has three documents and the other one."""
    folder: Path = tmp_path_factory.mktemp("tenants")
    tokens = [make_key(folder / "keys.yaml", "boss", Right.ADMIN, tenant=name) for name in ("first", "other")]
    arguments = ("--embedder", "hashing:64", "--vectors", request.param, "--keys", str(folder / "keys.yaml"))
    running = ServerProcess(folder / "data", arguments)
    try:
        with (
            GroundwireClient(running.address, metadata=dict(bearer(tokens[0]))) as first,
            GroundwireClient(running.address, metadata=dict(bearer(tokens[1]))) as second,
            grpc.insecure_channel(running.address) as channel,
        ):
            tenants = Tenant(bearer(tokens[0]), first), Tenant(bearer(tokens[1]), second)
            fill(tenants[0], CANARY, 3)
            fill(tenants[1], "plain", 1)
            yield *tenants, channel
    finally:
        running.stop()


@pytest.mark.requirement("R4")
def test_figures_count_what_is_ones_own(pair: Pair) -> None:
    first, other, _ = pair
    seen = {}
    for name, tenant in (("first", first), ("other", other)):
        client = tenant.client
        (stats,) = client.list_stats().stats
        seen[name] = (
            [each.name for each in client.list_collections().collections],
            client.get_collection(collection=NAME).collection.document_count,
            stats.document_count,
            len(client.list_query_logs().logs),
            client.pipeline_stats().request_count,
            len(client.list_sessions().sessions),
            len(client.list_operations().operations),
            len(client.list_answers().answers),
        )
    # Documents and records: three and one, one and one. Each asked one question.
    assert seen["first"] == ([NAME], 4, 4, 1, 1, 1, 1, 1)
    assert seen["other"] == ([NAME], 2, 2, 1, 1, 1, 1, 1)


@pytest.mark.requirement("R4")
def test_work_behind_the_calls_is_counted_for_its_own_tenant(pair: Pair) -> None:
    def done(tenant: Tenant) -> dict[str, int]:
        return {job.name: job.done_count for job in tenant.client.housekeeping().jobs}

    first, other, _ = pair
    before, of_other = done(first), done(other)
    for number in range(3):
        first.client.ingest_document(collection=NAME, source_uri="rewritten.txt", text=f"The {CANARY} tide {number}.")
    # The points of what was rewritten are removed behind the calls.
    ends_at = time.monotonic() + 60
    while done(first)["outbox"] == before["outbox"]:
        assert time.monotonic() < ends_at, "nothing was removed"
        time.sleep(0.05)
    assert done(other) == of_other
    assert before.keys() == of_other.keys()
    first.client.delete_document(
        collection=NAME, reference=document_pb2.DocumentReference(source_uri="rewritten.txt"), purge=True
    )


def test_a_search_finds_what_is_ones_own(pair: Pair) -> None:
    first, other, _ = pair
    found = [each.client.retrieve(collection=NAME, query="the moon and the tides").results for each in (first, other)]
    ids = [{hit.chunk.document_id for hit in hits} for hits in found]
    assert [len(each) for each in ids] == [4, 2]  # with the record
    assert not ids[0] & ids[1]
    assert CANARY not in str(found[1])


@pytest.mark.requirement("R4")
def test_no_call_of_the_other_tenant_tells_or_changes_anything(pair: Pair) -> None:
    first, other, channel = pair
    before = state(first)
    secret = [CANARY.encode(), *(each.encode() for each in first.known["document_id"][1:])]
    # What exists at the first tenant, and what exists nowhere: the answers must not differ.
    real = first.known | {"collection": [NAME], "source_uri": [SOURCE]}
    made_up = {name: [unlike(value) for value in values] for name, values in first.known.items()}
    made_up |= {"collection": [NAME], "source_uri": [SOURCE]}
    made_up["user_id"] = real["user_id"] = ["somebody"]
    by_path = descriptors()
    paths = [path for path in methods_of(channel, other.metadata) if path in by_path]
    assert set(METHOD_PATHS.values()) <= set(paths)
    paths.sort(key=lambda path: path.rpartition("/")[2].startswith(DESTRUCTIVE))
    answered, leaks, differences = 0, [], []
    for path in paths:
        kind = by_path[path].input_type
        for here, nowhere in zip(variants(kind, real), variants(kind, made_up), strict=True):
            codes = []
            for request in (here, nowhere):
                code, messages, told = call(channel, path, request.SerializeToString(), other.metadata)
                codes.append(code.name)
                leaks += [(path, each) for each in secret if any(each in part for part in (*messages, told))]
            answered += codes[0] == "OK"
            if codes[0] != codes[1]:
                differences.append((path, codes))
    assert leaks == []
    assert differences == []
    assert answered >= 15
    assert state(first) == before


def unlike(value: Any) -> Any:
    """Return an id of the same form that exists nowhere."""
    if isinstance(value, int):
        return value + 1_000_000
    turned = str.maketrans("0123456789abcdef", "1234567890bcdefa")
    head, mark, tail = value.rpartition("_")
    return f"{head}{mark}{tail.translate(turned)}" if mark else value.translate(turned)
