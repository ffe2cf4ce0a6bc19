"""Runs the embedded process from start to drain."""

import asyncio
import gc
from contextlib import ExitStack

import structlog

from groundwire.kernel.errors import NotAvailableError
from groundwire.rpc.interceptors.admission import CALL_LIMITS
from groundwire.rpc.logging_setup import configure_logging
from groundwire.rpc.methods import DeadlineTable
from groundwire.rpc.server import GrpcServer, ServerOptions, serve
from groundwire.standalone.bootstrap import build_services
from groundwire.standalone.readiness import ReadinessMonitor
from groundwire.standalone.settings import ProcessSettings, ServerSettings

ALL = "all"

_GC_THRESHOLDS = (20_000, 50, 1_000)


def run(service: str, settings: ProcessSettings) -> None:
    """Serve until SIGTERM or SIGINT; prints `listening on HOST:PORT` to stdout once it can serve.

    Raises:
        NotAvailableError: `service` is one of three: a split deployment needs a catalog that processes can share.
        GroundwireError: something cannot be opened.
    """
    if service != ALL:
        message = (
            f"`serve {service}` needs a catalog that several processes can share; SQLite has one owner: use `serve`"
        )
        raise NotAvailableError(message, feature=f"serve {service}")
    configure_logging(settings.server.log_format)
    asyncio.run(_serve(settings))


async def _serve(settings: ProcessSettings) -> None:
    with ExitStack() as stack:
        services, dependencies = await asyncio.to_thread(build_services, settings, stack)
        _keep_collections_short()
        server = GrpcServer(server_options(settings.server), services)
        readiness = ReadinessMonitor(dependencies, server.health)
        readiness.start()
        try:
            host = settings.server.listen.rpartition(":")[0]
            await serve(server, on_listening=lambda port: print(f"listening on {host}:{port}", flush=True))  # noqa: T201 - the one line that scripts wait for
        finally:
            await readiness.stop()
        lag = server.lag.read()
        structlog.get_logger(__name__).info(
            "stopped", loop_lag_max_ms=round(lag.max_s * 1000, 1), loop_lag_p99_ms=round(lag.p99_s * 1000, 1)
        )


def _keep_collections_short() -> None:
    """Take what was loaded at start out of the garbage collector's sight, and let it run less often.

    A full collection holds the interpreter lock: over everything that is loaded it takes hundreds of milliseconds.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_GC_THRESHOLDS)


def server_options(settings: ServerSettings) -> ServerOptions:
    """Return the options of the gRPC server that the settings ask for."""
    return ServerOptions(
        listen=settings.listen,
        reflection=settings.reflection,
        call_limits={work: getattr(settings, f"max_{work}_calls", limit) for work, limit in CALL_LIMITS.items()},
        first_message_s=settings.first_message_s,
        stream_idle_s=settings.stream_idle_s,
        deadlines=DeadlineTable(default_s=settings.default_deadline_s),
        drain_s=settings.drain_s,
    )
