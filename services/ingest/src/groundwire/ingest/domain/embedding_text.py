"""Make what is embedded for a chunk: its content, in windows that the model can read.

A model reads its first few hundred tokens and ignores the rest. The vector of a longer chunk is the mean of the vectors
of its windows, so that every part of it counts.
"""

from collections.abc import Sequence

import numpy as np

from groundwire.kernel.embedder import Vectors

_MAX_CUT_BACK = 4


def window_starts(token_starts: Sequence[int], word_starts: Sequence[bool], capacity: int) -> list[int]:
    """Return the code points where the windows of a text begin; the first is 0.

    Every window holds at most `capacity` (>= 1) tokens and all are about equally long; a cut moves
    back to the start of a word when there is one in the last quarter.

    Args:
        token_starts: code point of each token of the text, ascending.
        word_starts: whether a word begins with that token.
        capacity: tokens the model reads beside its special tokens.
    """
    starts, done = [0], 0
    while len(token_starts) - done > capacity:
        left = -(-(len(token_starts) - done) // capacity)
        step = -(-(len(token_starts) - done) // left)
        floor = done + max(1, step - step // _MAX_CUT_BACK)
        cut = next((at for at in range(done + step, floor - 1, -1) if word_starts[at]), done + step)
        starts.append(token_starts[cut])
        done = cut
    return starts


def windows_of(content: str, starts: Sequence[int]) -> list[str]:
    """Return the windows of a chunk; together they are its content."""
    return [content[start:end] for start, end in zip(starts, [*starts[1:], len(content)], strict=True)]


def mean_vectors(windows: Vectors, counts: Sequence[int]) -> Vectors:
    """Return the mean direction of each run of rows: float32, shape (len(counts), d), rows L2-normalised.

    Args:
        windows: float32, shape (sum(counts), d).
        counts: how many rows belong to each result, all at least 1.
    """
    firsts = np.cumsum([0, *counts[:-1]])
    sums = np.add.reduceat(windows, firsts, axis=0)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return np.asarray(sums / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)
