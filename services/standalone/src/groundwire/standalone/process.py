"""Runs a process from start to drain.

Heavy libraries are imported late: wrong settings are reported before, and the engine starts and the model is read,
checked and compiled while the services are imported, which keeps the interpreter busy.
"""

import asyncio
import gc
import multiprocessing
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import ExitStack
from multiprocessing.connection import wait
from typing import TYPE_CHECKING, Any

from groundwire.answer.settings import parse_generator
from groundwire.kernel.errors import GroundwireError, PreconditionError
from groundwire.standalone.settings import ProcessSettings, ServerSettings, ServiceName
from groundwire.standalone.start_checks import (
    check_address,
    check_credential_files,
    check_delegation,
    check_exposure,
    check_folder,
    check_stores,
    plain_disk_failures,
)

if TYPE_CHECKING:
    from multiprocessing.context import SpawnProcess

    from groundwire.kernel.embedder import Embedder
    from groundwire.kernel.vector_store import VectorStore
    from groundwire.rpc.server import ServerOptions
    from groundwire.standalone.parts import Parts

_GC_THRESHOLDS = (20_000, 50, 1_000)
_RESTART_S = 1.0
"""Pause before a process is replaced, so that one that cannot run costs little."""
# A process may have to migrate the catalog and to compile the model before it can serve.
_STARTED_S = 300.0


def run(service: ServiceName, settings: ProcessSettings, announce: Callable[[str], None] = lambda _: None) -> None:
    """Serve until SIGTERM or SIGINT; prints `listening on HOST:PORT` to stdout once it can serve.

    `announce` is called with what the start is waiting for.

    Raises:
        InvalidRequestError: a setting does not fit the service, such as a catalog that processes cannot share.
        GroundwireError: one cannot listen there, or something cannot be opened.
    """
    check_stores(service, settings.server)
    parse_generator(settings.server.generator)
    check_address(settings.server.listen)
    if settings.server.metrics:
        check_address(settings.server.metrics, "metrics")
    server = settings.server
    check_exposure(server.listen, has_credentials=server.has_credentials, insecure=server.insecure)
    check_credential_files(server)
    if service is ServiceName.ANSWER:
        check_delegation(server)
    check_folder(settings.server.data)
    if server.processes > 1:
        _run_several(service, settings)
        return
    host = server.listen.rpartition(":")[0]
    serve_one(
        service,
        settings,
        announce=announce,
        on_listening=lambda port: print(f"listening on {host}:{port}", flush=True),  # noqa: T201 - the one line that scripts wait for
    )


def serve_one(
    service: ServiceName,
    settings: ProcessSettings,
    *,
    on_listening: Callable[[int], None],
    announce: Callable[[str], None] = lambda _: None,
    shares_port: bool = False,
) -> None:
    """Serve in this process until SIGTERM or SIGINT; `on_listening` is called with the port once it can serve.

    Raises:
        GroundwireError: one cannot listen there, or something cannot be opened.
    """
    # Nothing allocated during the start is garbage, and collecting it would take a tenth of the time.
    gc.disable()
    # Read when numpy is imported. Its threads share a multiplication of a millisecond and then spin for the next one,
    # which took a search of 1,400 chunks five times the processor time; there are searches side by side instead.
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    announce("loading the libraries")
    with plain_disk_failures(settings.server.data):
        asyncio.run(_serve(service, settings, announce, on_listening, shares_port=shares_port))


async def _serve(
    service: ServiceName,
    settings: ProcessSettings,
    announce: Callable[[str], None],
    on_listening: Callable[[int], None],
    *,
    shares_port: bool,
) -> None:
    options = settings.server
    with ExitStack() as stack:
        if service is ServiceName.ANSWER:
            from groundwire.rpc.logs import configure_logging  # noqa: PLC0415 - see above
            from groundwire.standalone.split_answer import build_answer  # noqa: PLC0415 - see above

            configure_logging(settings.server.log_format)
            parts = build_answer(settings, stack)  # in the thread of the event loop, for its channel
        else:
            parts = await asyncio.to_thread(_open, service, settings, stack, announce)
        import structlog  # noqa: PLC0415 - see above

        from groundwire.rpc.server import GrpcServer, serve  # noqa: PLC0415 - see above
        from groundwire.rpc.tracing import TRACES_TO, start_tracing  # noqa: PLC0415 - see above
        from groundwire.standalone.readiness import ReadinessMonitor  # noqa: PLC0415 - see above

        # A full collection holds the interpreter lock, for hundreds of milliseconds with everything that is loaded.
        # So what was loaded is hidden from the collector, which also runs less often.
        gc.freeze()
        gc.set_threshold(*_GC_THRESHOLDS)
        gc.enable()
        server = GrpcServer(_server_options(options, shares_port=shares_port), parts.services)
        if options.metrics:
            # Imported only if metrics are served, so that other servers do not wait for the library.
            from groundwire.standalone.metrics import serve_metrics  # noqa: PLC0415 - see above

            stack.callback(serve_metrics(options.metrics, server, parts))
        if os.environ.get(TRACES_TO):
            stack.callback(start_tracing(f"groundwire-{service}"))
        if not options.has_credentials:
            # On loopback this is how a laptop is used; elsewhere it deserves a warning.
            log = structlog.get_logger(__name__)
            say = log.warning if options.insecure else log.info
            say("no credential is configured: whoever reaches the address may do everything", listen=options.listen)
        readiness = ReadinessMonitor(parts.dependencies, server.health)
        readiness.start()
        try:
            await serve(server, on_listening=on_listening)
        finally:
            await readiness.stop()
            # After the checks of readiness, which call through them.
            for channel in parts.channels:
                await channel.close()
        lag = server.lag.read()
        structlog.get_logger(__name__).info(
            "stopped", loop_lag_max_ms=round(lag.max_s * 1000, 1), loop_lag_p99_ms=round(lag.p99_s * 1000, 1)
        )


def _server_options(options: ServerSettings, *, shares_port: bool) -> "ServerOptions":
    from groundwire.kernel.identity import Quota, TokenRules  # noqa: PLC0415 - see above
    from groundwire.rpc.access import AccessOptions  # noqa: PLC0415 - see above
    from groundwire.rpc.methods import CALL_LIMITS, DeadlineTable  # noqa: PLC0415 - see above
    from groundwire.rpc.server import ServerOptions  # noqa: PLC0415 - see above
    from groundwire.rpc.tls import TlsFiles  # noqa: PLC0415 - see above

    return ServerOptions(
        listen=options.listen,
        shares_port=shares_port,
        access=AccessOptions(
            keys=options.keys,
            jwks=options.jwks,
            token_rules=TokenRules(
                options.jwt_issuer,
                options.jwt_audience,
                options.jwt_tenant_claim,
                options.jwt_rights_claim,
                options.jwt_scopes_claim,
            ),
            by_certificate=options.tls_client_ca is not None,
            services=frozenset(filter(None, (name.strip() for name in options.tls_services.split(",")))),
            is_reflection_public=options.public_reflection,
        ),
        quota=Quota(
            options.caller_units_per_second,
            options.caller_burst,
            options.caller_calls,
            options.tenant_documents,
            options.tenant_stored_bytes,
        ),
        tls=TlsFiles(options.tls_certificate, options.tls_key, options.tls_client_ca)
        if options.tls_certificate and options.tls_key
        else None,
        reflection=options.reflection,
        call_limits={work: getattr(options, f"max_{work}_calls", limit) for work, limit in CALL_LIMITS.items()},
        first_message_s=options.first_message_s,
        stream_idle_s=options.stream_idle_s,
        deadlines=DeadlineTable(default_s=options.default_deadline_s),
        drain_s=options.drain_s,
    )


def _open(
    service: ServiceName, settings: ProcessSettings, stack: ExitStack, announce: Callable[[str], None]
) -> "Parts":
    """Open everything and return the parts of the process, started; `stack` closes them, also after a failure."""
    from groundwire.rpc.logs import configure_logging  # noqa: PLC0415 - see above

    configure_logging(settings.server.log_format)
    with ThreadPoolExecutor(2, thread_name_prefix="opening") as beside:
        vectors = beside.submit(_open_vectors, settings.server)
        embedder = beside.submit(_open_embedder, settings.server)
        # Registered before the services, so that engine and model are closed after them.
        stack.callback(_close_opened, vectors)
        stack.callback(_close_opened, embedder)
        from groundwire.standalone.bootstrap import build_services  # noqa: PLC0415 - see above

        return build_services(service, settings, vectors, embedder, stack, announce)


def _open_vectors(settings: ServerSettings) -> "VectorStore":
    from groundwire.vectorstores.factory import open_vector_store  # noqa: PLC0415 - see above

    key = settings.vectors_api_key
    return open_vector_store(
        settings.vectors,
        data_dir=settings.data,
        api_key=key.get_secret_value() if key else None,
        hung_after_s=settings.engine_hung_after_s,
        most_open=settings.vectors_open_collections,
    )


def _open_embedder(settings: ServerSettings) -> "Embedder":
    from groundwire.embedders.factory import open_embedder  # noqa: PLC0415 - see above

    key = settings.embedder_api_key
    return open_embedder(settings.embedder, cache_dir=settings.cache, api_key=key.get_secret_value() if key else "")


def _close_opened(opening: "Future[VectorStore] | Future[Embedder]") -> None:
    if opening.exception() is None:
        opening.result().close()


def _run_several(service: ServiceName, settings: ProcessSettings) -> None:
    """Run `settings.server.processes` processes behind one port, among which the kernel spreads connections.

    Prints `listening on` once all can serve, and returns after SIGTERM or SIGINT. One that ends by itself is
    restarted.

    Raises:
        PreconditionError: one of them ended before it could serve; it has said why.
    """
    # Spawned, not forked, before anything of gRPC runs here: its threads do not survive a fork.
    context = multiprocessing.get_context("spawn")
    stopping = threading.Event()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, lambda *_: stopping.set())
    host, _, port = settings.server.listen.rpartition(":")
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_STREAM) as place:
        # Reserves the port while processes come and go; it gets no connections, because it does not listen.
        place.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        place.bind((host.strip("[]"), int(port)))
        listen = f"{host}:{place.getsockname()[1]}"
        running: dict[int, SpawnProcess] = {}
        # Kept alive here: the event would be gone before the new process has attached to it.
        readiness: dict[int, Any] = {}

        def start(index: int) -> None:
            ready = readiness[index] = context.Event()
            own = settings.of_process(index, listen)
            running[index] = context.Process(
                target=_serve_shared, args=(service, own, ready), name=f"{service}-{index}"
            )
            # Ctrl-C is for this process, which ends the others: they inherit the blocked signal.
            signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
            running[index].start()
            signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})

        try:
            for index in range(settings.server.processes):
                start(index)
            until = time.monotonic() + _STARTED_S
            while not stopping.is_set() and not all(ready.is_set() for ready in readiness.values()):
                if time.monotonic() > until or not all(process.is_alive() for process in running.values()):
                    raise PreconditionError("one of the processes could not start")
                wait([process.sentinel for process in running.values()], timeout=0.1)
            if not stopping.is_set():
                print(f"listening on {listen}", flush=True)  # noqa: T201 - the one line that scripts wait for
            while not stopping.is_set():
                # With a timeout, because a signal only sets `stopping`, which does not end this wait.
                wait([process.sentinel for process in running.values()], timeout=_RESTART_S)
                ended = [index for index, process in running.items() if not process.is_alive()]
                if ended and not stopping.wait(_RESTART_S):
                    for index in ended:
                        start(index)
        finally:
            for process in running.values():
                process.terminate()
            for process in running.values():
                process.join()


def _serve_shared(service: ServiceName, settings: ProcessSettings, ready: Any) -> None:
    """Serve on the shared port; runs in a process of its own, which stops in order if its parent is killed."""
    threading.Thread(target=_follow_parent, name="follow-parent", daemon=True).start()
    try:
        serve_one(service, settings, on_listening=lambda _: ready.set(), shares_port=True)
    except GroundwireError as error:
        sys.exit(f"{error.reason}: {error.message}")


def _follow_parent() -> None:
    """Stop this process when its parent has ended: nobody else would stop or replace it, and it holds the port."""
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os.kill(os.getpid(), signal.SIGTERM)
