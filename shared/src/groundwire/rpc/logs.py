"""How the process logs: one JSON object a line on stderr, or readable lines for a person, written by one thread.

No other thread ever waits for the file. One write a call would cost a busy server more than anything else it does
around the call, and a pipe that nobody reads, or a disk that hangs, would block every thread that logs.
"""

import atexit
import io
import json
import logging
import os
import sys
import threading
import time
from collections import Counter, deque
from collections.abc import Callable, MutableMapping
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any, Literal, TextIO, TypeAlias

import structlog

from groundwire.rpc import request_context

LogFormat: TypeAlias = Literal["auto", "json", "console"]

_REPEATS_S = 60.0
# Failures known at a time; a process that fails in more ways repeats some of them in the log.
_REMEMBERED = 256
_FRAMES = 20
# A message may quote the whole of what it complains about.
_ERROR_CHARS = 500
_SERIOUS = frozenset({"warning", "error", "critical", "exception"})
_LEVELS = {"warn": "warning", "exception": "error"}
_VARYING = frozenset({"timestamp", "exc_info", "_record", "_from_structlog"})
# Often enough for whoever watches the log, and seldom enough to cost nothing.
_EVERY_S = 0.05
_MAX_WAITING_CHARS = 4 * 1024 * 1024
# A pipe that nobody reads must not keep the process from ending.
_AT_EXIT_S = 1.0


class LineLogger:
    """A structlog logger whose thread writes the lines to one file; safe to use from many threads.

    Lines of the levels debug and info are written together, up to 50 ms later; from warning up each is written as soon
    as the file takes it. While the file takes nothing, 4 MiB of lines wait; further ones are dropped, and
    `dropped_line` makes the line that says how many.
    """

    def __init__(self, file: TextIO, dropped_line: Callable[[int], str] = "{} log lines dropped".format) -> None:
        self._file = file
        self._dropped_line = dropped_line
        self._changed = threading.Condition()
        self._waiting: deque[str] = deque()
        self._waiting_chars = 0
        self._is_urgent = False
        self._is_writing = False
        self._dropped = 0
        threading.Thread(target=self._loop, name="log-lines", daemon=True).start()
        atexit.register(self.flush, _AT_EXIT_S)

    def info(self, line: str, *, is_urgent: bool = False) -> None:
        with self._changed:
            if self._waiting_chars + len(line) > _MAX_WAITING_CHARS:
                self._dropped += 1
                return
            self._waiting.append(line)
            self._waiting_chars += len(line)
            # The thread polls every 50 ms, because waking it for each ordinary line would cost more than the line.
            if is_urgent:
                self._is_urgent = True
                self._changed.notify_all()

    def warning(self, line: str) -> None:
        """Log a line that is written at once."""
        self.info(line, is_urgent=True)

    debug = info
    error = critical = warning

    def flush(self, limit_s: float) -> bool:
        """Wait at most `limit_s` until all lines are written; return whether they are."""
        with self._changed:
            self._is_urgent = True
            self._changed.notify_all()
            return self._changed.wait_for(lambda: not self._waiting and not self._is_writing, limit_s)

    def _loop(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_urgent, _EVERY_S)
                self._is_urgent = False
                lines = list(self._waiting)
                self._waiting.clear()
                self._waiting_chars = 0
                if self._dropped:
                    lines.append(self._dropped_line(self._dropped))
                    self._dropped = 0
                self._is_writing = bool(lines)
            if lines:
                text = "\n".join([*lines, ""])
                # Errors lose the text, because nothing may fail because of its log.
                with suppress(OSError, ValueError):
                    try:
                        descriptor = self._file.fileno()
                    except io.UnsupportedOperation:  # a file in memory
                        self._file.write(text)
                    else:
                        # Bypasses the file's buffer, whose lock an exiting process would wait for.
                        rest = memoryview(text.encode("utf-8", "backslashreplace"))
                        while rest:
                            rest = rest[os.write(descriptor, rest) :]
                with self._changed:
                    self._is_writing = False
                    self._changed.notify_all()


def configure_logging(log_format: LogFormat = "auto", level: int = logging.INFO) -> LineLogger:
    """Send the process's own logs and those of its libraries to stderr in one format, and return what writes them.

    Every line of a call carries its `request_id`. Libraries log from WARNING up. `auto` is `console` on a terminal and
    `json` elsewhere. Tracebacks have no values of variables, which may hold contents of documents.
    """
    shared: list[structlog.typing.Processor] = [_complete, Repetitions()]
    rendering: list[structlog.typing.Processor]
    if log_format == "console" or (log_format == "auto" and sys.stderr.isatty()):
        plain = structlog.dev.plain_traceback
        rendering = [structlog.dev.ConsoleRenderer(colors=sys.stderr.isatty(), exception_formatter=plain)]
    else:
        encode = json.JSONEncoder(ensure_ascii=False, default=repr).encode  # json.dumps would make one for each line
        tracebacks = structlog.tracebacks.ExceptionDictTransformer(show_locals=False, max_frames=_FRAMES)
        render_exception = structlog.processors.ExceptionRenderer(tracebacks)

        def render(logger: Any, method: str, event: MutableMapping[str, Any]) -> str:
            return encode(render_exception(logger, method, event) if "exc_info" in event else event)

        rendering = [render]

    def dropped_line(count: int) -> str:
        event: Any = {"event": "log lines dropped", "count": count}
        for processor in (*shared, *rendering):
            event = processor(None, "warning", event)
        return str(event)

    lines = LineLogger(sys.stderr, dropped_line)
    structlog.configure(
        processors=[*shared, *rendering],
        wrapper_class=structlog.make_filtering_bound_logger(level),
        logger_factory=lambda *_names: lines,
        cache_logger_on_first_use=True,
    )
    handler = _LibraryHandler(lines)
    processors = [structlog.stdlib.ProcessorFormatter.remove_processors_meta, *rendering]
    handler.setFormatter(structlog.stdlib.ProcessorFormatter(processors=processors, foreign_pre_chain=shared))
    logging.basicConfig(handlers=[handler], level=logging.WARNING, force=True)
    # Modules that the client shares log as libraries do.
    logging.getLogger("groundwire").setLevel(level)
    return lines


class Repetitions:
    """Keeps a failure that repeats from filling the log; a processor for structlog.

    A traceback is shown once a minute. A warning or error outside of calls, where nobody looks for its request id, is
    shown once a minute altogether, with the number of times it was left out before.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._shown_at: dict[object, float] = {}  # oldest first
        self._left_out: Counter[object] = Counter()

    def __call__(self, _logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
        """Return the event, shortened if it repeats an earlier one.

        Raises:
            structlog.DropEvent: it is left out.
        """
        if method not in _SERIOUS and "exc_info" not in event:
            return event
        error = event.get("exc_info")
        if error is True:
            error = sys.exc_info()[1]
        elif isinstance(error, tuple):
            error = error[1]
        place = None
        if isinstance(error, BaseException):
            # Where it was raised: the same failure in another place is another one.
            innermost = error.__traceback__
            while innermost is not None and innermost.tb_next is not None:
                innermost = innermost.tb_next
            raised_in = (innermost.tb_frame.f_code.co_filename, innermost.tb_lineno) if innermost else ("", 0)
            place = (type(error).__name__, *raised_in)
        if method in _SERIOUS and "request_id" not in event:
            facts = [(key, repr(value)) for key, value in event.items() if key not in _VARYING]
            line = ("line", tuple(sorted(facts)), place)
            if self._is_repeated(line):
                self._left_out[line] += 1
                raise structlog.DropEvent
            if left_out := self._left_out.pop(line, 0):
                event["repeated"] = left_out
        if place is not None and self._is_repeated(("traceback", event.get("event"), place)):
            del event["exc_info"]
            event["error"] = f"{type(error).__name__}: {error}"[:_ERROR_CHARS]
            event["traceback"] = "is further up in the log"
        return event

    def _is_repeated(self, what: object) -> bool:
        now = self._clock()
        shown_at = self._shown_at.get(what)
        if shown_at is not None and now - shown_at < _REPEATS_S:
            return True
        self._shown_at.pop(what, None)  # or it would keep its place among the oldest
        self._shown_at[what] = now
        if len(self._shown_at) > _REMEMBERED:
            oldest = next(iter(self._shown_at))
            del self._shown_at[oldest]
            self._left_out.pop(oldest, None)
        return False


class _LibraryHandler(logging.Handler):
    """Hands what libraries log to the same thread as everything else."""

    def __init__(self, lines: LineLogger) -> None:
        super().__init__()
        self._lines = lines

    def emit(self, record: logging.LogRecord) -> None:
        """Log a record, unless it is a repetition."""
        try:
            self._lines.warning(self.format(record))
        except structlog.DropEvent:
            return
        except Exception:  # noqa: BLE001 - what logging asks of every handler
            self.handleError(record)


def _complete(_logger: Any, method: str, event: MutableMapping[str, Any]) -> MutableMapping[str, Any]:
    """Add the common fields; one processor instead of three, because each call of the server writes a line."""
    call = request_context.current()
    if "request_id" not in event and call.request_id:
        event["request_id"] = call.request_id
    if call.traceparent:
        event["trace_id"] = call.trace_id
    event["level"] = _LEVELS.get(method, method)
    event["timestamp"] = datetime.now(UTC).isoformat().removesuffix("+00:00") + "Z"
    return event
