"""Values as messages, and back: times, durations, enums, metadata, and filters; used by servers and clients alike."""

import math
from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, TypeVar, assert_never

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import filter_pb2
from groundwire.api.common.v1 import metadata_value_pb2 as pb
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError
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
    Value,
    contract_name,
    kind_of,
    leaves,
)

EnumT = TypeVar("EnumT", bound=Enum)

_SECOND_NS = 1_000_000_000
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_timestamp(moment: datetime) -> Timestamp:
    """Return the message of an aware time; faster than the library's, because a response has a dozen of them."""
    since = moment - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)


def parse_timestamp(message: Timestamp, field: str, kind: type[InvalidRequestError] = InvalidRequestError) -> datetime:
    """Return the aware UTC time of a message, to the microsecond.

    Raises:
        InvalidRequestError: it is outside the years 1 to 9999, or its fields contradict the format; of class `kind`.
    """
    with suppress(ValueError):
        return message.ToDatetime(UTC)
    raise kind.of(field, "is not a time between the years 1 and 9999")


def to_duration(seconds: float) -> Duration:
    """Return the message of a duration of at least 0, to the microsecond."""
    whole, microseconds = divmod(round(seconds * 1e6), 1_000_000)
    return Duration(seconds=whole, nanos=microseconds * 1000)


def parse_duration(message: Duration, field: str, shortest: timedelta, longest: timedelta) -> timedelta:
    """Return the duration of a message, to the microsecond.

    Raises:
        InvalidRequestError: it is not in the range from `shortest` to `longest`.
    """
    duration = None
    # Seconds and nanoseconds of a duration have the same sign; the library takes others too.
    if abs(message.nanos) < _SECOND_NS and message.nanos * message.seconds >= 0:
        with suppress(ValueError, OverflowError):
            duration = message.ToTimedelta()
    if duration is None or not shortest <= duration <= longest:
        raise InvalidRequestError.of(field, f"must be {_shown(shortest)} to {_shown(longest)}")
    return duration


def _shown(duration: timedelta) -> str:
    days, seconds = duration.days, duration.total_seconds()
    if days and duration == timedelta(days=days):
        return "1 day" if days == 1 else f"{days} days"
    return "1 second" if seconds == 1 else f"{seconds:g} seconds"


def members_by_number(enum: Any, kind: type[EnumT]) -> dict[Any, EnumT]:
    """Map the numbers of a protobuf enum to the members of ours, which have the same names behind the prefix."""
    prefix = enum_prefix(enum.DESCRIPTOR)
    return {enum.Value(prefix + each.name): each for each in kind}


def enum_prefix(enum: EnumDescriptor) -> str:
    """Return what the names of the values of an enum begin with, such as `DOCUMENT_FORMAT_`."""
    return str(enum.values[0].name.removesuffix("UNSPECIFIED"))


def to_metadata(metadata: Mapping[str, Value]) -> dict[str, pb.MetadataValue]:
    return {key: to_value(value) for key, value in metadata.items()}


def to_value(value: Value) -> pb.MetadataValue:
    """Return the message of one value; a list of whole numbers and others is one of doubles."""
    match value:
        case bool():  # before int, which a bool is as well
            return pb.MetadataValue(bool_value=value)
        case int():
            return pb.MetadataValue(int64_value=value)
        case float():
            return pb.MetadataValue(double_value=value)
        case str():
            return pb.MetadataValue(string_value=value)
        case _:
            values: Sequence[Any] = value
            if all(isinstance(each, str) for each in values):  # an empty list counts as texts
                return pb.MetadataValue(string_list=pb.StringList(values=values))
            if all(isinstance(each, bool) for each in values):  # before int, as above
                return pb.MetadataValue(bool_list=pb.BoolList(values=values))
            if all(isinstance(each, int) and not isinstance(each, bool) for each in values):
                return pb.MetadataValue(int64_list=pb.Int64List(values=values))
            return pb.MetadataValue(double_list=pb.DoubleList(values=map(float, values)))


# Filters

_COMPARATORS = {
    filter_pb2.FILTER_OPERATOR_EQ: Comparator.EQ,
    filter_pb2.FILTER_OPERATOR_NE: Comparator.NE,
    filter_pb2.FILTER_OPERATOR_GT: Comparator.GT,
    filter_pb2.FILTER_OPERATOR_GTE: Comparator.GTE,
    filter_pb2.FILTER_OPERATOR_LT: Comparator.LT,
    filter_pb2.FILTER_OPERATOR_LTE: Comparator.LTE,
}
_OPERATORS = {comparator: operator for operator, comparator in _COMPARATORS.items()}
_MEMBERSHIPS = {filter_pb2.FILTER_OPERATOR_IN: False, filter_pb2.FILTER_OPERATOR_NOT_IN: True}
_CONTAINMENTS = {filter_pb2.FILTER_OPERATOR_CONTAINS: False, filter_pb2.FILTER_OPERATOR_NOT_CONTAINS: True}


def to_filter_message(condition: Filter) -> filter_pb2.Filter:
    """Return the message of a filter tree; built-in fields have the names of the contract."""
    match condition:
        case And(clauses):
            return filter_pb2.Filter(all_of=filter_pb2.FilterList(filters=map(to_filter_message, clauses)))
        case Or(clauses):
            return filter_pb2.Filter(any_of=filter_pb2.FilterList(filters=map(to_filter_message, clauses)))
        case Not(clause):
            return filter_pb2.Filter(negation=to_filter_message(clause))
        case _:
            operator, values = _condition_of(condition)
            field = contract_name(condition.field)
            return filter_pb2.Filter(
                condition=filter_pb2.Condition(field=field, op=operator, values=map(to_value, values))
            )


def _condition_of(leaf: Leaf) -> tuple["filter_pb2.FilterOperator.ValueType", Sequence[Scalar]]:
    match leaf:
        case Comparison(_, comparator, value):
            return _OPERATORS[comparator], (value,)
        case Membership(_, values, negated):
            return filter_pb2.FILTER_OPERATOR_NOT_IN if negated else filter_pb2.FILTER_OPERATOR_IN, values
        case Containment(_, value, negated):
            return filter_pb2.FILTER_OPERATOR_NOT_CONTAINS if negated else filter_pb2.FILTER_OPERATOR_CONTAINS, (value,)
        case Like(_, pattern):
            return filter_pb2.FILTER_OPERATOR_LIKE, (pattern,)
        case Exists(_, present):
            return filter_pb2.FILTER_OPERATOR_EXISTS, () if present else (False,)
        case _:
            assert_never(leaf)


def parse_filter_message(message: filter_pb2.Filter, path: str = "filter") -> Filter:
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


def _parse(message: filter_pb2.Filter, path: str, depth: int) -> Filter:
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


def _parse_list(message: filter_pb2.FilterList, path: str, depth: int) -> tuple[Filter, ...]:
    return tuple(_parse(each, f"{path}.filters[{position}]", depth) for position, each in enumerate(message.filters))


def _parse_condition(message: filter_pb2.Condition, path: str) -> Leaf:
    field, operator = message.field, message.op
    place = Place(f"{path}.field", f"{path}.op", f"{path}.values")
    values = tuple(_parse_value(value, f"{path}.values[{position}]") for position, value in enumerate(message.values))
    if operator in _MEMBERSHIPS:
        if len({kind_of(value) for value in values}) > 1:
            raise InvalidFilterError.of(place.values, "must hold values of one kind")
        return Membership(field, values, _MEMBERSHIPS[operator], place)
    if operator == filter_pb2.FILTER_OPERATOR_EXISTS:
        present = values or (True,)
        if len(present) > 1 or not isinstance(present[0], bool):
            raise InvalidFilterError.of(place.values, "must be empty, true or false")
        return Exists(field, present[0], place)
    if operator not in _COMPARATORS and operator not in _CONTAINMENTS and operator != filter_pb2.FILTER_OPERATOR_LIKE:
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


def _parse_value(message: pb.MetadataValue, place: str) -> Scalar:
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
