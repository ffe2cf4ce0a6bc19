"""Moments as milliseconds since 1970."""

from datetime import UTC, datetime, timedelta, timezone

import pytest

from groundwire.kernel.clock import epoch_ms, from_epoch_ms, whole_milliseconds

FIRST = datetime(1, 1, 1, tzinfo=UTC)
LAST = datetime(9999, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)


@pytest.mark.parametrize(
    "moment", [FIRST + timedelta(milliseconds=1), datetime(1519, 5, 2, 3, 4, 5, 679_000, tzinfo=UTC), LAST]
)
def test_milliseconds_keep_a_moment_of_any_century(moment: datetime) -> None:
    assert from_epoch_ms(epoch_ms(moment)) == moment


def test_a_moment_is_rounded_down_to_milliseconds_also_before_1970() -> None:
    east = timezone(timedelta(hours=9))
    assert whole_milliseconds(datetime(1900, 1, 1, 9, 0, 0, 1_999, tzinfo=east)) == datetime(
        1900, 1, 1, 0, 0, 0, 1_000, tzinfo=UTC
    )
    with pytest.raises(ValueError, match="naive"):
        epoch_ms(datetime(1900, 1, 1))  # noqa: DTZ001 - what is refused
