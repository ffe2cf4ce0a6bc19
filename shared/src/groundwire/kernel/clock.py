"""Time as a port, so that tests can set it."""

import time
from datetime import UTC, datetime, timedelta
from typing import Protocol

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock(Protocol):
    """Tells the time of day, for people: it may be set. Order and ages go by `elapsed_s`."""

    def now(self) -> datetime:
        """Return the current time, timezone-aware, UTC."""

    def elapsed_s(self) -> float:
        """Return the seconds since some moment of this process; they never jump."""


class SystemClock:
    """The clock of the machine."""

    def now(self) -> datetime:
        return datetime.now(UTC)

    def elapsed_s(self) -> float:
        return time.monotonic()


def epoch_ms(moment: datetime) -> int:
    """Return milliseconds since 1970-01-01T00:00Z of an aware datetime, rounded down."""
    if moment.tzinfo is None:
        raise ValueError("naive datetime")
    # Not by `timestamp()`: a float times 1000 may fall just below the millisecond it stands for.
    return (moment - _EPOCH) // timedelta(milliseconds=1)


def from_epoch_ms(milliseconds: int) -> datetime:
    """Return the aware UTC datetime of milliseconds since 1970-01-01T00:00Z."""
    # Not by `fromtimestamp()`: a float of seconds has no room for the milliseconds of distant centuries.
    return _EPOCH + timedelta(milliseconds=milliseconds)


def whole_milliseconds(moment: datetime) -> datetime:
    """Return the moment, rounded down to whole milliseconds as in `epoch_ms`."""
    return from_epoch_ms(epoch_ms(moment))
