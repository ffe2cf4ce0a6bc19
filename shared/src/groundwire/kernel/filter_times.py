"""Times in filters: ISO 8601 texts become milliseconds since 1970, a plain date the whole day in UTC.

Stored times are whole milliseconds, so the last one of a day is `stop - 1`.
"""

import re
from collections.abc import Sequence
from datetime import UTC, datetime, timedelta

from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.filter_evaluator import kind_of
from groundwire.kernel.filters import And, Comparator, Comparison, Filter, Membership, Not, Or, Scalar

_PLAIN_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")
_DAY_MS = timedelta(days=1) // timedelta(milliseconds=1)

EXPECTED = "a number or a time in ISO 8601 with an offset, like 2026-02-10T12:00:00Z, or a plain date, like 2026-02-10"


def parse_time(value: Scalar) -> int | float | range | None:
    """Return milliseconds since 1970: a number as it is, a moment as one, a plain date as the range of its day.

    None for everything else, a time without an offset among it.
    """
    if not isinstance(value, str):
        return value if kind_of(value) is float else None
    try:
        if _PLAIN_DATE.fullmatch(value):
            start = epoch_ms(datetime.fromisoformat(value).replace(tzinfo=UTC))
            return range(start, start + _DAY_MS)
        return epoch_ms(datetime.fromisoformat(value))
    except ValueError:
        return None


def compare_time(field: str, comparator: Comparator, time: float | range) -> Filter:
    """Return the comparison of a time field with a parsed time; after a day means after its end."""
    if not isinstance(time, range):
        return Comparison(field, comparator, time)
    match comparator:
        case Comparator.GTE:
            return Comparison(field, Comparator.GTE, time.start)
        case Comparator.GT:
            return Comparison(field, Comparator.GTE, time.stop)
        case Comparator.LT:
            return Comparison(field, Comparator.LT, time.start)
        case Comparator.LTE:
            return Comparison(field, Comparator.LT, time.stop)
        case Comparator.EQ:
            return _during(field, time)
        case _:
            return Not(_during(field, time))


def one_of_times(field: str, times: Sequence[float | range], *, negated: bool) -> Filter:
    """Return the membership of a time field in parsed times; a day has all of its moments."""
    moments = tuple(time for time in times if not isinstance(time, range))
    days = [_during(field, time) for time in times if isinstance(time, range)]
    if not days:
        return Membership(field, moments, negated)
    member = Or((*([Membership(field, moments)] if moments else []), *days))
    return Not(member) if negated else member


def _during(field: str, day: range) -> Filter:
    return And((Comparison(field, Comparator.GTE, day.start), Comparison(field, Comparator.LT, day.stop)))
