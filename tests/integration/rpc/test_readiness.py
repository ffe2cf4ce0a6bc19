"""Readiness follows the dependencies of services."""

import asyncio
import threading
import time
from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from typing import cast

import pysqlite3
import pytest
import structlog

from groundwire.answer.bootstrap import ANSWER
from groundwire.ingest.bootstrap import COLLECTIONS, INGEST, MAINTENANCE, OPERATIONS
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import StoreUnavailableError
from groundwire.retrieve.bootstrap import LIBRARY, RETRIEVE
from groundwire.rpc.health import HealthBoard
from groundwire.rpc.server import Service
from groundwire.standalone.bootstrap import dependencies_of
from groundwire.standalone.readiness import Dependency, ReadinessMonitor
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.catalogs import open_database

TELLING_S = 20.0
"""5 s, and what a busy machine may add."""


class Switch:
    """A dependency that fails, hangs or raises what it should not, on demand."""

    def __init__(self) -> None:
        self.error: Exception | None = None
        self.goes_on = threading.Event()
        self.goes_on.set()

    def check(self) -> None:
        self.goes_on.wait(30)
        if self.error is not None:
            raise self.error


class Board(HealthBoard):
    """Remembers what it was told last."""

    def state(self) -> dict[str, bool]:
        return dict(self._ready)


async def until(condition: Callable[[], bool]) -> float:
    began_at = time.monotonic()
    while not condition():
        assert time.monotonic() - began_at < TELLING_S
        await asyncio.sleep(0.02)
    return time.monotonic() - began_at


async def test_services_are_ready_as_long_as_what_they_need_works() -> None:
    engine, catalog = Switch(), Switch()
    board = Board(["ingest", "retrieve"])
    await board.open()
    monitor = ReadinessMonitor(
        [
            Dependency("engine", engine.check, frozenset({"ingest", "retrieve"})),
            Dependency("catalog writes", catalog.check, frozenset({"ingest"})),
        ],
        board,
    )
    monitor.start()
    with structlog.testing.capture_logs() as logs:
        catalog.error = StoreUnavailableError("the catalog has been locked for 4 s")
        await until(lambda: board.state() == {"ingest": False, "retrieve": True})
        engine.error = ValueError("a defect of the check")
        await until(lambda: board.state() == {"ingest": False, "retrieve": False})
        catalog.error = engine.error = None
        await until(lambda: board.state() == {"ingest": True, "retrieve": True})
        engine.goes_on.clear()
        hung_s = await until(lambda: board.state() == {"ingest": False, "retrieve": False})
        assert hung_s > 2.0  # a check that takes a moment longer is no failure
        engine.goes_on.set()
        await until(lambda: board.state() == {"ingest": True, "retrieve": True})
    await monitor.stop()
    told = [(line["event"], line["dependency"], line.get("error")) for line in logs]
    assert told.count(("a dependency is lost", "catalog writes", "the catalog has been locked for 4 s")) == 1
    assert ("a dependency is lost", "engine", "ValueError: a defect of the check") in told
    assert ("a dependency is lost", "engine", "it does not answer") in told
    assert [each[0] for each in told].count("a dependency is back") == 3


async def test_stopping_does_not_wait_for_a_check_that_hangs() -> None:
    engine = Switch()
    engine.goes_on.clear()
    board = Board(["ingest"])
    monitor = ReadinessMonitor([Dependency("engine", engine.check, frozenset({"ingest"}))], board)
    monitor.start()
    await asyncio.sleep(0.1)
    began_at = time.monotonic()
    await monitor.stop()
    assert time.monotonic() - began_at < 20.0, "the check would take 30 s"
    engine.goes_on.set()


@pytest.mark.parametrize("draining", [False, True])
async def test_readiness_never_overrules_draining(*, draining: bool) -> None:
    board = Board(["ingest"])
    await board.open()
    if draining:
        await board.drain()
    await board.set_ready("ingest", ready=False)
    await board.set_ready("ingest", ready=True)
    assert board.is_ready is not draining


class Model:
    """An embedder of which only the state is asked."""

    is_responsive = True


async def test_each_service_needs_what_its_calls_use(tmp_path: Path) -> None:
    names = [INGEST, COLLECTIONS, MAINTENANCE, OPERATIONS, RETRIEVE, LIBRARY, ANSWER]
    healthy = dict.fromkeys(names, True)
    model, vectors = Model(), MemoryVectorStore()
    with ExitStack() as stack:
        catalog = open_database(tmp_path / "catalog.db")
        stack.callback(catalog.close)
        board = Board(names)
        await board.open()
        services = [Service(name, None, lambda _servicer, _server: None) for name in names]
        dependencies = dependencies_of(services, catalog, vectors, cast("Embedder", model), stack)
        monitor = ReadinessMonitor(dependencies, board)
        monitor.start()
        await asyncio.sleep(1.0)
        await until(lambda: board.state() == healthy)
        model.is_responsive = False
        await until(lambda: board.state() == healthy | dict.fromkeys((INGEST, RETRIEVE, ANSWER), False))
        model.is_responsive = True
        await until(lambda: board.state() == healthy)
        stranger = pysqlite3.connect(str(catalog.path), isolation_level=None)
        stranger.execute("BEGIN IMMEDIATE")
        await until(lambda: board.state() == healthy | dict.fromkeys((INGEST, COLLECTIONS, ANSWER), False))
        stranger.execute("ROLLBACK")
        stranger.close()
        await until(lambda: board.state() == healthy)
        await monitor.stop()
