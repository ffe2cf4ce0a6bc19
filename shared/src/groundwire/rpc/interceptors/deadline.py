"""Ends calls whose time is used up, and stops their work."""

import asyncio
from typing import Any

from groundwire.kernel.errors import DeadlineError
from groundwire.rpc import request_context
from groundwire.rpc.interceptors.chain import Call, Proceed


async def enforce_deadline(_call: Call, proceed: Proceed) -> Any:
    """Run the call within its budget, which ends at the caller's deadline or the server's limit.

    Whatever ends the call early cancels the budget, so that work in threads stops within one batch.
    """
    budget = request_context.current().budget
    try:
        async with asyncio.timeout(budget.remaining_s()) as limit:
            return await proceed()
    except TimeoutError as error:
        budget.cancel()
        if not limit.expired():
            raise
        raise DeadlineError("the time limit of the call has passed") from error
    except BaseException:
        budget.cancel()
        raise
