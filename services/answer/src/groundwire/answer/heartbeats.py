"""Tells how long something that may take long has been silent, without disturbing it."""

import asyncio
from collections.abc import AsyncGenerator
from dataclasses import dataclass
from typing import Any, TypeVar

ItemT = TypeVar("ItemT")

_END: Any = object()


@dataclass(frozen=True, slots=True)
class Silence:
    """Nothing came for a while; `elapsed_s` is the time since the beginning."""

    elapsed_s: float


async def with_silences(items: AsyncGenerator[ItemT, None], every_s: float) -> AsyncGenerator[ItemT | Silence, None]:
    """Yield the items, and a Silence whenever none has come for `every_s` seconds.

    Closing it cancels what is waited for, which ends the work inside `items` at once; closing `items` is left to
    whoever made it.
    """
    clock = asyncio.get_running_loop().time
    began = clock()
    while True:
        coming = asyncio.ensure_future(_next_of(items))
        try:
            while not (await asyncio.wait({coming}, timeout=every_s))[0]:
                yield Silence(clock() - began)
        finally:
            # Awaited, because a generator that still runs cannot be closed.
            if not coming.done():
                coming.cancel()
                await asyncio.gather(coming, return_exceptions=True)
        item = coming.result()
        if item is _END:
            return
        yield item


async def _next_of(items: AsyncGenerator[ItemT, None]) -> ItemT:
    return await anext(items, _END)
