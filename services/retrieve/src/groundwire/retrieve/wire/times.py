"""Times and durations as messages."""

from datetime import datetime, timedelta

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp


def to_timestamp(moment: datetime) -> Timestamp:
    """Return the message of an aware time."""
    message = Timestamp()
    message.FromDatetime(moment)
    return message


def to_duration(seconds: float) -> Duration:
    """Return the message of a duration, to the microsecond."""
    message = Duration()
    message.FromTimedelta(timedelta(seconds=seconds))
    return message
