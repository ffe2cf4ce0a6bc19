"""Runs layers around calls of all four shapes, and reads and writes their messages within time limits.

A layer never sees the shape: every handler, also one that streams answers, is turned into a coroutine that ends
with the call. So a layer is a coroutine function with a `try` around `await proceed()`, and sees errors after the first
streamed message and cancellation while a slow reader takes one.

The library would read the request of a unary call before any code of ours runs, wait for it without limit, and answer
UNKNOWN to bytes that are no message. Therefore it is told that every method streams requests, and they are read here.
"""

import asyncio
import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from typing import Any, Final, NoReturn, Protocol, TypeAlias

import grpc
from google.protobuf.message import DecodeError

from groundwire.kernel.errors import (
    CallCancelledError,
    FieldViolation,
    InvalidRequestError,
    NotAvailableError,
    ResponseTooLargeError,
    StreamIdleError,
)
from groundwire.rpc.methods import INFRASTRUCTURE, STREAM_IDLE_S, Work, work_of

Proceed: TypeAlias = Callable[[], Awaitable[Any]]
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""A method as a coroutine function of the request (or request iterator) and the context."""

MAX_RESPONSE_BYTES: Final = 4 << 20
"""Largest message that a server sends: what clients of every language take by default."""


class _Layered(grpc.GenericRpcHandler):
    """Finds the handlers of another one and wraps each once."""

    def __init__(self, inner: grpc.GenericRpcHandler, wrap: Callable[[str, Any], MethodHandler]) -> None:
        self._inner = inner
        self._wrap = wrap
        self._wrapped: dict[str, MethodHandler] = {}

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> MethodHandler:
        """Return the wrapped handler of a method, or None for a method that the other does not know."""
        method = handler_call_details.method
        wrapped = self._wrapped.get(method)
        if wrapped is None:
            handler = self._inner.service(handler_call_details)
            if handler is None:
                return None
            wrapped = self._wrapped[method] = self._wrap(method, handler)
        return wrapped


class Call:
    """One call on the server: `method` is `/package.Service/Method`, `context` the library's, `work` its kind.

    `request` is the message of a unary call, or the asynchronous iterator of a stream's, once `receive` was called.
    """

    __slots__ = ("_first", "_handler", "_idle_s", "context", "method", "request", "work")

    def __init__(self, method: str, work: Work, context: Any, handler: Any, idle_s: float) -> None:
        self.method = method
        self.work = work
        self.context = context
        self.request: Any = None
        self._handler = handler
        self._idle_s = idle_s
        self._first: Any = grpc.aio.EOF

    @property
    def is_infrastructure(self) -> bool:
        """Return whether this is a health check or reflection, which go on while the server drains."""
        return self.work in INFRASTRUCTURE

    async def receive(self) -> None:
        """Wait for the first message, as long as it takes.

        Raises:
            InvalidRequestError: it is not a message of the method's type, or a unary call came without one.
        """
        raw = await self.context.read()
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
        """
        raw, self._first = self._first, None
        if raw is None:
            try:
                async with asyncio.timeout(self._idle_s) as limit:
                    raw = await self.context.read()
            except TimeoutError as error:
                _raise_idle(limit, error, "sent nothing", self._idle_s)
        if raw is grpc.aio.EOF:
            self._first = raw  # asked again, the stream is still at its end
            raise StopAsyncIteration
        return self._parsed(raw)

    async def write(self, message: Any) -> None:
        """Send a message of a stream.

        Raises:
            StreamIdleError: the client has not made room for it for too long.
            CallCancelledError: the client is gone.
            ResponseTooLargeError: the message is larger than clients take.
        """
        _check_size(message)
        try:
            async with asyncio.timeout(self._idle_s) as limit:
                await self.context.write(message)
        except TimeoutError as error:
            _raise_idle(limit, error, "took no message", self._idle_s)
        except grpc.aio.InternalError as error:  # what the library says when the connection broke just now
            raise CallCancelledError("the client is gone") from error

    def _parsed(self, raw: bytes) -> Any:
        try:
            return self._handler.request_deserializer(raw)
        except DecodeError as error:
            raise InvalidRequestError.of("request", "is not a message of the type that this method takes") from error


def _check_size(message: Any) -> None:
    """Refuse what the client's library would refuse without saying why.

    Raises:
        ResponseTooLargeError: the message is larger than clients take.
    """
    size = message.ByteSize()
    if size > MAX_RESPONSE_BYTES:
        said = f"would be answered with {size} bytes; clients take {MAX_RESPONSE_BYTES}, ask for less"
        violation = FieldViolation("request", said)
        raise ResponseTooLargeError([violation], size_bytes=size, limit_bytes=MAX_RESPONSE_BYTES)


def _raise_idle(limit: asyncio.Timeout, error: TimeoutError, what: str, idle_s: float) -> NoReturn:
    if not limit.expired():
        raise error
    raise StreamIdleError(f"the client {what} for {idle_s:g} s", limit_s=idle_s) from None


class Layer(Protocol):
    """Something that happens around every call."""

    async def __call__(self, call: Call, proceed: Proceed, /) -> Any:
        """Await `proceed()` once and return what it returned, or raise."""
        ...


class Chain:
    """Runs `layers`, outermost first, around every handler that is added through it; one of them calls `receive`.

    Stands where the generated `add_…_to_server` expects a server. An interceptor of the library would do the same in a
    tenth of a millisecond more for each call: it looks for the handler anew each time, in coroutines.
    """

    def __init__(self, server: grpc.aio.Server, *layers: Layer, idle_s: float = STREAM_IDLE_S) -> None:
        self._server = server
        self._layers = layers
        self._idle_s = idle_s

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add handlers to the server, with the layers around them."""
        self._server.add_generic_rpc_handlers([_Layered(handler, self._wrap) for handler in handlers])

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Do nothing: these are the handlers again, for servers that find them by their full name."""

    def _wrap(self, method: str, handler: Any) -> MethodHandler:
        """Return a handler that takes a stream of bytes, reads the requests itself and runs the layers."""
        inbound = "stream" if handler.request_streaming else "unary"
        outbound = "stream" if handler.response_streaming else "unary"
        behaviour = as_coroutine(method, getattr(handler, f"{inbound}_{outbound}"))
        work = work_of(method)

        async def innermost(call: Call) -> Any:
            response = await behaviour(call.request, _Context(call))
            if response is not None:
                _check_size(response)
            return response

        step: Callable[[Call], Awaitable[Any]] = innermost
        for layer in reversed(self._layers):
            step = _nested(layer, step)

        async def handle(_requests: Any, context: Any) -> Any:
            return await step(Call(method, work, context, handler, self._idle_s))

        replaced: MethodHandler = handler._replace(
            request_streaming=True,
            request_deserializer=None,
            **({f"{inbound}_{outbound}": None} | {f"stream_{outbound}": handle}),
        )
        return replaced


class _Context:
    """The library's context for a servicer, except that a write has a time limit."""

    __slots__ = ("_context", "write")

    def __init__(self, call: Call) -> None:
        self._context = call.context
        self.write = call.write

    def __getattr__(self, name: str) -> Any:
        """Return what the library's context has."""
        return getattr(self._context, name)


def as_coroutine(method: str, behaviour: Callable[[Any, Any], Any]) -> Handler:
    """Turn a method of a servicer into a coroutine function.

    Messages of an asynchronous generator go to `context.write`. A method that is not asynchronous is one that
    the generated base class left unimplemented; it answers NotAvailableError naming the method.
    """
    if inspect.iscoroutinefunction(behaviour):
        return behaviour
    if not inspect.isasyncgenfunction(behaviour):
        return _not_available(method)

    async def write_all(request: Any, context: Any) -> None:
        async with aclosing(behaviour(request, context)) as messages:
            async for message in messages:
                await context.write(message)

    return write_all


def _nested(layer: Layer, inner: Callable[[Call], Awaitable[Any]]) -> Callable[[Call], Awaitable[Any]]:
    def step(call: Call) -> Awaitable[Any]:
        return layer(call, lambda: inner(call))

    return step


def _not_available(method: str) -> Handler:
    name = method.rpartition("/")[2]

    async def refuse(_request: Any, _context: Any) -> None:
        raise NotAvailableError(f"{name} is not available in this version", feature=name)

    return refuse
