"""What is known about the current call, and the key by which its repetition is recognised."""

import hashlib
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from groundwire.kernel.budget import CURRENT_BUDGET, Budget
from groundwire.kernel.identifiers import RequestKey, parse_uuid
from groundwire.kernel.identity import CURRENT_IDENTITY, Identity

if TYPE_CHECKING:  # the settings name the formats of the log, and are read before anything heavy is imported
    from google.protobuf.message import Message


REQUEST_ID_KEY = "x-request-id"
"""Metadata key of the tracing id, in requests and in trailers."""
AUTHORIZATION_KEY = "authorization"
"""Metadata key of the credential; its value is `Bearer` and a key or a token."""

ACTS_FOR_KEY = "groundwire-acts-for"
"""Metadata key of whom a service makes a call for: a JSON object of `tenant`, `subject`, `rights` and `scopes`."""


@dataclass(frozen=True, slots=True)
class RequestContext:
    """Facts of one call.

    `request_id` is the tracing id of metadata `x-request-id` (not the field of mutating requests that makes
    retries safe). `identity` comes from the credential; where none is configured it is the tenant `default` with all
    rights. `authorization` is the credential itself, for calls to other services on behalf of the caller; it must
    never be logged. `user_agent` is what the peer calls itself; libraries always send something, so it proves nothing.
    `traceparent` is the W3C trace context of the call, empty where nobody traces.
    """

    request_id: str
    identity: Identity = field(default_factory=Identity)
    budget: Budget = field(default_factory=Budget)
    authorization: str = field(default="", repr=False)
    user_agent: str = ""
    traceparent: str = ""

    @property
    def trace_id(self) -> str:
        """Return the trace id of the trace context, `VERSION-TRACE_ID-SPAN_ID-FLAGS`; empty without one."""
        return self.traceparent[3:35]

    @property
    def tenant(self) -> str:
        """Return whose data the call sees."""
        return self.identity.tenant


_current: ContextVar[RequestContext | None] = ContextVar("groundwire_request", default=None)


def current() -> RequestContext:
    """Return the context of the current call, or outside of calls a new one without id, deadline or peer."""
    return _current.get() or RequestContext(request_id="")


def bind(context: RequestContext) -> None:
    """Make `current()` return `context` in this task and in what it starts from now on.

    The binding is never undone: every call has its own task, with which it ends.
    """
    _current.set(context)
    CURRENT_BUDGET.set(context.budget)
    CURRENT_IDENTITY.set(context.identity)


def bind_identity(identity: Identity) -> None:
    call = current()
    # Not `dataclasses.replace`, which takes several times as long, and this runs on every call.
    bind(RequestContext(call.request_id, identity, call.budget, call.authorization, call.user_agent, call.traceparent))


def request_key(method: str, request: "Message", content_hash: str = "") -> RequestKey | None:
    """Return the idempotency key of a mutating request, None without `request_id`.

    `content_hash` stands for content that is not in the message. From callers with other
    scopes, who may not see the first answer, the same message is another request.

    Raises:
        InvalidRequestError: the id is no UUID.
    """
    request_id: str = getattr(request, "request_id", "")
    if not request_id:
        return None
    body = type(request)()
    body.CopyFrom(request)
    body.ClearField("request_id")
    # Deterministic, because maps have no order of their own and a repetition must have the same digest.
    beside_body = content_hash + current().identity.owner.scopes_digest
    digest = hashlib.sha256(body.SerializeToString(deterministic=True) + beside_body.encode()).hexdigest()
    return RequestKey(parse_uuid(request_id, "request_id"), method, digest)
