"""Every engine gives what the reference engine gives: random searches under random filters, compared one by one.

    python -m benchmarks.congruence [--pairs 5000] [--seed 1]
        [--engines memory,qdrant-edge,chroma,chroma-server,qdrant-server]

Each pair is a `Retrieve` as the service answers it: the filter resolved, planned, evaluated by engine or catalog, both
retrievers joined and ranked. The first engine is the reference, and what it returns is checked against the reference
evaluator of filters. `qdrant-server` is the adapter of Qdrant servers over gRPC, answered by the local mode of Qdrant's
client. Exits with 1 after any difference.
"""

import argparse
import random
import tempfile
import time
import warnings
from collections import Counter
from collections.abc import Callable
from pathlib import Path

from groundwire.api.common.v1 import search_mode_pb2
from tests.integration.retrieve.congruence import ENGINES, TOLERANCE, Outcome, difference, libraries, oracle, run
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.random_searches import Case, random_case

_SHOWN = 10


def main() -> int:
    arguments = _arguments()
    names = tuple(arguments.engines.split(","))
    warnings.simplefilter("ignore", UserWarning)  # the local mode says that payload indexes do nothing
    with tempfile.TemporaryDirectory() as folder, libraries(names, Path(folder), arguments.seed) as opened:
        kept = oracle(opened[names[0]])
        totals: Counter[str] = Counter()
        rng = random.Random(arguments.seed)
        for number in range(arguments.pairs):
            _compare(number, random_case(rng), opened, kept, totals)
    _report(names, arguments, totals)
    return 1 if any(count for key, count in totals.items() if key.startswith("different")) else 0


def _compare(
    number: int, case: Case, opened: dict[str, Library], kept: Callable[[Case], set[int]], totals: Counter[str]
) -> None:
    reference: Outcome | None = None
    for name, library in opened.items():
        started = time.perf_counter()
        outcome = run(library, case)
        totals[f"ms {name}"] += round(1e6 * (time.perf_counter() - started))
        if reference is None:
            reference = outcome
            problem = _against_oracle(case, outcome, kept)
            totals["refused"] += outcome.error is not None
            totals["empty"] += outcome.error is None and not outcome.found
        else:
            problem = difference(reference, outcome)
        if problem is not None:
            totals[f"different {name}"] += 1
            if totals[f"different {name}"] <= _SHOWN:
                print(f"pair {number} on {name}: {problem}\n  {case}")


def _against_oracle(case: Case, outcome: Outcome, kept: Callable[[Case], set[int]]) -> str | None:
    """Return what the reference engine did wrong itself: a result outside the filter, or fewer than there are."""
    if outcome.error is not None:
        return None
    matching = kept(case)
    if outside := [number for number, _ in outcome.found if number not in matching]:
        return f"{outside} do not match the filter"
    missing = min(case.top_k, len(matching)) - len(outcome.found)
    if case.mode == search_mode_pb2.SEARCH_MODE_VECTOR and missing:
        return f"{missing} results too few"
    return None


def _report(names: tuple[str, ...], arguments: argparse.Namespace, totals: Counter[str]) -> None:
    pairs = arguments.pairs
    print(f"seed {arguments.seed}, {pairs} pairs, tolerance {TOLERANCE}")
    print(f"{totals['refused']} refused alike, {totals['empty']} without a result")
    for name in names:
        mean_ms = totals[f"ms {name}"] / 1000 / pairs
        print(f"{name:14} {totals[f'different {name}']:5} differences   {mean_ms:6.2f} ms a search")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pairs", type=int, default=5000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--engines", default=",".join(ENGINES))
    return parser.parse_args()


if __name__ == "__main__":
    raise SystemExit(main())
