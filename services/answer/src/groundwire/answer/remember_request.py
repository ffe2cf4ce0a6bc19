"""Give a repeated call on sessions the answer of the first one (design D3)."""

from collections.abc import Awaitable, Callable
from typing import TypeVar

from groundwire.answer.ports import Receipt, SessionStore
from groundwire.kernel.errors import ConflictError
from groundwire.kernel.request_key import RequestKey

T = TypeVar("T")


class RememberRequest:
    """Runs a call once for each request key and returns the same bytes for every repetition."""

    def __init__(self, sessions: SessionStore) -> None:
        self._sessions = sessions

    async def __call__(
        self,
        tenant: str,
        key: RequestKey | None,
        work: Callable[[Receipt[T] | None], Awaitable[T]],
        encode: Callable[[T], bytes],
    ) -> bytes:
        """Return the encoded result of `work`, which stores the receipt it gets, or the answer of an earlier call.

        Raises:
            RequestIdReusedError: the id was used for another method or body.
        """
        if key is None:
            return encode(await work(None))
        earlier = await self._sessions.answered(tenant, key)
        if earlier is not None:
            return earlier
        try:
            return encode(await work(Receipt(key, encode)))
        except ConflictError:
            # The same call may have been completed while this one ran.
            earlier = await self._sessions.answered(tenant, key)
            if earlier is None:
                raise
            return earlier
