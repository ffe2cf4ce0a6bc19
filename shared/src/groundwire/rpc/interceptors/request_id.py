"""Gives every call a tracing id and binds its context."""

import re
import uuid
from typing import Any

from groundwire.rpc.interceptors.chain import Call, Proceed
from groundwire.rpc.request_context import RequestContext, bind

REQUEST_ID_KEY = "x-request-id"
"""Metadata key of the tracing id, in requests and in trailers."""
_USER_AGENT_KEY = "user-agent"
_ALLOWED = re.compile(r"[A-Za-z0-9._:/+=@-]{1,128}")


async def identify_request(call: Call, proceed: Proceed) -> Any:
    """Take the caller's `x-request-id` or make one, bind the context, and send the id back in the trailers.

    An id with other than 1 to 128 letters, digits and `._:/+=@-` could forge log lines and is replaced.
    """
    metadata = {key: value for key, value in call.context.invocation_metadata() or () if isinstance(value, str)}
    given = metadata.get(REQUEST_ID_KEY, "")
    request_id = given if _ALLOWED.fullmatch(given) else str(uuid.uuid4())
    bind(RequestContext(request_id=request_id, user_agent=metadata.get(_USER_AGENT_KEY, "")))
    call.context.set_trailing_metadata(((REQUEST_ID_KEY, request_id),))
    return await proceed()
