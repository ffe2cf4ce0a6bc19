"""The path of a call on the server, from its first byte to its log line, in one place.

Every handler, also one that streams answers, is turned into a coroutine that ends with the call. So the path sees
errors after the first streamed message, and cancellation while a slow reader takes one.
"""

import asyncio
import re
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeAlias

import grpc
import structlog

from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    DataLossError,
    DeadlineError,
    DrainingError,
    ExhaustedError,
    NotAvailableError,
    QuotaExceededError,
)
from groundwire.kernel.identifiers import quick_id
from groundwire.kernel.identity import NOBODY, Identity
from groundwire.kernel.latencies import Latencies
from groundwire.rpc.access import Access
from groundwire.rpc.admission import Admission
from groundwire.rpc.calls import Call, Handler, as_coroutine, as_groundwire_error
from groundwire.rpc.error_status import code_of, public_text, to_status, to_trailer
from groundwire.rpc.methods import BYTES_PER_UNIT, STREAM_IDLE_S, DeadlineTable, Work, cost_of, work_of
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

MethodHandler: TypeAlias = "grpc.RpcMethodHandler[Any, Any]"

_USER_AGENT_KEY: Final = "user-agent"
# Anything else could forge log lines.
_REQUEST_ID: Final = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
# Trailer that tells the retry machinery of gRPC clients how long to wait.
_PUSHBACK_KEY: Final = "grpc-retry-pushback-ms"
# How long a client may take to make room for the status of a failed call.
_STATUS_S: Final = 1.0
# A caller's clock starts before ours, so its cancellation at the deadline arrives shortly before our own deadline.
_TRANSIT_S: Final = 0.1

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
        admission: Admission,
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
        self._services += handlers

    def add_registered_method_handlers(self, service: str, handlers: Mapping[str, Any]) -> None:
        """Do nothing: these are the same handlers, for servers that look them up by their full name."""

    def service(self, handler_call_details: grpc.HandlerCallDetails) -> MethodHandler:
        """Return the handler of a method with the path around it, or one that refuses a method of no service."""
        method = handler_call_details.method
        # Wrapped once: the library asks for the handler at every call.
        if (known := self._methods.get(method)) is not None:
            return known
        handlers = (each.service(handler_call_details) for each in self._services)
        handler: Any = next((each for each in handlers if each is not None), None)
        if handler is None:
            # Not kept, and without the path: callers make up any number of names.
            return grpc.stream_stream_rpc_method_handler(partial(_refuse_unknown, method))
        inbound = "stream" if handler.request_streaming else "unary"
        outbound = "stream" if handler.response_streaming else "unary"
        behaviour = as_coroutine(method, getattr(handler, f"{inbound}_{outbound}"))
        handle = partial(self._handle, method, work_of(method), handler, behaviour, self._deadlines.limit_s(method))

        # The library hands over a stream of bytes, from which the path reads the requests.
        wrapped: MethodHandler = handler._replace(
            request_streaming=True,
            request_deserializer=None,
            response_serializer=None,
            **({f"{inbound}_{outbound}": None} | {f"stream_{outbound}": handle}),
        )
        self._methods[method] = wrapped
        return wrapped

    async def _handle(
        self,
        method: str,
        work: Work,
        handler: Any,
        behaviour: Handler,
        limit_s: float | None,
        _requests: Any,
        context: Any,
    ) -> Any:
        """Bind the context of the call, respond, and log method, code, time, request id and peer; never its content."""
        call = Call(method, work, context, handler, self._idle_s)
        context.add_done_callback(call.leave)
        sent = dict(context.invocation_metadata() or ())
        request_id = sent.get(REQUEST_ID_KEY, "")
        authorization, user_agent = sent.get(AUTHORIZATION_KEY, ""), sent.get(_USER_AGENT_KEY, "")
        if not _REQUEST_ID.fullmatch(request_id):
            request_id = quick_id()
        # The caller's deadline, but never more than the server's limit for the method.
        caller_s: float | None = context.time_remaining()
        if limit_s is None or (caller_s is not None and caller_s < limit_s):
            limit_s = caller_s
        budget = Budget(limit_s)
        traceparent, span = begin_call(call.method, sent.get(TRACEPARENT_KEY, ""))
        # Nobody until the credential is checked: the log line of a call with a bad one names no tenant.
        bind(RequestContext(request_id, NOBODY, budget, authorization, user_agent, traceparent))
        # At once, so that the call carries it however it ends.
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
            if span is not None:
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

    def _identify(self, call: Call, acts_for: str) -> None:
        """Bind who calls, before the call costs anything, and have a stream checked again with each of its messages.

        Raises:
            UnauthenticatedError: there is no credential, or it is not accepted.
            PermissionDeniedError: it lacks the right that the method needs.
        """
        if self._access.is_free(call.work, acts_for):
            if self._access.is_open:
                bind_identity(self._access.anybody)
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

        identity = self._access.identify(current().authorization, call.context.auth_context, acts_for)
        bind_identity(identity)  # before its right is checked, so that the log says who lacks it
        self._access.check_right(identity, call.method)
        call.check_credential, call.admit = check, admit

    async def _respond(self, call: Call, behaviour: Handler, budget: Budget, acts_for: str) -> Any:
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
                call.limit(None if call.free_place is None else self._idle_s)
        except grpc.aio.AbortError:
            raise  # the status was sent
        except Exception as caught:  # noqa: BLE001 - as_groundwire_error logs what is not ours
            error = as_groundwire_error(caught, call.method)
            status = to_status(error)
            # What only the operator can mend, or the caller gets only a part of.
            is_of_store = isinstance(error, DataLossError) or error.metadata.get("what") == "disk"
            if is_of_store or public_text(error, error.message) != error.message:
                _log.warning("call failed", error=error.message)
            trailers = [*(call.context.trailing_metadata() or ()), to_trailer(status)]
            if error.retry_after_s is not None:
                trailers.append((_PUSHBACK_KEY, str(int(error.retry_after_s * 1000))))
            elif isinstance(error, ExhaustedError):
                trailers.append(
                    (_PUSHBACK_KEY, "-1")
                )  # clients repeat a call that ends with this code unless the trailer forbids it
            # A client that does not read cannot be sent a status, and neither can one that is gone. What the library
            # raises then, it raises again when the handler has returned.
            with suppress(TimeoutError, grpc.aio.InternalError):
                async with asyncio.timeout(_STATUS_S):
                    await call.context.abort(code_of(type(error)), status.message, tuple(trailers))


async def _refuse_unknown(method: str, _requests: Any, context: Any) -> None:
    name = method.rpartition("/")[2]
    status = to_status(NotAvailableError(f"{name} is not available at this server", feature=name))
    await context.abort(code_of(NotAvailableError), status.message, (to_trailer(status),))
