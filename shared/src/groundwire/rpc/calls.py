"""One call on the server: its messages as the servicer reads and sends them, its limits, its handler.

The library would read the request of a unary call before any code of ours runs, wait for it without limit, and answer
UNKNOWN to bytes that are no message. So every method is declared as a stream of requests, which are read here.
"""

import asyncio
import inspect
import uuid
from collections.abc import Awaitable, Callable
from contextlib import aclosing
from typing import Any, Final, NamedTuple, NoReturn, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from groundwire.kernel.errors import (
    CallCancelledError,
    FieldViolation,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotAvailableError,
    ResponseTooLargeError,
    StartError,
    StreamIdleError,
)
from groundwire.rpc.methods import INFRASTRUCTURE, Work

Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""A method as a coroutine function of the request (or request iterator) and the context."""

MAX_RESPONSE_BYTES: Final = 4 << 20
"""Largest message that a server sends: what clients of every language take by default."""
_NEVER: Final = float("inf")
# How long the library may take to say that a client did not close its side but is gone.
_GONE_S: Final = 0.05

_log = structlog.get_logger(__name__)


def as_groundwire_error(error: Exception, method: str) -> GroundwireError:
    """Return the kernel error that the caller may see; log anything else as a defect."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions  # what one failed task of a task group looks like
    if isinstance(error, GroundwireError) and not isinstance(error, StartError):
        return error
    error_id = uuid.uuid4().hex
    _log.error("internal error", method=method, error_id=error_id, exc_info=error)
    return InternalError("internal error", error_id=error_id)


class ReadyResponse(NamedTuple):
    """An already serialized response, which a servicer's method may return instead of the message."""

    raw: bytes
    parse: Callable[[bytes], Any]

    def message(self) -> Any:
        return self.parse(self.raw)


class Call:
    """One call on the server: `method` is `/package.Service/Method`, `context` the library's, `work` its kind.

    `request` is the message of a unary call, or the asynchronous iterator of a stream's, once `receive` was called.
    To the servicer it is the context: what it does not have itself, the library's has.
    """

    __slots__ = (
        "_ends_at",
        "_first",
        "_handler",
        "_idle_s",
        "_loop",
        "_task",
        "_timer",
        "_was_ended",
        "admit",
        "check_credential",
        "context",
        "free_place",
        "is_infrastructure",
        "method",
        "received_bytes",
        "request",
        "work",
    )

    def __init__(self, method: str, work: Work, context: Any, handler: Any, idle_s: float) -> None:
        self.method = method
        self.work = work
        self.is_infrastructure = work in INFRASTRUCTURE
        """Whether this is a health check or reflection, which go on while the server drains."""
        self.context = context
        self.request: Any = None
        self.free_place: Callable[[], None] | None = None
        """What to call when the client has the response, of a call that was counted."""
        self.check_credential: Callable[[], object] | None = None
        """What raises when the credential of the call is not accepted any more; asked before each message."""
        self.admit: Callable[[int], Awaitable[None]] | None = None
        """What checks the credential and takes the units of one more message from the client, of so many bytes."""
        self.received_bytes = 0
        self._handler = handler
        self._idle_s = idle_s
        self._first: Any = grpc.aio.EOF
        self._loop = asyncio.get_running_loop()
        self._task: asyncio.Task[Any] | None = asyncio.current_task()
        self._timer: asyncio.TimerHandle | None = None
        self._ends_at = _NEVER
        self._was_ended = False

    def __getattr__(self, name: str) -> Any:
        """Fall back to the attributes of the library's context."""
        return getattr(self.context, name)

    def limit(self, seconds: float | None) -> None:
        """End the call in this many seconds unless another limit is set before; None removes the limit.

        A call has one limit after the other: for its first message, for its work, for the client to take the response.
        They share a timer, which is only replaced when it would fire too late.
        """
        self._ends_at = _NEVER if seconds is None else self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._ends_at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._ends_at != _NEVER:
            self._timer = self._loop.call_at(self._ends_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        # The limit may have been moved since the timer was set.
        if self._ends_at <= self._loop.time():
            self.end()
        elif self._ends_at != _NEVER:
            self._timer = self._loop.call_at(self._ends_at, self._ring)

    def end(self) -> None:
        """Cancel the call as its limit does; only once, even if the server drains just when the limit passes."""
        # Whoever catches a cancellation can undo only one: a second one would look like a client that left.
        if self._task is not None and not self._was_ended:
            self._task.cancel()
        self._was_ended = True

    def was_ended_by_limit(self) -> bool:
        """Tell whether the cancellation that just arrived came only from `end`; then the call may go on."""
        was_ended, self._was_ended = self._was_ended, False
        return was_ended and self._task is not None and self._task.uncancel() == 0

    def leave(self, _context: Any) -> None:
        """Note that the library is done with the call, that is, that the client has its response."""
        if self._timer is not None:
            self._timer.cancel()
        if self.free_place is not None:
            self.free_place()

    async def receive(self) -> None:
        """Wait for the first message, as long as it takes.

        Raises:
            InvalidRequestError: it is not a message of the method's type, or a unary call came without one.
        """
        raw = await self._read()
        self.received_bytes = 0 if raw is grpc.aio.EOF else len(raw)
        if self._handler.request_streaming:
            self._first, self.request = raw, self
        elif raw is grpc.aio.EOF:
            raise InvalidRequestError.of("request", "is missing")
        else:
            self.request = self._parsed(raw)

    def __aiter__(self) -> "Call":
        """Return the requests of a stream, which are read once."""
        return self

    async def __anext__(self) -> Any:
        """Return the next request.

        Raises:
            InvalidRequestError: the bytes are not a message of the method's type.
            StreamIdleError: the client sent nothing for too long.
            UnauthenticatedError: the credential has been revoked, or has expired.
        """
        raw, self._first = self._first, None
        if raw is None:
            # People think between two questions; conversations have an idle limit of their own.
            idle_s = None if self.work is Work.CONVERSATION else self._idle_s
            try:
                async with asyncio.timeout(idle_s) as limit:
                    raw = await self._read()
            except TimeoutError as error:
                _raise_idle(limit, error, "sent nothing", self._idle_s)
            if raw is not grpc.aio.EOF:
                self.received_bytes += len(raw)
                if self.admit is not None:
                    await self.admit(len(raw))
        if raw is grpc.aio.EOF:
            self._first = raw  # asked again, the stream is still at its end
            raise StopAsyncIteration
        return self._parsed(raw)

    async def _read(self) -> Any:
        raw = await self.context.read()
        if raw is grpc.aio.EOF:
            # A client that cancels or is cut off looks as if it had sent all, until the library cancels the call: half
            # of a document would be taken for the whole.
            await asyncio.sleep(_GONE_S)
        return raw

    async def write(self, message: Any) -> None:
        """Send a message of a stream.

        Raises:
            StreamIdleError: the client has not made room for it for too long.
            CallCancelledError: the client is gone.
            ResponseTooLargeError: the message is larger than clients take.
            UnauthenticatedError: the credential has been revoked, or has expired.
        """
        if self.check_credential is not None:
            self.check_credential()
        raw = self.serialized(message)
        try:
            async with asyncio.timeout(self._idle_s) as limit:
                await self.context.write(raw)
        except TimeoutError as error:
            _raise_idle(limit, error, "took no message", self._idle_s)
        except grpc.aio.InternalError as error:  # what the library says when the connection broke just now
            raise CallCancelledError("the client is gone") from error

    def serialized(self, message: Any) -> bytes:
        """Return the serialized message; refuse one that the client's library would reject without a reason.

        Raises:
            ResponseTooLargeError: the message is larger than clients take.
        """
        raw: bytes = message.raw if isinstance(message, ReadyResponse) else self._handler.response_serializer(message)
        if len(raw) > MAX_RESPONSE_BYTES:
            description = f"would be answered with {len(raw)} bytes; clients take {MAX_RESPONSE_BYTES}, ask for less"
            violation = FieldViolation("request", description)
            raise ResponseTooLargeError([violation], size_bytes=len(raw), limit_bytes=MAX_RESPONSE_BYTES)
        return raw

    def _parsed(self, raw: bytes) -> Any:
        try:
            return self._handler.request_deserializer(raw)
        except DecodeError as error:
            raise InvalidRequestError.of("request", "is not a message of the type that this method takes") from error


def _raise_idle(limit: asyncio.Timeout, error: TimeoutError, what: str, idle_s: float) -> NoReturn:
    if not limit.expired():
        raise error
    raise StreamIdleError(f"the client {what} for {idle_s:g} s", limit_s=idle_s) from None


def as_coroutine(method: str, behaviour: Callable[[Any, Any], Any]) -> Handler:
    """Turn a method of a servicer into a coroutine function.

    Messages of an asynchronous generator go to `context.write`. A method that is not asynchronous is one that
    the generated base class left unimplemented; it answers NotAvailableError naming the method.
    """
    if inspect.iscoroutinefunction(behaviour):
        return behaviour
    if not inspect.isasyncgenfunction(behaviour):
        name = method.rpartition("/")[2]

        async def refuse(_request: Any, _context: Any) -> None:
            raise NotAvailableError(f"{name} is not available in this version", feature=name)

        return refuse

    async def write_all(request: Any, context: Any) -> None:
        async with aclosing(behaviour(request, context)) as messages:
            async for message in messages:
                await context.write(message)

    return write_all
