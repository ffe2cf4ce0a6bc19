"""Descriptors that turn one line of the table of calls into a typed method of both clients.

`client.list_chunks(collection="rust", page_size=100)` takes the fields of the request message as keywords and returns
the response message (or an iterator of them, or an awaitable, as the client and the call are).
`client.get_document.send(request, timeout_s=5)` takes a ready request.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, Self, overload

from groundwire.client.transport import (
    AsyncCaller,
    AsyncTransport,
    RequestT,
    ResponseT,
    SyncCaller,
    SyncTransport,
    Transport,
)

Params = ParamSpec("Params")


@dataclass(frozen=True, slots=True)
class _Bound(Generic[Params, RequestT]):
    """A call on one channel: makes the request and invokes the method."""

    make: Callable[Params, RequestT]
    invoke: Callable[..., Any]
    limit_s: float | None
    transport: Transport

    def start(self, request: RequestT, timeout_s: float | None) -> Any:
        """Send a copy of the request with a request id, if it can have one and has none."""
        return self.invoke(
            with_request_id(request),
            timeout=self.limit_s if timeout_s is None else timeout_s,
            metadata=self.transport.sent_metadata(),
        )


class SyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return self.send(self.make(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            response: ResponseT = self.start(request, timeout_s)
        return response


class AsyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    async def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return await self.send(self.make(*args, **kwargs))

    async def send(self, request: RequestT, *, timeout_s: float | None = None) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            response: ResponseT = await self.start(request, timeout_s)
        return response


class SyncStream(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with a stream of responses; closing the iterator early cancels it."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Generator[ResponseT, None, None]:
        """Send the request with these fields and yield the responses."""
        return self.send(self.make(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> Generator[ResponseT, None, None]:
        """Send a request and yield the responses; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            call = self.start(request, timeout_s)
            try:
                yield from call
            finally:
                call.cancel()


class AsyncStream(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with a stream of responses; closing the iterator early cancels it."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> AsyncGenerator[ResponseT, None]:
        """Send the request with these fields and yield the responses."""
        return self.send(self.make(*args, **kwargs))

    async def send(self, request: RequestT, *, timeout_s: float | None = None) -> AsyncGenerator[ResponseT, None]:
        """Send a request and yield the responses; errors are those of `groundwire.kernel.errors`."""
        with self.transport.typed_errors():
            call = self.start(request, timeout_s)
            try:
                async for response in call:
                    yield response
            finally:
                call.cancel()


class _Call(Generic[Params, RequestT, ResponseT]):
    """One method of the contract: its path, its request class as a function of its fields, its response class."""

    def __init__(self, path: str, request: Callable[Params, RequestT], response: type[ResponseT]) -> None:
        self.path = path
        self.request = request
        self.response = response

    def _bind(self, transport: Transport, kind: Callable[..., Any], open_method: str) -> Any:
        bound = transport.bound_calls.get(self.path)
        if bound is None:
            invoke = getattr(transport.channel, open_method)(
                self.path,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=self.response.FromString,
            )
            bound = kind(self.request, invoke, transport.limit_s(self.path), transport)
            transport.bound_calls[self.path] = bound
        return bound


class UnaryCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and one response."""

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncUnary[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncUnary[Params, RequestT, ResponseT]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the call on the client's channel, or asked of the class this line of the table."""
        if client is None:
            return self
        transport = client._transport  # noqa: SLF001 - the descriptor is part of the client
        return self.blocking(transport) if isinstance(client, SyncCaller) else self.awaited(transport)

    def blocking(self, transport: SyncTransport) -> SyncUnary[Params, RequestT, ResponseT]:
        """Return the call as one that blocks."""
        bound: SyncUnary[Params, RequestT, ResponseT] = self._bind(transport, SyncUnary, "unary_unary")
        return bound

    def awaited(self, transport: AsyncTransport) -> AsyncUnary[Params, RequestT, ResponseT]:
        """Return the call as one to await."""
        bound: AsyncUnary[Params, RequestT, ResponseT] = self._bind(transport, AsyncUnary, "unary_unary")
        return bound


class StreamCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and a stream of responses."""

    @overload
    def __get__(self, client: None, owner: type) -> Self: ...
    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncStream[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncStream[Params, RequestT, ResponseT]: ...
    def __get__(self, client: Any, owner: type) -> Any:
        """Return the call on the client's channel, or asked of the class this line of the table."""
        if client is None:
            return self
        transport = client._transport  # noqa: SLF001 - the descriptor is part of the client
        return self.blocking(transport) if isinstance(client, SyncCaller) else self.awaited(transport)

    def blocking(self, transport: SyncTransport) -> SyncStream[Params, RequestT, ResponseT]:
        """Return the call as one to iterate over."""
        bound: SyncStream[Params, RequestT, ResponseT] = self._bind(transport, SyncStream, "unary_stream")
        return bound

    def awaited(self, transport: AsyncTransport) -> AsyncStream[Params, RequestT, ResponseT]:
        """Return the call as one to iterate over with `async for`."""
        bound: AsyncStream[Params, RequestT, ResponseT] = self._bind(transport, AsyncStream, "unary_stream")
        return bound


def with_request_id(request: RequestT) -> RequestT:
    """Return the request, or, where it could have a request id and has none, a copy with a new one.

    The id makes the retries of the channel safe.
    """
    given: Any = request
    if "request_id" not in request.DESCRIPTOR.fields_by_name or given.request_id:
        return request
    copy: Any = type(request)()
    copy.CopyFrom(request)
    copy.request_id = str(uuid.uuid4())
    identified: RequestT = copy
    return identified
