"""Clocks that tests move: with time that passes, and by hand as somebody does who sets the clock of a machine."""

import time
from datetime import UTC, datetime, timedelta


class ManualClock:
    """Stands still until it is moved."""

    def __init__(self, moment: datetime = datetime(2026, 3, 1, 12, tzinfo=UTC)) -> None:
        self.moment = moment
        self.passed = timedelta()

    def now(self) -> datetime:
        return self.moment

    def elapsed_s(self) -> float:
        return self.passed.total_seconds()

    def advance(self, **by: float) -> None:
        """Let time pass."""
        self.moment += timedelta(**by)
        self.passed += timedelta(**by)

    def jump(self, **by: float) -> None:
        """Set it, without any time passing."""
        self.moment += timedelta(**by)


class LaterClock:
    """Runs like that of the machine, `ahead` of it in time that has passed and `jumped` by hand."""

    def __init__(self, ahead: timedelta = timedelta(), jumped: timedelta = timedelta()) -> None:
        self.ahead, self.jumped = ahead, jumped

    def now(self) -> datetime:
        return datetime.now(UTC) + self.ahead + self.jumped

    def elapsed_s(self) -> float:
        return time.monotonic() + self.ahead.total_seconds()
