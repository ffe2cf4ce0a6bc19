"""How the clients send their calls, and the two ways to wait for responses.

Each method of a client is written once, as a coroutine decorated with `Operation`. With `AsyncTransport` it waits in
the event loop; with `SyncTransport` it blocks the thread, never suspends, and so finishes in a single step.
"""

import asyncio
import functools
import inspect
import operator
import re
import threading
from collections.abc import (
    AsyncGenerator,
    AsyncIterable,
    Callable,
    Coroutine,
    Generator,
    Iterable,
    Iterator,
    Mapping,
)
from concurrent.futures import Future
from contextlib import aclosing, closing, contextmanager
from datetime import timedelta
from types import MethodType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Final,
    Generic,
    ParamSpec,
    SupportsFloat,
    SupportsIndex,
    TypeAlias,
    TypeVar,
    overload,
)

import grpc
from google.protobuf.message import Message

from groundwire.kernel.errors import CallCancelledError, DocumentNotFoundError, GroundwireError, InvalidRequestError
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import DeadlineTable

if TYPE_CHECKING:
    from groundwire.client.contract import StreamCall, UnaryCall

RequestT = TypeVar("RequestT", bound=Message)
ResponseT = TypeVar("ResponseT", bound=Message)
ResultT = TypeVar("ResultT")
ItemT = TypeVar("ItemT")
Params = ParamSpec("Params")
HEALTH_PATH: Final = "/grpc.health.v1.Health/Check"
_SERVICES = ("ingest", "retrieve", "answer")
# Longer than any call; the library takes a limit that no clock can hold, such as infinity, for one that has passed.
LONGEST_S: Final = 365 * 86_400.0
_METADATA_KEY = re.compile(r"[A-Za-z0-9_.-]+")
_URL = re.compile(r"(?:^|[=,])https?://", re.IGNORECASE)
_NAMED = re.compile(r"(?:^|,)(ingest|retrieve|answer)=")
CallMetadata: TypeAlias = Mapping[str, str] | Callable[[], Mapping[str, str]]
"""Metadata of calls by their keys, such as `{"authorization": "Bearer …"}`, or a function that returns them."""


def addresses(address: str) -> dict[str, str]:
    """Return the target of each service: the address, or what stands behind the name of the service in it.

    Raises:
        InvalidRequestError: it is blank or a URL, a target has no port, something stands before the first name, or a
            name comes twice.
    """
    if not address.strip() or _URL.search(address):
        raise InvalidRequestError.of("address", "must be HOST:PORT without http://, or one for each service")
    before, *named = _NAMED.split(address)
    found = dict(zip(named[::2], named[1::2], strict=True)) if named else dict.fromkeys(_SERVICES, address)
    if (named and before) or not all(found.values()) or len(found) < len(named) // 2:
        raise InvalidRequestError.of("address", "names each service once: ingest=HOST:PORT,retrieve=…,answer=…")
    # gRPC would take the port of https. A name without a colon, and an IPv6 address in brackets, have none.
    portless = next((target for target in found.values() if ":" not in target or target.endswith("]")), None)
    if portless is not None:
        raise InvalidRequestError.of("address", f"needs a port, such as {portless}:50051")
    return found


class _Transport:
    """Channels, and what every call on them has in common.

    Args:
        channels: gRPC channels by service, blocking or asynchronous to match the subclass.
        timeout_s: time limit of every call, instead of those in `groundwire.rpc.methods`.
        metadata: sent with each call; a function is called each time, so that tokens can be renewed.
    """

    def __init__(
        self, channels: Mapping[str, Any], timeout_s: float | None = None, metadata: CallMetadata | None = None
    ) -> None:
        self.channels = channels
        self.closed = threading.Event()
        self.bound_calls: dict[object, Any] = {}
        """Calls of the contract that have been opened on these channels."""
        check_argument("timeout_s", timeout_s, float | None)
        if timeout_s is not None and not timeout_s > 0:
            raise InvalidRequestError.of("timeout_s", f"must be above 0, not {timeout_s}")
        self._timeout_s = None if timeout_s is None else min(timeout_s, LONGEST_S)
        self._metadata = metadata

    def limit_s(self, path: str) -> float | None:
        return DeadlineTable().limit_s(path) if self._timeout_s is None else self._timeout_s

    def sent_metadata(self) -> tuple[tuple[str, str], ...] | None:
        """Return the metadata of a call that begins now.

        Raises:
            InvalidRequestError: HTTP/2 cannot carry them; names the key, not the value, which may be a secret.
        """
        given = self._metadata() if callable(self._metadata) else self._metadata
        for key, value in given.items() if given else ():
            shown = str(value)  # the library takes bytes under some keys
            if not (_METADATA_KEY.fullmatch(key) and shown.isascii() and shown.isprintable()):
                rule = "a key must be of letters, digits and '._-', and its value a text of printable ASCII"
                raise InvalidRequestError.of("metadata", f"{key!r} cannot be sent: {rule}")
        # HTTP/2 has lower-case keys only; the library would refuse others.
        return tuple((key.lower(), value) for key, value in given.items()) if given else None

    @contextmanager
    def typed_errors(self) -> Iterator[None]:
        """Raise the error that the server raised, or CallCancelledError if the client was closed."""
        try:
            yield
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        except (ValueError, grpc.aio.UsageError) as error:  # what the library says of a channel that is closed
            if not self.closed.is_set():
                raise
            raise CallCancelledError("the client is closed") from error
        except asyncio.CancelledError as error:  # the library cancels calls under way as if their task had been
            task = asyncio.current_task()
            if not self.closed.is_set() or (task is not None and task.cancelling()):
                raise
            raise CallCancelledError("the client was closed") from error

    def open_method(self, path: str, kind: str, response_type: type[Message]) -> Callable[..., Any]:
        """Return a method on the channel of its service; `kind` is what the library calls it, such as `unary_unary`.

        Raises:
            InvalidRequestError: no address of the service is known; of a health check, when it is called.
        """

        def opened(service: str) -> Any:
            # Calls that every server answers go to the first one.
            channel = self.channels.get(service) if service in _SERVICES else next(iter(self.channels.values()))
            if channel is None:
                raise InvalidRequestError.of("address", f"names no server for {service}")
            return getattr(channel, kind)(
                path,
                request_serializer=lambda message: message.SerializeToString(),
                response_deserializer=response_type.FromString,
            )

        # The message of a health check names the service, so its channel is chosen at each call.
        if path == HEALTH_PATH:
            return lambda request, **options: opened(_service_of(request.service))(request, **options)
        method: Callable[..., Any] = opened("ingest" if path.startswith("/google.longrunning.") else _service_of(path))
        return method

    async def exchange(
        self,
        path: str,
        messages: AsyncGenerator[Message, None],
        response_type: type[ResponseT],
        timeout_s: float | None = None,
    ) -> AsyncGenerator[ResponseT, None]:
        """Send messages as they come, and yield the responses meanwhile; what the messages raise, this does too."""
        failures: list[Exception] = []

        async def sent() -> AsyncGenerator[Message, None]:
            try:
                async with aclosing(messages):
                    async for message in messages:
                        yield message
            except Exception as error:
                failures.append(error)
                raise

        # Of a call with one response, too: it is sent like a stream of one.
        method = self.open_method(path, "stream_stream", response_type)
        limit_s = self.limit_s(path) if timeout_s is None else min(timeout_s, LONGEST_S)
        try:
            with self.typed_errors():
                call = method(self.taken(sent()), timeout=limit_s, metadata=self.sent_metadata())
            async with aclosing(self.responses(call)) as responses:
                async for response in responses:
                    yield response
        except (GroundwireError, asyncio.CancelledError):
            if failures:  # the library ends the call, and says nothing of why
                raise failures[0] from None
            raise

    def taken(self, messages: AsyncGenerator[Message, None]) -> Any:
        """Return messages as the library takes them."""
        raise NotImplementedError

    def responses(self, call: Any) -> AsyncGenerator[Any, None]:
        """Yield the responses of a call, which ends with this."""
        raise NotImplementedError


def _service_of(name: str) -> str:
    """Return the third part of a name such as `groundwire.api.answer.v1.AnswerService`; "" of those of others."""
    return name.partition("groundwire.api.")[2].partition(".")[0]


class SyncTransport(_Transport):
    """Blocks the thread, so that its coroutines never suspend."""

    async def send(self, call: "UnaryCall[..., RequestT, ResponseT]", request: RequestT) -> ResponseT:
        """Send a request and return the response; errors are those of `groundwire.kernel.errors`."""
        response: ResponseT = call.bound(self).send(request)
        return response

    async def receive(
        self, call: "StreamCall[..., RequestT, ResponseT]", request: RequestT
    ) -> AsyncGenerator[ResponseT, None]:
        """Send a request and yield the responses."""
        with closing(call.bound(self).send(request)) as responses:
            for response in responses:
                yield response

    async def off_loop(self, work: Callable[[], ResultT]) -> ResultT:
        return work()

    async def pause(self, pause_s: float) -> bool:
        """Wait; return False as soon as the client is closed."""
        return not self.closed.wait(pause_s)

    async def outcome_of(self, future: "Future[ResultT]") -> ResultT:
        return future.result()

    def taken(self, messages: AsyncGenerator[Message, None]) -> Any:
        return _blocking(messages)  # in a thread of the library

    async def responses(self, call: Any) -> AsyncGenerator[Any, None]:
        with self.typed_errors():
            try:
                for response in call:
                    yield response
            finally:
                call.cancel()


class AsyncTransport(_Transport):
    """Waits in the event loop; its methods are those of `SyncTransport`."""

    async def send(self, call: "UnaryCall[..., RequestT, ResponseT]", request: RequestT) -> ResponseT:
        response: ResponseT = await call.bound(self).send(request)
        return response

    async def receive(
        self, call: "StreamCall[..., RequestT, ResponseT]", request: RequestT
    ) -> AsyncGenerator[ResponseT, None]:
        async with aclosing(call.bound(self).send(request)) as responses:
            async for response in responses:
                yield response

    async def off_loop(self, work: Callable[[], ResultT]) -> ResultT:
        """Return what the work returns, which is done in a thread."""
        return await asyncio.to_thread(work)

    async def pause(self, pause_s: float) -> bool:
        """Wait; return False if the client was closed meanwhile."""
        await asyncio.sleep(pause_s)
        return not self.closed.is_set()

    async def outcome_of(self, future: "Future[ResultT]") -> ResultT:
        """Return what a future becomes."""
        return await asyncio.wrap_future(future)

    def taken(self, messages: AsyncGenerator[Message, None]) -> Any:
        return messages

    async def responses(self, call: Any) -> AsyncGenerator[Any, None]:
        with self.typed_errors():
            try:
                async for response in call:
                    yield response
            finally:
                call.cancel()


Transport: TypeAlias = SyncTransport | AsyncTransport
"""What coroutines for both kinds of client send their calls with."""


# Methods that are written once


class Caller:
    """A client, or a part of one."""

    _transport: Transport


class SyncCaller(Caller):
    """A client whose methods block until they are done."""

    _transport: SyncTransport


class AsyncCaller(Caller):
    """A client whose methods are awaited or iterated with `async for`."""

    _transport: AsyncTransport


class _TwoWays:
    """A method in two forms: `awaited` as it was written, `blocking` as a function that runs it to its end."""

    def __init__(self, awaited: Callable[..., Any], blocking: Callable[..., Any]) -> None:
        self.awaited = awaited
        self.blocking = functools.wraps(awaited)(blocking)

    def __get__(self, owner: Any, kind: type) -> Any:
        """Return the form that fits the owner or, asked of a class, its kind."""
        function = self.blocking if issubclass(kind, SyncCaller) else self.awaited
        return function if owner is None else MethodType(function, owner)


class Operation(_TwoWays, Generic[Params, ResultT]):
    """Decorates a coroutine function of a `Caller`: in a blocking one the method returns its result directly."""

    def __init__(self, body: Callable[Concatenate[Any, Params], Coroutine[Any, Any, ResultT]]) -> None:
        def blocking(owner: Any, *arguments: Params.args, **named: Params.kwargs) -> Any:
            return _finish(_begin(body, owner, *arguments, **named))

        @functools.wraps(body)
        async def awaited(owner: Any, *arguments: Params.args, **named: Params.kwargs) -> Any:
            return await _begin(body, owner, *arguments, **named)

        super().__init__(awaited, blocking)

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, owner: SyncCaller, kind: type) -> Callable[Params, ResultT]: ...
    @overload
    def __get__(self, owner: AsyncCaller, kind: type) -> Callable[Params, Coroutine[Any, Any, ResultT]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        return super().__get__(owner, kind)


class StreamOperation(_TwoWays, Generic[Params, ItemT]):
    """Decorates an asynchronous generator of a `Caller`: in a blocking one the method is a generator.

    Closing the generator early ends the work on the server.
    """

    def __init__(self, body: Callable[Concatenate[Any, Params], AsyncGenerator[ItemT, None]]) -> None:
        def blocking(owner: Any, *arguments: Params.args, **named: Params.kwargs) -> Generator[ItemT, None, None]:
            yield from _blocking(_begin(body, owner, *arguments, **named))

        super().__init__(body, blocking)

    @overload
    def __get__(self, owner: None, kind: type) -> Callable[..., Any]: ...
    @overload
    def __get__(self, owner: SyncCaller, kind: type) -> Callable[Params, Generator[ItemT, None, None]]: ...
    @overload
    def __get__(self, owner: AsyncCaller, kind: type) -> Callable[Params, AsyncGenerator[ItemT, None]]: ...
    def __get__(self, owner: Any, kind: type) -> Any:
        return super().__get__(owner, kind)


@contextmanager
def valid_texts(named: Mapping[str, Any]) -> Iterator[None]:
    """Name the one of these values that is a text with half a character, which UTF-8 cannot hold.

    Raises:
        InvalidRequestError: in place of the error of the codec.
    """
    try:
        yield
    except UnicodeEncodeError as error:
        names = (name for name, value in named.items() if value == error.object)
        problem = f"is not UTF-8: has {error.object[error.start]!a} at character {error.start}"
        raise InvalidRequestError.of(next(names, "request"), problem) from error


_signature = functools.cache(inspect.signature)
# Bits of the whole numbers that a method takes: nearly all are counts, and of this type in the messages.
_BITS: Final = 32
_BITS_OF: Final = {"snapshot": 64}
# What the library of the messages takes for an annotation, such as numbers of numpy; None stands for a field left out.
_TAKEN: Final[Mapping[Any, tuple[Any, str]]] = {
    str: (str, "a text"),
    str | None: (str | None, "a text"),
    int | None: (SupportsIndex | None, "a whole number"),
    float | None: (SupportsFloat | SupportsIndex | None, "a number"),
    timedelta | None: (timedelta | None, "a timedelta"),
    bool: (SupportsIndex | None, "true or false"),
    Mapping[str, int | None] | None: (Mapping | None, "a mapping of names to numbers"),
    Iterable[str] | AsyncIterable[str]: (Iterable | AsyncIterable, "a list of texts"),
}


def check_argument(name: str, value: Any, annotation: Any) -> None:
    """Return if a value is of the kind of its annotation, as far as it is one of `_TAKEN`.

    Raises:
        TypeError: it is not; the library of the messages would not say for which argument.
        InvalidRequestError: a text holds half a character, as JSON can spell it, or a number is out of range.
    """
    kinds, must = _TAKEN.get(annotation, (object, ""))
    if not isinstance(value, kinds) or (must == "a whole number" and isinstance(value, bool)):
        raise TypeError(f"{name} must be {must}, not {value!r}")
    if must == "a text" and value is not None:
        with valid_texts({name: value}):
            value.encode()
    if must == "a whole number" and value is not None:
        bits = _BITS_OF.get(name, _BITS)
        if not -(2 ** (bits - 1)) <= operator.index(value) < 2 ** (bits - 1):
            raise InvalidRequestError.of(name, f"must be {must} of at most {bits} bits, not {value!r}")


def _begin(body: Callable[..., Any], *arguments: Any, **named: Any) -> Any:
    """Call a method that was written as a coroutine or generator: it does not run yet, only its arguments are taken.

    Raises:
        TypeError: it does not take them; says what it takes.
        TypeError, InvalidRequestError: as `check_argument` does.
    """
    signature = _signature(body)
    try:
        taken = signature.bind(*arguments, **named).arguments
    except TypeError as error:
        raise TypeError(f"{error}; it takes {', '.join(list(signature.parameters)[1:])}") from None
    for name, value in taken.items():
        check_argument(name, value, signature.parameters[name].annotation)
    return body(*arguments, **named)


def _finish(coroutine: Any) -> Any:
    """Run a coroutine that only awaits blocking work: it never suspends, so a single step finishes it."""
    try:
        coroutine.send(None)
    except StopIteration as done:
        return done.value
    raise RuntimeError("a coroutine of a blocking client was suspended")


def _blocking(items: AsyncGenerator[ItemT, None]) -> Generator[ItemT, None, None]:
    """Yield what a generator does that only awaits blocking work."""
    try:
        while True:
            try:
                item = _finish(items.__anext__())
            except StopAsyncIteration:
                return
            yield item
    finally:
        _finish(items.aclose())


_PAGE_SIZE: Final = 200


@StreamOperation
async def all_items(
    client: Caller, /, call: "UnaryCall[..., Any, Any]", field: str, **request: Any
) -> AsyncGenerator[Any, None]:
    """Yield what the pages of a list call have in `field`; a page is fetched when it is needed."""
    asked = call.request(**{"page_size": _PAGE_SIZE, **request})
    # A page may be empty and still have a successor, so only the token ends the list.
    while True:
        page = await client._transport.send(call, asked)  # noqa: SLF001 - it is part of the client
        for item in getattr(page, field):
            yield item
        if not page.next_page_token:
            return
        asked.page_token = page.next_page_token


@Operation
async def on_document(client: Caller, /, call: "UnaryCall[..., Any, Any]", request: Any, document: str) -> Any:
    """Send a request that concerns the document of this id, else that of this source or alias.

    Raises:
        DocumentNotFoundError: there is neither; it names what was asked for.
    """
    request.reference.document_id = document
    try:
        return await client._transport.send(call, request)  # noqa: SLF001 - see above
    except DocumentNotFoundError as error:
        request.reference.source_uri = document
        try:
            return await client._transport.send(call, request)  # noqa: SLF001 - see above
        except (DocumentNotFoundError, InvalidRequestError):
            raise error from None
