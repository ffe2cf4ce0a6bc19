"""One process beside three services, call by call, and one replica of each service beside two.

    python -m benchmarks.deployments [--calls 100] [--clients 8] [--embedder URL]

Deployments take turns within one run, so that ratios mean something on a machine that others use. `scaled` has two
replicas of each service, `metrics` is one process that Prometheus could read. Times are milliseconds of one client;
the rate is that of `--clients` threads. All processes are on this machine: a
deployment that has more of them has no more processors.
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
def deployments(scratch: Path, embedder: str) -> Iterator[dict[str, str]]:
    """Give the addresses of the deployments, each with the documents of this project."""
    model = ("--embedder", embedder)
    with ExitStack() as stack:

        def started(running: ServerProcess | Deployment) -> str:
            stack.callback(running.stop)
            return running.address

        yield {
            "embedded": started(ServerProcess(scratch / "embedded", model)),
            "metrics": started(ServerProcess(scratch / "metrics", (*model, "--metrics", "127.0.0.1:0"))),
            "split": started(Deployment(scratch / "split", 1, model)),
            "scaled": started(Deployment(scratch / "scaled", 2, model)),
        }


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
    """Print a table for each call."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, default=100, help="of each kind and deployment")
    parser.add_argument("--clients", type=int, default=8)
    parser.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    given = parser.parse_args()
    a_turn = max(1, given.calls // _TURNS)
    with tempfile.TemporaryDirectory() as folder, deployments(Path(folder), given.embedder) as addresses:
        clients = {name: [GroundwireClient(at) for _ in range(given.clients)] for name, at in addresses.items()}
        for first, *_ in clients.values():
            first.create_collection(collection=_COLLECTION)
            for path in sorted(DOCS.glob("*.md")):
                content = path.read_bytes()
                first.ingest_document(collection=_COLLECTION, source_uri=path.name, content=content)
        for kind, call in CALLS.items():
            ms: dict[str, list[float]] = {name: [] for name in clients}
            rates: dict[str, list[float]] = {name: [] for name in clients}
            for first, *_ in clients.values():
                timed_ms(first, call, 3)
            for _ in range(_TURNS):
                for name, opened in clients.items():
                    ms[name] += timed_ms(opened[0], call, a_turn)
                    rates[name].append(rate(opened, call, max(1, a_turn // given.clients)))
            print(f"\n| {kind} | p50 ms | p99 ms | p50 beside embedded | calls/s |\n|---|---|---|---|---|")
            usual = statistics.median(ms["embedded"])
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
