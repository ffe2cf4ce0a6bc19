"""Filters cross the wire unchanged, and broken ones are named by the place that their writer knows."""

from collections.abc import Callable

import pytest

from groundwire.api.common.v1 import filter_pb2 as pb
from groundwire.api.common.v1 import metadata_value_pb2
from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_parsing import parse_filter, resolve_filter
from groundwire.kernel.filters import And, Comparator, Comparison, Exists, FieldKind, Filter, Not
from groundwire.rpc.filter_messages import parse_filter_message, to_filter_message

_EVERY_OPERATOR = {
    "$or": [
        {"$and": [{"title": "x"}, {"level": {"$ne": 2}}]},
        {"level": {"$gt": 1, "$gte": 1, "$lt": 9, "$lte": 9.5}},
        {"tags": {"$in": ["a", "b"]}},
        {"tags": {"$nin": []}},
        {"tags": {"$contains": "a"}},
        {"tags": {"$not_contains": "b"}},
        {"source_uri": {"$like": "%.md"}},
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
    back = parse_filter_message(pb.Filter.FromString(sent))
    assert back == tree
    assert repr(back) == repr(tree)  # 1 and 1.0 and True are equal, but not the same


def test_the_tree_and_the_json_form_mean_the_same_and_may_be_mixed() -> None:
    condition = pb.Condition(field="level", op=pb.FILTER_OPERATOR_GTE, values=[_VALUE(int64_value=2)])
    tree = pb.Filter(condition=condition)
    json = pb.Filter(json='{"level": {"$gte": 2}}')
    expected = Comparison("level", Comparator.GTE, 2)
    assert parse_filter_message(tree) == parse_filter_message(json) == expected
    mixed = pb.Filter(all_of=pb.FilterList(filters=[tree, pb.Filter(negation=json)]))
    assert parse_filter_message(mixed) == And((expected, Not(expected)))


def test_answers_name_fields_as_the_contract_does() -> None:
    where = parse_filter({"source": "a", "section_title": "b", "ingested_at": {"$gt": 0}})
    sent = to_filter_message(resolve_filter(where, {}))
    names = [each.condition.field for each in sent.all_of.filters]
    assert names == ["source_uri", "section_heading", "ingest_time"]
    assert resolve_filter(parse_filter_message(sent), {}) == resolve_filter(where, {})


def test_a_point_in_time_becomes_milliseconds() -> None:
    message = to_filter_message(Comparison("date", Comparator.GTE, 0))
    message.condition.values[0].timestamp_value.FromMilliseconds(1719792000123)
    assert parse_filter_message(message) == Comparison("date", Comparator.GTE, 1719792000123)


def test_presence_is_the_default_of_exists() -> None:
    condition = pb.Condition(field="title", op=pb.FILTER_OPERATOR_EXISTS)
    assert parse_filter_message(pb.Filter(condition=condition)) == Exists("title")
    condition.values.add(bool_value=False)
    assert parse_filter_message(pb.Filter(condition=condition)) == Exists("title", present=False)


_VALUE = metadata_value_pb2.MetadataValue
_ONE = _VALUE(int64_value=1)


def _condition(**changes: object) -> pb.Filter:
    parts = {"field": "level", "op": pb.FILTER_OPERATOR_EQ, "values": [_ONE]} | changes
    return pb.Filter(condition=pb.Condition(**parts))  # type: ignore[arg-type]  # parts vary on purpose


def _and(*filters: pb.Filter) -> pb.Filter:
    return pb.Filter(all_of=pb.FilterList(filters=filters))


@pytest.mark.parametrize(
    ("make", "place"),
    [
        (pb.Filter, "filter"),
        (lambda: _and(_condition(), pb.Filter()), "filter.all_of.filters[1]"),
        (lambda: _condition(field=""), "filter.condition.field"),
        (lambda: _condition(field="x" * 65), "filter.condition.field"),
        (lambda: _condition(op=0), "filter.condition.op"),
        (lambda: _condition(op=77), "filter.condition.op"),
        (lambda: _condition(values=[]), "filter.condition.values"),
        (lambda: _condition(values=[_ONE, _ONE]), "filter.condition.values"),
        (lambda: _condition(op=pb.FILTER_OPERATOR_EXISTS), "filter.condition.values"),
        (lambda: _condition(op=pb.FILTER_OPERATOR_LIKE), "filter.condition.values"),
        (lambda: _condition(values=[_VALUE()]), "filter.condition.values[0]"),
        (lambda: _condition(values=[_VALUE(double_value=float("nan"))]), "filter.condition.values[0]"),
        (lambda: _condition(values=[_VALUE(double_value=float("inf"))]), "filter.condition.values[0]"),
        (
            lambda: _condition(values=[_VALUE(string_list=metadata_value_pb2.StringList(values=["a"]))]),
            "filter.condition.values[0]",
        ),
        (
            lambda: _condition(op=pb.FILTER_OPERATOR_NOT_IN, values=[_ONE, _VALUE(bool_value=True)]),
            "filter.condition.values",
        ),
        (
            lambda: _condition(op=pb.FILTER_OPERATOR_LIKE, values=[_VALUE(string_value="x" * 257)]),
            "filter.condition.values",
        ),
        (lambda: _condition(values=[_VALUE(string_value="x" * 8193)]), "filter.condition.values"),
        (lambda: _condition(values=[_VALUE(string_value="a\x00b")]), "filter.condition.values"),
        (lambda: pb.Filter(json="{"), "filter.json"),
        (lambda: pb.Filter(json=" " * 262_145), "filter.json"),
        (lambda: pb.Filter(json='{"$or": [{}, {"level": {"$foo": 1}}]}'), "filter.json.$or[1].level.$foo"),
        (lambda: pb.Filter(json='{"%s": 1}' % ("x" * 65)), f"filter.json.{'x' * 65}"),
        (lambda: pb.Filter(json='{"a": {"$like": "%s"}}' % ("x" * 257)), "filter.json.a.$like"),
        (lambda: pb.Filter(json='{"a": "b\\u0000"}'), "filter.json.a"),
    ],
)
def test_broken_messages_are_refused_and_named(make: Callable[[], pb.Filter], place: str) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_filter_message(make())
    assert [violation.field for violation in caught.value.violations] == [place]


@pytest.mark.parametrize(
    ("message", "places"),
    [
        (_and(_condition(field="colour"), _condition()), ["options.filter.all_of.filters[0].condition.field"]),
        (_condition(values=[_VALUE(string_value="high")]), ["options.filter.condition.values"]),
        (
            _condition(op=pb.FILTER_OPERATOR_LIKE, values=[_VALUE(string_value="1%")]),
            ["options.filter.condition.op"],
        ),
        (
            pb.Filter(json='{"$not": {"colour": 1}, "level": {"$gte": "high"}}'),
            ["options.filter.json.$not.colour", "options.filter.json.level.$gte"],
        ),
    ],
)
def test_what_does_not_fit_the_collection_is_named_by_the_place_it_was_written_at(
    message: pb.Filter, places: list[str]
) -> None:
    parsed = parse_filter_message(message, "options.filter")
    with pytest.raises(InvalidFilterError) as caught:
        resolve_filter(parsed, {"department": FieldKind.TEXT}, "options.filter")
    assert [violation.field for violation in caught.value.violations] == places


def test_nesting_beyond_eight_levels_is_refused_in_either_form() -> None:
    tree: Filter = Exists("title")
    for _ in range(8):
        tree = Not(tree)
    assert parse_filter_message(to_filter_message(tree)) == tree
    with pytest.raises(InvalidFilterError, match="deeper than 8"):
        parse_filter_message(to_filter_message(Not(tree)))
    inner = '{"$not": ' * 7 + '{"title": "x"}' + "}" * 7
    parse_filter_message(pb.Filter(negation=pb.Filter(json=inner)))
    with pytest.raises(InvalidFilterError, match="deeper than 8"):
        parse_filter_message(pb.Filter(negation=pb.Filter(negation=pb.Filter(json=inner))))
