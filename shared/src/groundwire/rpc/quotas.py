"""How much each caller may ask for: a token bucket for its rate, and a bound for its calls at a time."""

import math
import time
from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from groundwire.kernel.errors import QuotaExceededError
from groundwire.kernel.identity import Identity

# Of callers that ask now and then; one that is forgotten begins with a full bucket.
_MAX_CALLERS: Final = 10_000
_SOON_S: Final = 0.1


@dataclass(slots=True)
class _Account:
    """What a caller has left: `units` at the time `at`, and the calls that run for it."""

    units: float
    at: float
    running: int = 0


class Quotas:
    """Counts what callers with a credential ask for, in units of `methods.WORK_COSTS`; use it on one event loop.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()

    def charge(self, identity: Identity, cost: float) -> None:
        """Take `cost` units of the caller's rate.

        A call that costs more than the burst is let in once all of that is there. What it overdraws has to come back
        before the next one, so that no call is too large for ever, and none is cheaper than it is.

        Raises:
            QuotaExceededError: not enough is left; it says when there will be.
        """
        per_second = identity.quota.per_second
        if per_second is None or not identity.subject:
            return
        burst = identity.quota.burst or per_second
        account = self._account(identity, burst)
        now = self._clock()
        account.units = min(burst, account.units + (now - account.at) * per_second)
        account.at = now
        missing = min(cost, burst) - account.units
        if missing > 0:
            error = QuotaExceededError(
                f"the credential may use {per_second:g} units a second", quota="units_per_second", limit=per_second
            )
            error.retry_after_s = max(_SOON_S, math.ceil(missing / per_second * 1000) / 1000)
            raise error
        account.units -= cost

    def enter(self, identity: Identity) -> Callable[[], None] | None:
        """Count one more call of the caller; return what to call when it ends, None for one that is not counted.

        Raises:
            QuotaExceededError: as many run as may at a time.
        """
        limit = identity.quota.at_a_time
        if limit is None or not identity.subject:
            return None
        account = self._account(identity, 0.0)
        if account.running >= limit:
            message = f"the credential may have {limit} calls at a time"
            raise QuotaExceededError(message, quota="calls_at_a_time", limit=limit)
        account.running += 1

        def leave() -> None:
            account.running -= 1

        return leave

    def _account(self, identity: Identity, units: float) -> _Account:
        caller = identity.tenant, identity.subject
        account = self._accounts.get(caller)
        if account is None:
            account = self._accounts[caller] = _Account(units, self._clock())
            # Those with running calls stay: another account would let as many in again.
            for other in list(self._accounts)[: max(0, len(self._accounts) - _MAX_CALLERS)]:
                if not self._accounts[other].running:
                    del self._accounts[other]
        self._accounts.move_to_end(caller)
        return account
