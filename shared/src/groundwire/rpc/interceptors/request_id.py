"""Gives every call a tracing id and binds its context."""

import re
import secrets
from typing import Any

from groundwire.kernel.budget import Budget
from groundwire.rpc.interceptors.chain import Call, Proceed
from groundwire.rpc.methods import DeadlineTable
from groundwire.rpc.request_context import RequestContext, bind

REQUEST_ID_KEY = "x-request-id"
"""Metadata key of the tracing id, in requests and in trailers."""
_USER_AGENT_KEY = "user-agent"
_ALLOWED = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")
_ID_BYTES = 16


class Identification:
    """Binds the context of the call: request id, peer, and the budget of its deadline.

    The budget is the caller's deadline, but never more than the server's limit for the method. An `x-request-id` with
    other than 1 to 128 letters, digits and `._:/+=@-` could forge log lines and is replaced. The id goes back in the
    trailers.
    """

    def __init__(self, deadlines: DeadlineTable) -> None:
        self._deadlines = deadlines

    async def __call__(self, call: Call, proceed: Proceed) -> Any:
        """Bind the context and run the call."""
        given: Any = ""
        user_agent = ""
        for key, value in call.context.invocation_metadata() or ():
            if key == REQUEST_ID_KEY:
                given = value
            elif key == _USER_AGENT_KEY:
                user_agent = value
        request_id = given if _ALLOWED.fullmatch(given) else secrets.token_hex(_ID_BYTES)
        bind(RequestContext(request_id=request_id, budget=Budget(self._limit_s(call)), user_agent=user_agent))
        call.context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
        return await proceed()

    def _limit_s(self, call: Call) -> float | None:
        asked_s: float | None = call.context.time_remaining()
        own_s = self._deadlines.limit_s(call.method)
        if asked_s is None or own_s is None:
            return own_s if asked_s is None else asked_s
        return min(asked_s, own_s)
