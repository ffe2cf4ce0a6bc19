"""Whatever is sent, the answer is a result or a typed refusal, in time, and the log holds no defect.

The number of calls, the seed and the vector store can be set:

    GROUNDWIRE_TEST_CALLS=100000 GROUNDWIRE_TEST_SEED=7 GROUNDWIRE_TEST_VECTORS=qdrant-edge: make test-limits
"""

import asyncio
import json
import os
import time
from collections import Counter
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import grpc
import pytest
from google.protobuf import message_factory

from groundwire.api.ingest.v1.collection_pb2 import PROFILE_BOOK, PROFILE_CONVERSATIONS, PROFILE_DOCUMENTS, Profile
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.errors import AlreadyExistsError, GroundwireError, NotFoundError
from tests.limits.attacked_server import start
from tests.limits.random_calls import DEADLINE_S, Builder, Known, facts, send, wrong_details

CALLS = int(os.environ.get("GROUNDWIRE_TEST_CALLS", "20000"))
SEED = int(os.environ.get("GROUNDWIRE_TEST_SEED", "8"))
VECTORS = os.environ.get("GROUNDWIRE_TEST_VECTORS", "memory:")
COLLECTIONS = ("shelf", "talks", "book")
"""The first is named most often, so that ids belong to it."""
PROFILES = (PROFILE_DOCUMENTS, PROFILE_CONVERSATIONS, PROFILE_BOOK)
AT_A_TIME = 8
REFILL_EVERY = 400
MAX_GROWTH_MIB = 600
ALLOWED = {
    "OK",
    "INVALID_ARGUMENT",
    "NOT_FOUND",
    "ALREADY_EXISTS",
    "FAILED_PRECONDITION",
    "ABORTED",
    "RESOURCE_EXHAUSTED",
    "UNIMPLEMENTED",
}


@dataclass
class Figures:
    """What the calls came to."""

    codes: Counter[str] = field(default_factory=Counter)
    by_method: Counter[tuple[str, str]] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    longest_s: float = 0.0

    def note(self, method: str, code: str, what: str, taken_s: float, sent: list[bytes]) -> None:
        self.codes[code] += 1
        self.by_method[method, code] += 1
        self.longest_s = max(self.longest_s, taken_s)
        if code not in ALLOWED:
            self.bad.append(f"{method} {code} after {taken_s:.1f} s: {what}: {[raw[:400] for raw in sent]}")


async def fill(client: AsyncGroundwireClient, known: Known) -> None:
    """Make sure that there is something to read, change and delete, whatever random calls made of it."""
    for name, profile in zip(COLLECTIONS, PROFILES, strict=True):
        known.values.setdefault("collection", [COLLECTIONS[0]] * 6 + list(COLLECTIONS[1:]))
        try:
            await fill_collection(client, name, profile, known)
        except GroundwireError:  # its settings refuse ordinary documents by now
            with suppress(NotFoundError):
                await client.delete_collection(collection=name, force=True)
            await fill_collection(client, name, profile, known)
    for chunk in (await client.list_chunks(collection=COLLECTIONS[0])).chunks:
        known.learn("chunk_id", chunk.chunk_id)
        known.learn("chunk_number", chunk.chunk_number)
    session = await client.create_session(collection=COLLECTIONS[0])
    known.learn("session_id", session.session.session_id)


async def fill_collection(client: AsyncGroundwireClient, name: str, profile: Profile.ValueType, known: Known) -> None:
    """Make a collection of four documents, or make them anew."""
    with suppress(AlreadyExistsError):
        await client.create_collection(collection=name, profile=profile)
    for number in range(4):
        source = f"{name}/{number}.md"
        text = f"# Document {number}\n\nA sentence with words. Another one of {name}.\n\n## Part\n\nMore words.\n"
        content = text.encode() * (1 + number)
        done = await client.ingest_document(collection=name, source_uri=source, content=content)
        known.learn("source_uri", source)
        if name == COLLECTIONS[0]:
            known.learn("document_id", done.result.document.document_id)


async def call(address: str, channel: Any, builder: Builder, known: Known, figures: Figures) -> None:
    """Make one call and note what became of it."""
    method = builder.method()
    sent = builder.requests(method)
    began = time.monotonic()
    code, responses, told, details = await send(address, channel, method, sent)
    if code != "OK" and (wrong := wrong_details(method, code, details)):
        figures.wrong.append(f"{method.name} {wrong}: {told!r}: {[raw[:400] for raw in sent]}")
    figures.note(method.name, code, repr(told), time.monotonic() - began, sent)
    kind = message_factory.GetMessageClass(method.output_type)
    for response in responses[:3]:
        for name, value in facts(kind.FromString(response)):
            known.learn(name, value)


def resident_mib(process: int) -> float:
    """Return the memory of a process without its children, in MiB."""
    status = Path(f"/proc/{process}/status").read_text(encoding="ascii")
    return int(status.split("VmRSS:")[1].split()[0]) / 1024


@pytest.mark.parametrize(
    "count",
    [pytest.param(300, id="a few"), pytest.param(CALLS, marks=[pytest.mark.slow, pytest.mark.limits], id="many")],
)
async def test_random_calls_end_in_results_or_typed_refusals(
    count: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = start(tmp_path, VECTORS, GROUNDWIRE_STREAM_IDLE_S="20")
    known, figures = Known(), Figures()
    builder = Builder(SEED, known)
    try:
        async with (
            grpc.aio.insecure_channel(server.address) as channel,
            AsyncGroundwireClient(server.address) as client,
        ):
            await fill(client, known)
            before_mib = resident_mib(server.process.pid)
            for first in range(0, count, AT_A_TIME):
                if first % REFILL_EVERY == 0:
                    await fill(client, known)
                at_once = min(AT_A_TIME, count - first)
                await asyncio.gather(
                    *(call(server.address, cast("Any", channel), builder, known, figures) for _ in range(at_once))
                )
            after_mib = resident_mib(server.process.pid)
    finally:
        assert server.stop() == 0
    log = (tmp_path / "data.log").read_text(encoding="utf-8")
    lines = [json.loads(line) for line in log.splitlines() if line.startswith("{")]
    defects = [line for line in lines if "exception" in line or line["event"] == "internal error"]
    with capsys.disabled():
        print(  # noqa: T201 - the figures of the run
            f"\nseed {SEED} on {VECTORS} {dict(figures.codes)}, longest {figures.longest_s:.1f} s, "
            f"memory {before_mib:.0f} -> {after_mib:.0f} MiB"
        )

    assert figures.bad == []
    assert figures.wrong == []
    assert defects == []
    assert "Traceback" not in log
    assert figures.codes.total() == count
    reached = {method for method, code in figures.by_method if code == "OK"}
    assert len(reached) >= (10 if count < 1000 else 25), "calls get deep"
    assert figures.longest_s < DEADLINE_S
    assert after_mib - before_mib < MAX_GROWTH_MIB
