"""Admission control: bounds the calls of each kind of work, and refuses new ones while the server drains."""

import asyncio
import math
import time
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, Final

from groundwire.kernel.errors import DeadlineError, DrainingError, OverloadedError, QuotaExceededError, StreamIdleError
from groundwire.kernel.identity import Identity
from groundwire.rpc import request_context
from groundwire.rpc.calls import Call
from groundwire.rpc.methods import CALL_LIMITS, FIRST_MESSAGE_S, Work, cost_of

# Bounds the memory for callers that come and go; an evicted caller starts again with a full bucket.
_MAX_CALLERS: Final = 10_000
# A shorter pause would only bring the next refusal.
_SOON_S: Final = 0.1


@dataclass(slots=True)
class _Account:
    """The budget of a caller: the `units` left at the time `at`, and its running calls."""

    units: float
    at: float
    running: int = 0


class Quotas:
    """Charges callers with a credential in units of `methods.WORK_COSTS`; use it on one event loop.

    `clock` is monotonic, in seconds.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._accounts: OrderedDict[tuple[str, str], _Account] = OrderedDict()

    def charge(self, identity: Identity, cost: float) -> None:
        """Take `cost` units of the caller's rate.

        A call that costs more than the burst is admitted once the bucket is full. What it overdraws has to be refilled
        before the next one, so that no call is too large to ever run, and none is charged less than it costs.

        Raises:
            QuotaExceededError: not enough is left; `retry_after_s` says when there will be.
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
            QuotaExceededError: the caller has as many calls running as it may.
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
            # Accounts with running calls stay, because a new account would admit as many calls again.
            for other in list(islice(self._accounts, max(0, len(self._accounts) - _MAX_CALLERS))):
                if not self._accounts[other].running:
                    del self._accounts[other]
        self._accounts.move_to_end(caller)  # whoever has not called for longest is evicted first
        return account


# A client needs one watch per connection; the limit keeps one connection from taking them all.
_WATCHES_PER_CONNECTION: Final = 8
# The share of the calls of a kind that one credential may use, so that others always find room.
_SHARE: Final = 0.75
# Calls that have begun but sent no whole message; bounded, because each may hold part of a message in memory.
_MAX_WAITING: Final = 512


@dataclass(slots=True)
class _Pool:
    """The running calls of one kind, in total and by connection or credential."""

    limit: int
    active: int = 0
    by_owner: Counter[str] = field(default_factory=Counter)


class Admission:
    """Counts calls by kind of work, each from its first message until the client has read its response.

    Before its first message a call only waits, for at most `first_message_s`, and costs no other its place: when too
    many wait, the one that has waited longest ends. A well-behaved client sends the message with the call.
    """

    def __init__(
        self,
        limits: Mapping[Work, int] = CALL_LIMITS,
        *,
        first_message_s: float = FIRST_MESSAGE_S,
        quotas: Quotas | None = None,
    ) -> None:
        self._pools = {work: _Pool(limit) for work, limit in limits.items()}
        self._first_message_s = first_message_s
        self.quotas = quotas or Quotas()
        self._waiting: dict[Call, None] = {}  # in order of arrival
        self._running: set[asyncio.Task[Any]] = set()
        self._draining = False
        self.is_cutting = False
        """Whether `cut` has ended calls: from then on a cancellation comes from the server."""
        self._refused = 0
        self._may_refuse = asyncio.Event()
        self._may_refuse.set()
        self._idle = asyncio.Event()
        self._idle.set()

    @property
    def active(self) -> int:
        """Return the number of calls being worked on, health and reflection apart."""
        return len(self._running)

    @property
    def waiting(self) -> int:
        """Return the number of calls that have sent no message yet."""
        return len(self._waiting)

    def running(self) -> dict[Work, tuple[int, int]]:
        """Return how many calls of each kind run, and how many may."""
        return {work: (pool.active, pool.limit) for work, pool in self._pools.items()}

    def drain(self) -> None:
        """Refuse every new call from now on, and those that have not sent a message yet."""
        self._draining = True
        for waiting in self._waiting:
            waiting.end()

    async def idle(self) -> None:
        """Return once no call is being worked on."""
        await self._idle.wait()

    async def hold(self, quiet_s: float, limit_s: float) -> None:
        """Hold back the refusals of new calls; return once none came for `quiet_s`, at most after `limit_s`.

        Clients that retry as soon as they are refused would never leave a quiet moment, so they are made to wait.
        """
        self._may_refuse.clear()
        ends_at = time.monotonic() + limit_s
        seen = -1
        while seen != self._refused and time.monotonic() < ends_at:
            seen = self._refused
            await asyncio.sleep(min(quiet_s, limit_s))

    def release(self) -> None:
        """Release the refusals that `hold` holds back."""
        self._may_refuse.set()

    def cut(self) -> int:
        """Cut off the calls that are still running, as refused; return their number."""
        self.is_cutting = True
        for task in self._running:
            task.cancel()
        return len(self._running)

    async def enter(self, call: Call) -> None:
        """Wait for the first message of a call and count the call, until the client has its response.

        Raises:
            DrainingError: the server is stopping.
            StreamIdleError: no message came.
            DeadlineError: none came before the deadline of the call.
            QuotaExceededError: the caller's quota is used up.
            OverloadedError: as many calls of its kind run as may.
        """
        if self._draining:
            await self._refuse_while_draining(call)
        budget = request_context.current().budget
        remaining_s = budget.remaining_s()
        if len(self._waiting) >= _MAX_WAITING:
            longest = next(iter(self._waiting))
            del self._waiting[longest]
            longest.end()
        self._waiting[call] = None
        call.limit(self._first_message_s if remaining_s is None else min(self._first_message_s, remaining_s))
        try:
            await call.receive()
        except asyncio.CancelledError:
            if not call.was_ended_by_limit():
                raise
            await self._refuse_while_draining(call)
            if budget.remaining_s() == 0:
                raise DeadlineError("the time limit of the call has passed before its message came") from None
            raise StreamIdleError("the call came without a message", limit_s=self._first_message_s) from None
        finally:
            self._waiting.pop(call, None)
        # The drain may have begun while the call waited for its message.
        if self._draining:
            await self._refuse_while_draining(call)
        identity = request_context.current().identity
        if identity.quota.per_second is not None:
            # Only now, because the cost depends on the size and the content of the message.
            self.quotas.charge(identity, cost_of(call.method, call.request, call.received_bytes))
        self._count(call, identity)

    async def _refuse_while_draining(self, call: Call) -> None:
        if self._draining and not call.is_infrastructure:
            self._refused += 1
            call.limit(None)  # the refusal may be held back for longer than the call may wait for a message
            await self._may_refuse.wait()
            raise DrainingError("the server is stopping")

    def _count(self, call: Call, identity: Identity) -> None:
        """Count the call until the library is done with it, that is, until the client has its response."""
        pool, task = self._pools.get(call.work), asyncio.current_task()
        if pool is None or task is None:
            return
        if pool.active >= pool.limit:
            message = f"the server works on {pool.limit} calls of this kind already"
            raise OverloadedError(message, limit=pool.limit, work=call.work)
        if call.work is Work.WATCH:
            owner, most = call.context.peer(), _WATCHES_PER_CONNECTION
        else:
            owner = f"{identity.tenant}\n{identity.subject}" if identity.subject else ""
            most = max(1, int(pool.limit * _SHARE))
        if owner and pool.by_owner[owner] >= most:
            message = f"the caller has {most} calls of this kind already"
            raise OverloadedError(message, limit=most, work=call.work)
        # Before the place is taken, because the quota may refuse the call.
        leave_quota = None if call.is_infrastructure else self.quotas.enter(identity)
        pool.active += 1
        if owner:
            pool.by_owner[owner] += 1
        if not call.is_infrastructure:
            self._running.add(task)
            self._idle.clear()

        def leave() -> None:
            pool.active -= 1
            if leave_quota is not None:
                leave_quota()
            if owner:
                pool.by_owner -= Counter([owner])  # drops those without any
            self._running.discard(task)
            if not self._running:
                self._idle.set()

        call.free_place = leave
