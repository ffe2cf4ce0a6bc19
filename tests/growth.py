"""Measures how time grows with the size of an input, in a way that a busy machine does not disturb."""

import gc
import time
from collections.abc import Callable

LINEAR = 9.0
"""Four times the input takes linear work four times as long and quadratic work sixteen times as long."""
_ATTEMPTS = 3
_NEGLIGIBLE_S = 0.02


def growth(make: Callable[[int], str], work: Callable[[str], object], size: int) -> float:
    """Return how many times longer `work` takes for four times the size, by the processor time of this thread.

    The best of three measurements of each counts; the larger input is measured again only while the growth is not
    linear, since further attempts could only lessen it. Work of less than 20 ms for the larger input counts as linear:
    differences that small are noise.
    """
    small, large = make(size), make(4 * size)
    for_small = min(_seconds(work, small) for _ in range(_ATTEMPTS))
    for_large, grown = float("inf"), float("inf")
    for _ in range(_ATTEMPTS):
        for_large = min(for_large, _seconds(work, large))
        grown = for_large / for_small if for_large > _NEGLIGIBLE_S else 1.0
        if grown < LINEAR:
            break
    return grown


def _seconds(work: Callable[[str], object], text: str) -> float:
    # What the collector would look through belongs to all tests before, not to the work.
    gc.disable()
    try:
        started = time.thread_time()
        work(text)
        return time.thread_time() - started
    finally:
        gc.enable()
