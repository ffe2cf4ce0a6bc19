"""Calls of vector store servers: bounded retries, and what their failures say."""

import time
from collections.abc import Callable
from typing import TypeVar

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import StoreUnavailableError

T = TypeVar("T")

_PAUSES_S = (0.1, 0.5)
"""Before the second and the third attempt: long enough for a proxy to find another replica."""
_MAX_SAID_CHARS = 200


def repeated(call: Callable[[float], T], is_transient: Callable[[Exception], bool], budget: Budget, cap_s: float) -> T:
    """Return the result of a call, after at most three attempts; the error of the last one leaves as it is.

    Args:
        call: takes the seconds it may last; has the same effect however often it is made.
        is_transient: tells failures of the connection from answers of the server.
        budget: of all attempts together.
        cap_s: seconds that one attempt may take at most.

    Raises:
        DeadlineError: the budget is used up.
        CallCancelledError: the budget was cancelled.
    """
    for pause_s in (*_PAUSES_S, None):
        budget.check()
        remaining_s = budget.remaining_s()
        try:
            return call(cap_s if remaining_s is None else min(cap_s, remaining_s))
        except Exception as error:
            budget.check()  # when the time is up, that is the reason, whatever the library calls it
            if pause_s is None or not is_transient(error):
                raise
        remaining_s = budget.remaining_s()
        time.sleep(pause_s if remaining_s is None else min(pause_s, remaining_s))
    raise AssertionError("the last attempt returns or raises")


def unavailable(engine: str, error: Exception) -> StoreUnavailableError:
    """Return the error for a failed call: one line of what the library says, without its dump of the connection."""
    details = getattr(error, "details", None)
    said = str(details() if callable(details) else error).strip() or "no reason given"
    message = f"{engine} failed: {type(error).__name__.lstrip('_')}: {said.splitlines()[0][:_MAX_SAID_CHARS]}"
    return StoreUnavailableError(message, engine=engine)
