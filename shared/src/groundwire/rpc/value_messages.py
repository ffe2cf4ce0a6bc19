"""Single values as messages, and back: times, durations, enums and metadata; for servers and clients."""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from enum import Enum
from typing import Any, TypeVar

from google.protobuf.descriptor import EnumDescriptor
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import metadata_value_pb2 as pb
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import Value

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
