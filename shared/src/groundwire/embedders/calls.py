"""Callers that wait for vectors, and the work they wait for."""

import threading
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from groundwire.embedders.tokenization import TokenIds
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors


@dataclass(frozen=True, slots=True)
class Item:
    """One token sequence, special tokens included, and the row of its call that it fills."""

    call: "Call"
    row: int
    sequence: TokenIds


@dataclass(eq=False, slots=True)
class Call:
    """One blocked caller: collects the vectors of its sequences in their order.

    `slices` belongs to the schedule (guarded by its lock), the rest is guarded by `_ready`.
    """

    slices: deque[deque[Item]] = field(default_factory=deque)
    _vectors: list[Vectors | None] = field(default_factory=list)
    _missing: int = 0
    _error: BaseException | None = None
    _ready: threading.Condition = field(default_factory=threading.Condition)

    def expect(self, sequences: Sequence[TokenIds]) -> list[Item]:
        """Return the work for more sequences, longest first so that neighbours need little padding."""
        with self._ready:
            first = len(self._vectors)
            self._vectors.extend([None] * len(sequences))
            self._missing += len(sequences)
        items = [Item(self, first + row, sequence) for row, sequence in enumerate(sequences)]
        return sorted(items, key=lambda item: len(item.sequence), reverse=True)

    @property
    def has_failed(self) -> bool:
        """Return whether further work for this call is in vain."""
        return self._error is not None

    def deliver(self, row: int, vector: Vectors) -> None:
        """Store one vector of shape (dimensions,)."""
        with self._ready:
            self._vectors[row] = vector
            self._missing -= 1
            if self._missing == 0:
                self._ready.notify_all()

    def fail(self, error: BaseException) -> None:
        """Wake the caller with an error; the first one counts."""
        with self._ready:
            self._error = self._error or error
            self._ready.notify_all()

    def wait(self, budget: Budget, at_most_s: float) -> bool:
        """Wait for the vectors; return whether they are all there, or raise the error of the call.

        Raises:
            CallCancelledError: the budget was cancelled.
            DeadlineError: the deadline of the budget passed.
        """
        with self._ready:
            is_over = budget.wait_for(self._ready, lambda: self._missing == 0 or self._error is not None, at_most_s)
            if self._error is not None:
                raise self._error
            return is_over

    def vectors(self) -> Vectors:
        """Return float32 of shape (n, dimensions), n >= 1; only once `wait` has returned True."""
        result: Vectors = np.stack([vector for vector in self._vectors if vector is not None])
        return result
