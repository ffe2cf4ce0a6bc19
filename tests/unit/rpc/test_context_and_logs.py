"""What the current call is, and how it shows in the logs."""

import io
import json
import logging
import os
import pty
import threading
from contextlib import redirect_stderr, suppress

import pytest
import structlog

from groundwire.rpc import request_context
from groundwire.rpc.logs import LogFormat, Repetitions, configure_logging
from groundwire.rpc.methods import DeadlineTable
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
    assert table.limit_s("/google.longrunning.Operations/WaitOperation") == 600.0
    assert table.limit_s("Watch") is None


async def test_lines_are_json_with_the_request_id(capsys: pytest.CaptureFixture[str]) -> None:
    request_context.bind(RequestContext(request_id="r7"))
    lines = configure_logging("json")

    structlog.get_logger("ours").info("done", chunks=3)
    structlog.get_logger("ours").debug("hidden")
    logging.getLogger("theirs").warning("careful: %s", "ä")
    structlog.get_logger("ours").error("failed", exc_info=ValueError("broken"))

    assert lines.flush(10)
    captured = capsys.readouterr()
    ours, theirs, failed = [json.loads(line) for line in captured.err.splitlines()]
    assert captured.out == ""
    assert (ours["event"], ours["chunks"], ours["request_id"], ours["level"]) == ("done", 3, "r7", "info")
    assert (theirs["event"], theirs["level"]) == ("careful: ä", "warning")
    assert failed["exception"][0]["exc_type"] == "ValueError"


def test_console_lines_are_for_people(capsys: pytest.CaptureFixture[str]) -> None:
    lines = configure_logging("console")
    structlog.get_logger("ours").info("done", chunks=3)
    assert lines.flush(10)

    (line,) = capsys.readouterr().err.splitlines()
    assert "done" in line
    assert "chunks=3" in line


def test_a_terminal_gets_lines_for_people_and_anything_else_json() -> None:
    leading, following = pty.openpty()
    try:
        with os.fdopen(following, "w", encoding="utf-8") as terminal, redirect_stderr(terminal):
            lines = configure_logging("auto")
            structlog.get_logger("ours").info("done", chunks=3)
            assert lines.flush(10)
        assert b"chunks" in os.read(leading, 4096)
    finally:
        os.close(leading)
    with redirect_stderr(io.StringIO()) as file:
        lines = configure_logging("auto")
        structlog.get_logger("ours").info("done", chunks=3)
        assert lines.flush(10)
    assert json.loads(file.getvalue())["chunks"] == 3


def failing(secret: str) -> None:
    raise ValueError(f"broken after {len(secret)}")


@pytest.mark.parametrize("log_format", ["json", "console"])
def test_a_traceback_has_no_values_of_variables_and_is_shown_once(
    log_format: LogFormat, capsys: pytest.CaptureFixture[str]
) -> None:
    lines = configure_logging(log_format)
    request_context.bind(RequestContext(request_id="r8"))
    document = "text of a document"
    for _ in range(5):
        try:
            failing(document)
        except ValueError:
            structlog.get_logger("ours").exception("failed", collection="rust")
            logging.getLogger("theirs").exception("failed too")
    assert lines.flush(10)

    written = capsys.readouterr().err
    assert written.count("in failing" if log_format == "console" else '"name": "failing"') == 2, "ours and theirs"
    assert written.count("r8") == 10, "calls keep their lines"
    assert "text of a document" not in written
    assert max(map(len, written.splitlines())) < 4000


def test_a_failure_outside_of_calls_that_repeats_is_counted() -> None:
    now = [0.0]
    repetitions = Repetitions(lambda: now[0])
    shown = []
    for second in range(130):
        now[0] = float(second)
        for collection in ("a", "b"):
            with suppress(structlog.DropEvent):
                event = {"event": "sweep failed", "collection": collection, "timestamp": second}
                shown.append((second, dict(repetitions(None, "error", event))))

    assert [(second, event["collection"], event.get("repeated")) for second, event in shown] == [
        (0, "a", None),
        (0, "b", None),
        (60, "a", 59),
        (60, "b", 59),
        (120, "a", 59),
        (120, "b", 59),
    ]
