"""Turn the stretches of time of a question into ranges, by the words before and between them."""

import re
from dataclasses import dataclass
from datetime import date

from groundwire.retrieve.domain.self_query.periods import Period, find_periods

_BETWEEN = re.compile(r"\b(?:between|from)\s+(?:the\s+)?(?:year\s+|dates?\s+)?$", re.IGNORECASE)
_JOINT = re.compile(r"\s*(?:and|to|until|till|through|up\s+to|-|–)\s*(?:the\s+)?", re.IGNORECASE)
_SINCE = re.compile(
    r"\b(?:since|starting(?:\s+(?:in|from|on))?|(?:on\s+or\s+)after|from)\s+(?:the\s+)?$", re.IGNORECASE
)
_AFTER = re.compile(r"\b(?:after|later\s+than|newer\s+than|past)\s+(?:the\s+)?$", re.IGNORECASE)
_BEFORE = re.compile(r"\b(?:before|prior\s+to|earlier\s+than|older\s+than)\s+(?:the\s+)?$", re.IGNORECASE)
_UNTIL = re.compile(r"\b(?:until|till|up\s+to|through|by)\s+(?:the\s+)?(?:end\s+of\s+)?$", re.IGNORECASE)
_DURING = re.compile(
    r"\b(?:in|during|of|for|from|on|dated|within|throughout|over|published|written|created)\s+(?:the\s+)?(?:year\s+)?$",
    re.IGNORECASE,
)
_ONWARDS = re.compile(r"\s*(?:onwards?|on\b|and\s+(?:later|after|newer))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class DateRange:
    """Days from `first` on, and before `end`; None is open. Said at code points `at` to `to` of the question."""

    first: date | None
    end: date | None
    at: int
    to: int


def find_date_range(text: str, today: date) -> DateRange | None:
    """Return the first range of days that a question asks for, None when it names none."""
    periods = find_periods(text, today)
    for position, period in enumerate(periods):
        following = periods[position + 1] if position + 1 < len(periods) else None
        found = _between(text, period, following) or _single(text, period)
        if found is not None:
            return found
    return None


def _between(text: str, period: Period, following: Period | None) -> DateRange | None:
    before = _BETWEEN.search(text[: period.at])
    if following is None or before is None or not _JOINT.fullmatch(text[period.to : following.at]):
        return None
    first, last = sorted((period, following), key=lambda each: each.first)
    return DateRange(first.first, last.end, before.start(), following.to)


def _single(text: str, period: Period) -> DateRange | None:
    head = text[: period.at]
    onwards = _ONWARDS.match(text, period.to)
    since = _SINCE.search(head)
    if since is not None and (onwards is not None or not since[0].lower().startswith("from")):
        return DateRange(period.first, None, since.start(), onwards.end() if onwards else period.to)
    if (match := _AFTER.search(head)) is not None:
        return DateRange(period.end, None, match.start(), period.to)
    if (match := _BEFORE.search(head)) is not None:
        return DateRange(None, period.first, match.start(), period.to)
    if (match := _UNTIL.search(head)) is not None:
        return DateRange(None, period.end, match.start(), period.to)
    if (match := _DURING.search(head)) is not None:
        return DateRange(period.first, period.end, match.start(), period.to)
    return None if period.is_bare_year else DateRange(period.first, period.end, period.at, period.to)
