"""What is said of a field that a collection does not have."""

from typing import Any

import pytest

from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_parsing import parse_filter, resolve_filter
from groundwire.kernel.filters import Comparator, Comparison, FieldKind

OWN = {"department": FieldKind.TEXT, "rating": FieldKind.NUMBER}
MANY = {f"k{number}": FieldKind.TEXT for number in range(10)}


@pytest.mark.parametrize(
    ("name", "own", "said"),
    [
        ("deparment", OWN, "; did you mean 'department'?"),
        ("CREATOR", {}, "; did you mean 'creator'?"),
        ("chaptr", {}, "; did you mean 'chapter'?"),
        ("metadata.rating", OWN, "; did you mean 'rating'?"),
        ("zzz", OWN, "; keys of the collection are department, rating"),
        ("zzz", {}, ""),
        ("zzz", MANY, "; keys of the collection are k0, k1, k2, k3, k4, k5, k6, k7"),
    ],
)
def test_an_unknown_field_gets_a_suggestion(name: str, own: dict[str, FieldKind], said: str) -> None:
    with pytest.raises(InvalidFilterError) as refused:
        resolve_filter(parse_filter({"$or": [{"title": "x"}, {name: 1}]}), own)
    (violation,) = refused.value.violations
    assert violation.description == f"unknown field {name!r}{said}"
    assert violation.field.startswith("filter.$or[1]")


@pytest.mark.parametrize(
    "condition", [{"date": {"$gte": 2024}}, {"date": {"$in": [0, 1_700_000_000]}}, {"date": {"$lt": 9_999_999_999.9}}]
)
def test_a_year_or_seconds_are_no_time(condition: dict[str, Any]) -> None:
    with pytest.raises(InvalidFilterError, match="early in 1970") as refused:
        resolve_filter(parse_filter(condition), {})
    (violation,) = refused.value.violations
    assert violation.field.startswith("filter.date")


def test_other_numbers_are_milliseconds_or_own_values() -> None:
    for moment in (-1, 0, 10_000_000_000, 1_700_000_000_000):
        expected = Comparison("date_created", Comparator.GTE, moment)
        assert resolve_filter(parse_filter({"date": {"$gte": moment}}), {}) == expected
    own = {"year": FieldKind.NUMBER}
    assert resolve_filter(parse_filter({"year": {"$gte": 2024}}), own) == Comparison("year", Comparator.GTE, 2024)
