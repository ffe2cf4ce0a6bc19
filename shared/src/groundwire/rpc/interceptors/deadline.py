"""Gives every call a budget, also when the caller set no deadline."""

import asyncio
from dataclasses import replace
from typing import Any

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError
from groundwire.rpc import request_context
from groundwire.rpc.deadlines import DeadlineTable
from groundwire.rpc.interceptors.chain import Call, Proceed


class Deadline:
    """Binds the budget of the call: the caller's deadline, or the server's limit for the method.

    The library cancels a handler at the caller's deadline; the server's limit is enforced here. Whatever ends
    the call early cancels the budget, so that work in threads stops within one batch.
    """

    def __init__(self, table: DeadlineTable) -> None:
        self._table = table

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Run the call within its time."""
        if call.is_infrastructure:
            return await proceed()
        asked_s = call.context.time_remaining()
        budget = Budget(self._table.limit_s(call.method) if asked_s is None else asked_s)
        request_context.bind(replace(request_context.current(), budget=budget))
        try:
            if asked_s is not None:
                return await proceed()
            return await _within(budget, proceed)
        except BaseException:
            budget.cancel()
            raise


async def _within(budget: Budget, proceed: Proceed) -> Any:
    try:
        async with asyncio.timeout(budget.remaining_s()) as limit:
            return await proceed()
    except TimeoutError as error:
        if not limit.expired():
            raise
        raise DeadlineError("the server's time limit for this call has passed") from error
