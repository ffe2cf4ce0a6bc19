"""Client channels: retries, keepalive, and what a call of ours passes on to the next service."""

import asyncio
import inspect
import json
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cache, partialmethod
from importlib import resources
from typing import Any, Final

import grpc

from groundwire.kernel.identity import DELEGATED_RIGHTS, Identity
from groundwire.rpc import request_context
from groundwire.rpc.request_context import ACTS_FOR_KEY, AUTHORIZATION_KEY, REQUEST_ID_KEY
from groundwire.rpc.tls import ClientTls
from groundwire.rpc.tracing import TRACEPARENT_KEY

DEADLINE_MARGIN_S: Final = 0.05
"""What a server keeps of its caller's time for itself when it calls the next one."""
# The wire format rounds deadlines up, by less than one part in a hundred.
_WIRE_ROUNDING: Final = 0.01
# The longest time limit of a call, so that replacing a certificate cuts none off.
_LONGEST_CALL_S: Final = 3600.0


@dataclass(frozen=True, slots=True)
class Silence:
    """How long a channel tolerates a silent peer, in milliseconds.

    Without these bounds a silent network partition costs calls their whole deadline, and TCP may take as long
    as it lasted to try again once it is over. `lost_after_ms` limits the wait for the answer to a ping, and in the
    kernel the wait for the acknowledgement of sent bytes. `connect_ms` is the limit of one attempt to connect,
    `reconnect_ms` the longest pause before the next one.
    """

    ping_after_ms: int
    lost_after_ms: int
    connect_ms: int
    reconnect_ms: int


CLIENT_SILENCE: Final = Silence(ping_after_ms=30_000, lost_after_ms=10_000, connect_ms=5_000, reconnect_ms=1_000)
SERVICE_SILENCE: Final = Silence(ping_after_ms=5_000, lost_after_ms=3_000, connect_ms=2_000, reconnect_ms=500)
"""Between services: callers wait meanwhile, and a restored link must be in use within 5 s."""


@cache
def service_config() -> dict[str, Any]:
    """Return the published service config of all services without its time limits: a caller sets its own on each call.

    A limit in the config would cap a longer one that the caller sets.
    """
    text = resources.files("groundwire.api").joinpath("service_config", "all.json").read_text(encoding="utf-8")
    config: dict[str, Any] = json.loads(text)
    for methods in config["methodConfig"]:
        methods.pop("timeout", None)
    return config


def channel_arguments(user_agent: str, silence: Silence = CLIENT_SILENCE) -> list[tuple[str, int | str]]:
    """Return the options of a client channel as the library spells them."""
    return [
        ("grpc.primary_user_agent", user_agent),
        ("grpc.enable_retries", 1),
        ("grpc.service_config", json.dumps(service_config())),
        ("grpc.service_config_disable_resolution", 1),
        ("grpc.keepalive_time_ms", silence.ping_after_ms),
        ("grpc.keepalive_timeout_ms", silence.lost_after_ms),
        # Otherwise the library waits a minute for each ping, whatever the keepalive settings say.
        ("grpc.http2.ping_timeout_ms", silence.lost_after_ms),
        ("grpc.min_reconnect_backoff_ms", silence.connect_ms),
        # So that a restarted replica is found before the next one is replaced; the default may take two minutes.
        ("grpc.initial_reconnect_backoff_ms", 200),
        ("grpc.max_reconnect_backoff_ms", silence.reconnect_ms),
    ]


@dataclass(frozen=True, slots=True)
class Delegation:
    """Makes calls of a service on behalf of the current identity, where there is no credential to pass on.

    The service proves itself by a key of the right `service`, or by the certificate of the channel when `key` is empty;
    then it makes all calls so.
    """

    key: str = field(default="", repr=False)

    def metadata(self, identity: Identity) -> tuple[tuple[str, str], ...]:
        said = {
            "tenant": identity.tenant,
            "subject": identity.subject,
            "rights": sorted(identity.rights & DELEGATED_RIGHTS),
            "scopes": identity.scopes,
        }
        acts_for = (ACTS_FOR_KEY, json.dumps(said))
        return ((AUTHORIZATION_KEY, f"Bearer {self.key}"), acts_for) if self.key else (acts_for,)


def open_channel(
    address: str,
    *,
    user_agent: str,
    credentials: grpc.ChannelCredentials | None = None,
    delegation: Delegation | None = None,
) -> grpc.aio.Channel:
    """Open a channel for calls that a server makes while it works on a call.

    Each call carries the request id and the credential of the current one, and its deadline minus a margin where that
    is sooner.

    `address` is HOST:PORT, or a name with a scheme such as `dns:///retrieve:50051`. `user_agent` is what the log of the
    peer shows. Without `credentials` it is plain text. `delegation` says how calls are made for callers who left no
    credential, such as those behind the calls.
    """
    options = channel_arguments(user_agent, SERVICE_SILENCE)
    interceptors: list[grpc.aio.ClientInterceptor] = [_PassOnUnary(delegation), _PassOnStream(delegation)]
    channel: grpc.aio.Channel = open_with_credentials(
        grpc.aio, address, credentials, options=options, interceptors=interceptors
    )
    return channel


def open_with_credentials(
    library: Any, address: str, credentials: grpc.ChannelCredentials | None, **options: Any
) -> Any:
    """Return a channel of `grpc` or `grpc.aio`: plain without credentials, and one that follows the files of some."""
    if credentials is None:
        return library.insecure_channel(address, **options)
    if isinstance(credentials, ClientTls):
        return RenewedChannel(credentials, lambda read: library.secure_channel(address, read, **options))
    return library.secure_channel(address, credentials, **options)


class RenewedChannel:
    """A channel whose TLS files may change: later calls use a new connection, running ones finish on the old one.

    The library reads certificates once for each channel, and connects again with what it has read.
    """

    def __init__(self, tls: ClientTls, open_with: Callable[[grpc.ChannelCredentials], Any]) -> None:
        self._files = tls.watched()
        self._open_with = open_with
        self._lock = threading.Lock()
        self._credentials = self._files.value
        self._channel = open_with(self._credentials)
        self._superseded: list[tuple[float, Any]] = []  # by the time, oldest first

    def close(self) -> Any:
        """Close everything; awaitable where the library's `close` is."""
        self._files.close()
        with self._lock:
            return _close([self._channel, *(channel for _, channel in self._superseded)])

    def _method(self, kind: str, path: str, **options: Any) -> Callable[..., Any]:
        # In one tuple, so that a thread never sees the method of another channel.
        bound: tuple[Any, Any] = (None, None)

        def call(*arguments: Any, **named: Any) -> Any:
            nonlocal bound
            channel, method = bound
            current = self._current()
            if channel is not current:
                method = getattr(current, kind)(path, **options)
                bound = current, method
            return method(*arguments, **named)

        return call

    unary_unary = partialmethod(_method, "unary_unary")
    unary_stream = partialmethod(_method, "unary_stream")
    stream_unary = partialmethod(_method, "stream_unary")
    stream_stream = partialmethod(_method, "stream_stream")

    def _current(self) -> Any:
        # Without the lock, which is needed only in the moment after the files have changed.
        if self._files.value is self._credentials:
            return self._channel
        with self._lock:
            if self._files.value is not self._credentials:
                now = time.monotonic()
                self._superseded.append((now, self._channel))
                self._credentials = self._files.value
                self._channel = self._open_with(self._credentials)
                ended = [each for each in self._superseded if now - each[0] > _LONGEST_CALL_S]
                self._superseded = self._superseded[len(ended) :]
                _close([channel for _, channel in ended])
            return self._channel


def _close(channels: list[Any]) -> Any:
    closing = [channel.close() for channel in channels]
    return asyncio.gather(*closing) if any(map(inspect.isawaitable, closing)) else None


def passed_on_timeout_s(timeout_s: float | None) -> float | None:
    """Return the timeout of an outgoing call: `timeout_s`, or the current budget minus the margin if that is less.

    Raises:
        CallCancelledError: the current call was cancelled.
        DeadlineError: its time is used up.
    """
    budget = request_context.current().budget
    budget.check()
    remaining_s = budget.remaining_s()
    if remaining_s is None:
        return timeout_s
    left_s = max(0.0, remaining_s * (1 - _WIRE_ROUNDING) - DEADLINE_MARGIN_S)
    return left_s if timeout_s is None else min(timeout_s, left_s)


class _PassOn:
    def __init__(self, delegation: Delegation | None) -> None:
        self._delegation = delegation

    def _passed_on(self, details: Any) -> Any:
        metadata = grpc.aio.Metadata(*(details.metadata or ()))
        current = request_context.current()
        credential: tuple[tuple[str, str], ...] = ((AUTHORIZATION_KEY, current.authorization),)
        # The certificate identifies only this service to the next one, not the caller.
        if self._delegation is not None and not (current.authorization and self._delegation.key):
            credential = self._delegation.metadata(current.identity)
        # These two link the logs and traces of both services.
        ids = ((REQUEST_ID_KEY, current.request_id), (TRACEPARENT_KEY, current.traceparent))
        for key, value in (*ids, *credential):
            if value and metadata.get(key) is None:
                metadata.add(key, value)
        return details._replace(timeout=passed_on_timeout_s(details.timeout), metadata=metadata)


class _PassOnUnary(_PassOn, grpc.aio.UnaryUnaryClientInterceptor):
    async def intercept_unary_unary(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        return await continuation(self._passed_on(client_call_details), request)


class _PassOnStream(_PassOn, grpc.aio.UnaryStreamClientInterceptor):
    async def intercept_unary_stream(
        self, continuation: Callable[[Any, Any], Any], client_call_details: Any, request: Any
    ) -> Any:
        return await continuation(self._passed_on(client_call_details), request)
