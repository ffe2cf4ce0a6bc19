"""The parent's side of the parser process: starts it, feeds it, and kills it when it must."""

import contextlib
import json
import math
import os
import signal
import socket
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path

import structlog

from groundwire.ingest.adapters.frames import receive_frame, send_frame
from groundwire.ingest.parsing.parsed_document import (
    Message,
    ParsedDocument,
    ParseRules,
    parsed_from_message,
    refusal_from_message,
    rules_to_message,
)
from groundwire.ingest.parsing.source_text import ReadingLimits
from groundwire.ingest.ports import Original
from groundwire.kernel.budget import Budget
from groundwire.kernel.document_errors import DocumentLimitError, DocumentMalformedError
from groundwire.kernel.embedder import TokenizerDefinition
from groundwire.kernel.errors import FieldViolation, MissingExtraError, UnavailableError

# Ctrl-C goes to every process at the terminal; it is for the owner, who finishes documents in work before it stops.
_IGNORE_CTRL_C = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN); "
_START = (
    _IGNORE_CTRL_C
    + "import sys, json; sys.path[:] = json.loads(sys.argv[2]); from {module} import main; main(int(sys.argv[1]))"
)
_MODULE = "groundwire.ingest.adapters.parser_worker"
_POLL_S = 0.05
_DEATH_S = 1.0
_START_LIMIT_S = 30.0
_ATTEMPTS = 2
_MIB = 1 << 20
_TICKS_PER_S = os.sysconf("SC_CLK_TCK")

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ParserLimits:
    """What a document may cost: `base_s` and `s_per_mib` seconds, `memory_base_bytes` and `memory_per_byte` of memory.

    The seconds are those of the processor, so that a busy machine refuses nothing. A process that uses none for
    `stall_s` seconds of the clock hangs, which is not the document's fault. The memory is that beyond what the process
    has at the start of the document; the whole process never gets more than `memory_bytes`.
    """

    base_s: float = 9.0
    s_per_mib: float = 8.0
    memory_base_bytes: int = 512 << 20
    memory_per_byte: int = 64
    memory_bytes: int = 4 << 30
    stall_s: float = 10.0
    reading: ReadingLimits = field(default_factory=ReadingLimits)

    def time_s(self, size_bytes: int) -> float:
        """Return the seconds of the processor that a document of this size may take."""
        return self.base_s + self.s_per_mib * size_bytes / _MIB

    def more_memory_bytes(self, size_bytes: int) -> int:
        """Return the memory that a document of this size may take beyond what the process has."""
        return min(self.memory_bytes, self.memory_base_bytes + self.memory_per_byte * size_bytes)


class _TooSlow(Exception):  # noqa: N818 - not an error: a signal from the wait to the caller
    """The document used up its time."""


class _Stalled(Exception):  # noqa: N818 - as above
    """The process does nothing."""


class ParserProcess:
    """A parser in a process of its own; a Parser for one thread at a time.

    The process lives on between documents. It is killed when a document takes too long or its caller leaves, and the
    next document starts another.
    """

    def __init__(self, tokenizer: TokenizerDefinition, limits: ParserLimits) -> None:
        self._tokenizer = tokenizer
        self._limits = limits
        self._process: subprocess.Popen[bytes] | None = None
        self._end: socket.socket | None = None
        self._closed = False

    @property
    def process_id(self) -> int | None:
        """Return the id of the running process, or None."""
        process = self._process
        return process.pid if process is not None else None

    def start(self) -> None:
        """Start the process ahead of the first document, without waiting until it is ready.

        Where that fails the first document tries again, and everything else of the service works meanwhile.
        """
        try:
            self._spawn()
        except OSError as error:
            self._kill()
            _log.warning("the parser process does not start", error=str(error))

    def parse(
        self, original: Original, rules: ParseRules, budget: Budget, at_most_s: float | None = None
    ) -> ParsedDocument:
        """Return what a document holds.

        A process that dies is started again and gets the document once more; the second death is the document's fault.
        A process that cannot be started, or hangs twice, never is.

        Args:
            original: the bytes.
            rules: how they are taken apart.
            budget: of the call.
            at_most_s: seconds of the processor, when fewer than the limits allow.

        Raises:
            InvalidRequestError: the document is refused; see `Parser.parse`.
            UnavailableError: no process can be started, or it hangs.
        """
        limit_s = self._limits.time_s(original.size_bytes)
        limit_s = limit_s if at_most_s is None else min(limit_s, at_most_s)
        stalls = 0
        for _ in range(_ATTEMPTS):
            process_id, end = self._ready(budget)
            try:
                answer = self._ask(end, original, rules, _Watch(budget, process_id, limit_s, self._limits.stall_s))
            except _TooSlow:
                self._kill()
                raise _too_slow(rules, limit_s) from None
            except _Stalled:
                self._kill()
                stalls += 1
                _log.warning("the parser process hangs", size_bytes=original.size_bytes)
            except (EOFError, OSError):
                exit_code = self._ended()
                _log.warning("the parser process died", exit_code=exit_code, size_bytes=original.size_bytes)
                if exit_code == -signal.SIGXCPU:
                    raise _too_slow(rules, limit_s) from None
            except BaseException:
                self._kill()  # it still works on a document that nobody waits for
                raise
            else:
                return self._parsed(*answer, rules)
        if stalls:
            raise UnavailableError("the parser process does not answer")
        raise _damaged(rules, "cannot be taken apart: the parser dies of it")

    def close(self) -> None:
        """Kill the process; a document in work fails."""
        self._closed = True
        self._kill()

    def _ask(
        self, end: socket.socket, original: Original, rules: ParseRules, watch: "_Watch"
    ) -> tuple[Message, bytearray]:
        path = str(original.path) if original.path else None
        more = self._limits.more_memory_bytes(original.size_bytes)
        costs = {"cpu_s": math.ceil(watch.limit_s), "more_memory_bytes": more}
        send_frame(end, {"rules": rules_to_message(rules), "path": path, **costs}, original.content, watch)
        return receive_frame(end, watch)

    def _ready(self, budget: Budget) -> tuple[int, socket.socket]:
        """Return the id of a process that has said it is ready, and the connection to it.

        Raises:
            UnavailableError: the service is closed, or no process can be started.
        """
        for _ in range(_ATTEMPTS):
            if self._closed:
                raise UnavailableError("the ingest service is closed")
            if self._process is not None and self._process.poll() is not None:
                self._kill()
            try:
                end = self._end or self._spawn()
                if end.gettimeout() is None:  # nothing was said yet
                    end.settimeout(_POLL_S)
                    starting = _Starting(budget)
                    send_frame(end, self._hello(), b"", starting)
                    receive_frame(end, starting)
            except (EOFError, OSError, _Stalled) as error:
                _log.error("the parser process does not start", exit_code=self._ended(), error=str(error))
            except BaseException:
                self._kill()
                raise
            else:
                if (process := self._process) is not None:
                    return process.pid, end
        raise UnavailableError("the parser process cannot be started")

    def _spawn(self) -> socket.socket:
        """Start the process; `_ready` talks to it, because it listens only when it has loaded what it needs."""
        end, other = socket.socketpair()
        self._end = end
        with other:
            self._process = subprocess.Popen(  # noqa: S603 - our own interpreter and our own module
                [sys.executable, "-S", "-c", _START.format(module=_MODULE), str(other.fileno()), json.dumps(sys.path)],
                pass_fds=[other.fileno()],
                stdin=subprocess.DEVNULL,
                env={**os.environ, "TOKENIZERS_PARALLELISM": "false"},
            )
        return end

    def _hello(self) -> Message:
        limits = {"memory_bytes": self._limits.memory_bytes, "reading": asdict(self._limits.reading)}
        return {"tokenizer": asdict(self._tokenizer), **limits}

    def _parsed(self, answer: Message, body: bytearray, rules: ParseRules) -> ParsedDocument:
        if "refused" in answer:
            raise refusal_from_message(answer["refused"])
        if "out_of_memory" in answer:
            self._kill()  # what it holds on to may be too much for the next document
            violation = FieldViolation(rules.field, "takes more memory to take apart than is allowed")
            raise DocumentLimitError([violation], resource="memory_bytes", limit=answer["out_of_memory"])
        if "missing_extra" in answer:
            raise MissingExtraError(answer["missing_extra"], extra="formats")
        if "failed" in answer:
            _log.warning("a document could not be taken apart", error=answer["failed"], name=rules.file_name)
            raise _damaged(rules, "cannot be taken apart: it is built wrongly")
        return parsed_from_message(answer["parsed"], body)

    def _ended(self) -> int | None:
        """Return the exit code of a process whose connection broke, after a moment to die by itself."""
        if self._process is not None:
            with contextlib.suppress(subprocess.TimeoutExpired):
                self._process.wait(_DEATH_S)
        return self._kill()

    def _kill(self) -> int | None:
        """End the process and return its exit code; idempotent."""
        process, end = self._process, self._end
        self._process = self._end = None
        if end is not None:
            end.close()
        if process is None:
            return None
        process.kill()
        return process.wait()


def _too_slow(rules: ParseRules, limit_s: float) -> DocumentLimitError:
    violation = FieldViolation(rules.field, f"takes more than {limit_s:.0f} s of the processor to take apart")
    return DocumentLimitError([violation], resource="time_s", limit=round(limit_s))


def _damaged(rules: ParseRules, why: str) -> DocumentMalformedError:
    found = rules.format.value if rules.format else "unknown"
    return DocumentMalformedError([FieldViolation(rules.field, why)], format=found)


class _Starting:
    """Called while a new process is silent."""

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self._ends_at = time.monotonic() + _START_LIMIT_S

    def __call__(self) -> None:
        self._budget.check()
        if time.monotonic() > self._ends_at:
            raise _Stalled(f"it is not ready after {_START_LIMIT_S:.0f} s")


class _Watch:
    """Called while a process with a document is silent: looks how much of the processor it uses."""

    def __init__(self, budget: Budget, process_id: int, limit_s: float, stall_s: float) -> None:
        self.limit_s = limit_s
        self._budget = budget
        self._process_id = process_id
        self._stall_s = stall_s
        self._began_s = self._used_s = _cpu_s(process_id)
        self._moved_at = time.monotonic()

    def __call__(self) -> None:
        self._budget.check()
        used_s, now = _cpu_s(self._process_id), time.monotonic()
        if used_s - self._began_s > self.limit_s:
            raise _TooSlow
        if used_s > self._used_s:
            self._used_s, self._moved_at = used_s, now
        elif now - self._moved_at > self._stall_s:
            raise _Stalled


def _cpu_s(process_id: int) -> float:
    """Return the seconds of the processor that a process has used; 0 when it is gone, which its connection tells."""
    try:
        stat = Path(f"/proc/{process_id}/stat").read_text(encoding="ascii", errors="replace")
    except OSError:
        return 0.0
    user, system = stat.rpartition(")")[2].split()[11:13]
    return (int(user) + int(system)) / _TICKS_PER_S
