"""Long work that several calls may wait for: it runs once, and all of them hear how far it is."""

import contextvars
import threading
from collections.abc import Callable, Hashable
from dataclasses import dataclass, field
from typing import Any, TypeVar

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, ConflictError

ResultT = TypeVar("ResultT")
EventT = TypeVar("EventT")

_POLL_S = 0.05
_STOP_LIMIT_S = 10.0


@dataclass(slots=True)
class _Run:
    """One run: what it has told so far, who waits for it, and how it ended."""

    kind: Hashable
    budget: Budget = field(default_factory=Budget)
    told: list[Any] = field(default_factory=list)
    waiting: int = 0
    is_over: bool = False
    result: Any = None
    error: BaseException | None = None
    thread: threading.Thread | None = None


class SharedRuns:
    """At most one run for each key. Whoever asks for the same work meanwhile joins; the last to leave stops it."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._runs: dict[Hashable, _Run] = {}
        self._closing = False

    def __call__(
        self,
        key: Hashable,
        kind: Hashable,
        work: Callable[[Budget, Callable[[EventT], None]], ResultT],
        budget: Budget,
        report: Callable[[EventT], None],
    ) -> ResultT:
        """Return what `work(budget, report)` returns, run in a thread of its own.

        `kind` says what is done to `key`: the same kind is joined, and hears everything from the beginning. `work` ends
        soon after its own budget was cancelled; when `budget` ends, only this caller leaves.

        Raises:
            ConflictError: work of another kind is being done to `key`.
            CallCancelledError: `budget` was cancelled, or the service is closing.
            DeadlineError: `budget` is used up.
        """
        run = self._join(key, kind, work)
        try:
            heard = 0
            while True:
                with self._changed:
                    if not run.is_over and heard == len(run.told):
                        self._changed.wait(_POLL_S)
                    news, is_over = run.told[heard:], run.is_over
                # Outside the lock: a report may wait for a slow client, which must not hold up the other listeners.
                for event in news:
                    report(event)
                heard += len(news)
                if is_over and heard == len(run.told):
                    break
                budget.check()
            if run.error is not None:
                raise run.error
            result: ResultT = run.result
            return result
        finally:
            with self._changed:
                run.waiting -= 1
                if run.waiting == 0:
                    run.budget.cancel()

    def close(self) -> None:
        """Stop all runs and wait for their ends."""
        with self._changed:
            self._closing = True
            runs = list(self._runs.values())
        for run in runs:
            run.budget.cancel()
        for run in runs:
            if run.thread is not None:
                run.thread.join(_STOP_LIMIT_S)

    def _join(self, key: Hashable, kind: Hashable, work: Callable[..., Any]) -> _Run:
        with self._changed:
            if self._closing:
                raise CallCancelledError("the service is closing")
            run = self._runs.get(key)
            if run is None or run.waiting == 0:  # nobody wants the old one any more: it is ending
                run = self._runs[key] = _Run(kind)
                # In the context of who began it, so that the log names that request; the budget is the run's own.
                context = contextvars.copy_context()
                run.thread = threading.Thread(
                    target=context.run, args=(self._do, key, run, work), name="operation", daemon=True
                )
                run.thread.start()
            elif run.kind != kind:
                raise ConflictError("something else is being done to the same collection; wait for its end")
            run.waiting += 1
            return run

    def _do(self, key: Hashable, run: _Run, work: Callable[..., Any]) -> None:
        def tell(event: Any) -> None:
            run.budget.check()
            with self._changed:
                run.told.append(event)
                self._changed.notify_all()

        try:
            run.result = work(run.budget, tell)
        except BaseException as error:  # noqa: BLE001 - raised again in the threads that wait for the result
            run.error = error
        with self._changed:
            run.is_over = True
            if self._runs.get(key) is run:  # else another run began while this one, left by all, was ending
                del self._runs[key]
            self._changed.notify_all()
