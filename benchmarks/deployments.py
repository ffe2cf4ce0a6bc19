"""One process beside three services, call by call, and one replica of each service beside two.

    python -m benchmarks.deployments [--calls 100] [--clients 8] [--embedder URL] [--cpus 0.2]

Deployments take turns within one run, so that ratios mean something on a machine that others use. `scaled` has two
replicas of each service, `metrics` is one process that Prometheus could read. Times are milliseconds of one client;
the rate is that of `--clients` threads. All processes are on this machine: a deployment that has more of them has no
more processors.

With `--cpus` each replica of retrieve gets no more than this share of a processor, as a container with `cpus: 0.2`
does, and only searches on `split` and `scaled` are compared: what a second replica brings shows on a machine that is
too small for two whole ones. This needs the right to make control groups.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from itertools import count
from pathlib import Path

from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess
from tests.e2e.split import Deployment

DOCS = Path(__file__).resolve().parents[1] / "docs" / "how-to"
_COLLECTION = "docs"
_DOCUMENT = DocumentReference(source_uri="run-three-services.md")
_TURNS = 5
_PERIOD_US = 20_000
"""Shorter than the usual tenth of a second, which would show in every search."""
_QUESTIONS = ("What does a citation point at?", "When does a session expire?", "How is a catalog backed up?")
_serial = count(1)

Calls = dict[str, Callable[[GroundwireClient], object]]


def _asked() -> str:
    """Return a question that was not asked before, so that no answer comes from a cache."""
    number = next(_serial)
    return f"{_QUESTIONS[number % len(_QUESTIONS)]} (question {number})"


CALLS: Calls = {
    "GetDocument": lambda client: client.get_document(collection=_COLLECTION, reference=_DOCUMENT),
    "Retrieve": lambda client: client.retrieve(collection=_COLLECTION, query=_asked()),
    "Ask": lambda client: client.ask(collection=_COLLECTION, question=_asked()),
    "IngestDocument": lambda client: client.ingest_document(
        collection=_COLLECTION, source_uri=f"{next(_serial)}.txt", text=f"A new document. {_asked()}"
    ),
}


@contextmanager
def held_to(cpus: float, process_id: int) -> Iterator[None]:
    """Give a process, with what it starts from now on, no more than a share of a processor."""
    root = Path("/sys/fs/cgroup")
    is_first_version = (root / "cpu").is_dir()
    group = root / ("cpu" if is_first_version else "") / f"groundwire-{process_id}"
    group.mkdir()
    try:
        quota_us = round(cpus * _PERIOD_US)
        if is_first_version:
            (group / "cpu.cfs_period_us").write_text(str(_PERIOD_US))
            (group / "cpu.cfs_quota_us").write_text(str(quota_us))
        else:
            (group / "cpu.max").write_text(f"{quota_us} {_PERIOD_US}")
        (group / "cgroup.procs").write_text(str(process_id))
        yield
    finally:
        for member in (group / "cgroup.procs").read_text().split():
            (group.parent / "cgroup.procs").write_text(member)
        group.rmdir()


@contextmanager
def deployments(scratch: Path, embedder: str, cpus: float | None) -> Iterator[dict[str, str]]:
    """Give the addresses of the deployments; with `cpus` of those alone whose replicas of retrieve are held to it."""
    model = ("--embedder", embedder)
    with ExitStack() as stack:

        def started(running: ServerProcess | Deployment) -> str:
            stack.callback(running.stop)
            if cpus is not None and isinstance(running, Deployment):
                for replica in running.replicas["retrieve"]:
                    stack.enter_context(held_to(cpus, replica.process.pid))
            return running.address

        addresses = {}
        if cpus is None:
            addresses["embedded"] = started(ServerProcess(scratch / "embedded", model))
            addresses["metrics"] = started(ServerProcess(scratch / "metrics", (*model, "--metrics", "127.0.0.1:0")))
        addresses["split"] = started(Deployment(scratch / "split", 1, model))
        addresses["scaled"] = started(Deployment(scratch / "scaled", 2, model))
        yield addresses


def timed_ms(client: GroundwireClient, call: Callable[[GroundwireClient], object], calls: int) -> list[float]:
    """Return how long calls took, one after the other."""
    durations = []
    for _ in range(calls):
        began = time.perf_counter()
        call(client)
        durations.append((time.perf_counter() - began) * 1000)
    return durations


def rate(clients: Sequence[GroundwireClient], call: Callable[[GroundwireClient], object], calls: int) -> float:
    """Return the calls a second of clients that each make so many."""
    began = time.perf_counter()
    with ThreadPoolExecutor(len(clients)) as threads:
        list(threads.map(lambda client: timed_ms(client, call, calls), clients))
    return len(clients) * calls / (time.perf_counter() - began)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100, help="of each kind and deployment")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    parser.add_argument("--cpus", type=float, help="share of a processor for each replica of retrieve")
    given = parser.parse_args()
    a_turn = max(1, given.calls // _TURNS)
    with tempfile.TemporaryDirectory() as folder, deployments(Path(folder), given.embedder, given.cpus) as addresses:
        clients = {name: [GroundwireClient(at) for _ in range(given.clients)] for name, at in addresses.items()}
        for first, *_ in clients.values():
            first.create_collection(collection=_COLLECTION)
            for path in sorted(DOCS.glob("*.md")):
                content = path.read_bytes()
                first.ingest_document(collection=_COLLECTION, source_uri=path.name, content=content)
        first_name = next(iter(clients))
        for kind, call in CALLS.items() if given.cpus is None else [("Retrieve", CALLS["Retrieve"])]:
            ms: dict[str, list[float]] = {name: [] for name in clients}
            rates: dict[str, list[float]] = {name: [] for name in clients}
            for first, *_ in clients.values():
                timed_ms(first, call, 3)
            for _ in range(_TURNS):
                for name, opened in clients.items():
                    ms[name] += timed_ms(opened[0], call, a_turn)
                    rates[name].append(rate(opened, call, max(1, a_turn // given.clients)))
            print(f"\n| {kind} | p50 ms | p99 ms | p50 beside {first_name} | calls/s |\n|---|---|---|---|---|")
            usual = statistics.median(ms[first_name])
            for name, durations in ms.items():
                middle, late = statistics.median(durations), statistics.quantiles(durations, n=100)[98]
                factor, many = middle / usual, statistics.median(rates[name])
                print(f"| {name} | {middle:.1f} | {late:.1f} | {factor:.2f} | {many:.1f} |", flush=True)
        for opened in clients.values():
            for client in opened:
                client.close()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
