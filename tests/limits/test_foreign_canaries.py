"""Whatever callers of two tenants and several scopes send, none is told a text, an id or a count of what is not theirs.

All calls of the contract are made by reflection, with words, ids, tokens and names of scopes of everybody in them, and
what one caller sent is sent again by another, with its request id. How many, the seed and the stores can be set, as
`make test-canaries` does.
"""

import asyncio
import os
import random
import re
import uuid
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path
from typing import Any, Final, cast

import grpc
import pytest
from google.protobuf import message_factory
from google.protobuf.descriptor import MethodDescriptor
from google.protobuf.message import DecodeError, Message

from groundwire.api.common.v1 import document_pb2
from groundwire.client import GroundwireClient
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.kernel.identity import Right
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.rpc.methods import Work, work_of
from tests.conformance.chroma_server import chroma_server
from tests.credentials import Metadata, bearer, make_key
from tests.e2e.server import ServerProcess
from tests.integration.records.keeping import ASSISTANT, FAQ, USER, memory, memory_id, record, turn
from tests.limits.random_calls import METHODS, Builder, Known, facts, send

CALLS: Final = int(os.environ.get("GROUNDWIRE_TEST_CALLS", "20000"))
SEED: Final = int(os.environ.get("GROUNDWIRE_TEST_SEED", "1"))
VECTORS: Final = os.environ.get("GROUNDWIRE_TEST_VECTORS", "memory:")
TENANTS: Final = ("first", "second")
SCOPES: Final = ("global", "entity:alpha", "entity:beta", "entity:gamma")
UNTOUCHED: Final = SCOPES[-1]
"""No credential with scopes has it, so nothing of it may ever change."""
NOTES, SOLO = "notes", "solo"
"""The second has records of the scope above alone: for whoever may not see it, it is empty."""
AT_A_TIME: Final = 8
COUNTS: Final = re.compile(
    r"(?:document|chunk|candidate|below_threshold|rejected|incomplete|duplicate|stale|omitted\w*)_count"
)
READING: Final = frozenset({Work.SEARCH, Work.READ, Work.STREAM})
PRIVATE: Final = "session_id"
"""The id that its owner alone is told. Those of messages anybody may choose."""


@dataclass
class Cell:
    """What a tenant has in a scope, or as documents, which have none.

    `hidden` is in every text, and never in a request; `asked` is in both.
    """

    tenant: str
    scope: str
    asked: str
    hidden: str
    ids: set[str] = field(default_factory=set)
    numbers: set[int] = field(default_factory=set)


@dataclass
class Caller:
    """Somebody with a credential; `secrets` are words and ids that nobody else may be told."""

    tenant: str
    subject: str
    scopes: tuple[str, ...] | None
    metadata: Metadata
    known: Known = field(default_factory=Known)
    secrets: set[str] = field(default_factory=set)

    def may_see(self, cell: Cell) -> bool:
        return cell.tenant == self.tenant and (self.scopes is None or cell.scope in {"", *self.scopes})


@dataclass
class World:
    """A server with two tenants, what they have, and who calls."""

    address: str
    cells: list[Cell]
    callers: list[Caller]
    bosses: dict[str, Metadata]
    sent: list[tuple[MethodDescriptor, list[bytes]]] = field(default_factory=list)
    codes: Counter[str] = field(default_factory=Counter)
    leaks: list[str] = field(default_factory=list)
    replayed: int = 0

    def untouched(self) -> dict[str, list[bytes]]:
        """Return everything of the scope that nobody with scopes may see, as its tenants have it."""
        held = {}
        for tenant, metadata in self.bosses.items():
            with GroundwireClient(self.address, metadata=dict(metadata)) as client:
                where = to_filter_message(parse_filter({"scope": UNTOUCHED}))
                pages = [client.list_records(collection=name, filter=where, page_size=100) for name in (NOTES, SOLO)]
            records = [each for page in pages for each in page.records]
            for each in records:  # counted by searches of those who may see it
                each.ClearField("access_count")
                each.ClearField("last_accessed_time")
            held[tenant] = sorted(each.SerializeToString(deterministic=True) for each in records)
        return held


@contextmanager
def world(folder: Path) -> Iterator[World]:
    """Start a server and fill it."""
    file = folder / "keys.yaml"
    bosses = {tenant: bearer(make_key(file, "boss", Right.ADMIN, tenant=tenant)) for tenant in TENANTS}
    callers = []
    for tenant in TENANTS:
        # Who changes anything has one scope, so that nothing is moved to where others may see it.
        for name, right, scopes in (
            ("global", Right.ADMIN, SCOPES[:1]),
            ("alpha", Right.ADMIN, SCOPES[1:2]),
            ("beta", Right.ADMIN, SCOPES[2:3]),
            ("both", Right.READ, SCOPES[:2]),
            ("reader", Right.READ, None),
        ):
            key = make_key(file, name, right, tenant=tenant, scopes=scopes)
            callers.append(Caller(tenant, name, scopes, bearer(key)))
    with ExitStack() as stack:
        vectors = stack.enter_context(chroma_server(folder / "chroma")).url if VECTORS == "chroma-server" else VECTORS
        arguments = ("--embedder", "hashing:64", "--vectors", vectors, "--keys", str(file))
        server = ServerProcess(folder / "data", arguments, GROUNDWIRE_STREAM_IDLE_S="20")
        stack.callback(server.stop)
        cells = [
            Cell(tenant, scope, f"lantern{tenant[0]}{scope[-4:] or 'docs'}", f"vex{tenant[0]}{scope[-4:] or 'docs'}")
            for tenant in TENANTS
            for scope in (*SCOPES, "")
        ]
        made = World(server.address, cells, callers, bosses)
        for tenant in TENANTS:
            fill(made, tenant)
        for caller in callers:
            begin(made, caller)
        yield made


def fill(made: World, tenant: str) -> None:
    """Store records of each scope, and a document, and note their ids."""
    cells = [cell for cell in made.cells if cell.tenant == tenant]
    numbers = count(100 * TENANTS.index(tenant))
    with GroundwireClient(made.address, metadata=dict(made.bosses[tenant])) as client:
        for name, scopes in ((NOTES, SCOPES), (SOLO, SCOPES[-1:])):
            client.create_collection(collection=name)
            for cell in (each for each in cells if each.scope in scopes):
                text, talk = f"The {cell.asked} of {cell.hidden} burns.", f"conv-{cell.scope.rpartition(':')[2]}"
                place: dict[str, Any] = {"scope": cell.scope}
                records = [
                    memory(text, record_id=memory_id(next(numbers)), tags=[cell.asked, cell.hidden], **place),
                    record(FAQ, f"Q: {text}? A: {text}", **place),
                    turn(USER, f"{text} What is it?", talk, turn_index=1, **place),
                    turn(ASSISTANT, f"It is {text}", talk, turn_index=1, **place),
                ]
                client.batch_upsert_records(collection=name, records=records)
            for record_ in client.list_records(collection=name, page_size=100).records:
                cell = next(each for each in cells if each.scope == record_.scope)
                cell.ids |= {record_.record_id, record_.document_id}
                for caller in made.callers:
                    caller.known.learn("record_id", record_.record_id)
                    caller.known.learn("document_id", record_.document_id)
                    caller.known.learn("source_uri", f"record:{record_.record_id}")
        everywhere = cells[-1]
        text = f"# The {everywhere.hidden} tides\n\nThe {everywhere.asked} of {everywhere.hidden} causes the tides.\n"
        fields = document_pb2.DocumentFields(title=everywhere.hidden)
        stored = client.ingest_document(collection=NOTES, source_uri="tides.md", text=text, fields=fields)
        everywhere.ids.add(stored.result.document.document_id)
        for chunk in client.list_chunks(collection=NOTES, page_size=200).chunks:
            cell = next(each for each in cells if chunk.document_id in each.ids)
            cell.ids.add(chunk.chunk_id)
            cell.numbers.add(chunk.chunk_number)
            for caller in made.callers:
                caller.known.learn("chunk_id", chunk.chunk_id)
                caller.known.learn("chunk_number", chunk.chunk_number)


def begin(made: World, caller: Caller) -> None:
    """Tell a caller names to put into requests, and begin a session of its own."""
    words = [cell.asked for cell in made.cells]
    names = [each.removeprefix("entity:") for each in SCOPES]
    odd = ["Global", "GLOBAL", "entity:Alpha", "entity:BETA", "entity:be\u0301ta", "entity:gamma ", "\uff47lobal", "*"]
    caller.known.values |= {
        "collection": [NOTES] * 5 + [SOLO],
        "query": [f"the {word} burns" for word in words],
        "question": [f"What is the {word}?" for word in words],
        "text": [f"The {word} burns." for word in words],
        "scope": [*SCOPES, *odd],
        "scopes": [*SCOPES, *odd],
        "entity": [*names, "Beta", "BETA"],
        "conversation_id": [f"conv-{name}" for name in names],
        "field": ["scope", "entity", "type", "record_type", "tags", "conversation_id", "title", "text", "importance"],
        "string_value": [*SCOPES, *names, *words, "memory", "turn"],
        "tags": words,
        "user_id": ["alpha", "beta", "gamma"],
        "request_id": [],
    }
    with GroundwireClient(made.address, metadata=dict(caller.metadata)) as client:
        secret = f"vexsession{caller.tenant}{caller.subject}"
        session = client.create_session(collection=NOTES, user_id=secret).session
        answered = client.ask(
            session_id=session.session_id, question=f"What is the {secret} lantern?", message_id=str(uuid.uuid4())
        )
        caller.secrets |= {secret, session.session_id}
        for other in made.callers:
            other.known.learn("session_id", session.session_id)
            other.known.learn("message_id", answered.answer.message_id)
            other.known.learn("answer_id", answered.answer.message_id)


async def call(made: World, channel: Any, builder: Builder, rng: random.Random, caller: Caller) -> None:
    """Make one call and look at what it tells."""
    method, sent = choose(made, builder, rng)
    code, responses, told, _ = await send(made.address, channel, method, sent, caller.metadata)
    made.codes[f"{method.name} {code}"] += 1
    if code == "OK" and work_of(method.name) in {Work.WRITE, Work.UPLOAD}:
        # Ids of records may be chosen: who may use one gives it to whom it likes.
        for cell in made.cells:
            if cell.tenant != caller.tenant or caller.may_see(cell):
                cell.ids -= {each for each in cell.ids if any(each.encode() in raw for raw in sent)}
    judge(made, caller, method, sent, responses, told)
    kind = message_factory.GetMessageClass(method.output_type)
    for response in responses[:3]:
        for name, value in facts(kind.FromString(response)):
            caller.known.learn(name, value)
            if name == PRIVATE and not any(str(value).encode() in raw for raw in sent):
                caller.secrets.add(str(value))
            for other in made.callers:  # everybody tries what anybody learns
                if rng.random() < 0.1:
                    other.known.learn(name, value)


def choose(made: World, builder: Builder, rng: random.Random) -> tuple[MethodDescriptor, list[bytes]]:
    """Return a new call, or one that somebody made before.

    None writes to the collection that has nothing but what its callers may not see.
    """
    if made.sent and rng.random() < 0.15:
        made.replayed += 1
        return rng.choice(made.sent)
    while True:
        method = builder.method()
        sent = builder.requests(method) or [b""]
        if work_of(method.name) in READING or SOLO not in collections_of(method, sent):
            break
    made.sent.append((method, sent))
    del made.sent[:-200]
    return method, sent


def judge(
    made: World, caller: Caller, method: MethodDescriptor, sent: list[bytes], responses: list[bytes], told: bytes
) -> None:
    """Note what a call told that its caller may not know and has not said itself."""
    answered = b"\n".join((*responses, told))
    # An id that came with another case is given back as the server writes ids.
    said = b"\n".join(sent).lower()
    foreign = [cell for cell in made.cells if not caller.may_see(cell)]
    words = {word for cell in foreign for word in (cell.hidden, *cell.ids)}
    words |= {word for other in made.callers if other is not caller for word in other.secrets}
    leaks = [word for word in words if word.encode() in answered and word.lower().encode() not in said]
    numbers = {number for cell in foreign for number in cell.numbers}
    kind = message_factory.GetMessageClass(method.output_type)
    for response in responses:
        message = kind.FromString(response)
        named = set(numbers_of(method, sent))
        leaks += [
            f"chunk {value}" for name, value in told_by(message) if name == "chunk_number" and value in numbers - named
        ]
        if caller.scopes is not None and collections_of(method, sent) == {SOLO}:
            leaks += [f"{name} {value}" for name, value in told_by(message) if COUNTS.fullmatch(name) and value]
    if leaks:
        made.leaks.append(f"{caller.tenant} {caller.subject} by {method.name}: {leaks} for {sent}: {answered[:2000]!r}")


def told_by(message: Message) -> Iterator[tuple[str, Any]]:
    """Yield all plain fields of a message and of those in it, with their names."""
    if getattr(message, "name", "") == "embed":
        return  # the stage of a search that counts the query
    for each, value in message.ListFields():
        if each.message_type is not None and each.message_type.GetOptions().map_entry:
            continue
        for one in value if each.is_repeated else [value]:
            if isinstance(one, Message):
                yield from told_by(one)
            else:
                yield each.name, one


def requests_of(method: MethodDescriptor, sent: list[bytes]) -> Iterator[Message]:
    for raw in sent:
        try:
            yield message_factory.GetMessageClass(method.input_type).FromString(raw)
        except DecodeError:
            continue


def numbers_of(method: MethodDescriptor, sent: list[bytes]) -> Iterator[int]:
    for request in requests_of(method, sent):
        yield from (value for name, value in told_by(request) if name == "chunk_number")


def collections_of(method: MethodDescriptor, sent: list[bytes]) -> set[Any]:
    """Return the collections that a call names."""
    return {value for request in requests_of(method, sent) for name, value in told_by(request) if name == "collection"}


@pytest.mark.requirement("S0-11")
@pytest.mark.requirement("C09")
@pytest.mark.parametrize(
    "calls",
    [pytest.param(600, id="a few"), pytest.param(CALLS, marks=[pytest.mark.slow, pytest.mark.limits], id="many")],
)
async def test_nobody_is_told_anything_of_other_tenants_scopes_and_sessions(
    tmp_path: Path, calls: int, capsys: pytest.CaptureFixture[str]
) -> None:
    rng = random.Random(SEED)
    with world(tmp_path) as made:
        before = await asyncio.to_thread(made.untouched)
        builders = [
            Builder(SEED + number, caller.known, wildness=(0.0, 0.02, 0.1))
            for number, caller in enumerate(made.callers)
        ]
        async with grpc.aio.insecure_channel(made.address) as channel:
            for first in range(0, calls, AT_A_TIME):
                chosen = rng.choices(range(len(made.callers)), k=min(AT_A_TIME, calls - first))
                await asyncio.gather(
                    *(call(made, cast("Any", channel), builders[at], rng, made.callers[at]) for at in chosen)
                )
        after = await asyncio.to_thread(made.untouched)
    answered = {name.partition(" ")[0] for name in made.codes if name.endswith(" OK")}
    with capsys.disabled():
        print(  # noqa: T201 - the figures of the run
            f"\nseed {SEED} on {VECTORS}: {made.codes.total()} calls, {made.replayed} sent again, "
            f"{sum(value for name, value in made.codes.items() if name.endswith(' OK'))} answered "
            f"by {len(answered)} of {len(METHODS)} methods, {len(made.leaks)} leaks"
        )
    assert made.leaks == []
    assert before == after
    assert all(len(held) == 8 for held in before.values())
    assert made.codes.total() == calls
    assert len(answered) >= (15 if calls < 1000 else 35), "calls get deep"
    assert not [name for name in made.codes if name.rpartition(" ")[2] in {"INTERNAL", "UNKNOWN"}]
