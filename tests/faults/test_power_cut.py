"""Power cuts during acknowledged ingests: whatever was acknowledged is found again, by vector and by word.

The number of cuts and the seed can be set: GROUNDWIRE_TEST_CUTS=100 GROUNDWIRE_TEST_SEED=7 make test-faults
"""

import os
import random
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1.maintenance_service_pb2 import StoreReport
from groundwire.client import GroundwireClient
from groundwire.client.long_running import wait_for
from groundwire.kernel.errors import GroundwireError, UnavailableError
from tests.e2e.server import ASKS_ENGINE, ServerProcess
from tests.faults.power import CutDisk, unavailable

CUTS = int(os.environ.get("GROUNDWIRE_TEST_CUTS", "20"))
SEED = int(os.environ.get("GROUNDWIRE_TEST_SEED", "0")) or random.SystemRandom().randrange(1, 10**6)
COLLECTIONS = ("first", "second", "third")
FOUND_WITHIN_S = 5.0
LONGEST_LIFE_S = 3.0
_WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read


@dataclass
class Written:
    """The texts that the server has acknowledged, by collection."""

    chance: random.Random
    texts: dict[str, dict[str, str]] = field(default_factory=lambda: {name: {} for name in COLLECTIONS})
    next: int = 0

    def ingest_until(self, client: GroundwireClient, stop: threading.Event) -> None:
        """Ingest one document after another until the server is gone."""
        while not stop.is_set():
            name = self.chance.choice(COLLECTIONS)
            source, self.next = f"{self.next}.txt", self.next + 1
            marker = f"marker{self.chance.getrandbits(60):015x}"
            text = f"{marker} " + " ".join(self.chance.choices(_WORDS, k=self.chance.randrange(5, 60)))
            try:
                client.ingest_document(collection=name, source_uri=source, text=text)
            except GroundwireError:
                return
            self.texts[name][marker] = text

    def wait_for_more(self, before: dict[str, set[str]]) -> None:
        """Wait until a text beyond those is acknowledged: a slow machine may take longer than a short life lasts."""
        ends_at = time.monotonic() + 60
        while not any(texts.keys() - before[name] for name, texts in self.texts.items()):
            assert time.monotonic() < ends_at
            time.sleep(0.01)

    def lost(self, client: GroundwireClient, markers: dict[str, list[str]], until: float) -> list[str]:
        """Return what is not found by its own words or its own vector; retries what says that it may be retried."""
        return [
            f"{marker} in {name} by {mode}"
            for name, wanted in markers.items()
            for marker in wanted
            for mode in ("VECTOR", "LEXICAL")
            if not self._is_found(client, name, marker, mode, until)
        ]

    def _is_found(self, client: GroundwireClient, name: str, marker: str, mode: str, until: float) -> bool:
        options = RetrievalOptions(mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{mode}"), top_k=3)
        query = self.texts[name][marker][:480] if mode == "VECTOR" else marker
        while True:
            try:
                found = client.retrieve(collection=name, query=query, options=options)
            except UnavailableError:
                if time.monotonic() > until:
                    return False
                time.sleep(0.05)
                continue
            return any(marker in hit.chunk.content for hit in found.results)


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[CutDisk]:
    probe = tmp_path / "probe"
    probe.mkdir()
    if reason := unavailable(probe):
        pytest.skip(reason)
    disk = CutDisk(tmp_path)
    yield disk
    disk.unmount()


@pytest.mark.faults
@pytest.mark.parametrize(("vectors", "cuts"), [("qdrant-edge:", CUTS), ("chroma:", max(1, CUTS // 4))])
def test_what_was_acknowledged_is_found_after_a_power_cut(disk: CutDisk, vectors: str, cuts: int) -> None:
    chance = random.Random(SEED)
    written, data = Written(chance), disk.mount_point / "data"
    arguments = ("--embedder", "hashing:64", "--vectors", vectors)
    lost: list[str] = []
    slowest, made = 0.0, set[str]()
    server = ServerProcess(data, arguments, **ASKS_ENGINE)
    try:
        for _ in range(cuts):
            before = {name: set(texts) for name, texts in written.texts.items()}
            with GroundwireClient(server.address, timeout_s=30) as client:
                for name in set(COLLECTIONS) - made:
                    client.create_collection(collection=name)
                    made.add(name)
                stop = threading.Event()
                writer = threading.Thread(target=written.ingest_until, args=(client, stop))
                writer.start()
                time.sleep(chance.uniform(0.3, LONGEST_LIFE_S))
                written.wait_for_more(before)
                disk.cut()
                stop.set()
                server.kill()
                writer.join()
            disk.restore()
            server = ServerProcess(data, arguments, **ASKS_ENGINE)
            serving = time.monotonic()
            new = {
                name: [marker for marker in texts if marker not in before[name]]
                for name, texts in written.texts.items()
            }
            old = {name: chance.sample(sorted(texts), min(10, len(texts))) for name, texts in before.items()}
            assert any(new.values()), "nothing was acknowledged before the cut"
            with GroundwireClient(server.address, timeout_s=30) as client:
                for markers in (new, old):
                    lost += written.lost(client, markers, serving + FOUND_WITHIN_S)
            slowest = max(slowest, time.monotonic() - serving)
        everything = {name: list(texts) for name, texts in written.texts.items()}
        with GroundwireClient(server.address, timeout_s=30) as client:
            lost += written.lost(client, everything, time.monotonic())
            findings = list(wait_for(client, client.check_store(), StoreReport).findings)
        assert server.stop() == 0
    finally:
        server.kill()
    count = sum(map(len, written.texts.values()))
    figures = f"{cuts} cuts, {count} documents acknowledged, {len(lost)} lost, slowest check {slowest:.1f} s"
    print(f"\n{vectors} seed {SEED}: {figures}")  # noqa: T201 - what the run showed
    assert not lost, f"seed {SEED}: {len(lost)} lost: {lost[:10]}"
    assert not findings, f"seed {SEED}: {findings[:5]}"
