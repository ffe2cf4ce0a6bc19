"""Idempotency: how a repeated request gets the answer of the first one (design D3)."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar, final

from groundwire.kernel.errors import ConflictError
from groundwire.kernel.identifiers import RequestKey

S = TypeVar("S")
T = TypeVar("T")


@final  # so that `receipt and receipt.made_from(…)` is known to be a receipt or None
@dataclass(frozen=True)
class Receipt(Generic[T]):
    """What is to be remembered of a call with a request id, in the transaction of its effect.

    `encode` makes the answer of the result; a repetition of `key` gets the same bytes.
    """

    key: RequestKey
    encode: Callable[[T], bytes]

    def made_from(self, to_result: Callable[[S], T]) -> "Receipt[S]":
        """Return the receipt for a transaction that has what the result is made from, not yet the result."""
        return Receipt(self.key, lambda made: self.encode(to_result(made)))


def answered_once(find: Callable[[], bytes | None], work: Callable[[], bytes]) -> bytes:
    """Return the earlier answer that `find` knows, else that of `work`, which stores it together with its effect.

    `work` has to fail with ConflictError, and no effect, when the same call was completed while it ran: another thread
    or process may do the same at the same time.
    """
    earlier = find()
    if earlier is not None:
        return earlier
    try:
        return work()
    except ConflictError:
        # The same call may have been completed between the lookup and the effect.
        earlier = find()
        if earlier is None:
            raise  # another call conflicts
        return earlier
