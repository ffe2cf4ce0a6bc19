"""Lines of the log that are written together."""

import io
import json
import time
from collections.abc import Iterator

import pytest
import structlog

from groundwire.rpc.log_lines import LineLogger
from groundwire.rpc.logging_setup import configure_logging


def test_ordinary_lines_are_written_together_soon_after() -> None:
    file = io.StringIO()
    logger = LineLogger(file)

    logger.info("one")
    logger.debug("two")

    deadline = time.monotonic() + 10
    while file.getvalue() != "one\ntwo\n" and time.monotonic() < deadline:
        time.sleep(0.01)
    assert file.getvalue() == "one\ntwo\n"


def test_a_warning_is_written_at_once_after_what_came_before() -> None:
    file = io.StringIO()
    logger = LineLogger(file)

    logger.info("before")
    logger.warning("careful")

    assert file.getvalue() == "before\ncareful\n"


@pytest.fixture
def unchanged_logging() -> Iterator[None]:
    yield
    structlog.reset_defaults()


@pytest.mark.usefixtures("unchanged_logging")
def test_collected_lines_say_what_others_say(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("json", collected=True)
    structlog.get_logger("ours").info("done", chunks=3)
    structlog.get_logger("ours").error("failed")

    done, failed = [json.loads(line) for line in capsys.readouterr().err.splitlines()]
    assert (done["event"], done["level"], done["chunks"]) == ("done", "info", 3)
    assert (failed["event"], failed["level"]) == ("failed", "error")


def test_a_file_that_takes_nothing_any_more_stops_nobody() -> None:
    file = io.StringIO()
    logger = LineLogger(file)
    file.close()

    logger.info("lost")
    logger.warning("lost as well")
