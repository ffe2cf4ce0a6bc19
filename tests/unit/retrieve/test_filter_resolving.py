"""Filters fail closed: fields and values are checked before anything is searched."""

import pytest

from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_parsing import JsonFilter, custom_fields, parse_filter, resolve_filter
from groundwire.kernel.filters import (
    ALIASES,
    BUILT_IN_FIELDS,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    FieldKind,
    Filter,
    Like,
    Membership,
    Not,
    Or,
)

_CUSTOM = {"department": FieldKind.TEXT, "importance": FieldKind.INTEGER}


def _resolve(document: JsonFilter) -> Filter:
    return resolve_filter(parse_filter(document), _CUSTOM)


@pytest.mark.requirement("C21")
@pytest.mark.parametrize("alias", sorted(ALIASES))
def test_every_alias_stands_for_its_field(alias: str) -> None:
    assert _resolve({alias: {"$exists": True}}) == Exists(ALIASES[alias])
    assert ALIASES[alias] in BUILT_IN_FIELDS


@pytest.mark.requirement("S1-32")
@pytest.mark.requirement("T02")
def test_times_become_milliseconds_whatever_their_offset() -> None:
    expected = Comparison("date_created", Comparator.GTE, 1719792000000)
    assert _resolve({"date": {"$gte": "2024-07-01T00:00:00Z"}}) == expected
    assert _resolve({"date": {"$gte": "2024-07-01T02:00:00+02:00"}}) == expected
    assert _resolve({"date": {"$gte": 1719792000000}}) == expected


@pytest.mark.requirement("T23")
def test_a_page_may_be_compared_and_tested_for_membership() -> None:
    assert _resolve({"page": {"$gte": 6}}) == Comparison("page_numbers", Comparator.GTE, 6)
    assert _resolve({"pages": {"$contains": 6}}) == Containment("page_numbers", 6)


def test_chapter_and_a_list_of_chunk_ids_combine() -> None:
    assert _resolve({"chapter": "Chapter 1", "chunk_id": {"$in": ["a", "b"]}}) == And(
        (Comparison("chapter", Comparator.EQ, "Chapter 1"), Membership("chunk_id", ("a", "b")))
    )


@pytest.mark.requirement("C03")
def test_chunk_ids_that_are_numbers_are_the_numbers_of_chunks() -> None:
    assert _resolve({"chunk_id": 42}) == Comparison("chunk_number", Comparator.EQ, 42)
    assert _resolve({"chunk_id": {"$nin": [1, 2]}}) == Membership("chunk_number", (1, 2), negated=True)
    assert _resolve({"chunk_id": {"$gt": 42}}) == Comparison("chunk_number", Comparator.GT, 42)


@pytest.mark.requirement("S1-26")
def test_metadata_of_ones_own_may_be_compared_with_any_kind_of_value() -> None:
    for value in ("x", 3, 2.5, True):
        assert _resolve({"department": value}) == Comparison("department", Comparator.EQ, value)
        assert _resolve({"importance": {"$in": [value]}}) == Membership("importance", (value,))
        assert _resolve({"importance": {"$contains": value}}) == Containment("importance", value)
    assert _resolve({"importance": {"$like": "1%"}}) == Like("importance", "1%")


def test_times_in_metadata_of_ones_own_are_ordered_as_milliseconds() -> None:
    expected = Comparison("importance", Comparator.LT, 1719792000000)
    assert _resolve({"importance": {"$lt": "2024-07-01T00:00:00Z"}}) == expected


_DAY = (1719792000000, 1719878400000)
_DURING = And((Comparison("date_created", Comparator.GTE, _DAY[0]), Comparison("date_created", Comparator.LT, _DAY[1])))


@pytest.mark.requirement("S1-32")
@pytest.mark.requirement("T02")
@pytest.mark.parametrize(
    ("operators", "expected"),
    [
        ({"$gte": "2024-07-01"}, Comparison("date_created", Comparator.GTE, _DAY[0])),
        ({"$gt": "2024-07-01"}, Comparison("date_created", Comparator.GTE, _DAY[1])),
        ({"$lt": "2024-07-01"}, Comparison("date_created", Comparator.LT, _DAY[0])),
        ({"$lte": "2024-07-01"}, Comparison("date_created", Comparator.LT, _DAY[1])),
        ({"$eq": "2024-07-01"}, _DURING),
        ({"$ne": "2024-07-01"}, Not(_DURING)),
        ({"$in": ["2024-07-01", "1970-01-01T00:00:01Z"]}, Or((Membership("date_created", (1000,)), _DURING))),
        ({"$nin": ["2024-07-01"]}, Not(Or((_DURING,)))),
        ({"$nin": ["1970-01-01T00:00:01Z"]}, Membership("date_created", (1000,), negated=True)),
    ],
)
def test_a_plain_date_is_the_whole_day_in_utc(operators: JsonFilter, expected: Filter) -> None:
    assert _resolve({"date": operators}) == expected


def test_many_plain_dates_count_as_the_terms_they_become() -> None:
    days = [f"{2000 + number}-01-01" for number in range(128)]
    _resolve({"date": {"$in": days}})
    with pytest.raises(InvalidFilterError, match="more than 256 terms"):
        _resolve({"date": {"$in": [*days, "1999-01-01"]}})


def test_texts_of_ones_own_are_ordered_as_texts() -> None:
    expected = Comparison("department", Comparator.GTE, "2024-05-01")
    assert _resolve({"department": {"$gte": "2024-05-01"}}) == expected


def test_nesting_is_kept() -> None:
    document = {"$or": [{"$not": {"author": "Ada"}}, {"importance": {"$gte": 4}}]}
    assert _resolve(document) == Or(
        (Not(Comparison("creators", Comparator.EQ, "Ada")), Comparison("importance", Comparator.GTE, 4))
    )


@pytest.mark.parametrize(
    ("document", "places"),
    [
        ({"colour": "red"}, ["filter.colour"]),
        (
            {"$and": [{"level": 1}, {"colour": 1, "$not": {"size": 2}}]},
            ["filter.$and[1].colour", "filter.$and[1].$not.size"],
        ),
        ({"title": 5}, ["filter.title"]),
        ({"level": "5"}, ["filter.level"]),
        ({"level": True}, ["filter.level"]),
        ({"title": {"$gt": "a"}}, ["filter.title.$gt"]),
        ({"title": {"$in": [1, 2]}}, ["filter.title.$in", "filter.title.$in"]),
        ({"level": {"$like": "1%"}}, ["filter.level.$like"]),
        ({"level": {"$contains": 1}}, ["filter.level.$contains"]),
        ({"date": {"$gte": "2024-07-01T00:00:00"}}, ["filter.date.$gte"]),
        ({"date": {"$gte": "2024-07"}}, ["filter.date.$gte"]),
        ({"date": {"$gte": "2024-02-30"}}, ["filter.date.$gte"]),
        ({"date": {"$in": ["2024-02-28", "soon"]}}, ["filter.date.$in"]),
        ({"date": {"$gte": "yesterday"}}, ["filter.date.$gte"]),
        ({"date": {"$gte": True}}, ["filter.date.$gte"]),
        ({"department": {"$gt": 5}}, ["filter.department.$gt"]),
        ({"importance": {"$gt": "a"}}, ["filter.importance.$gt"]),
        ({"importance": {"$gt": True}}, ["filter.importance.$gt"]),
    ],
)
def test_everything_wrong_is_named(document: JsonFilter, places: list[str]) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        _resolve(document)
    found = [violation.field for violation in caught.value.violations]
    assert found == places


@pytest.mark.parametrize(
    ("document", "places"),
    [
        ({"importance": {"$gt": "a"}}, ["filter.importance.$gt"]),
        ({"importance": {"$gt": "2024-07-01"}}, ["filter.importance.$gt"]),
        ({"importance": "5"}, ["filter.importance"]),
        ({"confidence": {"$in": ["low", "high"]}}, ["filter.confidence.$in", "filter.confidence.$in"]),
        ({"scope": 5}, ["filter.scope"]),
        ({"role": {"$contains": 1}}, ["filter.role.$contains"]),
    ],
)
def test_fields_of_records_have_a_kind_where_no_metadata_has_the_name(document: JsonFilter, places: list[str]) -> None:
    condition = parse_filter(document)
    assert len(custom_fields(condition)) == 1  # metadata of this name are looked for first
    with pytest.raises(InvalidFilterError) as caught:
        resolve_filter(condition, {})
    assert [violation.field for violation in caught.value.violations] == places


def test_fields_of_records_are_compared_beside_metadata_of_another_kind() -> None:
    texts = {"importance": FieldKind.TEXT}
    for bound in (4, "high"):
        expected = Comparison("importance", Comparator.GT, bound)
        assert resolve_filter(parse_filter({"importance": {"$gt": bound}}), texts) == expected


def test_other_names_of_fields_of_records_give_way_to_metadata() -> None:
    condition = parse_filter({"type": "x"})
    assert resolve_filter(condition, {}) == Comparison("record_type", Comparator.EQ, "x")
    assert resolve_filter(condition, {"type": FieldKind.TEXT}) == Comparison("type", Comparator.EQ, "x")


def test_too_many_terms_are_refused() -> None:
    condition = Or(tuple(Exists("title") for _ in range(256)))
    assert resolve_filter(condition, {}) == condition
    with pytest.raises(InvalidFilterError, match="256"):
        resolve_filter(Or(tuple(Exists("title") for _ in range(257))), {})
    with pytest.raises(InvalidFilterError, match="256"):  # not 257 times that there is no such field
        resolve_filter(Or(tuple(Exists("colour") for _ in range(257))), {})
    with pytest.raises(InvalidFilterError, match="256"):
        resolve_filter(Membership("title", tuple(str(i) for i in range(257))), {})
    many = Membership("title", tuple(str(i) for i in range(256)))
    assert resolve_filter(Or((many,) * 16), {}) == Or((many,) * 16)
    with pytest.raises(InvalidFilterError, match="4096 values"):
        resolve_filter(Or((*(many,) * 16, Membership("title", ("one more",)))), {})


def test_the_depth_was_checked_where_the_filter_was_read() -> None:
    condition: Filter = Exists("title")
    for _ in range(9):  # as a filter within the limits that a service added conditions to
        condition = Not(condition)
    assert resolve_filter(condition, {}) == condition


def test_a_condition_that_no_caller_wrote_is_named_by_its_filter() -> None:
    with pytest.raises(InvalidFilterError) as refused:
        resolve_filter(Comparison("colour", Comparator.EQ, 1), {}, "options.filter")
    assert [violation.field for violation in refused.value.violations] == ["options.filter"]


def test_only_unknown_names_are_looked_up_in_the_collection() -> None:
    assert custom_fields(parse_filter({"title": "x", "url": "y", "$not": {"department": "z"}})) == {"department"}
    assert custom_fields(parse_filter({"importance": {"$gte": 4}, "role": {"$exists": True}})) == set()
