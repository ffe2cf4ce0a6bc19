"""Cuts writes into pieces small enough for an engine."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice

from groundwire.kernel.vector_store import PointBatch


def slices(points: PointBatch, size: int) -> Iterator[PointBatch]:
    """Yield the batch in pieces of at most `size` points, in order."""
    for start in range(0, len(points.numbers), size):
        piece = slice(start, start + size)
        yield PointBatch(points.numbers[piece], points.vectors[piece], points.payloads[piece])


def as_ints(numbers: Iterable[int]) -> list[int]:
    """Return plain integers, which every engine takes, also for those of numpy."""
    return [int(number) for number in numbers]


def batches(numbers: Iterable[int], size: int) -> Iterator[Sequence[int]]:
    """Yield numbers in lists of at most `size`, in order."""
    remaining = iter(numbers)
    while batch := list(islice(remaining, size)):
        yield batch
