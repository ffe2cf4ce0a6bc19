"""Filters between the contract's messages and the kernel's tree; used by servers and clients alike."""

import math
from collections.abc import Sequence
from typing import assert_never

from groundwire.api.common.v1 import filter_pb2 as pb
from groundwire.api.common.v1 import metadata_value_pb2
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_parsing import parse_filter_text
from groundwire.kernel.filters import (
    MAX_DEPTH,
    MAX_JSON_CHARS,
    MAX_NAME_CHARS,
    MAX_PATTERN_CHARS,
    MAX_TEXT_CHARS,
    And,
    Comparator,
    Comparison,
    Containment,
    Exists,
    Filter,
    Leaf,
    Like,
    Membership,
    Not,
    Or,
    Place,
    Scalar,
    contract_name,
    kind_of,
    leaves,
)
from groundwire.rpc.value_messages import parse_timestamp, to_value

_COMPARATORS = {
    pb.FILTER_OPERATOR_EQ: Comparator.EQ,
    pb.FILTER_OPERATOR_NE: Comparator.NE,
    pb.FILTER_OPERATOR_GT: Comparator.GT,
    pb.FILTER_OPERATOR_GTE: Comparator.GTE,
    pb.FILTER_OPERATOR_LT: Comparator.LT,
    pb.FILTER_OPERATOR_LTE: Comparator.LTE,
}
_OPERATORS = {comparator: operator for operator, comparator in _COMPARATORS.items()}
_MEMBERSHIPS = {pb.FILTER_OPERATOR_IN: False, pb.FILTER_OPERATOR_NOT_IN: True}
_CONTAINMENTS = {pb.FILTER_OPERATOR_CONTAINS: False, pb.FILTER_OPERATOR_NOT_CONTAINS: True}


def to_filter_message(condition: Filter) -> pb.Filter:
    """Return the message of a filter tree; built-in fields have the names of the contract."""
    match condition:
        case And(clauses):
            return pb.Filter(all_of=pb.FilterList(filters=map(to_filter_message, clauses)))
        case Or(clauses):
            return pb.Filter(any_of=pb.FilterList(filters=map(to_filter_message, clauses)))
        case Not(clause):
            return pb.Filter(negation=to_filter_message(clause))
        case _:
            operator, values = _condition_of(condition)
            field = contract_name(condition.field)
            return pb.Filter(condition=pb.Condition(field=field, op=operator, values=map(to_value, values)))


def _condition_of(leaf: Leaf) -> tuple["pb.FilterOperator.ValueType", Sequence[Scalar]]:
    match leaf:
        case Comparison(_, comparator, value):
            return _OPERATORS[comparator], (value,)
        case Membership(_, values, negated):
            return pb.FILTER_OPERATOR_NOT_IN if negated else pb.FILTER_OPERATOR_IN, values
        case Containment(_, value, negated):
            return pb.FILTER_OPERATOR_NOT_CONTAINS if negated else pb.FILTER_OPERATOR_CONTAINS, (value,)
        case Like(_, pattern):
            return pb.FILTER_OPERATOR_LIKE, (pattern,)
        case Exists(_, present):
            return pb.FILTER_OPERATOR_EXISTS, () if present else (False,)
        case _:
            assert_never(leaf)


def parse_filter_message(message: pb.Filter, path: str = "filter") -> Filter:
    """Return the filter tree of a message; points in time become milliseconds since 1970.

    Field names and kinds of values are not checked here, because they depend on the collection.

    Raises:
        InvalidFilterError: naming the place as it was written, as in `filter.all_of.filters[1].condition.op` or
            `filter.json.$and[1].level.$foo`.
    """
    # An And at the top is no level (`groundwire.kernel.filters.MAX_DEPTH`).
    parsed = _parse(message, path, depth=-1 if message.HasField("all_of") else 0)
    for leaf in leaves(parsed):
        place = leaf.place or Place(path, path, path)
        if not leaf.field:
            raise InvalidFilterError.of(place.field, "has an empty field name")
        if len(leaf.field) > MAX_NAME_CHARS:
            too_long = f"names a field of more than {MAX_NAME_CHARS} characters: {leaf.field[:16]!r}…"
            raise InvalidFilterError.of(place.field, too_long)
        if isinstance(leaf, Like) and len(leaf.pattern) > MAX_PATTERN_CHARS:
            raise InvalidFilterError.of(place.values, f"must be at most {MAX_PATTERN_CHARS} characters")
        for value in _condition_of(leaf)[1]:
            if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
                raise InvalidFilterError.of(place.values, f"must be at most {MAX_TEXT_CHARS} characters")
            if isinstance(value, str) and "\x00" in value:
                raise InvalidFilterError.of(place.values, "must not contain NUL")
    return parsed


def _parse(message: pb.Filter, path: str, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise InvalidFilterError.of(path, f"is nested deeper than {MAX_DEPTH} levels")
    match message.WhichOneof("form"):
        case "all_of":
            return And(_parse_list(message.all_of, f"{path}.all_of", depth + 1))
        case "any_of":
            return Or(_parse_list(message.any_of, f"{path}.any_of", depth + 1))
        case "negation":
            return Not(_parse(message.negation, f"{path}.negation", depth + 1))
        case "condition":
            return _parse_condition(message.condition, f"{path}.condition")
        case "json":
            if len(message.json) > MAX_JSON_CHARS:
                raise InvalidFilterError.of(f"{path}.json", f"must be at most {MAX_JSON_CHARS} characters")
            return parse_filter_text(message.json, f"{path}.json", depth)
        case _:
            raise InvalidFilterError.of(path, "has no condition")


def _parse_list(message: pb.FilterList, path: str, depth: int) -> tuple[Filter, ...]:
    return tuple(_parse(each, f"{path}.filters[{position}]", depth) for position, each in enumerate(message.filters))


def _parse_condition(message: pb.Condition, path: str) -> Leaf:
    field, operator = message.field, message.op
    place = Place(f"{path}.field", f"{path}.op", f"{path}.values")
    values = tuple(_parse_value(value, f"{path}.values[{position}]") for position, value in enumerate(message.values))
    if operator in _MEMBERSHIPS:
        if len({kind_of(value) for value in values}) > 1:
            raise InvalidFilterError.of(place.values, "must hold values of one kind")
        return Membership(field, values, _MEMBERSHIPS[operator], place)
    if operator == pb.FILTER_OPERATOR_EXISTS:
        present = values or (True,)
        if len(present) > 1 or not isinstance(present[0], bool):
            raise InvalidFilterError.of(place.values, "must be empty, true or false")
        return Exists(field, present[0], place)
    if operator not in _COMPARATORS and operator not in _CONTAINMENTS and operator != pb.FILTER_OPERATOR_LIKE:
        raise InvalidFilterError.of(place.operator, "is not a known operator", operator=str(operator))
    if len(values) != 1:
        raise InvalidFilterError.of(place.values, "must be one value")
    (value,) = values
    if operator in _COMPARATORS:
        return Comparison(field, _COMPARATORS[operator], value, place)
    if operator in _CONTAINMENTS:
        return Containment(field, value, _CONTAINMENTS[operator], place)
    if not isinstance(value, str):
        raise InvalidFilterError.of(place.values, "must be a text")
    return Like(field, value, place)


def _parse_value(message: metadata_value_pb2.MetadataValue, place: str) -> Scalar:
    match message.WhichOneof("value"):
        case "string_value":
            return message.string_value
        case "int64_value":
            return message.int64_value
        case "bool_value":
            return message.bool_value
        case "timestamp_value":
            return epoch_ms(parse_timestamp(message.timestamp_value, place, InvalidFilterError))
        case "double_value" if math.isfinite(message.double_value):
            return message.double_value
        case "double_value":
            raise InvalidFilterError.of(place, "must be a finite number")
        case None:
            raise InvalidFilterError.of(place, "has no value")
        case _:
            raise InvalidFilterError.of(place, "must be a single value, not a list")
