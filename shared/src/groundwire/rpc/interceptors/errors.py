"""Turns everything that a handler raises into a status."""

import asyncio
import uuid
from contextlib import suppress
from typing import Any

import grpc
import structlog

from groundwire.kernel.errors import GroundwireError, InternalError, StartError
from groundwire.rpc.error_status import code_of, public_text, to_status, to_trailer
from groundwire.rpc.interceptors.chain import Call, Proceed

PUSHBACK_KEY = "grpc-retry-pushback-ms"
"""Trailer that tells the retry machinery of gRPC clients how long to wait."""

_STATUS_S = 1.0
"""How long a client may take to make room for the status of a failed call."""

_log = structlog.get_logger(__name__)


async def translate_errors(call: Call, proceed: Proceed) -> Any:
    """End the call with the status of its error, also after the first streamed message.

    Kernel errors go through the table. A status that the handler set itself by `context.abort` stays.
    Anything else is a defect: it is logged with its traceback and an error id, and the caller gets the id only.
    """
    try:
        return await proceed()
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

    A client that takes nothing does not take a status either, and one that is gone cannot.
    """
    status = to_status(error)
    if public_text(error, error.message) != error.message:
        _log.warning("call failed", error=error.message)  # the caller does not get all of it
    trailers = [*(context.trailing_metadata() or ()), to_trailer(status)]
    if error.retry_after_s is not None:
        trailers.append((PUSHBACK_KEY, str(int(error.retry_after_s * 1000))))
    with suppress(TimeoutError, grpc.aio.InternalError):
        async with asyncio.timeout(_STATUS_S):
            await context.abort(code_of(type(error)), status.message, tuple(trailers))
