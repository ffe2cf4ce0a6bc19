"""Filters between the contract's messages and the kernel's tree; used by servers and clients alike."""

import math
from collections.abc import Iterable
from typing import assert_never

from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import metadata_filter_pb2 as pb
from groundwire.api.common.v1 import metadata_value_pb2
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.errors import InvalidFilterError
from groundwire.kernel.filter_evaluator import kind_of
from groundwire.kernel.filters import (
    MAX_DEPTH,
    MAX_NAME_CHARS,
    MAX_PATTERN_CHARS,
    MAX_TEXT_CHARS,
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
from groundwire.rpc.metadata_messages import to_value
from groundwire.rpc.times import parse_timestamp

_COMPARATORS = {
    pb.COMPARISON_OPERATOR_EQ: Comparator.EQ,
    pb.COMPARISON_OPERATOR_NE: Comparator.NE,
    pb.COMPARISON_OPERATOR_GT: Comparator.GT,
    pb.COMPARISON_OPERATOR_GTE: Comparator.GTE,
    pb.COMPARISON_OPERATOR_LT: Comparator.LT,
    pb.COMPARISON_OPERATOR_LTE: Comparator.LTE,
}
_OPERATORS = {comparator: operator for operator, comparator in _COMPARATORS.items()}


def to_filter_message(condition: Filter) -> pb.MetadataFilter:
    """Return the message of a filter tree."""
    match condition:
        case Comparison(field, comparator, value):
            comparison = pb.ComparisonFilter(field=field, operator=_OPERATORS[comparator], value=to_value(value))
            return pb.MetadataFilter(comparison=comparison)
        case Membership(field, values, negated):
            members = [to_value(value) for value in values]
            return pb.MetadataFilter(membership=pb.MembershipFilter(field=field, values=members, negated=negated))
        case Containment(field, value, negated):
            containment = pb.ContainmentFilter(field=field, value=to_value(value), negated=negated)
            return pb.MetadataFilter(containment=containment)
        case Like(field, pattern):
            return pb.MetadataFilter(like=pb.LikeFilter(field=field, pattern=pattern))
        case Exists(field, present):
            return pb.MetadataFilter(exists=pb.ExistsFilter(field=field, present=present))
        case And(clauses):
            return pb.MetadataFilter(all_of=_to_clauses(clauses))
        case Or(clauses):
            return pb.MetadataFilter(any_of=_to_clauses(clauses))
        case Not(clause):
            return pb.MetadataFilter(negation=to_filter_message(clause))
        case _:
            assert_never(condition)


def parse_filter_message(message: pb.MetadataFilter, path: str = "filter") -> Filter:
    """Return the filter tree of a message; points in time become milliseconds since 1970.

    Field names and the kinds of values are not judged here: they depend on the collection.

    Raises:
        InvalidFilterError: naming the place in the JSON form, as in `filter.$and[1].importance`.
    """
    # An And at the top is no level (`groundwire.kernel.filters.MAX_DEPTH`).
    return _parse(message, path, depth=-1 if message.HasField("all_of") else 0)


def _parse(message: pb.MetadataFilter, path: str, depth: int) -> Filter:
    if depth > MAX_DEPTH:
        raise InvalidFilterError.of(path, f"is nested deeper than {MAX_DEPTH} levels")
    match message.WhichOneof("node"):
        case "all_of":
            return And(_parse_clauses(message.all_of, f"{path}.$and", depth + 1))
        case "any_of":
            return Or(_parse_clauses(message.any_of, f"{path}.$or", depth + 1))
        case "negation":
            return Not(_parse(message.negation, f"{path}.$not", depth + 1))
        case None:
            raise InvalidFilterError.of(path, "has no condition")
        case _:
            return _parse_leaf(message, path)


def _parse_leaf(message: pb.MetadataFilter, path: str) -> Filter:
    match message.WhichOneof("node"):
        case "comparison":
            return _parse_comparison(message.comparison, path)
        case "membership":
            return _parse_membership(message.membership, path)
        case "containment":
            field = _field(message.containment.field, path)
            value = _parse_value(message.containment.value, f"{path}.{field}")
            return Containment(field, value, message.containment.negated)
        case "like":
            return _parse_like(message.like, path)
        case _:
            present = message.exists.present if message.exists.HasField("present") else True
            return Exists(_field(message.exists.field, path), present)


def _parse_clauses(message: pb.FilterClauses, path: str, depth: int) -> tuple[Filter, ...]:
    return tuple(_parse(clause, f"{path}[{position}]", depth) for position, clause in enumerate(message.clauses))


def _parse_comparison(message: pb.ComparisonFilter, path: str) -> Filter:
    field = _field(message.field, path)
    comparator = _COMPARATORS.get(message.operator)
    if comparator is None:
        raise InvalidFilterError.of(f"{path}.{field}", "has no known operator", operator=str(message.operator))
    return Comparison(field, comparator, _parse_value(message.value, f"{path}.{field}.{comparator.value}"))


def _parse_membership(message: pb.MembershipFilter, path: str) -> Filter:
    field = _field(message.field, path)
    place = f"{path}.{field}.{'$nin' if message.negated else '$in'}"
    values = tuple(_parse_value(value, f"{place}[{position}]") for position, value in enumerate(message.values))
    if len({kind_of(value) for value in values}) > 1:
        raise InvalidFilterError.of(place, "must hold values of one kind")
    return Membership(field, values, message.negated)


def _parse_like(message: pb.LikeFilter, path: str) -> Filter:
    field = _field(message.field, path)
    if len(message.pattern) > MAX_PATTERN_CHARS:
        raise InvalidFilterError.of(f"{path}.{field}.$like", f"must be at most {MAX_PATTERN_CHARS} characters")
    return Like(field, _text(message.pattern, f"{path}.{field}.$like"))


def _field(name: str, path: str) -> str:
    if not name:
        raise InvalidFilterError.of(path, "has an empty field name")
    if len(name) > MAX_NAME_CHARS:
        raise InvalidFilterError.of(path, f"names a field of more than {MAX_NAME_CHARS} characters: {name[:16]!r}…")
    return name


def _text(value: str, place: str) -> str:
    if len(value) > MAX_TEXT_CHARS:
        raise InvalidFilterError.of(place, f"must be at most {MAX_TEXT_CHARS} characters")
    if "\x00" in value:
        raise InvalidFilterError.of(place, "must not contain NUL")
    return value


def _parse_value(message: metadata_value_pb2.MetadataValue, place: str) -> Scalar:
    match message.WhichOneof("value"):
        case "string_value":
            return _text(message.string_value, place)
        case "int64_value":
            return message.int64_value
        case "bool_value":
            return message.bool_value
        case "timestamp_value":
            return _milliseconds(message.timestamp_value, place)
        case "double_value" if math.isfinite(message.double_value):
            return message.double_value
        case "double_value":
            raise InvalidFilterError.of(place, "must be a finite number")
        case None:
            raise InvalidFilterError.of(place, "has no value")
        case _:
            raise InvalidFilterError.of(place, "must be a single value, not a list")


def _milliseconds(time: Timestamp, place: str) -> int:
    return epoch_ms(parse_timestamp(time, place, InvalidFilterError))


def _to_clauses(clauses: Iterable[Filter]) -> pb.FilterClauses:
    return pb.FilterClauses(clauses=[to_filter_message(clause) for clause in clauses])
