"""Calls a servicer of the same process with the calling convention of its generated aio stub."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import Any, NoReturn, TypeAlias

import grpc

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError, GroundwireError
from groundwire.rpc import request_context
from groundwire.rpc.calls import Handler, ReadyResponse, as_coroutine, as_groundwire_error
from groundwire.rpc.channels import passed_on_timeout_s
from groundwire.rpc.error_status import error_of
from groundwire.rpc.request_context import REQUEST_ID_KEY

Metadata: TypeAlias = Iterable[tuple[str, str | bytes]]

# How far a handler may be ahead of its reader, as the window of a connection would limit it.
_QUEUED_MESSAGES = 16


class InProcessStub:
    """A stub with one attribute for each unary and each server-streaming method of `servicer`.

    `await stub.Method(request, timeout=…, metadata=…)` and `async for message in stub.Method(request, …)` behave as
    over a channel of `groundwire.rpc.channels` whose errors went through `from_rpc_error`: errors of the kernel
    come as themselves, anything else as InternalError, a method that nobody wrote as NotAvailableError; request id,
    deadline minus margin and cancellation are passed on; the callee has a task and so a context of its own, with
    the tenant of the current one. Messages are handed over, not copied: neither side may change them later.
    """

    def __init__(self, servicer: Any) -> None:
        self._servicer = servicer

    def __getattr__(self, name: str) -> "Callable[..., _InProcessCall]":
        """Return the method as a stub has it; cached, so that it is looked up once."""
        method = partial(_InProcessCall, name, as_coroutine(name, getattr(self._servicer, name)))
        setattr(self, name, method)
        return method


class _InProcessCall:
    """One call: awaitable if the method is unary, an asynchronous iterator if it streams."""

    def __init__(
        self,
        name: str,
        handler: Handler,
        request: Any,
        *,
        timeout: float | None = None,
        metadata: Metadata | None = None,
    ) -> None:
        self._name = name
        self._handler = handler
        self._request = request
        self._timeout_s = passed_on_timeout_s(timeout)
        self._caller = request_context.current()
        self._context = InProcessContext(dict(metadata or ()), Budget(self._timeout_s))

    def __await__(self) -> Any:
        return asyncio.create_task(self._run(), name=f"in-process {self._name}").__await__()

    async def __aiter__(self) -> AsyncGenerator[Any, None]:
        task = asyncio.create_task(self._run(), name=f"in-process {self._name}")
        # Behind the last message, so that the reader gets all of them before the error.
        task.add_done_callback(lambda _: self._context.messages.put_nowait(None))
        try:
            while (message := await self._context.messages.get()) is not None:
                self._context.taken()
                yield message
            await task
        finally:
            task.cancel()
            with suppress(asyncio.CancelledError, GroundwireError):
                await task

    async def _run(self) -> Any:
        budget = self._context.budget
        request_id = str(self._context.metadata.get(REQUEST_ID_KEY) or self._caller.request_id)
        request_context.bind(replace(self._caller, request_id=request_id, budget=budget))
        try:
            async with asyncio.timeout(self._timeout_s):
                response = await self._handler(self._request, self._context)
                return response.message() if isinstance(response, ReadyResponse) else response
        except (asyncio.CancelledError, GroundwireError):
            budget.cancel()
            raise
        except Exception as error:
            budget.cancel()
            # A handler may run into a time limit of its own, which is a defect and no deadline.
            if isinstance(error, TimeoutError) and self._context.budget.remaining_s() == 0.0:
                raise DeadlineError("the deadline of the call has passed") from error
            raise as_groundwire_error(error, self._name) from error


class InProcessContext:
    """The part of `grpc.aio.ServicerContext` that handlers use."""

    def __init__(self, metadata: dict[str, str | bytes], budget: Budget) -> None:
        self.metadata = metadata
        self.budget = budget
        # Bounded by `_room` instead of its size: the end of the stream has to find a place at any time.
        self.messages: asyncio.Queue[Any] = asyncio.Queue()
        self._room = asyncio.Semaphore(_QUEUED_MESSAGES)

    async def write(self, message: Any) -> None:
        """Send a message; waits while 16 are unread."""
        await self._room.acquire()
        self.messages.put_nowait(message)

    def taken(self) -> None:
        self._room.release()

    async def abort(self, code: grpc.StatusCode, details: str = "", trailing_metadata: Metadata = ()) -> NoReturn:
        """End the call with the error that the status stands for."""
        raise error_of(code, details, trailing_metadata)
