"""Event-loop stall of the embedded server while it ingests a folder and a second client queries all the while.

    python -m benchmarks.stall --docs FOLDER [--vectors qdrant-edge:] [--embedder URL]

Prints the lag of the server's event loop (its own gauge, logged when it stops), the latency of the queries that ran
during the ingest, and of health checks. Uses a server process of its own with a temporary data folder.
"""

import argparse
import json
import statistics
import subprocess
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from benchmarks.served import GROUNDWIRE, server
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import CollectionNotFoundError

QUESTIONS = ["What is ownership?", "How do I define a trait?", "What does cargo build do?", "Why use async?"]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--docs", type=Path, required=True)
    parser.add_argument("--profile", default="book")
    parser.add_argument("--vectors", default="qdrant-edge:")
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groundwire-stall-") as scratch:
        measure(options, Path(scratch))


def measure(options: argparse.Namespace, scratch: Path) -> None:
    with server(["--vectors", options.vectors, "--embedder", options.embedder], scratch) as address:
        load = QueryLoad(address, "stall")
        seconds = ingest(address, options, load)
    print(f"ingest: {seconds:.1f} s with {len(load.query_ms)} queries meanwhile")
    print_latency("query", load.query_ms)
    print_latency("health", load.health_ms)
    lines = [json.loads(line) for line in (scratch / "server.log").read_text().splitlines() if line.startswith("{")]
    stopped = next(line for line in lines if line["event"] == "stopped")
    print(f"event loop: longest stall {stopped['loop_lag_max_ms']} ms, p99 {stopped['loop_lag_p99_ms']} ms")


def ingest(address: str, options: argparse.Namespace, load: "QueryLoad") -> float:
    command = [*GROUNDWIRE, "ingest", str(options.docs), "-c", "stall"]
    started = time.perf_counter()
    running = subprocess.Popen([*command, "--profile", options.profile, "--address", address])
    load.run_until(lambda: running.poll() is not None)
    return time.perf_counter() - started


class QueryLoad:
    """One client that asks one question after the other, and checks the server's health in between."""

    def __init__(self, address: str, collection: str) -> None:
        self.query_ms: list[float] = []
        self.health_ms: list[float] = []
        self._client = GroundwireClient(address)
        self._collection = collection

    def run_until(self, is_done: Callable[[], bool]) -> None:
        """Query until `is_done()`; a collection that is not there yet is no failure."""
        while not is_done():
            started = time.perf_counter()
            self._client.health(service="liveness")
            self.health_ms.append((time.perf_counter() - started) * 1000)
            question = QUESTIONS[len(self.query_ms) % len(QUESTIONS)]
            started = time.perf_counter()
            try:
                self._client.retrieve(collection=self._collection, query=question)
            except CollectionNotFoundError:
                time.sleep(0.05)
                continue
            self.query_ms.append((time.perf_counter() - started) * 1000)


def print_latency(name: str, values: list[float]) -> None:
    ranked = sorted(values)
    p99 = ranked[int(0.99 * (len(ranked) - 1))]
    print(f"{name}: p50 {statistics.median(ranked):.1f} ms, p99 {p99:.1f} ms, max {ranked[-1]:.1f} ms")


if __name__ == "__main__":
    main()
