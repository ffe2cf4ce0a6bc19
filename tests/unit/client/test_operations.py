"""A method that is written once blocks in one kind of client and is awaited in the other."""

import asyncio
import inspect
from collections.abc import AsyncGenerator

import pytest

from groundwire.client.transport import AsyncCaller, Caller, Operation, StreamOperation, SyncCaller


class Operations(Caller):
    def __init__(self) -> None:
        self.ended = False

    @Operation
    async def double(self, number: int, *, plus: int = 0) -> int:
        """Return twice a number."""
        if number < 0:
            raise ValueError("negative")
        return 2 * number + plus

    @StreamOperation
    async def count(self, end: int) -> AsyncGenerator[int, None]:
        """Yield numbers."""
        try:
            for number in range(end):
                yield number
            if end > 2:
                raise ValueError("too many")
        finally:
            self.ended = True

    @Operation
    async def wait(self) -> None:
        """Wait as only the event loop can."""
        await asyncio.sleep(0)


class Blocking(Operations, SyncCaller):
    pass


class Awaited(Operations, AsyncCaller):
    pass


async def test_both_kinds_return_the_same() -> None:
    assert Blocking().double(2, plus=1) == await Awaited().double(2, plus=1) == 5
    assert list(Blocking().count(2)) == [number async for number in Awaited().count(2)] == [0, 1]


async def test_errors_are_those_of_the_body() -> None:
    with pytest.raises(ValueError, match="negative"):
        Blocking().double(-1)
    with pytest.raises(ValueError, match="negative"):
        await Awaited().double(-1)
    with pytest.raises(ValueError, match="too many"):
        list(Blocking().count(3))


def test_a_stream_that_is_left_ends_its_body_at_once() -> None:
    blocking = Blocking()
    numbers = blocking.count(100)
    assert next(numbers) == 0
    assert not blocking.ended
    assert inspect.isgenerator(numbers)
    numbers.close()
    assert blocking.ended


def test_what_needs_an_event_loop_is_no_body_of_a_blocking_client() -> None:
    with pytest.raises(RuntimeError, match="was suspended"):
        Blocking().wait()


def test_help_shows_what_was_written() -> None:
    assert Blocking().double.__doc__ == Operations.double.__doc__ == "Return twice a number."
    assert list(inspect.signature(Operations.double).parameters) == ["self", "number", "plus"]
    assert list(inspect.signature(Blocking().double).parameters) == ["number", "plus"]
    assert list(inspect.signature(Awaited().double).parameters) == ["number", "plus"]
    assert Blocking.double(Blocking(), 2) == 4
