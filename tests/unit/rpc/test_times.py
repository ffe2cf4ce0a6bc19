"""Times and durations of messages: right, or refused with the name of the field."""

from datetime import UTC, datetime, timedelta

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.errors import InvalidFilterError, InvalidRequestError
from groundwire.rpc.value_messages import parse_duration, parse_timestamp, to_duration, to_timestamp

WEEK = timedelta(days=7)


@given(st.datetimes(timezones=st.just(UTC)))
def test_a_time_comes_back(moment: datetime) -> None:
    assert parse_timestamp(to_timestamp(moment), "when") == moment


@given(st.timedeltas(timedelta(0), WEEK))
def test_a_duration_comes_back(duration: timedelta) -> None:
    assert parse_duration(to_duration(duration.total_seconds()), "how_long", timedelta(0), WEEK) == duration


@pytest.mark.parametrize("seconds", [-(2**63), -62_135_596_801, 253_402_300_800, 2**62, 2**63 - 1])
def test_a_time_outside_of_the_calendar_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidFilterError) as caught:
        parse_timestamp(Timestamp(seconds=seconds), "when", InvalidFilterError)
    assert [violation.field for violation in caught.value.violations] == ["when"]


@pytest.mark.parametrize("seconds", [-(2**63), -1, 0, 604_801, 2**53, 2**62, 2**63 - 1])
def test_a_duration_outside_of_its_range_is_refused(seconds: int) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        parse_duration(Duration(seconds=seconds), "how_long", timedelta(seconds=1), WEEK)
    assert caught.value.message == "how_long: must be 1 second to 7 days"


@pytest.mark.parametrize("nanos", [-(2**31), -1, 1_000_000_000, 2**31 - 1])
def test_fractions_that_contradict_the_format_are_refused(nanos: int) -> None:
    with pytest.raises(InvalidRequestError):
        parse_timestamp(Timestamp(seconds=1, nanos=nanos), "when")
    with pytest.raises(InvalidRequestError):
        parse_duration(Duration(seconds=1, nanos=nanos), "how_long", timedelta(0), WEEK)
