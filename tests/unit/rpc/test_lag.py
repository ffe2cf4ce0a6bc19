"""The gauge sees what blocks the event loop."""

import asyncio
import time

import pytest
import structlog

from groundwire.rpc.server import LagGauge, LagReading


@pytest.mark.alone
async def test_a_block_of_a_tenth_of_a_second_is_seen_and_logged() -> None:
    gauge = LagGauge()
    gauge.start()
    await asyncio.sleep(0.05)
    with structlog.testing.capture_logs() as logs:
        time.sleep(0.1)  # noqa: ASYNC251 - the planted bug
        await asyncio.sleep(0.05)
    gauge.stop()

    reading = gauge.read()
    assert reading.max_s >= 0.075
    assert {line["event"] for line in logs} == {"event loop stalled"}
    assert logs[0]["longest_ms"] >= 75
    assert reading.samples > 1


def test_a_gauge_that_was_not_started_has_seen_nothing() -> None:
    assert LagGauge().read() == LagReading(0.0, 0.0, 0)


def test_the_99th_percentile_is_the_upper_end_of_its_millisecond() -> None:
    gauge = LagGauge(warn_s=10)
    for milliseconds in range(100):
        gauge._note(milliseconds / 1000 + 0.0005)
    assert gauge.read() == LagReading(0.0995, 0.099, 100)

    gauge._note(60.0)
    gauge._note(60.0)
    assert gauge.read() == LagReading(60.0, 1.0, 102)


def test_the_99th_percentile_is_not_above_the_maximum() -> None:
    gauge = LagGauge(warn_s=10)
    gauge._note(0.0031)
    assert gauge.read() == LagReading(0.0031, 0.0031, 1)


@pytest.mark.alone
def test_stalls_are_logged_together() -> None:
    gauge = LagGauge(warn_every_s=0.5)
    with structlog.testing.capture_logs() as logs:
        for lag_s in (0.06, 0.07, 0.3, 0.08):
            gauge._note(lag_s)
        assert [(line["stalls"], line["longest_ms"]) for line in logs] == [(1, 60.0)]

        time.sleep(0.55)
        gauge._note(0.001)
        gauge._note(0.001)

    assert [(line["stalls"], line["longest_ms"]) for line in logs] == [(1, 60.0), (3, 300.0)]
