"""The JSON form of filters means what it says, and says what is wrong."""

import json
from collections.abc import Callable
from datetime import date
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_parsing import JsonFilter, filter_to_json, parse_filter, parse_filter_text
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
    Scalar,
)

_FIELDS = st.sampled_from(["tags", "level", "ünï", "a.b", "with space"])
_SCALARS: st.SearchStrategy[Scalar] = st.one_of(
    st.text(st.characters(exclude_categories=["Cs"])),
    st.integers(-(2**63), 2**63 - 1),
    st.floats(allow_nan=False, allow_infinity=False),
    st.booleans(),
)
_ONE_KIND: st.SearchStrategy[list[Scalar]] = st.one_of(
    st.lists(st.text(st.characters(exclude_categories=["Cs"])), max_size=3),
    st.lists(st.integers(-(2**63), 2**63 - 1), max_size=3),
    st.lists(st.booleans(), max_size=3),
)
_LEAVES: st.SearchStrategy[Filter] = st.one_of(
    st.builds(Comparison, _FIELDS, st.sampled_from(Comparator), _SCALARS),
    st.builds(Membership, _FIELDS, _ONE_KIND.map(tuple), st.booleans()),
    st.builds(Containment, _FIELDS, _SCALARS, st.booleans()),
    st.builds(Like, _FIELDS, st.text("ab%_\\")),
    st.builds(Exists, _FIELDS, st.booleans()),
)
_LEVEL: st.SearchStrategy[Filter] = st.one_of(
    _LEAVES, st.builds(Not, _LEAVES), st.lists(_LEAVES, max_size=3).map(lambda clauses: Or(tuple(clauses)))
)
_TREES: st.SearchStrategy[Filter] = st.one_of(
    _LEVEL, st.builds(Not, _LEVEL), st.lists(_LEVEL, max_size=3).map(lambda clauses: And(tuple(clauses)))
)


@given(_TREES)
def test_a_tree_survives_the_way_through_json_text(tree: Filter) -> None:
    assert parse_filter(json.loads(json.dumps(filter_to_json(tree)))) == tree


@pytest.mark.requirement("S1-30")
def test_a_bare_value_means_equality() -> None:
    assert parse_filter({"title": "Report"}) == Comparison("title", Comparator.EQ, "Report")


@pytest.mark.requirement("S0-57")
def test_several_fields_and_several_operators_mean_and() -> None:
    assert parse_filter({"type": "memory", "importance": {"$gte": 4, "$lt": 6}}) == And(
        (
            Comparison("type", Comparator.EQ, "memory"),
            And((Comparison("importance", Comparator.GTE, 4), Comparison("importance", Comparator.LT, 6))),
        )
    )


@pytest.mark.requirement("S0-60")
@pytest.mark.requirement("S1-29")
def test_and_may_nest_inside_or() -> None:
    document = {"$or": [{"$and": [{"a": 1}, {"b": {"$ne": "x"}}]}, {"$not": {"c": {"$exists": True}}}]}
    assert parse_filter(document) == Or(
        (
            And((Comparison("a", Comparator.EQ, 1), Comparison("b", Comparator.NE, "x"))),
            Not(Exists("c", present=True)),
        )
    )


def test_an_empty_object_matches_everything_and_an_empty_in_nothing() -> None:
    assert parse_filter({}) == And(())
    assert parse_filter({"tags": {"$in": []}}) == Membership("tags", ())


@pytest.mark.requirement("T25")
def test_numbers_keep_their_type_and_every_digit() -> None:
    parsed = parse_filter(json.loads(f'{{"a": 9007199254740993, "b": 5.0, "c": true, "d": {-(2**63)}}}'))
    assert isinstance(parsed, And)
    values = [clause.value for clause in parsed.clauses if isinstance(clause, Comparison)]
    assert values == [9007199254740993, 5.0, True, -(2**63)]
    assert [type(value) for value in values] == [int, float, bool, int]


@pytest.mark.requirement("S1-34")
@pytest.mark.parametrize(
    ("document", "place", "words"),
    [
        (
            {"$and": [{"a": 1}, {"importance": {"$foo": 3}}]},
            "filter.$and[1].importance.$foo",
            "unknown operator '$foo'",
        ),
        ({"$nor": []}, "filter.$nor", "unknown operator '$nor'"),
        ({"a": {"$or": []}}, "filter.a.$or", "does not belong here"),
        ({"$gt": 3}, "filter.$gt", "does not belong here"),
        ({"a": {"nested": 3}}, "filter.a.nested", "unknown operator"),
        ({"a": {}}, "filter.a", "must name an operator"),
        ({"a": None}, "filter.a", "$exists"),
        ({"a": {"$gte": date(2024, 1, 1)}}, "filter.a.$gte", "a text, such as 2026-02-10 for a date"),
        ({"a": [1, 2]}, "filter.a", "$in or $contains"),
        ({"a": {"$in": 3}}, "filter.a.$in", "list"),
        ({"a": {"$in": [1, "x"]}}, "filter.a.$in", "one kind"),
        ({"a": {"$in": [True, 1]}}, "filter.a.$in", "one kind"),
        ({"a": {"$in": [1, None]}}, "filter.a.$in[1]", "must be a text"),
        ({"a": {"$like": 3}}, "filter.a.$like", "text"),
        ({"a": {"$exists": "yes"}}, "filter.a.$exists", "true or false"),
        ({"a": float("nan")}, "filter.a", "finite"),
        ({"a": 2**63}, "filter.a", "64 bits"),
        ({"a": "\ud800"}, "filter.a", "surrogates"),
        ({"\ud800": 1}, "filter.\ud800", "surrogates"),
        ({"\ud800": {"$eq": 1}}, "filter.\ud800", "surrogates"),
        ({"$and": {"a": 1}}, "filter.$and", "list of objects"),
        ({"$not": [{"a": 1}]}, "filter.$not", "object"),
        ({"": 1}, "filter", "empty field name"),
        ("a = 1", "filter", "object"),
        ([], "filter", "object"),
    ],
)
def test_what_is_wrong_is_named_with_its_place(document: Any, place: str, words: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter(document)
    assert [violation.field for violation in caught.value.violations] == [place]
    assert words in caught.value.violations[0].description


def test_deep_nesting_is_refused_before_it_can_exhaust_the_stack() -> None:
    document: dict[str, Any] = {"a": 1}
    for _ in range(900):
        document = {"$not": document}
    with pytest.raises(InvalidFilterError, match="nested deeper than 8"):
        parse_filter(document)


@pytest.mark.parametrize(
    ("wrap", "levels"),
    [
        pytest.param(lambda inner: {"$not": inner}, 8, id="not"),
        pytest.param(lambda inner: {"$or": [inner]}, 8, id="or"),
        pytest.param(lambda inner: {"$and": [inner]}, 9, id="and, of which the one at the top is no level"),
    ],
)
def test_eight_levels_are_accepted_and_no_more(wrap: Callable[[JsonFilter], JsonFilter], levels: int) -> None:
    document: JsonFilter = {"a": {"$eq": 1}}
    for _ in range(levels):
        document = wrap(document)
    assert filter_to_json(parse_filter(document)) == document
    with pytest.raises(InvalidFilterError, match="nested deeper than 8"):
        parse_filter(wrap(document))


def test_an_and_beside_other_keys_is_a_level() -> None:
    inner: JsonFilter = {"a": 1}
    for _ in range(7):
        inner = {"$not": inner}
    parse_filter({"$and": [inner], "b": 1})
    with pytest.raises(InvalidFilterError, match="nested deeper than 8"):
        parse_filter({"$and": [{"$not": inner}], "b": 1})


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ('{"a": 1', "is not JSON"),
        ('{"a": 1, "a": 2}', "key twice"),
        ('{"$and": [{"a": {"$gte": 1, "$gte": 2}}]}', "key twice"),
        ('{"a": NaN}', "finite"),
        ('{"a": 1e999}', "finite"),
        ('{"a": ' + "[" * 100_000 + "]" * 100_000 + "}", "nested deeper than 8"),
        ("year = 2024", r'is not JSON, such as \{"year": 2024\}: Expecting value'),
        ("", "is not JSON"),
    ],
)
def test_text_that_is_no_filter_is_refused(text: str, words: str) -> None:
    with pytest.raises(InvalidFilterError, match=words):
        parse_filter_text(text)


def test_text_is_read_with_all_digits() -> None:
    assert parse_filter_text('{"a": 9007199254740993}') == Comparison("a", Comparator.EQ, 9007199254740993)
