"""`contradictions`: 50 pairs of statements that contradict each other and 50 that do not, told apart by rules.

The pairs are in `contradiction_pairs.tsv`: 1 or 0, the newer statement, the older one. They and the rules are by the
same hand. `chosen` are the pairs in odd lines, on which the rules were made, `held out` those in even lines.
"""

import argparse
from pathlib import Path

from groundwire.kernel.contradictions import contradiction

PAIRS = Path(__file__).with_name("contradiction_pairs.tsv")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: no model and no data are needed."""


def run(options: argparse.Namespace) -> None:
    """Measure and print."""
    del options
    pairs = read_pairs()
    for half, some in (("chosen", pairs[::2]), ("held out", pairs[1::2])):
        precision, recall = precision_and_recall(some)
        print(f"{half:9} {len(some)} pairs  precision {precision:.3f}  recall {recall:.3f}")


def read_pairs() -> list[tuple[bool, str, str]]:
    """Return whether each pair contradicts, the newer statement and the older one."""
    lines = PAIRS.read_text(encoding="utf-8").splitlines()
    return [(label == "1", newer, older) for label, newer, older in (line.split("\t") for line in lines)]


def precision_and_recall(pairs: list[tuple[bool, str, str]]) -> tuple[float, float]:
    """Return the share of the pairs called contradictory that are, and the share of those that are so called."""
    called = [label for label, newer, older in pairs if contradiction(newer, older) is not None]
    return sum(called) / max(1, len(called)), sum(called) / sum(label for label, _, _ in pairs)
