"""One log line for each call."""

import asyncio
import time
from typing import Any

import grpc
import structlog

from groundwire.rpc import request_context
from groundwire.rpc.interceptors.chain import Call, Proceed

_log = structlog.get_logger(__name__)


async def log_access(call: Call, proceed: Proceed) -> Any:
    """Log method, status code, milliseconds, request id and user agent at the end of a call, never its content.

    Health checks and reflection are logged at level debug.
    """
    started = time.perf_counter()
    cancelled = False
    try:
        return await proceed()
    except asyncio.CancelledError:
        cancelled = True
        raise
    finally:
        context = request_context.current()
        log = _log.debug if call.is_infrastructure else _log.info
        log(
            "call",
            method=call.method,
            code=_cancellation_code(context) if cancelled else _code(call),
            ms=round((time.perf_counter() - started) * 1000, 2),
            request_id=context.request_id,
            user_agent=context.user_agent,
        )


def _cancellation_code(context: request_context.RequestContext) -> str:
    """Return why the library cancelled the call: the caller's deadline passed, or the caller left."""
    return "DEADLINE_EXCEEDED" if context.budget.remaining_s() == 0.0 else "CANCELLED"


def _code(call: Call) -> str:
    code = call.context.code()
    return code.name if isinstance(code, grpc.StatusCode) else "OK"
