"""Figures of searches: percentiles, recall against an exact comparison, and the table that is printed."""

import statistics
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from benchmarks.search_raw import Query, Run
from benchmarks.synthetic import Corpus, Where, matching

_TIE = 1e-5
"""Similarities that differ by less are equal: engines round."""
_HEADER = (
    "id",
    "engine",
    "chunks",
    "what",
    "calls/s",
    "CPU ms",
    "p50 ms",
    "p99 ms",
    "beside",
    "p50 ms",
    "ratio",
    "recall",
    "target",
    "",
)


@dataclass(frozen=True)
class Row:
    """One line: ours, what stood beside it, how they compare, whether that meets the target (None: there is none).

    `rate` is calls a second, `cpu_ms` what the server and its children used for one call; 0 where it was not measured.
    """

    target_id: str
    engine: str
    chunks: int
    what: str
    p50_ms: float
    p99_ms: float
    beside: str
    beside_ms: float
    ratio: str
    recall: str = ""
    target: str = ""
    met: bool | None = None
    rate: float = 0.0
    cpu_ms: float = 0.0

    def cells(self) -> tuple[str, ...]:
        verdict = {True: "met", False: "MISSED", None: ""}[self.met]
        cost = (f"{self.rate:.0f}" if self.rate else "", f"{self.cpu_ms:.2f}" if self.cpu_ms else "")
        times = (*cost, f"{self.p50_ms:.2f}", f"{self.p99_ms:.2f}")
        names = (self.target_id, self.engine, f"{self.chunks}", self.what)
        return (*names, *times, self.beside, f"{self.beside_ms:.2f}", self.ratio, self.recall, self.target, verdict)


def print_table(rows: Sequence[Row]) -> None:
    table = [_HEADER, *(row.cells() for row in rows)]
    widths = [max(len(cells[column]) for cells in table) for column in range(len(_HEADER))]
    for cells in table:
        print("  ".join(cell.ljust(width) for cell, width in zip(cells, widths, strict=True)).rstrip())


def as_json(rows: Sequence[Row]) -> list[dict[str, Any]]:
    return [asdict(row) for row in rows]


def p50(runs: Sequence[Run]) -> float:
    """Return the median of the medians of the rounds, in ms."""
    return statistics.median(statistics.median(run.ms) for run in runs)


def p99(runs: Sequence[Run]) -> float:
    """Return the 99th percentile of all rounds together, in ms."""
    return float(np.percentile([ms for run in runs for ms in run.ms], 99))


def rate(runs: Sequence[Run]) -> float:
    """Return the median of the calls a second of the rounds."""
    return statistics.median(len(run.ms) / run.seconds for run in runs)


def cpu_ms(runs: Sequence[Run]) -> float:
    """Return what one call costs our server and its children, in ms of the processor: the median of the rounds."""
    return statistics.median(1000 * run.cpu_s / len(run.ms) for run in runs)


def between(ours: Sequence[Run], others: Sequence[Run]) -> tuple[float, float]:
    """Return the medians over rounds of theirs / ours and of ours - theirs in ms, each of one round's medians."""
    pairs = [(statistics.median(our.ms), statistics.median(other.ms)) for our, other in zip(ours, others, strict=True)]
    return statistics.median(b / a for a, b in pairs), statistics.median(a - b for a, b in pairs)


class Exact:
    """The truth about a corpus: every passage that matches, compared one by one."""

    def __init__(self, corpus: Corpus, limit: int) -> None:
        self._vectors = corpus.vectors
        self._fields = corpus.fields
        self._limit = limit
        self._matching: dict[str, Any] = {}

    def recall(self, queries: Sequence[Query], runs: Sequence[Run]) -> tuple[float, int]:
        """Return recall and how many results were missing though they exist; queries of all rounds in their order."""
        found = [numbers for run in runs for numbers in run.found]
        judged = [self._judged(query, numbers) for query, numbers in zip(queries, found, strict=True)]
        wanted = sum(wanted for _, wanted, _ in judged)
        return sum(right for right, _, _ in judged) / max(1, wanted), sum(missing for *_, missing in judged)

    def _judged(self, query: Query, found: Sequence[int]) -> tuple[int, int, int]:
        allowed = self._numbers(query.where or {})
        wanted = min(self._limit, len(allowed))
        if wanted == 0:
            return 0, 0, 0
        similarities = np.maximum(self._vectors[allowed] @ query.vector, 0.0)  # opposite is not worse than unrelated
        last = np.partition(similarities, -wanted)[-wanted]
        right = set(allowed[similarities >= last - _TIE].tolist()) & set(found)
        return min(wanted, len(right)), wanted, max(0, wanted - len(set(found) & set(allowed.tolist())))

    def _numbers(self, where: Where) -> Any:
        key = repr(sorted(where.items()))
        if key not in self._matching:
            self._matching[key] = matching(where, self._fields)
        return self._matching[key]
