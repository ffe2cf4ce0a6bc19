"""P11: eight clients query while an index is built anew and files are ingested at full rate, and the same in quiet."""

import argparse
import asyncio
import itertools
import json
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import grpc

from benchmarks.search_load import COLLECTION, RETRIEVE, fill_server, health_ms, open_channel, requests_of
from benchmarks.search_processes import OwnProcess, own_process, wait_until_quiet
from benchmarks.search_raw import Run, question
from benchmarks.search_table import Row, p50, p99
from benchmarks.served import server_process
from benchmarks.synthetic import Corpus, Words
from groundwire.api.ingest.v1.maintenance_service_pb2 import IndexBuildResult
from groundwire.client import GroundwireClient
from groundwire.client.long_running import wait_for

CLIENTS = 8
_LIMIT = 5
_JOBS = 4
_PER_SECOND = 1000
"""More queries than this cannot be answered."""
_HEALTH_EVERY_S = 0.02
_FILE_PASSAGES = 25
_SETTLE_S = 2.0


@dataclass(frozen=True)
class Watched:
    """Queries and health checks of some seconds."""

    queries: Run
    health_ms: list[float] = field(default_factory=list)


def compare_mixed(options: argparse.Namespace, engine: str, corpus: Corpus) -> Iterator[Row]:
    """P11 for one engine."""
    with tempfile.TemporaryDirectory(prefix="groundwire-search-") as folder:
        scratch = Path(folder)
        arguments = ["--vectors", f"{engine}:", "--embedder", options.embedder]
        with (
            own_process() as load,
            own_process() as writer,
            server_process(scratch, arguments) as (address, process_id),
        ):
            load(fill_server, address, corpus)
            wait_until_quiet(process_id)
            serial = itertools.count(1)
            quiet = _watch(load, address, corpus, serial, options.mixed_seconds)
            passages = Words(options.docs).passages(len(corpus.texts))
            stop = threading.Event()
            rebuilt = _Rebuilds(address, stop)
            writing = writer.start(ingest_for, address, passages, options.mixed_seconds + 2 * _SETTLE_S)
            time.sleep(_SETTLE_S)
            busy = _watch(load, address, corpus, serial, options.mixed_seconds)
            stop.set()
            rate, rebuilds = writing.result(), rebuilt()
        stall_ms = _longest_stall_ms(scratch / "server.log")
    yield from _rows(engine, len(corpus.texts), quiet, busy, f"{rate:.0f} chunks/s in, {rebuilds} builds", stall_ms)


def _rows(engine: str, chunks: int, quiet: Watched, busy: Watched, what: str, stall_ms: float) -> Iterator[Row]:
    ratio = p99([busy.queries]) / p99([quiet.queries])
    yield Row(
        *("P11", engine, chunks, f"8 clients, {what}", p50([busy.queries]), p99([busy.queries])),
        *(f"quiet, p99 {p99([quiet.queries]):.1f}", p50([quiet.queries]), f"p99 {ratio:.2f}x"),
        target="p99 <= 3x quiet",
        met=ratio <= 3.0,
    )
    health, calm = Run(0.0, busy.health_ms), Run(0.0, quiet.health_ms)
    yield Row(
        *("P11", engine, chunks, f"health, longest {max(health.ms):.1f} ms", p50([health]), p99([health])),
        *("quiet", p50([calm]), ""),
        target="<= 100 ms",
        met=max(health.ms) <= 100.0,
    )
    yield Row(
        *("P11", engine, chunks, "longest stall of the event loop", stall_ms, stall_ms, "-", 0.0, ""),
        target="<= 50 ms",
        met=stall_ms <= 50.0,
    )


def _watch(load: OwnProcess, address: str, corpus: Corpus, serial: Iterator[int], seconds: float) -> Watched:
    queries = [question(corpus, number) for number in itertools.islice(serial, int(seconds * _PER_SECOND))]
    return load(query_for, address, requests_of(queries, _LIMIT, by_vector=False), seconds)


def query_for(address: str, requests: Sequence[bytes], seconds: float) -> Watched:
    """Query and check the health for some seconds; runs in the clients' process."""
    return asyncio.run(_query_for(address, requests, seconds))


async def _query_for(address: str, requests: Sequence[bytes], seconds: float) -> Watched:
    channels = [open_channel(address) for _ in range(CLIENTS + 1)]
    await asyncio.gather(*(channel.channel_ready() for channel in channels))
    waiting, ends = iter(requests), time.perf_counter() + seconds
    seen = Watched(Run(seconds))

    async def ask(channel: grpc.aio.Channel) -> None:
        call: grpc.aio.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(RETRIEVE)
        while time.perf_counter() < ends:
            started = time.perf_counter()
            await call(next(waiting))
            seen.queries.ms.append((time.perf_counter() - started) * 1000)

    async def check(channel: grpc.aio.Channel) -> None:
        while time.perf_counter() < ends:
            seen.health_ms.append(await health_ms(channel))
            await asyncio.sleep(_HEALTH_EVERY_S)

    await asyncio.gather(*map(ask, channels[:-1]), check(channels[-1]))
    await asyncio.gather(*(channel.close() for channel in channels))
    return seen


def ingest_for(address: str, passages: Sequence[str], seconds: float) -> float:
    """Ingest files, a few at a time, for some seconds; return the chunks per second; runs in the writers' process."""
    ends, chunks, numbers = time.perf_counter() + seconds, [0], itertools.count()
    with GroundwireClient(address) as client:
        client.create_collection(collection="inflow")

        def write() -> None:
            while time.perf_counter() < ends:
                number = next(numbers)
                start = number * _FILE_PASSAGES % len(passages)
                parts = [f"{part} {number}" for part in passages[start : start + _FILE_PASSAGES]]
                made = client.ingest_document(collection="inflow", source_uri=f"{number}.md", text="\n\n".join(parts))
                chunks.append(made.result.document.chunk_count)

        threads = [threading.Thread(target=write) for _ in range(_JOBS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return sum(chunks) / seconds


class _Rebuilds:
    """Builds the index of the collection anew, again and again until it is told to stop."""

    def __init__(self, address: str, stop: threading.Event) -> None:
        self._address, self._stop, self._count = address, stop, 0
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def __call__(self) -> int:
        """Wait for the last one and return how many there were."""
        self._thread.join()
        return self._count

    def _run(self) -> None:
        with GroundwireClient(self._address) as client:
            while not self._stop.is_set():
                self._count += 1
                wait_for(client, client.reindex(collection=COLLECTION), IndexBuildResult)


def _longest_stall_ms(log: Path) -> float:
    """Return what the server itself saw of its event loop, from its first call to its last."""
    lines = [json.loads(line) for line in log.read_text().splitlines() if line.startswith("{")]
    return float(next(line for line in lines if line["event"] == "stopped")["loop_lag_max_ms"])
