"""The path of a call on the server, from its first byte to its log line, in one place: read `CallPath`.

Every handler, also one that streams answers, is turned into a coroutine that ends with the call. So the path sees
errors after the first streamed message, and cancellation while a slow reader takes one.

The library would read the request of a unary call before any code of ours runs, wait for it without limit, and answer
UNKNOWN to bytes that are no message. Therefore it is told that every method streams requests, and they are read here.
"""

import asyncio
import inspect
import re
import secrets
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, NoReturn, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    DrainingError,
    FieldViolation,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotAvailableError,
    ResponseTooLargeError,
    StartError,
    StreamIdleError,
)
from groundwire.rpc.error_status import code_of, public_text, to_status, to_trailer
from groundwire.rpc.methods import INFRASTRUCTURE, STREAM_IDLE_S, DeadlineTable, Work, work_of
from groundwire.rpc.request_context import REQUEST_ID_KEY, RequestContext, bind

if TYPE_CHECKING:
    from groundwire.rpc.admission import Admission

MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Handler: TypeAlias = Callable[[Any, Any], Awaitable[Any]]
"""A method as a coroutine function of the request (or request iterator) and the context."""

MAX_RESPONSE_BYTES: Final = 4 << 20
"""Largest message that a server sends: what clients of every language take by default."""
_USER_AGENT_KEY: Final = "user-agent"
# Anything else could forge log lines.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_REQUEST_ID_BYTES: Final = 16
# Trailer that tells the retry machinery of gRPC clients how long to wait.
_PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
# How long a client may take to make room for the status of a failed call.
_STATUS_S: Final = 1.0
# The clock of a caller began before ours: its cancellation at its deadline comes in shortly before our deadline.
_TRANSIT_S: Final = 0.1

_log = structlog.get_logger(__name__)


class CallPath:
    """Stands where the generated `add_…_to_server` expects a server, and takes every call of it along one path.

    Request id, time limit and peer are bound, the first message is waited for, a place among the calls of its kind is
    taken, the handler runs within the time limit, errors become statuses, and one line goes to the log. An interceptor
    of the library would do the same in a tenth of a millisecond more for each call: it looks for the handler anew each
    time, in coroutines.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        admission: "Admission",
        deadlines: DeadlineTable,
        *,
        idle_s: float = STREAM_IDLE_S,
    ) -> None:
        self._server = server
        self._admission = admission
        self._deadlines = deadlines
        self._idle_s = idle_s

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Add handlers to the server, with the path around them."""
        self._server.add_generic_rpc_handlers([_Wrapped(handler, self._wrap) for handler in handlers])

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Do nothing: these are the handlers again, for servers that find them by their full name."""

    def _wrap(self, method: str, handler: Any) -> MethodHandler:
        """Return a handler that takes a stream of bytes and runs the path, which reads the requests."""
        inbound = "stream" if handler.request_streaming else "unary"
        outbound = "stream" if handler.response_streaming else "unary"
        behaviour = as_coroutine(method, getattr(handler, f"{inbound}_{outbound}"))
        work, limit_s = work_of(method), self._deadlines.limit_s(method)

        async def handle(_requests: Any, context: Any) -> Any:
            return await self._handle(Call(method, work, context, handler, self._idle_s), behaviour, limit_s)

        replaced: MethodHandler = handler._replace(
            request_streaming=True,
            request_deserializer=None,
            **({f"{inbound}_{outbound}": None} | {f"stream_{outbound}": handle}),
        )
        return replaced

    async def _handle(self, call: "Call", behaviour: Handler, limit_s: float | None) -> Any:
        """Bind the context of the call, respond, and log method, code, time, request id and peer; never its content."""
        request_id: Any = ""
        user_agent = ""
        for key, value in call.context.invocation_metadata() or ():
            if key == REQUEST_ID_KEY:
                request_id = value
            elif key == _USER_AGENT_KEY:
                user_agent = value
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = secrets.token_hex(_REQUEST_ID_BYTES)
        # The caller's deadline, but never more than the server's limit for the method.
        caller_s: float | None = call.context.time_remaining()
        budget = Budget(min((seconds for seconds in (caller_s, limit_s) if seconds is not None), default=None))
        bind(RequestContext(request_id=request_id, budget=budget, user_agent=user_agent))
        call.context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))

        started = time.perf_counter()
        cancelled = False
        try:
            return await self._respond(call, behaviour, budget)
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            if cancelled:  # by the library: the caller's deadline passed, or the caller left
                remaining_s = budget.remaining_s()
                has_passed = remaining_s is not None and remaining_s <= _TRANSIT_S
                code = "DEADLINE_EXCEEDED" if has_passed else "CANCELLED"
            else:
                status = call.context.code()
                code = status.name if isinstance(status, grpc.StatusCode) else "OK"
            log = _log.debug if call.is_infrastructure else _log.info
            elapsed_ms = round((time.perf_counter() - started) * 1000, 2)
            log("call", method=call.method, code=code, ms=elapsed_ms, request_id=request_id, user_agent=user_agent)

    async def _respond(self, call: "Call", behaviour: Handler, budget: Budget) -> Any:
        """Return the response, or end the call with the status of its error, also after the first streamed message.

        Kernel errors go through the table. A status that the handler set itself by `context.abort` stays.
        Anything else is a defect: it is logged with its traceback and an error id, and the caller gets the id only.
        """
        try:
            await self._admission.enter(call)
            try:
                return await _within(budget, call, behaviour)
            except asyncio.CancelledError:
                if not self._admission.is_cutting:
                    raise
                raise DrainingError("the server stopped before the call was done") from None
            finally:
                self._admission.expire_untaken(call)
        except grpc.aio.AbortError:
            raise  # the status was sent
        except Exception as error:  # noqa: BLE001 - as_groundwire_error logs what is not ours
            await _abort(call.context, as_groundwire_error(error, call.method))


async def _within(budget: Budget, call: "Call", behaviour: Handler) -> Any:
    """Run the handler until the budget ends.

    Whatever ends the call early cancels the budget, so that work in threads stops within one batch.
    """
    try:
        async with asyncio.timeout(budget.remaining_s()) as limit:
            response = await behaviour(call.request, _Context(call))
            if response is not None:
                _check_size(response)
            return response
    except TimeoutError as error:
        budget.cancel()
        if not limit.expired():
            raise
        raise DeadlineError("the time limit of the call has passed") from error
    except BaseException:
        budget.cancel()
        raise


def as_groundwire_error(error: Exception, method: str) -> GroundwireError:
    """Return the kernel error that the caller may see; log whatever is none."""
    while isinstance(error, ExceptionGroup) and len(error.exceptions) == 1:
        (error,) = error.exceptions  # what one failed task of a task group looks like
    if isinstance(error, GroundwireError) and not isinstance(error, StartError):
        return error
    error_id = uuid.uuid4().hex
    _log.error("internal error", method=method, error_id=error_id, exc_info=error)
    return InternalError("internal error", error_id=error_id)


async def _abort(context: Any, error: GroundwireError) -> None:
    """Send the status; what the library raises then, it raises again when the handler has returned.

    A client that takes nothing does not take a status either, and one that is gone cannot.
    """
    status = to_status(error)
    if public_text(error, error.message) != error.message:
        _log.warning("call failed", error=error.message)  # the caller does not get all of it
    trailers = [*(context.trailing_metadata() or ()), to_trailer(status)]
    if error.retry_after_s is not None:
        trailers.append((_PUSHBACK_KEY, str(int(error.retry_after_s * 1000))))
    with suppress(TimeoutError, grpc.aio.InternalError):
        async with asyncio.timeout(_STATUS_S):
            await context.abort(code_of(type(error)), status.message, tuple(trailers))


# Messages and handlers


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
        description = f"would be answered with {size} bytes; clients take {MAX_RESPONSE_BYTES}, ask for less"
        violation = FieldViolation("request", description)
        raise ResponseTooLargeError([violation], size_bytes=size, limit_bytes=MAX_RESPONSE_BYTES)


def _raise_idle(limit: asyncio.Timeout, error: TimeoutError, what: str, idle_s: float) -> NoReturn:
    if not limit.expired():
        raise error
    raise StreamIdleError(f"the client {what} for {idle_s:g} s", limit_s=idle_s) from None


class _Wrapped(grpc.GenericRpcHandler):
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
        name = method.rpartition("/")[2]

        async def refuse(_request: Any, _context: Any) -> None:
            raise NotAvailableError(f"{name} is not available in this version", feature=name)

        return refuse

    async def write_all(request: Any, context: Any) -> None:
        async with aclosing(behaviour(request, context)) as messages:
            async for message in messages:
                await context.write(message)

    return write_all
