"""Metrics of the process for Prometheus. All names are here; the figures are kept where the work is done.

Nothing is computed before a scrape, so that calls pay for counting alone. Labels come from the code and the settings,
never from callers: their number is bounded, and they reveal nothing about documents, questions or tenants.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from importlib.metadata import version
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, start_http_server
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.registry import Collector

from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.errors import GroundwireError
from groundwire.kernel.latencies import Latencies, step_latencies
from groundwire.rpc.server import GrpcServer

if TYPE_CHECKING:
    from groundwire.catalog.database import Database
    from groundwire.ingest.bootstrap import IngestService
    from groundwire.kernel.embedder import Embedder
    from groundwire.retrieve.bootstrap import RetrieveService
    from groundwire.standalone.parts import Parts

_BOUNDS_S = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0, 60.0)
_LAG_BOUNDS_MS = (1, 2, 5, 10, 25, 50, 100, 250, 500, 1000)
_BATCH_BOUNDS = (1, 2, 4, 8, 16, 32, 64)
_PREFIX = "groundwire_"

_log = structlog.get_logger(__name__)

LabelsT = TypeVar("LabelsT", bound=tuple[str, ...])
Family: TypeAlias = CounterMetricFamily | GaugeMetricFamily | HistogramMetricFamily


def serve_metrics(address: str, server: GrpcServer, parts: "Parts") -> Callable[[], None]:
    """Serve `GET /metrics` on HOST:PORT in separate threads; return a function that stops it."""
    host, _, port = address.rpartition(":")
    registry = CollectorRegistry()
    registry.register(_Process(server, parts))
    ProcessCollector(registry=registry)
    listener, thread = start_http_server(int(port), host.strip("[]"), registry)
    _log.info("metrics", address=f"{host}:{listener.server_port}")

    def stop() -> None:
        listener.shutdown()
        listener.server_close()
        thread.join()

    return stop


class _Process(Collector):
    """Reads every part that the process has; a part that fails is left out without affecting the others."""

    def __init__(self, server: GrpcServer, parts: "Parts") -> None:
        self._server = server
        self._parts = parts

    def collect(self) -> Iterator[Family]:
        parts = self._parts
        yield _gauge("build_info", "Is 1; says which version runs.", {(version("groundwire"),): 1}, "version")
        yield _histogram(
            "step_duration_seconds",
            "Time that the steps of searches, ingests and answers take.",
            {(name,): each for name, each in sorted(step_latencies().items())},
            "step",
        )
        waiting = {(name,): each.waiting for name, each in parts.workers.items()}
        yield _gauge("workers_waiting", "Calls that wait for a thread.", waiting, "pool")
        readers: tuple[tuple[Any, Callable[[Any], Iterator[Family]]], ...] = (
            (self._server, _of_server),
            (parts.database, _of_database),
            (parts.embedder, _of_embedder),
            (parts.ingest, _of_ingest),
            (parts.retrieve, _of_retrieve),
        )
        for part, read in readers:
            if part is None:
                continue
            try:
                # Read whole first: a part that fails in the middle must not show half of its figures.
                yield from list(read(part))
            except GroundwireError as error:
                # Readiness reports an unreadable catalog; the other metrics help to explain it.
                _log.warning("a part of the process cannot be measured", error=error.message)
        if parts.answer is not None:
            what = "Answers that a generator began to write, and that it failed to write, by reason."
            yield _counter("drafts", what, parts.answer.answerer.drafts.copy(), "generator", "outcome")


def _of_server(server: GrpcServer) -> Iterator[Family]:
    durations = {
        (*method.lstrip("/").split("/"), code): each for (method, code), each in sorted(server.calls.durations.items())
    }
    yield _histogram("call_duration_seconds", "Time from a call to its status.", durations, "service", "method", "code")
    running = server.admission.running()
    yield _gauge("calls_running", "Calls in work.", {(work,): active for work, (active, _) in running.items()}, "work")
    limits = {(work,): limit for work, (_, limit) in running.items()}
    yield _gauge("calls_limit", "Calls that may be in work at a time.", limits, "work")
    yield _gauge("calls_waiting", "Calls that have sent no message yet.", {(): server.admission.waiting})
    ready = {(name,): int(status == 1) for name, status in server.health.statuses.items() if name}
    yield _gauge("service_ready", "1 while the health service says SERVING.", ready, "service")
    lag = HistogramMetricFamily(f"{_PREFIX}event_loop_lag_seconds", "How much too late the event loop wakes.")
    reached, samples = server.lag.up_to(_LAG_BOUNDS_MS), server.lag.read().samples
    buckets = [(str(bound / 1000), count) for bound, count in zip(_LAG_BOUNDS_MS, reached, strict=True)]
    lag.add_metric((), [*buckets, ("+Inf", samples)], server.lag.total_s)
    yield lag


def _of_database(database: "Database") -> Iterator[Family]:
    from groundwire.catalog.inspection import read_backlog  # noqa: PLC0415 - a process may have no catalog

    usage = database.usage()
    yield _gauge("catalog_connections_in_use", "Reading connections in use.", {(): usage.connections})
    yield _gauge("catalog_connections_limit", "Reading connections there may be.", {(): usage.max_connections})
    waits = {(): usage.connection_waits}
    yield _counter("catalog_connection_waits", "Reads that had to wait for a connection.", waits)
    yield _gauge("catalog_writes_waiting", "Writes that wait for the writer.", {(): usage.waiting_writes})
    backlog = read_backlog(database)
    yield _gauge("outbox_tasks", "Changes that the vector engine has not made yet.", {(): backlog.outbox})
    yield _gauge("outbox_age_seconds", "Age of the oldest of them, in time of service.", {(): backlog.outbox_age_s})
    yield _gauge("operations_unfinished", "Operations that run or wait.", {(): backlog.operations})
    yield _gauge("index_builds", "Indexes that are being built beside those that serve.", {(): backlog.index_builds})
    yield _gauge("deletions_incomplete", "Receipts of deletions that are not complete.", {(): backlog.deletions})
    yield _gauge("sessions_stored", "Open sessions in the catalog.", {(): backlog.sessions})


def _of_embedder(embedder: "Embedder") -> Iterator[Family]:
    from groundwire.embedders.batching import BatchingEmbedder  # noqa: PLC0415 - a process may have no model

    yield _gauge("model_responsive", "1 while the embedding model answers.", {(): int(embedder.is_responsive)})
    if not isinstance(embedder, BatchingEmbedder):
        return  # one that computes in the thread of its caller has neither queue nor batches
    urgent, patient = embedder.waiting
    waiting = {("queries",): urgent, ("documents",): patient}
    yield _gauge("embedder_calls_waiting", "Calls that wait for the embedding model.", waiting, "kind")
    sizes = embedder.batch_sizes.copy()
    reached = [(str(bound), sum(n for size, n in sizes.items() if size <= bound)) for bound in _BATCH_BOUNDS]
    batches = HistogramMetricFamily(f"{_PREFIX}embedder_batch_texts", "Texts in one inference.")
    batches.add_metric((), [*reached, ("+Inf", sizes.total())], sum(size * n for size, n in sizes.items()))
    yield batches


def _of_ingest(ingest: "IngestService") -> Iterator[Family]:
    busy, waiting = ingest.parser.usage
    yield _gauge("parsers_busy", "Documents that are being parsed.", {(): busy})
    yield _gauge("parsers_waiting", "Documents that wait for a parser process.", {(): waiting})
    jobs = ingest.housekeeping.figures()
    runs = {(name,): each.runs for name, each in jobs.items()}
    yield _counter("housekeeping_runs", "Runs of jobs behind the calls.", runs, "job")
    failures = {(name,): each.failures for name, each in jobs.items()}
    yield _counter("housekeeping_failures", "Runs of them that failed.", failures, "job")


def _of_retrieve(retrieve: "RetrieveService") -> Iterator[Family]:
    outcomes = {(name,): count for name, count in retrieve.servicer.record.pipeline.outcomes.copy().items()}
    yield _counter("searches", "Searches with results, without any (empty), and failed ones.", outcomes, "outcome")
    results, views = retrieve.servicer.results, retrieve.search.views
    caches: dict[str, BoundedCache[Any, Any]] = {
        "query_vectors": retrieve.search.query_vectors.remembered,
        "chunks": views.caches.chunks,
        "postings": views.caches.words.postings,
    }
    hits = {"results": results.hits} | {name: each.hits for name, each in caches.items()}
    misses = {"results": results.lookups - results.hits} | {name: each.misses for name, each in caches.items()}
    yield _counter("cache_hits", "What was found in a cache.", {(name,): n for name, n in hits.items()}, "cache")
    yield _counter("cache_misses", "What was not.", {(name,): n for name, n in misses.items()}, "cache")


def _family(kind: Any, name: str, text: str, values: Mapping[Any, float], *labels: str) -> Family:
    family = kind(_PREFIX + name, text, labels=labels)
    for own, value in values.items():
        family.add_metric(own, value)
    made: Family = family
    return made


_gauge, _counter = partial(_family, GaugeMetricFamily), partial(_family, CounterMetricFamily)


def _histogram(name: str, text: str, values: Mapping[LabelsT, Latencies], *labels: str) -> HistogramMetricFamily:
    family = HistogramMetricFamily(_PREFIX + name, text, labels=labels)
    for own, each in values.items():
        reached = each.up_to(_BOUNDS_S)
        # Counted separately from the buckets, which may already include a call that ends meanwhile.
        count = max(each.count, *reached)
        buckets = [(str(bound), below) for bound, below in zip(_BOUNDS_S, reached, strict=True)]
        family.add_metric(own, [*buckets, ("+Inf", count)], each.total_s)
    return family
