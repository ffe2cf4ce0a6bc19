"""Calls of vector store servers: bounded retries, and what their failures say."""

import time
from collections.abc import Callable
from typing import TypeVar

from groundwire.kernel.errors import StoreUnavailableError

T = TypeVar("T")

_PAUSES_S = (0.1, 0.5)
"""Before the second and the third attempt: long enough for a proxy to find another replica."""
_MAX_SAID_CHARS = 200


def repeated(call: Callable[[], T], is_transient: Callable[[Exception], bool]) -> T:
    """Return the result of a call, after at most three attempts; the error of the last one leaves as it is.

    Args:
        call: has the same effect however often it is made.
        is_transient: tells failures of the connection from answers of the server.
    """
    for pause_s in _PAUSES_S:
        try:
            return call()
        except Exception as error:
            if not is_transient(error):
                raise
        time.sleep(pause_s)
    return call()


def unavailable(engine: str, error: Exception) -> StoreUnavailableError:
    """Return the error for a failed call: one line of what the library says, without its dump of the connection."""
    details = getattr(error, "details", None)
    said = str(details() if callable(details) else error).strip() or "no reason given"
    message = f"{engine} failed: {type(error).__name__.lstrip('_')}: {said.splitlines()[0][:_MAX_SAID_CHARS]}"
    return StoreUnavailableError(message, engine=engine)
