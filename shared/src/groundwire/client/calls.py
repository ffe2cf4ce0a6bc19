"""Descriptors that turn one line of the table of calls into a typed method of both clients.

`client.get_document(collection="rust", document_id="doc_…")` takes the fields of the request message as keywords and
returns the response message (or an iterator of them, or an awaitable, as the client and the call are).
`client.get_document.send(request, timeout_s=5)` takes a ready request.
"""

import uuid
from collections.abc import AsyncGenerator, Callable, Generator
from dataclasses import dataclass
from typing import Any, Generic, ParamSpec, TypeVar, overload

import grpc
from google.protobuf.message import Message

from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import DeadlineTable

Params = ParamSpec("Params")
RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)


@dataclass(frozen=True, slots=True)
class SyncTransport:
    """Where a synchronous client sends its calls; `timeout_s` replaces the time limit of every call."""

    channel: grpc.Channel
    timeout_s: float | None = None


@dataclass(frozen=True, slots=True)
class AsyncTransport:
    """Where an asynchronous client sends its calls; `timeout_s` replaces the time limit of every call."""

    channel: grpc.aio.Channel
    timeout_s: float | None = None


class SyncCaller:
    """A client that blocks."""

    _transport: SyncTransport


class AsyncCaller:
    """A client that awaits."""

    _transport: AsyncTransport


@dataclass(frozen=True, slots=True)
class _Bound(Generic[Params, RequestT]):
    """A call on one channel: makes the request and invokes the method."""

    make: Callable[Params, RequestT]
    invoke: Callable[..., Any]
    limit_s: float | None

    def start(self, request: RequestT, timeout_s: float | None) -> Any:
        """Send a copy of the request with a request id, if it can have one and has none."""
        return self.invoke(with_request_id(request), timeout=self.limit_s if timeout_s is None else timeout_s)


class SyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return self.send(self.make(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        try:
            response: ResponseT = self.start(request, timeout_s)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        return response


class AsyncUnary(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with one response."""

    __slots__ = ()

    async def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> ResponseT:
        """Send the request with these fields and return the response."""
        return await self.send(self.make(*args, **kwargs))

    async def send(self, request: RequestT, *, timeout_s: float | None = None) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        try:
            response: ResponseT = await self.start(request, timeout_s)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        return response


class SyncStream(_Bound[Params, RequestT], Generic[Params, RequestT, ResponseT]):
    """A call with a stream of responses; closing the iterator early cancels it."""

    __slots__ = ()

    def __call__(self, *args: Params.args, **kwargs: Params.kwargs) -> Generator[ResponseT, None, None]:
        """Send the request with these fields and yield the responses."""
        return self.send(self.make(*args, **kwargs))

    def send(self, request: RequestT, *, timeout_s: float | None = None) -> Generator[ResponseT, None, None]:
        """Send a request and yield the responses; errors are those of `groundwire.kernel.errors`."""
        call = self.start(request, timeout_s)
        try:
            yield from call
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
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
        call = self.start(request, timeout_s)
        try:
            async for response in call:
                yield response
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        finally:
            call.cancel()


class _Call(Generic[Params, RequestT, ResponseT]):
    """One method of the contract: its path, its request class as a function of its fields, its response class."""

    def __init__(self, path: str, request: Callable[Params, RequestT], response: type[ResponseT]) -> None:
        self.path = path
        self.request = request
        self.response = response
        self._name = ""

    def __set_name__(self, owner: type, name: str) -> None:
        self._name = name

    def _bind(self, client: SyncCaller | AsyncCaller, kind: Callable[..., Any], open_method: str) -> Any:
        transport = client._transport  # noqa: SLF001 - the descriptor is part of the client
        invoke = getattr(transport.channel, open_method)(
            self.path,
            request_serializer=lambda message: message.SerializeToString(),
            response_deserializer=self.response.FromString,
        )
        limit_s = DeadlineTable().limit_s(self.path) if transport.timeout_s is None else transport.timeout_s
        bound = kind(self.request, invoke, limit_s)
        client.__dict__[self._name] = bound  # found before this descriptor from now on
        return bound


class UnaryCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and one response."""

    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncUnary[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncUnary[Params, RequestT, ResponseT]: ...
    def __get__(self, client: SyncCaller | AsyncCaller, owner: type) -> Any:
        """Return the call on the client's channel."""
        return self._bind(client, SyncUnary if isinstance(client, SyncCaller) else AsyncUnary, "unary_unary")


class StreamCall(_Call[Params, RequestT, ResponseT]):
    """A method with one request and a stream of responses."""

    @overload
    def __get__(self, client: SyncCaller, owner: type) -> SyncStream[Params, RequestT, ResponseT]: ...
    @overload
    def __get__(self, client: AsyncCaller, owner: type) -> AsyncStream[Params, RequestT, ResponseT]: ...
    def __get__(self, client: SyncCaller | AsyncCaller, owner: type) -> Any:
        """Return the call on the client's channel."""
        return self._bind(client, SyncStream if isinstance(client, SyncCaller) else AsyncStream, "unary_stream")


def with_request_id(request: RequestT) -> RequestT:
    """Return the request, or, where it could have a request id and has none, a copy with a new one.

    The id makes the retries of the channel safe. A streamed question carries it in its `ask` field.
    """
    fields = request.DESCRIPTOR.fields_by_name
    holder: Any = request
    if "request_id" not in fields:
        if "ask" not in fields:
            return request
        holder = holder.ask
    if holder.request_id:
        return request
    copy: Any = type(request)()
    copy.CopyFrom(request)
    (copy if "request_id" in fields else copy.ask).request_id = str(uuid.uuid4())
    identified: RequestT = copy
    return identified
