"""`contradictions`: pairs of statements, of which half contradict each other and half do not, told apart by rules.

100 pairs each are in `contradiction_pairs.tsv`, notes, and in `contradiction_pairs_spoken.tsv`, as people talk:
1 or 0, the newer statement, the older one. They and the rules are by the same hands. `chosen` are the pairs in odd
lines, on which the rules were made, `held out` those in even lines.
"""

import argparse
from pathlib import Path

from groundwire.kernel.contradictions import contradiction

FILES = ("contradiction_pairs.tsv", "contradiction_pairs_spoken.tsv")


def add_options(parser: argparse.ArgumentParser) -> None:
    """Add nothing: no model and no data are needed."""


def run(options: argparse.Namespace) -> None:
    del options
    for file in FILES:
        pairs = read_pairs(file)
        for half, some in (("chosen", pairs[::2]), ("held out", pairs[1::2])):
            precision, recall = precision_and_recall(some)
            print(f"{file:31} {half:9} {len(some)} pairs  precision {precision:.3f}  recall {recall:.3f}")


def read_pairs(file: str) -> list[tuple[bool, str, str]]:
    """Return whether each pair of a file contradicts, the newer statement and the older one."""
    lines = Path(__file__).with_name(file).read_text(encoding="utf-8").splitlines()
    return [(label == "1", newer, older) for label, newer, older in (line.split("\t") for line in lines)]


def precision_and_recall(pairs: list[tuple[bool, str, str]]) -> tuple[float, float]:
    """Return the share of the pairs called contradictory that are, and the share of those that are so called."""
    called = [label for label, newer, older in pairs if contradiction(newer, older) is not None]
    return sum(called) / max(1, len(called)), sum(called) / sum(label for label, _, _ in pairs)
