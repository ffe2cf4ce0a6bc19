"""Ends calls whose time is used up, and stops their work."""

import asyncio
from typing import Any

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError
from groundwire.rpc import request_context
from groundwire.rpc.interceptors.chain import Call, Proceed


async def enforce_deadline(call: Call, proceed: Proceed) -> Any:
    """Run the call within its budget.

    The library cancels a handler at the caller's deadline; the server's own limit is enforced here. Whatever ends
    the call early cancels the budget, so that work in threads stops within one batch.
    """
    budget = request_context.current().budget
    try:
        if budget.remaining_s() is None or call.context.time_remaining() is not None:
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
