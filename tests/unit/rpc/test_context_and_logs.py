"""What the current call is, and how it shows in the logs."""

import json
import logging
import threading

import pytest
import structlog

from groundwire.rpc import request_context
from groundwire.rpc.deadlines import DeadlineTable
from groundwire.rpc.logging_setup import configure_logging
from groundwire.rpc.request_context import RequestContext


@pytest.fixture(autouse=True)
def _logging_as_before() -> object:
    root = logging.getLogger()
    handlers, level = root.handlers[:], root.level
    yield
    root.handlers[:] = handlers
    root.setLevel(level)
    structlog.reset_defaults()


def test_outside_of_calls_there_is_a_context_without_limits() -> None:
    context = request_context.current()

    assert (context.request_id, context.tenant, context.budget.remaining_s()) == ("", "default", None)


def test_a_binding_stays_in_its_own_thread() -> None:
    seen = []
    thread = threading.Thread(target=lambda: request_context.bind(RequestContext("inside")))
    thread.start()
    thread.join()
    seen.append(request_context.current().request_id)

    assert seen == [""]


def test_time_limits_by_method() -> None:
    table = DeadlineTable()

    assert table.limit_s("/groundwire.api.answer.v1.AnswerService/Ask") == 120.0
    assert table.limit_s("/groundwire.api.retrieve.v1.RetrieveService/Retrieve") == 30.0
    assert table.limit_s("Reindex") is None


async def test_lines_are_json_with_the_request_id(capsys: pytest.CaptureFixture[str]) -> None:
    request_context.bind(RequestContext(request_id="r7"))
    configure_logging("json")

    structlog.get_logger("ours").info("done", chunks=3)
    structlog.get_logger("ours").debug("hidden")
    logging.getLogger("theirs").warning("careful: %s", "ä")
    structlog.get_logger("ours").error("failed", exc_info=ValueError("broken"))

    captured = capsys.readouterr()
    ours, theirs, failed = [json.loads(line) for line in captured.err.splitlines()]
    assert captured.out == ""
    assert (ours["event"], ours["chunks"], ours["request_id"], ours["level"]) == ("done", 3, "r7", "info")
    assert (theirs["event"], theirs["level"]) == ("careful: ä", "warning")
    assert failed["exception"][0]["exc_type"] == "ValueError"


def test_console_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    configure_logging("console")
    structlog.get_logger("ours").info("done", chunks=3)

    (line,) = capsys.readouterr().err.splitlines()
    assert "done" in line
    assert "chunks=3" in line
