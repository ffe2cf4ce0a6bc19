"""Builds, runs, drains and stops a gRPC server."""

import asyncio
import signal
import time
from bisect import bisect_left
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field
from itertools import accumulate
from typing import Any

import grpc
import structlog
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection, reflection_pb2, reflection_pb2_grpc

from groundwire.kernel.errors import PreconditionError
from groundwire.kernel.identity import Quota
from groundwire.rpc.access import Access, AccessOptions
from groundwire.rpc.admission import Admission, Quotas
from groundwire.rpc.call_path import CallPath
from groundwire.rpc.health import HealthBoard
from groundwire.rpc.methods import CALL_LIMITS, FIRST_MESSAGE_S, STREAM_IDLE_S, DeadlineTable, Work
from groundwire.rpc.tls import ServerTls, TlsFiles

_STABLE_REFLECTION = "grpc.reflection.v1.ServerReflection"
MAX_RECEIVE_BYTES = 4 * 1024 * 1024 + 64 * 1024
"""4 MiB of content and room for the fields around it."""
MAX_METADATA_BYTES = 16 * 1024

# More than the calls of all kinds that admission lets wait and run, so that it is the one that refuses.
_MAX_PENDING = 10_000
# How long answers that are already made may take to leave.
_FLUSH_S = 0.5
# The library silently cancels calls that arrive while it stops. So it stops only after a quiet period, or when the wait
# for one has lasted this long; clients see NOT_SERVING before the refusals that are held back meanwhile.
_QUIET_S = 0.1
_HOLDING_S = 1.0
_NEWS_S = 0.05

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class Service:
    """A servicer, its full name (`groundwire.api.ingest.v1.IngestService`) and its generated `add_…_to_server`.

    `on_serving` is called on the event loop once the server listens, to begin what runs behind the calls.
    """

    name: str
    servicer: Any
    add: Callable[[Any, grpc.aio.Server], None]
    on_serving: Callable[[], None] | None = None


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Address and limits of a server.

    `listen` is HOST:PORT, port 0 picks a free one. Sizes are in bytes, times in seconds. `call_limits` says how many
    calls of each kind of work run at a time. A call may wait `first_message_s` for its first message; after that a
    stream may stand still for `stream_idle_s` because its client neither sends nor takes a message. Connections
    older than `connection_age_s` are closed after their calls (at most `connection_age_grace_s` later), so that
    clients find new replicas. `quota` applies to callers whose credential sets none.
    """

    listen: str = "127.0.0.1:50051"
    shares_port: bool = False
    access: AccessOptions = field(default_factory=AccessOptions)
    quota: Quota = field(default_factory=Quota)
    tls: TlsFiles | None = None
    reflection: bool = True
    call_limits: Mapping[Work, int] = field(default_factory=lambda: CALL_LIMITS)
    first_message_s: float = FIRST_MESSAGE_S
    stream_idle_s: float = STREAM_IDLE_S
    deadlines: DeadlineTable = field(default_factory=DeadlineTable)
    drain_s: float = 20.0
    drain_notice_s: float = 0.2
    connection_age_s: float = 1800.0
    connection_age_grace_s: float = 120.0

    def channel_arguments(self) -> list[tuple[str, int]]:
        """Return the options as the library spells them."""
        return [
            # A second process on the port must fail, unless the two are meant to share the connections.
            ("grpc.so_reuseport", int(self.shares_port)),
            ("grpc.max_receive_message_length", MAX_RECEIVE_BYTES),
            ("grpc.max_metadata_size", MAX_METADATA_BYTES),
            ("grpc.absolute_max_metadata_size", MAX_METADATA_BYTES),
            # Far more than run at a time, so that `Admission` refuses the others, with a status that says when to call
            # again. Beyond the limit the library resets calls, which clients see as UNAVAILABLE, and it counts those
            # that have just ended, too. There is one because a client that opens and resets calls costs the more, the
            # more it may have.
            ("grpc.max_concurrent_streams", 1000),
            # The library drops calls at random, without a status, when too many are queued; ours are refused with one.
            ("grpc.server.max_pending_requests", _MAX_PENDING),
            ("grpc.server.max_pending_requests_hard_limit", _MAX_PENDING),
            ("grpc.server_handshake_timeout_ms", 5_000),
            # Clients ping idle connections, too, to learn of a silent partition before the next call.
            ("grpc.keepalive_permit_without_calls", 1),
            # Services do so every five seconds of a quiet call (`rpc/channels.py`).
            ("grpc.http2.min_ping_interval_without_data_ms", 4_000),
            ("grpc.http2.min_recv_ping_interval_without_data_ms", 4_000),
            ("grpc.max_connection_idle_ms", 300_000),
            ("grpc.max_connection_age_ms", int(self.connection_age_s * 1000)),
            ("grpc.max_connection_age_grace_ms", int(self.connection_age_grace_s * 1000)),
        ]


class GrpcServer:
    """An aio server with health, reflection and a lag gauge. Make it on the running event loop."""

    def __init__(self, options: ServerOptions, services: Sequence[Service]) -> None:
        self._options = options
        self.health = HealthBoard(service.name for service in services)
        self._files = ExitStack()
        self._access = Access(options.access, options.quota)
        self._files.callback(self._access.close)
        self.admission = Admission(options.call_limits, first_message_s=options.first_message_s, quotas=Quotas())
        self.lag = LagGauge()
        # No limit in the library: it would refuse health checks as well, and without details.
        self._server = grpc.aio.server(options=options.channel_arguments())
        # Takes handlers as a server does.
        self.calls = CallPath(
            self._server, self.admission, options.deadlines, idle_s=options.stream_idle_s, access=self._access
        )
        path: Any = self.calls
        for service in services:
            service.add(service.servicer, path)
        self._on_serving = [service.on_serving for service in services if service.on_serving is not None]
        health_pb2_grpc.add_HealthServicer_to_server(self.health.servicer, path)
        if options.reflection:
            names = [
                *(service.name for service in services),
                health_pb2.DESCRIPTOR.services_by_name["Health"].full_name,
            ]
            servicer = reflection.aio.ReflectionServicer([*names, reflection.SERVICE_NAME])
            reflection_pb2_grpc.add_ServerReflectionServicer_to_server(servicer, path)
            # The stable version, which newer tools ask first, has the same messages under another name.
            handler = grpc.stream_stream_rpc_method_handler(
                servicer.ServerReflectionInfo,
                reflection_pb2.ServerReflectionRequest.FromString,
                reflection_pb2.ServerReflectionResponse.SerializeToString,
            )
            stable = grpc.method_handlers_generic_handler(_STABLE_REFLECTION, {"ServerReflectionInfo": handler})
            path.add_generic_rpc_handlers([stable])

    async def start(self) -> int:
        """Listen, declare the services ready, and return the bound port.

        Raises:
            PreconditionError: the address is in use or not ours; metadata: address.
            InvalidRequestError: the files of TLS cannot be used.
        """
        listen = self._options.listen
        try:
            if self._options.tls is None:
                port = self._server.add_insecure_port(listen)
            else:
                tls = ServerTls(self._options.tls)
                self._files.callback(tls.close)
                port = self._server.add_secure_port(listen, tls.credentials)
        except RuntimeError as error:
            raise PreconditionError(f"cannot listen on {listen}", address=listen) from error
        await self._server.start()
        for on_serving in self._on_serving:
            on_serving()
        self.lag.start()
        await self.health.open()
        return port

    async def stop(self, drain_s: float | None = None) -> int:
        """Say NOT_SERVING, refuse new calls, let accepted ones finish for at most `drain_s`, then close.

        For the first `drain_notice_s` calls are still accepted, so that clients and balancers that watch the health
        move on without a failed call. Calls that are refused or cut off end with DrainingError. Can be called again;
        the first call to end cuts off what is left.

        Args:
            drain_s: seconds; None is the option's.

        Returns:
            The number of calls that had to be cut off.
        """
        limit_s = self._options.drain_s if drain_s is None else drain_s
        await self.health.drain()
        await asyncio.sleep(min(self._options.drain_notice_s, limit_s))
        self.admission.drain()
        with suppress(TimeoutError):
            await asyncio.wait_for(self.admission.idle(), limit_s)
        cut = self.admission.cut()
        if cut:
            _log.warning("calls cut off", count=cut)
            with suppress(TimeoutError):
                await asyncio.wait_for(self.admission.idle(), _FLUSH_S)
        await self.admission.hold(_QUIET_S, min(_HOLDING_S, limit_s))
        asyncio.get_running_loop().call_later(min(_NEWS_S, limit_s), self.admission.release)
        await self._server.stop(min(_FLUSH_S, limit_s))
        self.admission.release()
        self.lag.stop()
        self._files.close()
        return cut


async def serve(server: GrpcServer, *, on_listening: Callable[[int], None]) -> None:
    """Run a server until SIGTERM or SIGINT, then drain and stop it; a second signal cuts calls off.

    `server` is not started yet. `on_listening` gets the bound port once it is ready.
    """
    signals: asyncio.Queue[None] = asyncio.Queue()
    loop = asyncio.get_running_loop()
    numbers = (signal.SIGTERM, signal.SIGINT)
    try:
        port = await server.start()
        for number in numbers:
            loop.add_signal_handler(number, signals.put_nowait, None)
        on_listening(port)
        await signals.get()
        stopping = [asyncio.create_task(server.stop()), asyncio.create_task(signals.get())]
        _, unfinished = await asyncio.wait(stopping, return_when=asyncio.FIRST_COMPLETED)
        for task in unfinished:
            task.cancel()
    finally:
        for number in numbers:
            loop.remove_signal_handler(number)
        # Also after a failed start or a second signal; it has nothing to do after a drain that ended.
        await server.stop(0)


_SAMPLE_EVERY_S = 0.02
_BUCKET_S = 0.001
_BUCKETS = 1000


@dataclass(frozen=True, slots=True)
class LagReading:
    """Lag since the last reset, in seconds; `p99_s` is rounded up to a millisecond, at most 1 s and the maximum."""

    max_s: float
    p99_s: float
    samples: int


class LagGauge:
    """Sleeps for 20 ms again and again, and records how late it wakes.

    Sees everything that keeps the loop from running: blocking calls on it, and threads that hold the
    interpreter lock. A stall may begin in the middle of a sleep, so that it is seen short by up to 20 ms.
    Stalls longer than `warn_s` are logged, those of `warn_every_s` together.
    """

    def __init__(self, warn_s: float = 0.05, warn_every_s: float = 30.0) -> None:
        self._warn_s = warn_s
        self._warn_every_s = warn_every_s
        self._warned_at = float("-inf")
        self._stalls: list[float] = []
        self._timer: asyncio.TimerHandle | None = None
        self._max_s = 0.0
        self.total_s = 0.0
        self._samples = 0
        self._counts = [0] * _BUCKETS

    def start(self) -> None:
        """Begin to sample on the running event loop."""
        loop = asyncio.get_running_loop()
        due = loop.time() + _SAMPLE_EVERY_S

        # A timer of the loop: a task that sleeps would keep an idle server at work for three times as long.
        def wake() -> None:
            self._note(max(0.0, loop.time() - due))
            self.start()

        self._timer = loop.call_at(due, wake)

    def stop(self) -> None:
        """End sampling; the reading stays."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None

    def read(self) -> LagReading:
        """Return what was seen so far."""
        p99_s = 0.0
        if self._samples:
            bound_s = _BUCKET_S * (1 + bisect_left(list(accumulate(self._counts)), 0.99 * self._samples))
            p99_s = min(bound_s, self._max_s)
        return LagReading(self._max_s, p99_s, self._samples)

    def up_to(self, milliseconds: Iterable[int]) -> list[int]:
        """Return, for each bound up to 1 s, how many samples were below it."""
        sums = [0, *accumulate(self._counts)]
        return [sums[bound] for bound in milliseconds]

    def _note(self, lag_s: float) -> None:
        self._samples += 1
        self.total_s += lag_s
        self._max_s = max(self._max_s, lag_s)
        self._counts[min(int(lag_s / _BUCKET_S), _BUCKETS - 1)] += 1
        if lag_s > self._warn_s:
            self._stalls.append(lag_s)
        if self._stalls and time.monotonic() - self._warned_at >= self._warn_every_s:
            self._warned_at = time.monotonic()
            longest_ms, count = round(max(self._stalls) * 1000, 1), len(self._stalls)
            self._stalls.clear()
            structlog.get_logger(__name__).warning("event loop stalled", stalls=count, longest_ms=longest_ms)
