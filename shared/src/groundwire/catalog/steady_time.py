"""Time that does not jump: what the ages of rows are measured in, because the clock of the machine can be set."""

from sqlalchemy import Connection, select
from sqlalchemy.dialects.sqlite import insert

from groundwire.catalog.bookkeeping_tables import counters
from groundwire.kernel.clock import Clock, epoch_ms

_STORE_EVERY_MS = 1000
_STEADY, _DOWN, _WALL = "steady_ms", "downtime_ms", "wall_ms"


class SteadyTime:
    """Begins as the time of day of a new catalog and goes on while a process has the catalog open.

    A clock that is set forward ages nothing, one that is set back keeps nothing. A catalog that is closed does not age
    either, so that what is remembered for a day is remembered for a day of service. Where time without a server counts
    too, `with_downtime_ms` has it as far as the clock of the machine knows it.
    """

    def __init__(self, connection: Connection, clock: Clock) -> None:
        """Go on where the last process stopped; what it did not store counts as time without a server."""
        rows = connection.execute(select(counters.c.name, counters.c.value)).all()
        stored = {str(name): int(value) for name, value in rows}
        wall = epoch_ms(clock.now())
        self._clock = clock
        self._stored_ms = 0
        self._begun_s = clock.elapsed_s()
        self._base_ms = stored.get(_STEADY, wall)
        self._downtime_ms = stored.get(_DOWN, 0) + max(0, wall - stored.get(_WALL, wall))

    def now_ms(self) -> int:
        """Return the milliseconds of service, counted from the time of day at which the catalog was made."""
        return self._base_ms + int((self._clock.elapsed_s() - self._begun_s) * 1000)

    def with_downtime_ms(self) -> int:
        """Return the same and the milliseconds without a server."""
        return self.now_ms() + self._downtime_ms

    def store(self, connection: Connection, *, at_once: bool = False) -> None:
        """Note how far it is, at most once a second unless `at_once`, in a transaction that is made anyway."""
        if not at_once and self.now_ms() - self._stored_ms < _STORE_EVERY_MS:
            return
        self._stored_ms = self.now_ms()
        # The time of day goes with it: if the clock was set meanwhile, the next process must not take that for a pause.
        values = {_STEADY: self.now_ms(), _DOWN: self._downtime_ms, _WALL: epoch_ms(self._clock.now())}
        statement = insert(counters).values([{"name": name, "value": value} for name, value in values.items()])
        value = statement.excluded.value
        connection.execute(statement.on_conflict_do_update(index_elements=["name"], set_={"value": value}))


NOW_MS = select(counters.c.value).where(counters.c.name == _STEADY).scalar_subquery()
"""The milliseconds of service inside a transaction of the writer, a second late at most."""
