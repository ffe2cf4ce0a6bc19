"""A pool of parser processes, shared so that neither large nor costly documents hold up the others for long.

This module starts, feeds and kills the processes; their own code is in `parser_worker`.
"""

import math
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from enum import IntEnum

import structlog

from groundwire.ingest.parsing.parsed_document import (
    Message,
    Original,
    ParsedDocument,
    ParseRules,
    parsed_from_message,
    refusal_from_message,
)
from groundwire.ingest.parsing.source_text import ReadingLimits, over_limit
from groundwire.kernel.budget import Budget
from groundwire.kernel.document_errors import DocumentLimitError, DocumentMalformedError
from groundwire.kernel.embedder import TokenizerDefinition
from groundwire.kernel.errors import MissingExtraError, UnavailableError
from groundwire.processes.channel import Channel, json_parts, read_json
from groundwire.processes.child import ChildProcess

_MODULE = "groundwire.ingest.parsing.parser_worker"
# Behind the serving process, for whose answers somebody waits.
_NICENESS = 5
# How often a waiting call checks its budget and the processor time of its document.
_POLL_S = 0.05
# No longer answer is accepted from a process that a document may have taken over.
_MOST_BYTES = 1 << 30
# The connection of a process that dies breaks a moment before its exit code is there.
_DEATH_S = 1.0
# Starting takes a quarter of a second, or many times that on a machine that is overloaded.
_START_LIMIT_S = 30.0
_ATTEMPTS = 2
_MIB = 1 << 20
# By these sizes documents queue apart, so that a large one does not delay the small ones.
QUICK_BYTES, MEDIUM_BYTES = 1 << 20, 8 << 20
QUICK_CPU_S = 2.0
"""Documents up to QUICK_BYTES nearly always take less; one that takes longer begins again among the long ones."""
_HANDICAP_S = 5.0

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


class _TooSlow(Exception):  # noqa: N818 - not an error: a signal from the wait to the caller
    """The document has used up its processor time."""


class _Stalled(Exception):  # noqa: N818 - as above
    """The process uses no processor time."""


class ParserProcess:
    """A parser in a process of its own; a Parser for one thread at a time.

    The process lives on between documents. It is killed when a document takes too long or its caller leaves, and the
    next document starts another.
    """

    def __init__(self, tokenizer: TokenizerDefinition, limits: ParserLimits) -> None:
        self._tokenizer = tokenizer
        self._limits = limits
        self._child: ChildProcess | None = None
        self._channel: Channel | None = None
        self._is_ready = False
        self._closed = False

    @property
    def process_id(self) -> int | None:
        child = self._child
        return child.pid if child is not None else None

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

        `at_most_s` bounds the seconds of the processor when fewer than the limits allow.

        Raises:
            InvalidRequestError: the document is refused; see `Parser.parse`.
            UnavailableError: no process can be started, or it hangs.
        """
        limits, size_bytes = self._limits, original.size_bytes
        limit_s = limits.base_s + limits.s_per_mib * size_bytes / _MIB
        limit_s = limit_s if at_most_s is None else min(limit_s, at_most_s)
        more_bytes = min(limits.memory_bytes, limits.memory_base_bytes + limits.memory_per_byte * size_bytes)
        stalls = 0
        for _ in range(_ATTEMPTS):
            child, channel = self._ready(budget)
            # Staged bytes stay on disk: the parser reads them, and the serving process never holds them.
            path = str(original.path) if original.path else None
            # The system enforces both limits in the process itself; `_answer` notices a stall as well.
            costs = {"cpu_s": math.ceil(limit_s), "more_memory_bytes": more_bytes}
            channel.send(*json_parts({"rules": asdict(rules), "path": path, **costs}, original.content))
            try:
                answer = self._answer(child, channel, budget, limit_s)
            except _TooSlow:
                self._kill()
                raise _too_slow(rules, limit_s) from None
            except _Stalled:
                self._kill()
                stalls += 1
                _log.warning("the parser process hangs", size_bytes=size_bytes)
            except (EOFError, OSError):
                exit_code = self._ended()
                _log.warning("the parser process died", exit_code=exit_code, size_bytes=size_bytes)
                if exit_code == -signal.SIGXCPU:
                    raise _too_slow(rules, limit_s) from None
            except BaseException:
                self._kill()  # it is still working on a document that nobody waits for
                raise
            else:
                return self._parsed(*answer, rules)
        if stalls:
            raise UnavailableError("the parser process does not answer")
        raise _damaged(rules, "cannot be parsed: it crashes the parser")

    def _answer(
        self, child: ChildProcess, channel: Channel, budget: Budget, limit_s: float
    ) -> tuple[Message, bytearray]:
        """Wait for what the process says about a document.

        Raises:
            CallCancelledError, DeadlineError: the budget is over.
            _TooSlow: the document has used up its processor time.
            _Stalled: the process does nothing.
            EOFError, OSError: it has died.
        """
        began_s = used_s = child.cpu_s() or 0.0
        moved_at = time.monotonic()
        while (received := channel.receive(_POLL_S)) is None:
            budget.check()
            # A process that is gone has used nothing more; its connection says that it is gone.
            before_s, used_s = used_s, max(used_s, child.cpu_s() or 0.0)
            if used_s - began_s > limit_s:
                raise _TooSlow
            if used_s > before_s:
                moved_at = time.monotonic()
            elif time.monotonic() - moved_at > self._limits.stall_s:
                raise _Stalled
        return read_json(received)

    def close(self) -> None:
        """Kill the process; a document in progress fails."""
        self._closed = True
        self._kill()

    def _ready(self, budget: Budget) -> tuple[ChildProcess, Channel]:
        """Return a process that has said it is ready, and the connection to it.

        Raises:
            UnavailableError: the service is closed, or no process can be started.
        """
        for _ in range(_ATTEMPTS):
            if self._closed:
                raise UnavailableError("the ingest service is closed")
            if self._has_ended():
                self._kill()  # it died while idle, which counts against no document
            try:
                channel = self._channel or self._spawn()
                if not self._is_ready:
                    self._wait_ready(channel, budget)
            except (EOFError, OSError, _Stalled) as error:
                _log.error("the parser process does not start", exit_code=self._ended(), error=str(error))
            except BaseException:
                self._kill()
                raise
            else:
                if (child := self._child) is not None:
                    return child, channel
        raise UnavailableError("the parser process cannot be started")

    def _wait_ready(self, channel: Channel, budget: Budget) -> None:
        ends_at = time.monotonic() + _START_LIMIT_S
        while channel.receive(_POLL_S) is None:
            budget.check()
            if time.monotonic() > ends_at:
                raise _Stalled(f"it is not ready after {_START_LIMIT_S:.0f} s")
        self._is_ready = True

    def _has_ended(self) -> bool:
        if self._child is None or self._channel is None:
            return False
        try:
            if self._is_ready:
                self._channel.receive(0.0)
        except (EOFError, OSError):
            return True
        return self._child.exit_code is not None

    def _spawn(self) -> Channel:
        """Start the process; it reports ready once it has loaded everything it needs."""
        environment = {"TOKENIZERS_PARALLELISM": "false"}
        child = ChildProcess(_MODULE, niceness=_NICENESS, environment=environment)
        self._child, self._channel = child, Channel(child.connections[0], _MOST_BYTES)
        limits = {"memory_bytes": self._limits.memory_bytes, "reading": asdict(self._limits.reading)}
        self._channel.send(*json_parts({"tokenizer": asdict(self._tokenizer), **limits}))
        return self._channel

    def _parsed(self, answer: Message, body: bytearray, rules: ParseRules) -> ParsedDocument:
        if "refused" in answer:
            raise refusal_from_message(answer["refused"])
        if "out_of_memory" in answer:
            self._kill()  # the memory it keeps may be too much for the next document
            why = "needs more memory to parse than is allowed"
            raise over_limit(rules.field, "memory_bytes", answer["out_of_memory"], why)
        if "missing_extra" in answer:
            raise MissingExtraError(answer["missing_extra"], extra="formats")
        if "failed" in answer:
            _log.warning("a document could not be parsed", error=answer["failed"], name=rules.file_name)
            raise _damaged(rules, "cannot be parsed: it is malformed")
        return parsed_from_message(answer["parsed"], body)

    def _ended(self) -> int | None:
        """Return the exit code of a process whose connection broke, after a moment to die by itself."""
        child = self._child
        if child is not None:
            child.wait(_DEATH_S)
        exit_code = child.exit_code if child is not None else None
        self._kill()
        return exit_code

    def _kill(self) -> None:
        """End the process; idempotent."""
        child, channel = self._child, self._channel
        # Forgotten before they are closed, so that nobody uses what is about to end.
        self._child = self._channel = None
        self._is_ready = False
        if channel is not None:
            channel.close()
        if child is not None:
            child.kill()


def _too_slow(rules: ParseRules, limit_s: float) -> DocumentLimitError:
    why = f"takes more than {limit_s:.0f} s of processor time to parse"
    return over_limit(rules.field, "time_s", round(limit_s), why)


def _damaged(rules: ParseRules, why: str) -> DocumentMalformedError:
    found = rules.format.value if rules.format else "unknown"
    return DocumentMalformedError.of(rules.field, why, format=found)


class Cost(IntEnum):
    """How long a document is expected to take: less than a second, some seconds, or up to minutes."""

    QUICK = 0
    MEDIUM = 1
    LONG = 2


@dataclass(eq=False, slots=True)
class _Ticket:
    """A document that waits for a process. A costlier one is treated as if it had arrived some seconds later."""

    cost: Cost
    came_at: float = field(default_factory=time.monotonic)


class ParserPool:
    """A Parser with up to `processes` processes, at least 2, each started when it is first needed.

    One process is never given to MEDIUM or LONG documents and one more never to LONG ones, where there are so many.
    """

    def __init__(self, tokenizer: TokenizerDefinition, limits: ParserLimits, processes: int = 4) -> None:
        self._processes = [ParserProcess(tokenizer, limits) for _ in range(processes)]
        # A stack: the process that was used last is used next, and another one starts only when it is busy.
        self._free = list(reversed(self._processes))
        self._running: list[Cost] = []
        self._waiting: list[_Ticket] = []
        self._changed = threading.Condition()
        self._closed = False

    @property
    def process_ids(self) -> list[int]:
        return [process.process_id for process in self._processes if process.process_id is not None]

    @property
    def usage(self) -> tuple[int, int]:
        """Return how many documents are being parsed and how many wait for a process."""
        return len(self._running), len(self._waiting)

    def start(self) -> None:
        """Start one process ahead of the first document."""
        self._processes[0].start()

    def parse(self, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        if original.size_bytes > QUICK_BYTES:
            cost = Cost.MEDIUM if original.size_bytes <= MEDIUM_BYTES else Cost.LONG
            with self._process(cost, budget) as process:
                return process.parse(original, rules, budget)
        try:
            with self._process(Cost.QUICK, budget) as process:
                return process.parse(original, rules, budget, at_most_s=QUICK_CPU_S)
        except DocumentLimitError as error:
            if error.metadata["resource"] != "time_s":
                raise
        with self._process(Cost.LONG, budget) as process:
            return process.parse(original, rules, budget)

    def close(self) -> None:
        """Kill all processes; documents in progress and waiting ones fail."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        for process in self._processes:
            process.close()

    @contextmanager
    def _process(self, cost: Cost, budget: Budget) -> Iterator[ParserProcess]:
        """Hold a process when it is this document's turn.

        Raises:
            UnavailableError: the pool was closed.
        """
        ticket = _Ticket(cost)
        with self._changed:
            self._waiting.append(ticket)
            try:
                budget.wait_for(self._changed, lambda: self._closed or self._next() is ticket)
            finally:
                self._waiting.remove(ticket)
                self._changed.notify_all()  # one that left may have been the next
            if self._closed:
                raise UnavailableError("the ingest service is closed")
            process = self._free.pop()
            self._running.append(cost)
        try:
            yield process
        finally:
            with self._changed:
                self._running.remove(cost)
                self._free.append(process)
                self._changed.notify_all()

    def _next(self) -> _Ticket | None:
        """Return the next ticket, None while none may begin."""
        if not self._free:
            return None
        # At least one may run whatever it costs, so that a pool of two parses large documents too.
        full = [
            bound
            for bound in (Cost.MEDIUM, Cost.LONG)
            if sum(running >= bound for running in self._running) >= max(1, len(self._processes) - bound)
        ]
        allowed = (ticket for ticket in self._waiting if not any(bound <= ticket.cost for bound in full))
        return min(allowed, key=lambda ticket: ticket.came_at + ticket.cost * _HANDICAP_S, default=None)
