"""Filters cross the wire unchanged, and broken ones are named by place."""

from collections.abc import Callable

import pytest

from groundwire.api.common.v1 import metadata_filter_pb2 as pb
from groundwire.api.common.v1 import metadata_value_pb2
from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_json import parse_filter
from groundwire.kernel.filters import Comparator, Comparison, Exists, Filter, Not
from groundwire.rpc.filter_messages import parse_filter_message, to_filter_message

_EVERY_OPERATOR = {
    "$or": [
        {"$and": [{"title": "x"}, {"level": {"$ne": 2}}]},
        {"level": {"$gt": 1, "$gte": 1, "$lt": 9, "$lte": 9.5}},
        {"tags": {"$in": ["a", "b"]}},
        {"tags": {"$nin": []}},
        {"tags": {"$contains": "a"}},
        {"tags": {"$not_contains": "b"}},
        {"source": {"$like": "%.md"}},
        {"$not": {"section": {"$exists": False}}},
        {"approved": True},
        {"big": 9007199254740993},
    ]
}


@pytest.mark.requirement("S1-29")
@pytest.mark.requirement("T25")
def test_every_operator_and_type_survives_the_wire() -> None:
    tree = parse_filter(_EVERY_OPERATOR)
    sent = to_filter_message(tree).SerializeToString()
    back = parse_filter_message(pb.MetadataFilter.FromString(sent))
    assert back == tree
    assert repr(back) == repr(tree)  # 1 and 1.0 and True are equal, but not the same


def test_a_point_in_time_becomes_milliseconds() -> None:
    message = to_filter_message(Comparison("date", Comparator.GTE, 0))
    message.comparison.value.timestamp_value.FromMilliseconds(1719792000123)
    assert parse_filter_message(message) == Comparison("date", Comparator.GTE, 1719792000123)


def test_presence_is_the_default_of_exists() -> None:
    assert parse_filter_message(pb.MetadataFilter(exists=pb.ExistsFilter(field="title"))) == Exists("title")


_VALUE = metadata_value_pb2.MetadataValue


def _comparison(**changes: object) -> pb.MetadataFilter:
    parts = {"field": "level", "operator": pb.COMPARISON_OPERATOR_EQ, "value": _VALUE(int64_value=1)} | changes
    return pb.MetadataFilter(comparison=pb.ComparisonFilter(**parts))  # type: ignore[arg-type]  # parts vary on purpose


def _and(*clauses: pb.MetadataFilter) -> pb.MetadataFilter:
    return pb.MetadataFilter(all_of=pb.FilterClauses(clauses=clauses))


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (pb.MetadataFilter, "filter"),
        (lambda: _and(_comparison(), pb.MetadataFilter()), "filter.$and[1]"),
        (lambda: _comparison(field=""), "filter"),
        (lambda: _comparison(operator=0), "filter.level"),
        (lambda: _comparison(operator=77), "filter.level"),
        (lambda: _comparison(value=_VALUE()), "filter.level.$eq"),
        (lambda: _comparison(value=_VALUE(double_value=float("nan"))), "filter.level.$eq"),
        (lambda: _comparison(value=_VALUE(double_value=float("inf"))), "filter.level.$eq"),
        (
            lambda: _comparison(value=_VALUE(string_list=metadata_value_pb2.StringList(values=["a"]))),
            "filter.level.$eq",
        ),
        (
            lambda: pb.MetadataFilter(
                membership=pb.MembershipFilter(
                    field="level", values=[_VALUE(int64_value=1), _VALUE(bool_value=True)], negated=True
                )
            ),
            "filter.level.$nin",
        ),
        (
            lambda: pb.MetadataFilter(like=pb.LikeFilter(field="title", pattern="x" * 257)),
            "filter.title.$like",
        ),
    ],
)
def test_broken_messages_are_refused_and_named(make: Callable[[], pb.MetadataFilter], place: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter_message(make())
    assert [violation.field for violation in caught.value.violations] == [place]


def test_nesting_beyond_eight_levels_is_refused() -> None:
    tree: Filter = Exists("title")
    for _ in range(8):
        tree = Not(tree)
    assert parse_filter_message(to_filter_message(tree)) == tree
    with pytest.raises(InvalidFilterError, match="deeper than 8"):
        parse_filter_message(to_filter_message(Not(tree)))
