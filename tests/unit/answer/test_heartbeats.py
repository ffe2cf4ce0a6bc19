"""A draft beside its heartbeats, left by whoever asked."""

import asyncio
import gc
from collections.abc import AsyncGenerator, Sequence
from contextlib import suppress
from typing import Any

from groundwire.answer.ask import _with_heartbeats
from groundwire.answer.evidence import Statement


async def test_a_draft_that_ends_just_as_the_call_is_cancelled_leaves_no_error_behind() -> None:
    lost: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: lost.append(context))
    over = asyncio.Event()

    async def batches() -> AsyncGenerator[Sequence[Statement], None]:
        await over.wait()
        return
        yield ()

    call = asyncio.ensure_future(anext(_with_heartbeats(batches(), 60.0)))
    await asyncio.sleep(0.01)
    over.set()  # the draft ends in the next turn of the loop, and the call is cancelled in the same
    call.cancel()
    with suppress(asyncio.CancelledError, StopAsyncIteration):
        await call
    del call
    gc.collect()
    await asyncio.sleep(0)
    assert lost == []
