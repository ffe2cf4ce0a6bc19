"""The reference meaning of filters, rule by rule."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.filters import (
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    Filter,
    Like,
    Membership,
    Not,
    Or,
    Payload,
    Scalar,
    matches,
)

EMPTY: Payload = {}


def compared(field: str, comparator: str, value: Scalar) -> Filter:
    return Comparison(field, Comparator(comparator), value)


@pytest.mark.parametrize(
    ("condition", "expected"),
    [
        (compared("x", "$ne", 1), True),
        (Membership("x", (1, 2), negated=True), True),
        (Containment("x", "a", negated=True), True),
        (Exists("x", present=False), True),
        (Not(compared("x", "$gt", 1)), True),
        (compared("x", "$eq", 1), False),
        (compared("x", "$lt", 1), False),
        (Membership("x", (1,)), False),
        (Containment("x", ""), False),
        (Like("x", "%"), False),
        (Exists("x"), False),
    ],
)
def test_a_missing_field_satisfies_only_the_negations(condition: Filter, expected: bool) -> None:
    assert matches(condition, EMPTY) is expected


@pytest.mark.parametrize(("stored", "asked"), [(1, True), (True, 1), ("1", 1), (1, "1"), ("true", True), (0, False)])
def test_kinds_never_mix(stored: Scalar, asked: Scalar) -> None:
    payload: Payload = {"x": stored}
    assert not matches(compared("x", "$eq", asked), payload)
    assert matches(compared("x", "$ne", asked), payload)
    assert not matches(Membership("x", (asked,)), payload)
    assert not any(matches(compared("x", order, asked), payload) for order in ("$gt", "$gte", "$lt", "$lte"))


def test_integers_and_floats_compare_by_value() -> None:
    assert matches(compared("x", "$eq", 5.0), {"x": 5})
    assert matches(Membership("x", (2.0, 5.0)), {"x": 5})
    assert matches(compared("x", "$gt", 4.5), {"x": 5})
    assert not matches(compared("x", "$eq", float(2**53)), {"x": 2**53 + 1})


@pytest.mark.parametrize(
    ("comparator", "holds"), [("$lt", (1, 0, 0)), ("$lte", (1, 1, 0)), ("$gt", (0, 0, 1)), ("$gte", (0, 1, 1))]
)
def test_orderings_differ_in_what_they_say_of_the_value_itself(comparator: str, holds: tuple[int, ...]) -> None:
    assert tuple(matches(compared("x", comparator, 5), {"x": each}) for each in (4, 5, 6)) == holds
    assert tuple(matches(compared("x", comparator, "b"), {"x": each}) for each in "abc") == holds


def test_truth_values_have_no_order() -> None:
    assert not matches(compared("x", "$gte", value=True), {"x": True})


def test_texts_are_ordered_by_code_points() -> None:
    assert matches(compared("x", "$lte", "b"), {"x": "a"})
    assert matches(compared("x", "$gt", "Z"), {"x": "a"})
    assert matches(compared("x", "$gt", "\uffff"), {"x": "\U00010000"})
    assert matches(compared("x", "$gte", "2024-05-01"), {"x": ("2023-01-01", "2024-05-01")})
    assert not matches(compared("x", "$gt", "a"), {"x": 5})


@pytest.mark.requirement("S1-31")
def test_on_a_list_any_element_decides_and_negations_are_exact() -> None:
    payload: Payload = {"tags": ("a", "b"), "pages": (3, 9)}
    assert matches(compared("tags", "$eq", "b"), payload)
    assert not matches(compared("tags", "$ne", "b"), payload)
    assert matches(Membership("tags", ("b", "z")), payload)
    assert not matches(Membership("tags", ("b", "z"), negated=True), payload)
    assert matches(And((compared("pages", "$lt", 4), compared("pages", "$gt", 8))), payload)


def test_membership_in_nothing_matches_nothing_and_its_negation_everything() -> None:
    assert not matches(Membership("x", ()), {"x": 1})
    assert matches(Membership("x", (), negated=True), {"x": 1})


def test_contains_means_element_on_lists_and_substring_on_texts() -> None:
    assert matches(Containment("x", "bc"), {"x": "abcd"})
    assert not matches(Containment("x", "BC"), {"x": "abcd"})
    assert not matches(Containment("x", "bc"), {"x": ("abcd",)})
    assert matches(Containment("x", "abcd"), {"x": ("abcd",)})
    assert matches(Containment("x", 3), {"x": (1, 3)})
    assert not matches(Containment("x", 3), {"x": 3})
    assert not matches(Containment("x", 3), {"x": "3"})
    assert matches(Containment("x", "BC", negated=True), {"x": "abcd"})
    assert not matches(Containment("x", "bc", negated=True), {"x": "abcd"})
    assert not matches(Containment("x", 3, negated=True), {"x": (1, 3)})


@pytest.mark.requirement("S1-33")
@pytest.mark.parametrize(
    ("pattern", "text", "expected"),
    [
        ("doc_%", "doc_1", True),
        ("doc_%", "Doc_1", False),
        ("doc\\_%", "docx1", False),
        ("%b%", "abc", True),
        ("_", "ü", True),
        ("_", "ab", False),
        ("a.c", "abc", False),
        ("100\\%", "100%", True),
        ("100\\%", "1000", False),
        ("a%z", "a\nz", True),
        ("a_z", "a\nz", True),
        ("\\", "\\", True),
        ("\\\\", "\\", True),
        ("", "", True),
        ("", "a", False),
    ],
)
def test_like_follows_sql_patterns(pattern: str, text: str, expected: bool) -> None:
    assert matches(Like("x", pattern), {"x": text}) is expected
    assert matches(Like("x", pattern), {"x": ("zzz", text)}) is expected


@given(st.text("ab%_\\\\.", max_size=8), st.text("ab.%_\\\\", max_size=8))
def test_like_agrees_with_its_definition(pattern: str, text: str) -> None:
    assert matches(Like("x", pattern), {"x": text}) is _like(pattern, text)


def _like(pattern: str, text: str) -> bool:
    """Match as the definition reads, one character after the other."""
    if not pattern:
        return not text
    if pattern[0] == "%":
        return any(_like(pattern[1:], text[start:]) for start in range(len(text) + 1))
    if pattern[0] == "\\" and len(pattern) > 1:
        return text[:1] == pattern[1] and _like(pattern[2:], text[1:])
    return text != "" and pattern[0] in {"_", text[0]} and _like(pattern[1:], text[1:])


def test_a_hostile_pattern_takes_no_time() -> None:
    started = time.thread_time()
    assert not matches(Like("x", "%a" * 126 + "%b"), {"x": "a" * 8192})
    assert not matches(Like("x", "%_a" * 84 + "b"), {"x": "a" * 8192})
    assert time.thread_time() - started < 1


def test_like_never_matches_what_is_no_text() -> None:
    assert not matches(Like("x", "%"), {"x": 5})


@pytest.mark.requirement("S0-57")
def test_empty_and_matches_everything_and_empty_or_nothing() -> None:
    assert matches(And(()), EMPTY)
    assert not matches(Or(()), EMPTY)
    assert not matches(Not(And(())), EMPTY)


def test_combinations_nest() -> None:
    payload: Payload = {"a": 1, "b": "x"}
    both = And((compared("a", "$eq", 1), compared("b", "$eq", "x")))
    assert matches(both, payload)
    assert matches(Or((compared("a", "$eq", 2), Not(compared("b", "$eq", "y")))), payload)
    assert not matches(Not(both), payload)
