"""SIGKILL at random moments while four clients ingest, update, delete and restore over gRPC.

The number of kills and the seed can be set: GROUNDWIRE_TEST_KILLS=1000 GROUNDWIRE_TEST_SEED=7 make test-faults
"""

import os
import random
import socket
import threading
import time
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from groundwire.api.ingest.v1.maintenance_service_pb2 import StoreReport
from groundwire.client import GroundwireClient
from groundwire.client.long_running import wait_for
from tests.e2e.server import ASKS_ENGINE, ServerProcess
from tests.faults.shelf import COLLECTION, Shelf

CLIENTS = 4
KILLS = int(os.environ.get("GROUNDWIRE_TEST_KILLS", "60"))
SEED = int(os.environ.get("GROUNDWIRE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
LONGEST_LIFE_S = 2.0
SWEPT_WITHIN_S = 10.0
FULL_CHECK_EVERY = 20


@dataclass
class Figures:
    """What a run showed."""

    restarts_s: list[float] = field(default_factory=list)
    sweeps_s: list[float] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    findings: list[str] = field(default_factory=list)

    def shown(self, shelves: list[Shelf]) -> str:
        times = sorted(self.restarts_s)
        return (
            f"seed {SEED}: {len(times)} kills, {sum(shelf.acknowledged for shelf in shelves)} changes acknowledged, "
            f"{sum(shelf.unknown for shelf in shelves)} cut off; {len(self.failures)} lost, half visible or orphaned, "
            f"{len(self.findings)} findings after the sweep; serving again after a median of "
            f"{times[len(times) // 2]:.2f} s, p99 {times[int(len(times) * 0.99)]:.2f} s; "
            f"swept within {max(self.sweeps_s, default=0.0):.1f} s"
        )


class Life:
    """One life of the server on the same data and port."""

    def __init__(self, data: Path, port: int) -> None:
        arguments = ("--embedder", "hashing:64", "--listen", f"127.0.0.1:{port}")
        started = time.monotonic()
        self.server = ServerProcess(data, arguments, GROUNDWIRE_INGEST_SWEEP_EVERY_S="1", **ASKS_ENGINE)
        self.start_s = time.monotonic() - started
        self.client = GroundwireClient(self.server.address, timeout_s=60)

    def work(self, shelves: list[Shelf], until: threading.Event) -> list[threading.Thread]:
        def run(shelf: Shelf) -> None:
            while not until.is_set():
                try:
                    shelf.step(self.client)
                except Exception as error:  # noqa: BLE001 - whatever it is, it is told
                    if not until.is_set():
                        shelf.failures.append(f"client {shelf.worker}: {error!r}")
                    return

        threads = [threading.Thread(target=run, args=(shelf,)) for shelf in shelves]
        for thread in threads:
            thread.start()
        return threads

    def check(self) -> list[str]:
        found = list(wait_for(self.client, self.client.check_store(), StoreReport).findings)
        return [f"{finding.kind} {finding.subject}: {finding.message}" for finding in found]

    def kill(self) -> None:
        self.server.kill()
        self.client.close()


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def verify(life: Life, shelves: list[Shelf], figures: Figures) -> None:
    for shelf in shelves:
        shelf.verify_all(life.client)
        figures.failures += shelf.failures
        shelf.failures.clear()


def sweep(life: Life, figures: Figures) -> None:
    """Wait until nothing is left over, but not for long."""
    started = time.monotonic()
    while (findings := life.check()) and time.monotonic() - started < SWEPT_WITHIN_S:
        time.sleep(0.2)
    figures.sweeps_s.append(time.monotonic() - started)
    figures.findings += findings


@pytest.fixture
def shelves() -> list[Shelf]:
    chance = random.Random(SEED)
    return [Shelf(worker, random.Random(chance.getrandbits(64))) for worker in range(CLIENTS)]


@pytest.mark.faults
@pytest.mark.requirement("S4-27")
@pytest.mark.timeout(120 + 60 * KILLS)
def test_nothing_acknowledged_is_lost_and_nothing_half_written_is_seen(
    tmp_path: Path, shelves: list[Shelf], capsys: pytest.CaptureFixture[str]
) -> None:
    chance, figures, data, port = random.Random(SEED), Figures(), tmp_path / "data", free_port()
    life = Life(data, port)
    life.client.create_collection(collection=COLLECTION)
    for number in range(KILLS):
        until = threading.Event()
        threads = life.work(shelves, until)
        time.sleep(chance.uniform(0, LONGEST_LIFE_S))
        until.set()  # errors from now on are those of the kill
        life.server.kill()
        for thread in threads:
            thread.join()
        life.client.close()
        life = Life(data, port)
        figures.restarts_s.append(life.start_s)
        verify(life, shelves, figures)
        if number % FULL_CHECK_EVERY == FULL_CHECK_EVERY - 1:
            sweep(life, figures)
        assert figures.failures == [], f"seed {SEED}, kill {number}"
    sweep(life, figures)
    listed = life.client.list_documents(collection=COLLECTION, page_size=1000).documents
    sources = [document.source_uri for document in listed]
    expected = sorted(source for shelf in shelves for source in shelf.visible())
    assert life.server.stop() == 0
    with capsys.disabled():
        print(f"\n{figures.shown(shelves)}")  # noqa: T201 - what the run showed
    assert (figures.failures, figures.findings) == ([], [])
    assert sources == expected
