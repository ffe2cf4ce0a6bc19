"""Spans, times and durations."""

from datetime import UTC, datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import span_pb2
from groundwire.kernel.spans import Span


def parse_span(message: span_pb2.Span) -> Span:
    """Return the span of a message, unchecked."""
    return Span(message.start, message.end, message.start_byte, message.end_byte)


def to_time(moment: datetime) -> Timestamp:
    """Return the message of an aware datetime."""
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def parse_time(message: Timestamp) -> datetime:
    """Return the aware UTC datetime of a message."""
    return message.ToDatetime(UTC)


def to_duration(seconds: float) -> Duration:
    """Return the message of a number of seconds, rounded to microseconds so that it survives the way back."""
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message


def parse_duration(message: Duration) -> timedelta:
    """Return the timedelta of a message."""
    return message.ToTimedelta()
