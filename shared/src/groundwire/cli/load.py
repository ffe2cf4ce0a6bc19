"""`groundwire bench load`: calls at a rate that does not wait for the server, and what became of them.

A client that calls again only after an answer slows down with the server, and hides how slow it is (coordinated
omission). Here calls begin on a schedule and are measured from then on, so that waiting counts wherever it happens.
"""

import asyncio
import random
import time
import uuid
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from html import escape
from pathlib import Path
from typing import Any, Final, TypeAlias

import click
import yaml

from groundwire.cli.connection import connection
from groundwire.cli.options import INT64, collection_option, is_json, read_text, server_options
from groundwire.cli.output import is_terminal, print_line, print_table, printed_as_json
from groundwire.client import AsyncGroundwireClient
from groundwire.kernel.errors import GroundwireError, InvalidRequestError
from groundwire.kernel.latencies import Latencies

_KINDS: Final = ("search", "ask", "ingest")
_LIMITS: Final = ("p50_ms", "p95_ms", "p99_ms", "max_ms", "failed_share")
_QUANTILES: Final = (0.5, 0.9, 0.95, 0.99, 0.999)
_CALL_S: Final = 30.0
_MOST_DIGITS: Final = 9
# A server that does not answer must not fill the memory of the client.
_MAX_UNDER_WAY: Final = 10_000
_WIDTH, _HEIGHT = 640, 220
_COLOURS: Final = {"search": "#1a73e8", "ask": "#b3261e", "ingest": "#188038"}

Mix: TypeAlias = dict[str, int]
Slo: TypeAlias = dict[str, dict[str, float]]


@dataclass(slots=True)
class Figures:
    """What became of the calls of one kind; `seconds` has their number and slowest in each second of the run."""

    latencies: Latencies = field(default_factory=Latencies)
    failures: Counter[str] = field(default_factory=Counter)
    calls_by_second: Counter[int] = field(default_factory=Counter)
    slowest_by_second: dict[int, float] = field(default_factory=dict)

    def add(self, due_s: float, elapsed_s: float, failure: str) -> None:
        """Count a call that was due `due_s` seconds after the beginning."""
        second = int(due_s)
        self.latencies.add(elapsed_s)
        self.calls_by_second[second] += 1
        self.slowest_by_second[second] = max(elapsed_s, self.slowest_by_second.get(second, 0.0))
        if failure:
            self.failures[failure] += 1

    def shown(self, duration_s: float) -> dict[str, Any]:
        """Return the figures by name, as the report and the limits of an SLO name them."""
        count = self.latencies.count
        quantiles = {f"p{share * 100:g}_ms".replace(".", "_"): self.latencies.quantile_s(share) for share in _QUANTILES}
        return {
            "calls": count,
            "rate": count / duration_s,
            "failed": self.failures.total(),
            "failed_share": self.failures.total() / count if count else 0.0,
            "failures": dict(self.failures),
            "mean_ms": self.latencies.mean_s * 1000,
            **{name: seconds * 1000 for name, seconds in quantiles.items()},
            "max_ms": self.latencies.maximum_s * 1000,
        }


bench = click.Group("bench", help="Measure a server.")


@bench.command()
@collection_option
@click.option(
    "--rate", type=click.FloatRange(0.1, 10_000), default=20.0, help="Calls a second, however long they take."
)
@click.option("--duration", "duration_s", type=click.FloatRange(1, 86_400), default=30.0, help="Seconds.")
@click.option("--mix", default="search=8,ask=1,ingest=1", help="Shares of search, ask and ingest.")
@click.option("--queries", type=click.Path(path_type=Path, exists=True), required=True, help="Questions, one a line.")
@click.option(
    "--slo", type=click.Path(path_type=Path, exists=True), help="YAML file of limits; exits with 1 if one is exceeded."
)
@click.option("--html", "page", type=click.Path(path_type=Path), help="File for a report with plots.")
@click.option("--seed", type=INT64, default=0, help="Seed of the moments at which calls begin and of what they ask.")
@server_options
def load(
    collection: str,
    rate: float,
    duration_s: float,
    mix: str,
    queries: Path,
    slo: Path | None,
    page: Path | None,
    seed: int,
) -> None:
    """Call a server at a rate that does not depend on its answers, and show how long they took.

    Documents that are ingested go into the same collection and are deleted at the end.
    """
    asked = [line.strip() for line in read_text(queries).split("\n") if line.strip()]
    if not asked:
        raise InvalidRequestError.of("queries", f"{str(queries)!r} has no line")
    limits = {} if slo is None else read_slo(slo)
    schedule = scheduled(rate, duration_s, read_mix(mix), random.Random(seed))  # noqa: S311 - moments, not secrets
    run = _Run(asked, seed, quiet=is_json() or not is_terminal(err=True))
    figures = asyncio.run(run.all(collection, schedule))
    shown = {kind: each.shown(duration_s) for kind, each in figures.items()}
    breaches = breached(limits, shown)
    if page is not None:
        page.write_text(_page(figures, shown, breaches, rate, duration_s), encoding="utf-8")
    if not printed_as_json({"rate": rate, "duration_s": duration_s, "figures": shown, "breaches": breaches}):
        columns = ["calls", "rate", "failed", "mean_ms", "p50_ms", "p95_ms", "p99_ms", "p99_9_ms", "max_ms"]
        rows = [[kind, *(f"{own[name]:.4g}" for name in columns)] for kind, own in shown.items()]
        print_table(["kind", *columns], rows, "nothing was called")
        for kind, own in shown.items():
            for reason, count in own["failures"].items():
                print_line(f"{kind}: {count} failed with {reason}")
        for breach in breaches:
            print_line(("breached ", "bold red"), breach)
    if breaches:
        raise click.exceptions.Exit(1)


def read_mix(text: str) -> Mix:
    """Return the shares of each kind.

    Raises:
        InvalidRequestError: a kind is unknown, a share is no whole number, or all are 0.
    """
    mix: Mix = {}
    for part in text.split(","):
        kind, _, share = part.strip().partition("=")
        if kind not in _KINDS or not share.isdecimal() or len(share) > _MOST_DIGITS:
            raise InvalidRequestError.of("mix", f"{part.strip()!r} is not of the form search=8, ask=1 or ingest=1")
        mix[kind] = int(share)
    if not any(mix.values()):
        raise InvalidRequestError.of("mix", "has no share above 0")
    return mix


def read_slo(path: Path) -> Slo:
    """Return the limits of each kind, as in `search: {p99_ms: 200, failed_share: 0.001}`.

    Raises:
        InvalidRequestError: it is of another form.
    """
    try:
        limits = yaml.safe_load(read_text(path))
    except (yaml.YAMLError, ValueError, RecursionError) as error:  # a time such as 2027-13-01 is a wrong value
        raise InvalidRequestError.of("slo", f"{str(path)!r} is not YAML") from error
    if not isinstance(limits, dict) or not limits:
        raise InvalidRequestError.of("slo", "has no limits")
    for kind, own in limits.items():
        if kind not in _KINDS or not isinstance(own, dict) or not set(own) <= set(_LIMITS):
            raise InvalidRequestError.of("slo", f"{kind!r} is none of {_KINDS} with limits of {_LIMITS}")
        if not all(isinstance(limit, int | float) and limit >= 0 for limit in own.values()):
            raise InvalidRequestError.of("slo", f"a limit of {kind!r} is not a number of at least 0")
    return limits


def scheduled(rate: float, duration_s: float, mix: Mix, chance: random.Random) -> list[tuple[float, str]]:
    """Return when calls begin, in seconds, and of which kind they are: independent arrivals, as those of many users."""
    kinds, shares = list(mix), list(mix.values())
    moments: list[tuple[float, str]] = []
    at = chance.expovariate(rate)
    while at < duration_s:
        moments.append((at, chance.choices(kinds, shares)[0]))
        at += chance.expovariate(rate)
    return moments


def breached(limits: Slo, shown: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """Return each limit that is exceeded, as a sentence; one of a kind that was never called is, too."""
    breaches = []
    for kind, own in limits.items():
        for name, limit in own.items():
            if kind not in shown:
                breaches.append(f"{kind} {name}: nothing was measured")
            elif shown[kind][name] > limit:
                breaches.append(f"{kind} {name}: {shown[kind][name]:.4g} is more than {limit:g}")
    return breaches


class _Run:
    """One run: sends calls on a schedule and records their outcomes."""

    def __init__(self, queries: Sequence[str], seed: int, *, quiet: bool) -> None:
        self._queries = queries
        self._seed = seed
        self._quiet = quiet
        self._figures: dict[str, Figures] = {}
        self._under_way: set[asyncio.Task[None]] = set()
        self._ingested: list[str] = []
        self._prefix = f"groundwire-load/{uuid.uuid4().hex}/"

    async def all(self, name: str, schedule: Sequence[tuple[float, str]]) -> dict[str, Figures]:
        """Return the figures of each kind that was called, once every call has ended."""
        async with AsyncGroundwireClient(**connection(_CALL_S)) as client:
            collection = client.collection(name)
            # The first call opens the connection, which is not measured, and fails early if something is wrong.
            await collection.search(self._queries[0], k=1)

            async def ingest(number: int) -> None:
                source = f"{self._prefix}{number}.txt"
                about = f"Document {number} of a measurement, made of a question, says nothing about it."
                self._ingested.append(source)  # before the call: it may be stored although the response is lost
                await collection.ingest_text(f"{self._query(number)} {about}", source=source)

            calls: dict[str, Callable[[int], Awaitable[Any]]] = {
                "search": lambda number: collection.search(self._query(number)),
                "ask": lambda number: collection.ask(self._query(number)),
                "ingest": ingest,
            }
            began = time.perf_counter()
            ticker = asyncio.create_task(self._tell(began))
            try:
                for number, (due_s, kind) in enumerate(schedule):
                    # Measured from the beginning: delays of single calls would add up otherwise.
                    await asyncio.sleep(due_s - (time.perf_counter() - began))
                    call = asyncio.create_task(self._measured(kind, calls[kind], number, began, due_s))
                    self._under_way.add(call)
                    call.add_done_callback(self._under_way.discard)
                await asyncio.gather(*self._under_way)
            finally:
                ticker.cancel()
                for source in self._ingested:
                    with suppress(GroundwireError):
                        await collection.delete_document(source)
        return self._figures

    async def _measured(
        self, kind: str, call: Callable[[int], Awaitable[Any]], number: int, began: float, due_s: float
    ) -> None:
        failure = ""
        if len(self._under_way) > _MAX_UNDER_WAY:
            failure = "NOT_SENT"
        else:
            try:
                await call(number)
            except GroundwireError as error:
                failure = error.reason
        elapsed_s = time.perf_counter() - began - due_s
        self._figures.setdefault(kind, Figures()).add(due_s, elapsed_s, failure)

    def _query(self, number: int) -> str:
        # Not in their order: every question comes with each kind of call. Unlike that of a text, the hash of numbers is
        # the same in every process, so that a seed always asks the same.
        return self._queries[hash((self._seed, number)) % len(self._queries)]

    async def _tell(self, began: float) -> None:
        while not self._quiet:
            await asyncio.sleep(1)
            parts = [
                f"{kind} {each.latencies.count} · p99 {each.latencies.quantile_s(0.99) * 1000:.0f} ms"
                f" · failed {each.failures.total()}"
                for kind, each in self._figures.items()
            ]
            line = "   ".join([f"{time.perf_counter() - began:.0f} s", *parts, f"{len(self._under_way)} under way"])
            print_line(line, err=True)


def _page(
    figures: Mapping[str, Figures],
    shown: Mapping[str, Mapping[str, Any]],
    breaches: Sequence[str],
    rate: float,
    duration_s: float,
) -> str:
    """Return a page that loads nothing: the figures, and plots of quantiles and of the slowest call of each second."""
    nines = [0.0, 0.5, 0.75, 0.9, 0.95, 0.99, 0.995, 0.999, 0.9999]
    quantiles = {
        kind: [(float(place), each.latencies.quantile_s(share or 1e-9) * 1000) for place, share in enumerate(nines)]
        for kind, each in figures.items()
    }
    slowest = {
        kind: [(float(second), seconds * 1000) for second, seconds in sorted(each.slowest_by_second.items())]
        for kind, each in figures.items()
    }
    names = [name for name in next(iter(shown.values()), {}) if name != "failures"]
    rows = "".join(
        f"<tr><th>{escape(kind)}</th>{''.join(f'<td>{own[name]:.4g}</td>' for name in names)}</tr>"
        for kind, own in shown.items()
    )
    missed = "".join(f"<li>{escape(each)}</li>" for each in breaches) or "<li>none</li>"
    return (
        '<!DOCTYPE html><html lang="en"><meta charset="utf-8"><title>Load of groundwire</title>'
        "<style>body{font:1rem/1.5 system-ui;margin:2rem auto;max-width:60rem}td,th{padding:.2rem .6rem;"
        "text-align:right}</style>"
        f"<h1>Load of groundwire</h1><p>{rate:g} calls a second for {duration_s:g} s, each measured from the moment at "
        f"which it was due.</p><table><tr><th></th>{''.join(f'<th>{name}</th>' for name in names)}</tr>{rows}</table>"
        f"<h2>Limits exceeded</h2><ul>{missed}</ul>"
        f"<h2>Milliseconds by quantile</h2>{_plot(quantiles, [f'{share:.4g}' for share in nines])}"
        f"<h2>Slowest call of each second, in milliseconds</h2>{_plot(slowest, ['0 s', f'{duration_s:g} s'])}"
        "</html>\n"
    )


def _plot(lines: Mapping[str, Sequence[tuple[float, float]]], marks: Sequence[str]) -> str:
    right = max((x for points in lines.values() for x, _ in points), default=0.0) or 1.0
    top = max((y for points in lines.values() for _, y in points), default=0.0) or 1.0
    drawn = []
    for place, (kind, points) in enumerate(lines.items()):
        path = " ".join(f"{x / right * _WIDTH:.1f},{_HEIGHT - y / top * _HEIGHT:.1f}" for x, y in points)
        drawn.append(f'<polyline points="{path}" fill="none" stroke="{_COLOURS[kind]}" stroke-width="2"/>')
        drawn.append(f'<text x="8" y="{16 + 16 * place}" fill="{_COLOURS[kind]}">{kind}</text>')
    gap = _WIDTH / max(1, len(marks) - 1)
    drawn += [f'<text x="{gap * place:.0f}" y="{_HEIGHT + 16}">{mark}</text>' for place, mark in enumerate(marks)]
    drawn.append(f'<text x="{_WIDTH + 8}" y="12">{top:.4g}</text>')
    return f'<svg viewBox="-8 -8 {_WIDTH + 90} {_HEIGHT + 32}" role="img">{"".join(drawn)}</svg>'
