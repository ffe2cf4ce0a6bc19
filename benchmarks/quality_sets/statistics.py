"""Tables of means with 95 % percentile bootstrap intervals; the differences between rows are paired.

And what is fitted to marked values, and how well these tell the marks.
"""

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

SEED = 20260101
RESAMPLES = 10_000
Scores = NDArray[np.float64]
"""One row a question, one column a measure."""
_STEPS = 30


def report(rows: Mapping[str, Scores], measures: Sequence[str], pairs: Sequence[tuple[str, str]]) -> None:
    """Print the mean of every measure of every row, then the differences of the pairs of rows.

    One table for every second question, on which defaults may be chosen, and one for the others, which judge them.

    Args:
        rows: by name; all of shape (questions, measures).
        measures: names of the columns.
        pairs: names of two rows; the second is subtracted from the first.
    """
    for first_question, role in enumerate(("chosen on", "held out")):
        half = {name: scores[first_question::2] for name, scores in rows.items()}
        size = len(next(iter(half.values())))
        picks = np.random.default_rng(SEED).integers(0, size, (RESAMPLES, size))
        print(f"{f'{role}, n = {size}':<40}" + "".join(f"{measure:<24}" for measure in measures))
        for name, scores in half.items():
            print(_line(name, scores, picks))
        for first, second in pairs:
            print(_line(f"{first} - {second}", half[first] - half[second], picks))


def _line(name: str, scores: Scores, picks: NDArray[np.int64]) -> str:
    return f"{name:<40}" + "".join(f"{_interval(column, picks):<24}" for column in scores.T)


def _interval(values: Scores, picks: NDArray[np.int64]) -> str:
    low, high = np.percentile(values[picks].mean(axis=1), (2.5, 97.5))
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


def area(values: Scores, truth: NDArray[np.bool_]) -> float:
    """Return the area under the curve: how often a true one has the larger value, ties counted half."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    positive = int(truth.sum())
    pairs = positive * (len(truth) - positive)
    return float((rank[truth].sum() - positive * (positive + 1) / 2) / pairs) if pairs else float("nan")


def regression(values: Scores, wanted: Scores, shares: Scores, ridge: float) -> Scores:
    """Return the weights of a logistic regression with a ridge on all but the last, by Newton's method."""
    weights = np.zeros(values.shape[1])
    ridges = np.diag([ridge] * (values.shape[1] - 1) + [0.0])
    for _ in range(_STEPS):
        told = 1 / (1 + np.exp(-values @ weights))
        slope = values.T @ (shares * (told - wanted)) + ridges @ weights
        curve = (values * (shares * told * (1 - told))[:, None]).T @ values + ridges
        weights -= np.linalg.solve(curve, slope)
    return weights
