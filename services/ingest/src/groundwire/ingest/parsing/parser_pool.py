"""A pool of parser processes, shared so that neither large nor costly documents hold up the others for long."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import IntEnum

from groundwire.ingest.parsing.parsed_document import Original, ParsedDocument, ParseRules
from groundwire.ingest.parsing.parser_process import ParserLimits, ParserProcess
from groundwire.kernel.budget import Budget
from groundwire.kernel.document_errors import DocumentLimitError
from groundwire.kernel.embedder import TokenizerDefinition
from groundwire.kernel.errors import UnavailableError

QUICK_BYTES, MEDIUM_BYTES = 1 << 20, 8 << 20
QUICK_CPU_S = 2.0
"""Documents up to QUICK_BYTES nearly always take less; one that takes longer begins again among the long ones."""
_HANDICAP_S = 5.0


class Cost(IntEnum):
    """How long a document is expected to keep a process: below a second, some seconds, up to minutes."""

    QUICK = 0
    MEDIUM = 1
    LONG = 2


@dataclass(eq=False, slots=True)
class _Ticket:
    """A document that waits for a process. A costlier one is served as if it had come some seconds later."""

    cost: Cost
    came_at: float = field(default_factory=time.monotonic)

    @property
    def turn(self) -> float:
        return self.came_at + self.cost * _HANDICAP_S


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
        """Return what a document holds; see `Parser.parse`."""
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
        """Kill all processes; documents in work and those that wait fail."""
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
            CallCancelledError: `budget` was cancelled while waiting.
            DeadlineError: `budget` was used up while waiting.
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
        """Return the ticket whose turn it is, None while none may begin."""
        if not self._free:
            return None
        allowed = (ticket for ticket in self._waiting if self._may_begin(ticket.cost))
        return min(allowed, key=lambda ticket: ticket.turn, default=None)

    def _may_begin(self, cost: Cost) -> bool:
        # At least one may run whatever it costs, so that a pool of two parses large documents, too.
        return all(
            sum(running >= bound for running in self._running) < max(1, len(self._processes) - bound)
            for bound in Cost
            if 0 < bound <= cost
        )
