"""Find stretches of time in a question, such as days, quarters or `last year`, and the ranges they mean."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date, timedelta
from itertools import zip_longest

_MONTHS = (
    *("january", "february", "march", "april", "may", "june"),
    *("july", "august", "september", "october", "november", "december"),
)
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?"
)
_YEAR = r"(?P<year>(?:19|20|21)\d\d)"
_ORDINALS = {"first": 1, "1st": 1, "second": 2, "2nd": 2, "third": 3, "3rd": 3, "fourth": 4, "4th": 4, "last": 4}
_UNIT = r"(?P<unit>day|week|month|quarter|year)s?"
_DAY = r"(?P<day>\d{1,2})(?:st|nd|rd|th)?"
_NUMBERS = ("one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve")
_COUNT = rf"(?P<count>\d{{1,4}}|{'|'.join(_NUMBERS)})"
_QUARTER_MONTHS = 3
_HALF_MONTHS = 6
_YEAR_MONTHS = 12
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
_HEAD_CHARS = 64
"""Words before a period are looked for so far back: more than any of them takes."""
_ONWARDS = re.compile(r"\s*(?:onwards?|on\b|and\s+(?:later|after|newer))", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Period:
    """Days from `first` on and before `end`, found at code points `at` to `to` of the question.

    A bare year needs a word such as `in` before it: it could be any number.
    """

    first: date
    end: date
    at: int
    to: int
    is_bare_year: bool = False


def find_periods(text: str, today: date) -> list[Period]:
    """Return the stretches of time that a text names, in its order, without overlaps; impossible dates are left out."""
    periods: list[Period] = []
    for pattern, bounds in _FORMS:
        for match in pattern.finditer(text):
            try:
                first, end = bounds(match, today)
            except (ValueError, OverflowError):  # the 31st of June, or the year 12024
                continue
            periods.append(Period(first, end, match.start(), match.end(), is_bare_year=pattern is _BARE_YEAR))
    found: list[Period] = []
    # Of those that begin at the same place the longest: "May 2024" is not May.
    for period in sorted(periods, key=lambda period: (period.at, -period.to)):
        if not found or period.at >= found[-1].to:
            found.append(period)
    return found


_Bounds = Callable[[re.Match[str], date], tuple[date, date]]


def _of_day(match: re.Match[str], today: date) -> tuple[date, date]:
    if match.groupdict().get("iso_month"):
        day = date(int(match["year"]), int(match["iso_month"]), int(match["day"]))
    else:
        day = date(int(match["year"]) if match["year"] else today.year, _month(match), int(match["day"]))
    return _days(day)


def _of_month(match: re.Match[str], today: date) -> tuple[date, date]:
    if match.groupdict().get("iso_month"):
        first = date(int(match["year"]), int(match["iso_month"]), 1)
        return _months(first.year, first.month, 1)
    month = _month(match)
    if match.groupdict().get("year"):
        return _months(int(match["year"]), month, 1)
    # The last one that has begun: no document is of a month to come.
    return _months(today.year if month <= today.month else today.year - 1, month, 1)


def _of_part(match: re.Match[str], today: date) -> tuple[date, date]:
    """Return the bounds of a quarter or half; without a year it is the last one that has begun."""
    groups = match.groupdict()
    size = _HALF_MONTHS if groups.get("half") or groups.get("kind", "").lower() == "half" else _QUARTER_MONTHS
    number = groups.get("quarter") or groups.get("half") or str(_ORDINALS[groups["ordinal"].lower()])
    if int(number) * size > _YEAR_MONTHS:
        raise ValueError(number)
    month = (int(number) - 1) * size + 1
    year = int(groups["year"]) if groups.get("year") else today.year if month <= today.month else today.year - 1
    return _months(year, month, size)


def _calendar(match: re.Match[str], today: date) -> tuple[date, date]:
    """Return the bounds of this or the last day, week (from Monday on), month, quarter or year."""
    back = 0 if match["which"].lower() in {"this", "current"} else 1
    match match["unit"].lower():
        case "day":
            return _days(today - timedelta(days=back))
        case "week":
            return _days(today - timedelta(days=today.weekday() + 7 * back), 7)
        case "month":
            return _months(today.year, today.month - back, 1)
        case "quarter":
            return _months(today.year, today.month - (today.month - 1) % _QUARTER_MONTHS - _QUARTER_MONTHS * back, 3)
        case _:
            return _months(today.year - back, 1, _YEAR_MONTHS)


def _ago(match: re.Match[str], today: date) -> tuple[date, date]:
    """Return the day, week, month, quarter or year so long ago."""
    unit = match["unit"].lower()
    day = _back(today, _count(match), unit)
    match unit:
        case "day":
            return _days(day)
        case "week":
            return _days(day - timedelta(days=day.weekday()), 7)
        case "month":
            return _months(day.year, day.month, 1)
        case "quarter":
            return _months(day.year, day.month - (day.month - 1) % _QUARTER_MONTHS, _QUARTER_MONTHS)
        case _:
            return _months(day.year, 1, _YEAR_MONTHS)


def _back(today: date, count: int, unit: str) -> date:
    if unit in {"day", "week"}:
        return today - timedelta(days=count * (7 if unit == "week" else 1))
    months = count * {"month": 1, "quarter": _QUARTER_MONTHS, "year": _YEAR_MONTHS}[unit]
    first, end = _months(today.year, today.month - months, 1)
    return min(first + timedelta(days=today.day - 1), end - timedelta(days=1))


def _days(first: date, count: int = 1) -> tuple[date, date]:
    return first, first + timedelta(days=count)


def _months(year: int, month: int, count: int) -> tuple[date, date]:
    """Return the bounds of `count` months from a month on, which may lie before January or after December."""
    index = year * _YEAR_MONTHS + month - 1
    return _first_of(index), _first_of(index + count)


def _first_of(index: int) -> date:
    return date(index // _YEAR_MONTHS, index % _YEAR_MONTHS + 1, 1)


def _month(match: re.Match[str]) -> int:
    return next(number for number, name in enumerate(_MONTHS, 1) if name.startswith(match["month"][:3].lower()))


def _count(match: re.Match[str]) -> int:
    word = match["count"].lower()
    return int(word) if word.isdigit() else _NUMBERS.index(word) + 1


def _form(pattern: str, bounds: _Bounds) -> tuple[re.Pattern[str], _Bounds]:
    return re.compile(rf"(?<![\w-])(?:{pattern})(?![\w])", re.IGNORECASE), bounds


_BARE_YEAR = re.compile(rf"(?<![\w./:-]){_YEAR}(?![\w:]|[./-]\w)")
_FORMS: tuple[tuple[re.Pattern[str], _Bounds], ...] = (
    _form(rf"{_YEAR}-(?P<iso_month>\d\d)-(?P<day>\d\d)", _of_day),
    _form(rf"{_MONTH}\s+{_DAY}(?:,?\s+{_YEAR})", _of_day),
    _form(rf"{_DAY}\s+(?:of\s+)?{_MONTH},?\s+{_YEAR}", _of_day),
    _form(rf"{_YEAR}-(?P<iso_month>\d\d)(?!-\d)", _of_month),
    _form(rf"{_MONTH},?\s+(?:of\s+)?{_YEAR}", _of_month),
    # Only after "in": elsewhere "may" and "march" are mostly verbs.
    _form(r"(?<=in )(?:" + _MONTH + r")(?!\s+\d)", _of_month),
    _form(rf"(?:q(?P<quarter>[1-4])|h(?P<half>[12]))(?:\s*[,/-]?\s*(?:of\s+)?(?:fy\s*)?{_YEAR})?", _of_part),
    _form(rf"{_YEAR}\s*[/-]?\s*(?:q(?P<quarter>[1-4])|h(?P<half>[12]))", _of_part),
    _form(
        rf"(?:the\s+)?(?P<ordinal>{'|'.join(_ORDINALS)})\s+(?P<kind>quarter|half)\s+(?:of\s+|in\s+)?(?:the\s+year\s+)?{_YEAR}",
        _of_part,
    ),
    _form(
        r"today|yesterday",
        lambda match, today: _days(today - timedelta(days=match[0].lower() == "yesterday")),
    ),
    _form(r"(?:the\s+)?(?P<which>this|current|last|past|previous)\s+(?P<unit>day|week|month|quarter|year)", _calendar),
    # Up to today: what somebody asks for in the last seven days may have happened this morning.
    _form(
        rf"(?:the\s+)?(?:last|past|previous)\s+{_COUNT}\s+{_UNIT}",
        lambda match, today: (_back(today, _count(match), match["unit"].lower()), today + timedelta(days=1)),
    ),
    _form(rf"{_COUNT}\s+{_UNIT}\s+ago", _ago),
    (_BARE_YEAR, lambda match, _today: _months(int(match["year"]), 1, _YEAR_MONTHS)),
)


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
    for period, following in zip_longest(periods, periods[1:]):
        head, onwards = (text, max(0, period.at - _HEAD_CHARS), period.at), _ONWARDS.match(text, period.to)
        between = _BETWEEN.search(*head)
        if following is not None and between is not None and _JOINT.fullmatch(text[period.to : following.at]):
            first, last = sorted((period, following), key=lambda each: each.first)
            return DateRange(first.first, last.end, between.start(), following.to)
        since = _SINCE.search(*head)
        # "from May" alone is the month; only "from May on" has no end.
        if since is not None and (onwards is not None or not since[0].lower().startswith("from")):
            return DateRange(period.first, None, since.start(), onwards.end() if onwards else period.to)
        for words, first_day, end in (
            (_AFTER, period.end, None),
            (_BEFORE, None, period.first),
            (_UNTIL, None, period.end),
            (_DURING, period.first, period.end),
        ):
            if (match := words.search(*head)) is not None:
                return DateRange(first_day, end, match.start(), period.to)
        if not period.is_bare_year:
            return DateRange(period.first, period.end, period.at, period.to)
    return None
