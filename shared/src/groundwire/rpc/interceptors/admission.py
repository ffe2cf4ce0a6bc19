"""Refuses calls beyond what the server can do, and all new ones once it drains."""

import asyncio
from typing import Any

from groundwire.kernel.errors import DrainingError, OverloadedError
from groundwire.rpc.interceptors.chain import Call, Proceed


class Admission:
    """Lets at most `limit` calls in at a time; health checks and reflection always."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._active = 0
        self._draining = False
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def active(self) -> int:
        """Return the number of calls being worked on."""
        return self._active

    def drain(self) -> None:
        """Refuse every new call from now on."""
        self._draining = True

    async def idle(self) -> None:
        """Return once no call is being worked on."""
        await self._idle.wait()

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Run the call, or refuse it at once."""
        if call.is_infrastructure:
            return await proceed()
        if self._draining:
            raise DrainingError("the server is stopping")
        if self._active >= self._limit:
            raise OverloadedError(f"the server works on {self._limit} calls already", limit=self._limit)
        self._active += 1
        self._idle.clear()
        try:
            return await proceed()
        finally:
            self._active -= 1
            if self._active == 0:
                self._idle.set()
