"""A second thread for the retriever of a search that can run beside the other."""

import contextvars
import os
import threading
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TypeVar

from groundwire.kernel.budget import Budget

ResultT = TypeVar("ResultT")


class Companion:
    """Runs a function beside its caller while a processor is likely to be free, else not before it is waited for.

    Under load every processor has a search of its own, and handing work over would only add to it.

    Args:
        threads: searches that may have a companion at a time; half of the processors by default.
    """

    def __init__(self, threads: int | None = None) -> None:
        size = max(1, (os.cpu_count() or 1) // 2) if threads is None else threads
        self._free = threading.Semaphore(size)
        self._pool = ThreadPoolExecutor(max(1, size), thread_name_prefix="companion")

    def start(self, work: Callable[[], ResultT], budget: Budget) -> Callable[[], ResultT]:
        """Return a function that waits for the result of `work` while the budget lasts; to be called once."""
        if not self._free.acquire(blocking=False):
            return work
        future: Future[ResultT] = self._pool.submit(contextvars.copy_context().run, work)
        future.add_done_callback(lambda _: self._free.release())
        return lambda: budget.result_of(future)

    def close(self) -> None:
        """Finish what was started; idempotent."""
        self._pool.shutdown(wait=True)
