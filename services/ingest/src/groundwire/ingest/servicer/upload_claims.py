"""Which stream brings which upload: at most one for each, and the newest one has it."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from groundwire.kernel.budget import Budget

_POLL_S = 0.05


@dataclass(slots=True)
class Claim:
    """The right of one stream to bring an upload; `lost` is set when a newer stream wants it."""

    total_bytes: int
    lost: asyncio.Event = field(default_factory=asyncio.Event)


class UploadClaims:
    """The uploads that have a stream; used on the event loop only."""

    def __init__(self) -> None:
        self._held: dict[tuple[str, str], Claim] = {}

    @asynccontextmanager
    async def hold(self, upload_id: str, tenant: str, total_bytes: int, budget: Budget) -> AsyncIterator[Claim]:
        """Hold the claim to an upload; the stream that had it is told to leave and waited for.

        A client that lost its connection comes back before the server has noticed. Its old stream must not keep it out.

        Raises:
            CallCancelledError: the budget was cancelled while waiting.
            DeadlineError: the budget was used up while waiting.
        """
        key = tenant, upload_id  # whoever guesses the id of another tenant's upload must not interrupt it
        while (other := self._held.get(key)) is not None:
            other.lost.set()
            await asyncio.sleep(_POLL_S)
            budget.check()
        claim = self._held[key] = Claim(total_bytes)
        try:
            yield claim
        finally:
            del self._held[key]

    def announced(self, tenant: str, except_for: str) -> Mapping[str, int]:
        """Return the bytes that the tenant's other streams announced, by upload id."""
        return {
            upload_id: claim.total_bytes
            for (owner, upload_id), claim in self._held.items()
            if owner == tenant and upload_id != except_for
        }
