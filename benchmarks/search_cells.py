"""The comparisons of `benchmarks.search` over one filled server: P7, P8 and P12."""

import itertools
import statistics
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

from benchmarks.search_echo import start_echo
from benchmarks.search_load import one_response, requests_of, retrieve_all
from benchmarks.search_processes import OwnProcess, Peer, own_process
from benchmarks.search_raw import Query, Run, ask_raw, question
from benchmarks.search_table import Exact, Row, between, cpu_ms, p50, p99, rate
from benchmarks.served import cpu_s
from benchmarks.synthetic import SHAPES, Corpus, Where, fields_of

LIMIT = 10
CLIENTS = (1, 8, 32)
_VALUES = 4
"""Different values that a filter is asked with."""
_CACHED = 20
_AT_LEAST = 6
"""Queries of each client in a round."""

Ask = Callable[[Sequence[Query]], Run]


@dataclass(frozen=True)
class Bench:
    """A filled server, with its process, and what stands beside it.

    `serial` numbers the questions, so that none is asked twice.
    """

    engine: str
    corpus: Corpus
    address: str
    process_id: int
    load: OwnProcess
    raw: OwnProcess
    peers: Sequence[Peer]
    rounds: int
    queries: int
    serial: Iterator[int]

    @property
    def chunks(self) -> int:
        return len(self.corpus.texts)

    def ours(self, clients: int, *, by_vector: bool) -> Ask:

        def ask(queries: Sequence[Query]) -> Run:
            return self.retrieve(requests_of(queries, LIMIT, by_vector=by_vector), clients)

        return ask

    def retrieve(self, requests: Sequence[bytes], clients: int) -> Run:
        """Send requests to our server, and see what they cost it."""
        before_s = cpu_s(self.process_id)
        run = self.load(retrieve_all, self.address, requests, clients)
        return replace(run, cpu_s=cpu_s(self.process_id) - before_s)

    def bare(self, clients: int) -> Ask:
        return lambda queries: self.raw(ask_raw, queries, LIMIT, clients)

    def questions(self, count: int, wheres: Sequence[Where | None] = (None,)) -> list[Query]:
        """Return the next questions, each with the next of the filters."""
        numbers = itertools.islice(self.serial, count)
        return [question(self.corpus, number, where) for number, where in zip(numbers, itertools.cycle(wheres))]

    def in_turns(
        self, systems: Mapping[str, Ask], count: int, wheres: Sequence[Where | None] = (None,)
    ) -> tuple[list[Query], dict[str, list[Run]]]:
        """Ask all systems the same, round by round, each time beginning with another; a first round does not count."""
        asked: list[Query] = []
        runs: dict[str, list[Run]] = {name: [] for name in systems}
        for turn in range(-1, self.rounds):
            queries = self.questions(count if turn >= 0 else min(count, 20), wheres)
            names = [*systems]
            for name in names[turn % len(names) :] + names[: turn % len(names)]:
                run = systems[name](queries)
                if turn >= 0:
                    runs[name].append(run)
            asked += queries if turn >= 0 else []
        return asked, runs


def compare_plain(bench: Bench) -> Iterator[Row]:
    """P7: searches without a filter."""
    exact = Exact(bench.corpus, LIMIT)
    for clients in CLIENTS:
        systems = {
            "raw": bench.bare(clients),
            "by vector": bench.ours(clients, by_vector=True),
            "by text": bench.ours(clients, by_vector=False),
            **{peer.name: _asking(peer, clients) for peer in bench.peers},
        }
        queries, runs = bench.in_turns(systems, max(bench.queries, _AT_LEAST * clients))
        yield _beside_raw(bench, exact, clients, queries, runs)
        yield _beside_peers(bench, clients, runs) if bench.peers else _hybrid_beside_raw(bench, clients, runs)


def _asking(peer: Peer, clients: int) -> Ask:
    return lambda queries: peer.ask(queries, LIMIT, clients)


def _beside_raw(
    bench: Bench, exact: Exact, clients: int, queries: Sequence[Query], runs: Mapping[str, list[Run]]
) -> Row:
    ours, raw = runs["by vector"], runs["raw"]
    _, extra = between(ours, raw)
    (recall, missing), (raw_recall, _) = exact.recall(queries, ours), exact.recall(queries, raw)
    return Row(
        *("P7", bench.engine, bench.chunks, f"by vector, {clients}", p50(ours), p99(ours), "raw", p50(raw)),
        _ratio(ours, raw, clients),
        _recall(recall, missing, raw_recall),
        "<= +1 ms" if clients == 1 else "",
        extra <= 1.0 if clients == 1 else None,
        rate(ours),
        cpu_ms(ours),
    )


def _ratio(ours: Sequence[Run], raw: Sequence[Run], clients: int) -> str:
    """Compare the times of one client; of several, which mostly wait for the processors, the calls a second."""
    if clients == 1:
        factor, extra = between(ours, raw)
        return f"{1 / factor:.1f}x its time, {extra:+.2f} ms"
    return f"{_share(ours, raw):.2f}x its calls/s"


def _share(ours: Sequence[Run], others: Sequence[Run]) -> float:
    """Return how many of the others' calls a second are ours; the median of the rounds."""
    return statistics.median(other.seconds / our.seconds for our, other in zip(ours, others, strict=True))


def _hybrid_beside_raw(bench: Bench, clients: int, runs: Mapping[str, list[Run]]) -> Row:
    """Return the line of a hybrid search, model included, where no framework stands beside it."""
    ours, raw = runs["by text"], runs["raw"]
    return Row(
        *("P7", bench.engine, bench.chunks, f"hybrid by text, {clients}", p50(ours), p99(ours), "raw", p50(raw)),
        _ratio(ours, raw, clients),
        rate=rate(ours),
        cpu_ms=cpu_ms(ours),
    )


def _beside_peers(bench: Bench, clients: int, runs: Mapping[str, list[Run]]) -> Row:
    best = min((peer.name for peer in bench.peers), key=lambda name: p50(runs[name]))
    ours, theirs = runs["by text"], runs[best]
    factor, _ = between(ours, theirs)
    others = ", ".join(f"{peer.name} {p50(runs[peer.name]):.1f}" for peer in bench.peers if peer.name != best)
    beside = f"{best} ({others})" if others else best
    return Row(
        *("P7", bench.engine, bench.chunks, f"hybrid by text, {clients}", p50(ours), p99(ours), beside, p50(theirs)),
        f"{1 / factor:.2f}x",
        target="<= 0.5x best framework",
        met=factor >= 2.0,
        rate=rate(ours),
        cpu_ms=cpu_ms(ours),
    )


_FASTER = {("chroma", "50 %"): 10.0, ("chroma", "1 %"): 3.0}
_FASTER_FROM = 100_000
"""Chunks from which these factors are the target; of fewer the engine's own filter costs little."""


def compare_filtered(bench: Bench) -> Iterator[Row]:
    """P8: searches with a filter, one client."""
    exact, fields = Exact(bench.corpus, LIMIT), fields_of(len(bench.corpus.documents))
    for shape, names in SHAPES.items():
        wheres: list[Where | None] = [{name: has[name] for name in names} for has in fields[:_VALUES]]
        ours = bench.ours(1, by_vector=True)
        first = [ours(bench.questions(len(wheres), wheres)) for _ in range(2)]
        systems = {"raw": bench.bare(1), "ours": ours}
        queries, runs = bench.in_turns(systems, bench.queries, wheres)
        factor, _ = between(runs["ours"], runs["raw"])
        (recall, missing), (raw_recall, _) = (exact.recall(queries, runs[name]) for name in ("ours", "raw"))
        wanted = _FASTER.get((bench.engine, shape), 0.0) if bench.chunks >= _FASTER_FROM else 0.0
        yield Row(
            *("P8", bench.engine, bench.chunks, f"{shape}, first two {p50(first[:1]):.0f} and {p50(first[1:]):.0f} ms"),
            *(p50(runs["ours"]), p99(runs["ours"]), "raw filter", p50(runs["raw"])),
            f"{factor:.1f}x faster",
            _recall(recall, missing, raw_recall),
            (f">= {wanted:.0f}x, " if wanted else "") + "recall >= 0.99, all k",
            factor >= wanted and recall >= 0.99 and missing == 0,
        )


def compare_cached(bench: Bench) -> Iterator[Row]:
    """P12: requests that were answered before, 32 clients, beside a server that does nothing."""
    known = requests_of(bench.questions(_CACHED), 5, by_vector=False)
    requests = known * max(1, bench.queries * 4 // _CACHED)
    bench.load(retrieve_all, bench.address, known, 1)
    with own_process() as echo:
        address = echo(start_echo, one_response(bench.address, known[0]))
        runs: dict[str, list[Run]] = {address: [], bench.address: []}
        for turn in range(-1, bench.rounds):
            for server, each in runs.items():
                is_ours = server == bench.address
                run = (
                    bench.retrieve(requests, CLIENTS[-1])
                    if is_ours
                    else bench.load(retrieve_all, server, requests, CLIENTS[-1])
                )
                if turn >= 0:
                    each.append(run)
    ours, echoes = runs[bench.address], runs[address]
    share = _share(ours, echoes)
    yield Row(
        *("P12", bench.engine, bench.chunks, "cached, 32", p50(ours), p99(ours)),
        *(f"aio echo: {rate(echoes):.0f} calls/s", p50(echoes), f"{share:.2f}x its calls/s"),
        target=">= 0.6x echo",
        met=share >= 0.6,
        rate=rate(ours),
        cpu_ms=cpu_ms(ours),
    )


def _recall(recall: float, missing: int, raw: float) -> str:
    short = f", {missing} too few" if missing else ""
    return f"{recall:.4f}{short} (raw {raw:.4f})"
