"""The path of a call on the server, from its first byte to its log line, in one place: read `CallPath`.

Every handler, also one that streams answers, is turned into a coroutine that ends with the call. So the path sees
errors after the first streamed message, and cancellation while a slow reader takes one.

The library would read the request of a unary call before any code of ours runs, wait for it without limit, and answer
UNKNOWN to bytes that are no message. So every method is declared as a stream of requests, which are read here.
"""

import asyncio
import inspect
import random
import re
import time
import uuid
from collections.abc import Awaitable, Callable, Iterable, Mapping
from contextlib import aclosing, suppress
from typing import TYPE_CHECKING, Any, Final, NamedTuple, NoReturn, TypeAlias

import grpc
import structlog
from google.protobuf.message import DecodeError

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    CallCancelledError,
    DeadlineError,
    DrainingError,
    ExhaustedError,
    FieldViolation,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotAvailableError,
    QuotaExceededError,
    ResponseTooLargeError,
    StartError,
    StreamIdleError,
)
from groundwire.kernel.identity import NOBODY, Identity
from groundwire.kernel.latencies import Latencies
from groundwire.rpc.access import Access
from groundwire.rpc.error_status import code_of, public_text, to_status, to_trailer
from groundwire.rpc.methods import BYTES_PER_UNIT, INFRASTRUCTURE, STREAM_IDLE_S, DeadlineTable, Work, cost_of, work_of
from groundwire.rpc.request_context import (
    ACTS_FOR_KEY,
    AUTHORIZATION_KEY,
    REQUEST_ID_KEY,
    RequestContext,
    bind,
    bind_identity,
    current,
)
from groundwire.rpc.tracing import TRACEPARENT_KEY, begin_call, end_call

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
# Trailer that tells the retry machinery of gRPC clients how long to wait.
_PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
# How long a client may take to make room for the status of a failed call.
_STATUS_S: Final = 1.0
# A caller's clock starts before ours, so its cancellation at the deadline arrives shortly before our own deadline.
_TRANSIT_S: Final = 0.1
_NEVER: Final = float("inf")

_log = structlog.get_logger(__name__)


class CallPath(grpc.GenericRpcHandler):
    """Stands where the generated `add_…_to_server` expects a server, and takes every call of it along one path.

    Request id, time limit and peer are bound, the caller is identified, the first message is waited for, a place among
    the calls of its kind is taken, the handler runs within the time limit, errors become statuses, and one line goes to
    the log. An interceptor of the library would do the same, but a tenth of a millisecond slower: it looks the handler
    up on every call, in coroutines.

    To the library it is the one handler of all services, because it would ask several in turn for each call.
    """

    def __init__(
        self,
        server: grpc.aio.Server,
        admission: "Admission",
        deadlines: DeadlineTable,
        *,
        idle_s: float = STREAM_IDLE_S,
        access: Access | None = None,
    ) -> None:
        self._access = access or Access()
        self._admission = admission
        self._deadlines = deadlines
        self._idle_s = idle_s
        self._services: list[grpc.GenericRpcHandler] = []
        self._methods: dict[str, MethodHandler] = {}
        self.durations: dict[tuple[str, str], Latencies] = {}
        """How long calls took, by method and code; the methods are those of the services, whatever callers send."""
        server.add_generic_rpc_handlers([self])

    def add_generic_rpc_handlers(self, handlers: Iterable[grpc.GenericRpcHandler]) -> None:
        """Take the handlers of a service."""
        self._services += handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Do nothing: these are the handlers again, for servers that find them by their full name."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> MethodHandler:
        """Return the handler of a method with the path around it, or None for a method of no service."""
        method = handler_call_details.method
        if (known := self._methods.get(method)) is not None:
            return known
        for each in self._services:
            if (handler := each.service(handler_call_details)) is not None:
                wrapped = self._methods[method] = self._wrap(method, handler)
                return wrapped
        return None

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
            response_serializer=None,
            **({f"{inbound}_{outbound}": None} | {f"stream_{outbound}": handle}),
        )
        return replaced

    async def _handle(self, call: "Call", behaviour: Handler, limit_s: float | None) -> Any:
        """Bind the context of the call, respond, and log method, code, time, request id and peer; never its content."""
        context: Any = call.context
        context.add_done_callback(call.leave)
        sent = dict(context.invocation_metadata() or ())
        request_id = sent.get(REQUEST_ID_KEY, "")
        authorization, user_agent = sent.get(AUTHORIZATION_KEY, ""), sent.get(_USER_AGENT_KEY, "")
        if not _REQUEST_ID.fullmatch(request_id):
            # It only names the call and need not be secure; the system's generator gives up the interpreter lock.
            request_id = f"{random.getrandbits(128):032x}"
        # The caller's deadline, but never more than the server's limit for the method.
        caller_s: float | None = context.time_remaining()
        if limit_s is None or (caller_s is not None and caller_s < limit_s):
            limit_s = caller_s
        budget = Budget(limit_s)
        traceparent, span = begin_call(call.method, sent.get(TRACEPARENT_KEY, ""))
        bind(RequestContext(request_id, NOBODY, budget, authorization, user_agent, traceparent))
        context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))

        started = time.perf_counter()
        cancelled = False
        try:
            return await self._respond(call, behaviour, budget, sent.get(ACTS_FOR_KEY, ""))
        except asyncio.CancelledError:
            cancelled = True
            raise
        finally:
            if cancelled:  # by the library: the caller's deadline passed, or the caller left
                remaining_s = budget.remaining_s()
                has_passed = remaining_s is not None and remaining_s <= _TRANSIT_S
                code = "DEADLINE_EXCEEDED" if has_passed else "CANCELLED"
            else:
                status = context.code()
                code = status.name if isinstance(status, grpc.StatusCode) else "OK"
            elapsed_s = time.perf_counter() - started
            latencies = self.durations.get((call.method, code))
            if latencies is None:
                latencies = self.durations[call.method, code] = Latencies()
            latencies.add(elapsed_s)
            end_call(span, code, request_id)
            log = _log.debug if call.is_infrastructure else _log.info
            identity = current().identity
            log(
                "call",
                method=call.method,
                code=code,
                ms=round(elapsed_s * 1000, 2),
                request_id=request_id,
                tenant=identity.tenant,
                subject=identity.subject,
                user_agent=user_agent,
            )

    def _identify(self, call: "Call", acts_for: str) -> None:
        """Bind who calls, before the call costs anything, and have a stream checked again with each of its messages.

        Raises:
            UnauthenticatedError: there is no credential, or it is not accepted.
            PermissionDeniedError: it lacks the right that the method needs.
        """
        if self._access.is_free(call.work, acts_for):
            if self._access.is_open:
                bind_identity(self._access.identify("", dict))
            return

        def check() -> Identity:
            identity = self._access.identify(current().authorization, call.context.auth_context, acts_for)
            self._access.check_right(identity, call.method)
            return identity

        async def admit(size_bytes: int) -> None:
            if call.work is Work.CONVERSATION:
                self._admission.quotas.charge(check(), cost_of(call.method, None, size_bytes))
                return
            units = call.received_bytes // BYTES_PER_UNIT - (call.received_bytes - size_bytes) // BYTES_PER_UNIT
            while True:
                try:
                    self._admission.quotas.charge(check(), units)
                except QuotaExceededError as error:
                    # Half an upload is useless, so the client is slowed down instead, as by a slow disk.
                    await asyncio.sleep(error.retry_after_s or 0.0)
                else:
                    return

        bind_identity(check())
        call.check_credential, call.admit = check, admit

    async def _respond(self, call: "Call", behaviour: Handler, budget: Budget, acts_for: str) -> Any:
        """Return the response, or end the call with the status of its error, also after the first streamed message.

        Kernel errors go through the table. A status that the handler set itself by `context.abort` stays.
        Anything else is a defect: it is logged with its traceback and an error id, and the caller gets the id only.
        """
        try:
            try:
                self._identify(call, acts_for)
                await self._admission.enter(call)
                call.limit(budget.remaining_s())
                response = await behaviour(call.request, call)
                return None if response is None else call.serialized(response)
            except asyncio.CancelledError:
                budget.cancel()  # work in threads stops within one batch
                if call.was_ended_by_limit():
                    raise DeadlineError("the time limit of the call has passed") from None
                if not self._admission.is_cutting:
                    raise
                raise DrainingError("the server stopped before the call was done") from None
            except BaseException:
                budget.cancel()
                raise
            finally:
                # From here on the client has to read the response; the library would wait for that without limit.
                call.limit(self._idle_s if call.has_place else None)
        except grpc.aio.AbortError:
            raise  # the status was sent
        except Exception as error:  # noqa: BLE001 - as_groundwire_error logs what is not ours
            await _abort(call.context, as_groundwire_error(error, call.method))


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

    A client that reads nothing does not read a status either, and one that is gone cannot.
    """
    status = to_status(error)
    if public_text(error, error.message) != error.message:
        _log.warning("call failed", error=error.message)  # the caller gets only a part of it
    trailers = [*(context.trailing_metadata() or ()), to_trailer(status)]
    if error.retry_after_s is not None:
        trailers.append((_PUSHBACK_KEY, str(int(error.retry_after_s * 1000))))
    elif isinstance(error, ExhaustedError):
        trailers.append((_PUSHBACK_KEY, "-1"))  # clients repeat the code unless they are told not to
    with suppress(TimeoutError, grpc.aio.InternalError):
        async with asyncio.timeout(_STATUS_S):
            await context.abort(code_of(type(error)), status.message, tuple(trailers))


# Messages and handlers


class ReadyResponse(NamedTuple):
    """A response that has been serialized before, which a method of a servicer may return instead of the message."""

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
        "method",
        "received_bytes",
        "request",
        "work",
    )

    def __init__(self, method: str, work: Work, context: Any, handler: Any, idle_s: float) -> None:
        self.method = method
        self.work = work
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
        """Return what the library's context has."""
        return getattr(self.context, name)

    @property
    def has_place(self) -> bool:
        """Return whether the call is counted among those of its kind."""
        return self.free_place is not None

    @property
    def is_infrastructure(self) -> bool:
        """Return whether this is a health check or reflection, which go on while the server drains."""
        return self.work in INFRASTRUCTURE

    def limit(self, seconds: float | None) -> None:
        """End the call so many seconds from now unless the next limit is set before; None: let it run.

        A call has one limit after the other: for its first message, for its work, for the client to take the response.
        They share a timer, which is only replaced when it would ring too late.
        """
        self._ends_at = _NEVER if seconds is None else self._loop.time() + seconds
        if self._timer is not None and self._timer.when() > self._ends_at:
            self._timer.cancel()
            self._timer = None
        if self._timer is None and self._ends_at != _NEVER:
            self._timer = self._loop.call_at(self._ends_at, self._ring)

    def _ring(self) -> None:
        self._timer = None
        if self._ends_at <= self._loop.time():
            self.end()
        elif self._ends_at != _NEVER:
            self._timer = self._loop.call_at(self._ends_at, self._ring)

    def end(self) -> None:
        """Cancel the call as its limit does; once, also when the server drains in the moment that the limit ends it."""
        # Whoever catches the cancellation can take back one: a second one would look like that of a client who left.
        if self._task is not None and not self._was_ended:
            self._task.cancel()
        self._was_ended = True

    def was_ended_by_limit(self) -> bool:
        """Tell whether the cancellation that has just come was that of `end` alone; then the call may go on."""
        was_ended, self._was_ended = self._was_ended, False
        return was_ended and self._task is not None and self._task.uncancel() == 0

    def leave(self, _context: Any) -> None:
        """Take note that the library is done with the call, which is when the client has its response."""
        if self._timer is not None:
            self._timer.cancel()
        if self.free_place is not None:
            self.free_place()

    async def receive(self) -> None:
        """Wait for the first message, as long as it takes.

        Raises:
            InvalidRequestError: it is not a message of the method's type, or a unary call came without one.
        """
        raw = await self.context.read()
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
            # People think between two questions; what holds a conversation open has an end of its own.
            idle_s = None if self.work is Work.CONVERSATION else self._idle_s
            try:
                async with asyncio.timeout(idle_s) as limit:
                    raw = await self.context.read()
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
        """Return a message as it is sent; refuse what the client's library would refuse without saying why.

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
