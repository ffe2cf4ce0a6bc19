"""Runs layers around calls of all four shapes.

A layer never sees the shape: every handler, also one that streams answers, is turned into a coroutine that ends
with the call. So a layer is a coroutine function with a `try` around `await proceed()`, and sees errors after the first
streamed message and cancellation while a slow reader takes one.
"""

import inspect
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

import grpc

from groundwire.kernel.errors import NotAvailableError

Proceed: TypeAlias = Callable[[], Awaitable[Any]]
MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""A method as a coroutine function of the request (or request iterator) and the context."""


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


@dataclass(frozen=True, slots=True)
class Call:
    """One call on the server: `method` is `/package.Service/Method`; `context` is the library's, or one like it."""

    method: str
    context: Any

    @property
    def is_infrastructure(self) -> bool:
        """Return whether this is a health check or reflection, which must work under load and last as they like."""
        return self.method.startswith("/grpc.")


class Layer(Protocol):
    """Something that happens around every call."""

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Await `proceed()` once and return what it returned, or raise."""
        ...


class Chain:
    """Runs `layers`, outermost first, around every handler that is added through it.

    Stands where the generated `add_…_to_server` expects a server. An interceptor of the library would do the same in a
    tenth of a millisecond more for each call: it looks for the handler anew each time, in coroutines.
    """

    def __init__(self, server: grpc.aio.Server, *layers: Layer) -> None:
        self._server = server
        self._layers = layers

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add handlers to the server, with the layers around them."""
        self._server.add_generic_rpc_handlers([_Layered(handler, self._wrap) for handler in handlers])

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Do nothing: these are the handlers again, for servers that find them by their full name."""

    def _wrap(self, method: str, handler: Any) -> MethodHandler:
        shape = "_".join(
            "stream" if flag else "unary" for flag in (handler.request_streaming, handler.response_streaming)
        )
        replaced: MethodHandler = handler._replace(
            **{shape: around(method, as_coroutine(method, getattr(handler, shape)), self._layers)}
        )
        return replaced


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


def around(method: str, handler: Handler, layers: tuple[Layer, ...]) -> Handler:
    """Return a handler that runs `layers` around `handler`, the first one outermost."""

    def innermost(call: Call, request: Any) -> Awaitable[Any]:
        return handler(request, call.context)

    step: Callable[[Call, Any], Awaitable[Any]] = innermost
    for layer in reversed(layers):
        step = _nested(layer, step)

    async def handle(request: Any, context: Any) -> Any:
        return await step(Call(method, context), request)

    return handle


def _nested(layer: Layer, inner: Callable[[Call, Any], Awaitable[Any]]) -> Callable[[Call, Any], Awaitable[Any]]:
    def step(call: Call, request: Any) -> Awaitable[Any]:
        return layer(call, lambda: inner(call, request))

    return step


def _not_available(method: str) -> Handler:
    name = method.rpartition("/")[2]

    async def refuse(_request: Any, _context: Any) -> None:
        raise NotAvailableError(f"{name} is not available in this version", feature=name)

    return refuse
