"""Ten times as many searches as the server can do: it does as many as ever, refuses the rest, and stays healthy.

The searches wait in a slow engine, so that the admission is measured and not the processor of the machine, which the
load shares.
"""

import asyncio
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from tests.limits.attacked_server import channels
from tests.limits.slow_parts import COLLECTION, WORKERS, running
from tests.stubs import Stubs

ENGINE_S = 0.5
"""So long a search takes; the workers do WORKERS / ENGINE_S of them in a second."""
DEADLINE_S = 20.0


@dataclass
class Load:
    """What became of searches that were sent whether the earlier ones were answered or not."""

    codes: Counter[str] = field(default_factory=Counter)
    done_at: list[float] = field(default_factory=list)
    without_pushback: int = 0
    health_s: list[float] = field(default_factory=list)

    async def search(self, stubs: Any, number: int) -> None:
        request = pb.RetrieveRequest(collection=COLLECTION, query=f"w{number % 45} rises {number}")
        try:
            await stubs.Retrieve(request, timeout=DEADLINE_S)
        except grpc.aio.AioRpcError as error:
            self.codes[error.code().name] += 1
            trailers: Any = dict(error.trailing_metadata() or ())
            self.without_pushback += "grpc-retry-pushback-ms" not in trailers
        else:
            self.codes["OK"] += 1
            self.done_at.append(time.monotonic())

    async def send(self, stubs: Sequence[Any], rate: float, seconds: float) -> float:
        """Send searches at a rate and return how many a second were answered while they were sent."""
        began, sent = time.monotonic(), 0
        async with asyncio.TaskGroup() as tasks:
            while (passed := time.monotonic() - began) < seconds:
                while sent < passed * rate:
                    tasks.create_task(self.search(stubs[sent % len(stubs)], sent))
                    sent += 1
                await asyncio.sleep(0.005)
            ended = time.monotonic()
        # The first ones come back together after a search's time.
        counted = [at for at in self.done_at if began + ENGINE_S < at <= ended]
        return len(counted) / (ended - began - ENGINE_S)

    async def watch(self, channel: grpc.aio.Channel) -> None:
        """Ask for the health ten times a second until it is cancelled."""
        stub: Any = health_pb2_grpc.HealthStub(channel)
        while True:
            asked = time.monotonic()
            answer = await stub.Check(health_pb2.HealthCheckRequest(service=""), timeout=DEADLINE_S)
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
            self.health_s.append(time.monotonic() - asked)
            await asyncio.sleep(0.1)


@pytest.mark.parametrize(
    ("seconds", "share", "health_s"),
    [
        # On a machine with other work, now more and now less; the second needs a machine of its own.
        (3.0, 0.5, DEADLINE_S),
        pytest.param(60.0, 0.9, 0.1, marks=[pytest.mark.slow, pytest.mark.limits, pytest.mark.alone]),
    ],
)
async def test_ten_times_the_load_takes_little_from_what_is_done(
    tmp_path: Path, seconds: float, share: float, health_s: float
) -> None:
    async with running(tmp_path) as limits:
        await limits.fill()
        limits.engine.seconds = ENGINE_S
        capacity = WORKERS / ENGINE_S
        load = Load()
        # The server takes 100 calls on each connection; with few of them the client would hold the others back.
        async with channels(limits.address, 800) as opened:
            stubs = [Stubs(channel) for channel in opened]
            peak = await Load().send(stubs, capacity, min(seconds, 10.0))
            watching = asyncio.create_task(load.watch(opened[0]))
            goodput = await load.send(stubs, 10 * capacity, seconds)
            watching.cancel()
            with pytest.raises(asyncio.CancelledError):
                await watching
    assert set(load.codes) == {"OK", "RESOURCE_EXHAUSTED"}
    assert load.without_pushback == 0
    assert load.codes["RESOURCE_EXHAUSTED"] > load.codes["OK"]
    assert goodput >= share * peak, f"{goodput:.1f} of {peak:.1f} searches a second"
    slowest = sorted(load.health_s)[int(0.99 * len(load.health_s))]
    assert slowest <= health_s, f"the health took {slowest * 1000:.0f} ms"
    print(f"peak {peak:.1f}/s, goodput {goodput:.1f}/s, health p99 {slowest * 1000:.1f} ms, {dict(load.codes)}")  # noqa: T201 - the figures
