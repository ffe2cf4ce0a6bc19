"""Times and durations as messages."""

from datetime import UTC, datetime

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


def to_timestamp(moment: datetime) -> Timestamp:
    """Return the message of an aware time; a response has a dozen, and the library takes its time."""
    since = moment - _EPOCH
    return Timestamp(seconds=since.days * 86_400 + since.seconds, nanos=since.microseconds * 1000)


def to_duration(seconds: float) -> Duration:
    """Return the message of a duration of at least 0, to the microsecond."""
    whole, microseconds = divmod(round(seconds * 1e6), 1_000_000)
    return Duration(seconds=whole, nanos=microseconds * 1000)
