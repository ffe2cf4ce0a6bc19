"""Keeps track of how far one search has come."""

from datetime import datetime

from groundwire.kernel.clock import Clock
from groundwire.retrieve.domain.searching import SearchState


class StateTrail:
    """The states a search went through and when; begins with RECEIVED. Belongs to one thread."""

    def __init__(self, clock: Clock) -> None:
        self._clock = clock
        self._reached: list[tuple[SearchState, datetime]] = []
        self.enter(SearchState.RECEIVED)

    def enter(self, state: SearchState) -> None:
        """Note that a state was reached; times never fall, even when the clock is set back."""
        now = self._clock.now()
        self._reached.append((state, max(now, self._reached[-1][1]) if self._reached else now))

    def begin_again(self) -> None:
        """Forget all but the receipt: the search is made anew."""
        del self._reached[1:]

    @property
    def last(self) -> SearchState:
        """Return the last state that was reached."""
        return self._reached[-1][0]

    @property
    def reached(self) -> tuple[tuple[SearchState, datetime], ...]:
        """Return all states in order with their times."""
        return tuple(self._reached)
