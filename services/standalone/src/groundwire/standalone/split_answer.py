"""Composition root of a process that only answers: sessions of its own, and a channel to retrieve."""

import asyncio
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from groundwire.answer.bootstrap import build
from groundwire.answer.settings import parse_generator
from groundwire.api.ingest.v1 import record_service_pb2_grpc
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc, retrieve_service_pb2_grpc
from groundwire.kernel.errors import MissingExtraError, UnavailableError
from groundwire.kernel.identity import Identity, Right
from groundwire.rpc import request_context
from groundwire.rpc.channels import Delegation, open_channel
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.request_context import RequestContext
from groundwire.rpc.tls import ClientTls
from groundwire.rpc.workers import Workers
from groundwire.standalone.parts import Parts, open_database
from groundwire.standalone.readiness import Dependency
from groundwire.standalone.server_info import server_service
from groundwire.standalone.settings import IN_MEMORY, ProcessSettings, ServerSettings

_USER_AGENT = "groundwire-answer"
# Readiness has to follow a lost retrieve service within 5 seconds.
_CHECK_S = 2.0
_SWEEP_S = 10.0
SESSIONS_FILE = "sessions.db"


def build_answer(settings: ProcessSettings, stack: ExitStack) -> Parts:
    """Return the answer service, started; `stack` closes what it uses. Retrieve need not run yet.

    Call it in the thread of the event loop, to which the channel belongs.

    Raises:
        GroundwireError: the sessions cannot be opened.
    """
    server = settings.server
    workers = Workers(server.workers, "answer")
    stack.callback(workers.close)
    channel = _open_channel(server, server.retrieve)
    to_ingest = _open_channel(server, server.ingest) if server.ingest else None
    retrieve = _Retrieve(channel)
    database = None
    if server.sessions != IN_MEMORY:
        url = server.sessions or "sqlite:"
        try:
            database = open_database(server, url, SESSIONS_FILE, "sessions", server.sessions_password)
        except ModuleNotFoundError as error:
            message = "sessions in a database need more packages: pip install 'groundwire[answer,sessions]'"
            raise MissingExtraError(f"{message}; or use --sessions memory:", extra="sessions") from error
        stack.callback(database.close)
    answer = build(
        retrieve=retrieve_service_pb2_grpc.RetrieveServiceStub(channel),
        library=library_service_pb2_grpc.LibraryServiceStub(channel),
        records=None if to_ingest is None else record_service_pb2_grpc.RecordServiceStub(to_ingest),
        sessions=database,
        purged=retrieve.purged,
        settings=settings.answer,
        workers=workers,
        chat_model=parse_generator(server.generator),
        signing_key=server.signing_key,
    )
    answer.start()
    stack.callback(answer.close)
    services = answer.services()
    names = frozenset(service.name for service in services)
    dependencies = [Dependency("retrieve", retrieve.check, names)]
    if database is not None:
        probe = database.probe()
        stack.callback(probe.close)
        dependencies.append(Dependency("sessions", probe.check_writable, names))
    services.append(server_service(settings, services))
    return Parts(
        services,
        dependencies,
        [each for each in (channel, to_ingest) if each is not None],
        {"answer": workers},
        database=database,
        answer=answer,
    )


class _Retrieve:
    """Blocking requests to retrieve, on the channel of the calls: a second one could fail or recover at other times."""

    def __init__(self, channel: grpc.aio.Channel) -> None:
        self._loop = asyncio.get_running_loop()
        self._health = health_pb2_grpc.HealthStub(channel)
        self._library = library_service_pb2_grpc.LibraryServiceStub(channel)

    def check(self) -> None:
        """Return if retrieve can serve searches.

        Raises:
            GroundwireError: it cannot, or does not answer.
        """
        request = health_pb2.HealthCheckRequest(service="groundwire.api.retrieve.v1.RetrieveService")
        checked = self._answer_of(self._health.Check, request, _CHECK_S, Identity())
        if checked.status != health_pb2.HealthCheckResponse.SERVING:
            raise UnavailableError("the retrieve service cannot serve now")

    def purged(self, tenant: str, document_ids: Sequence[str]) -> frozenset[str]:
        """Return those of the documents that the tenant has deleted for good.

        Raises:
            GroundwireError: retrieve does not answer.
        """
        request = library_pb.LocateSourcesRequest(document_ids=document_ids)
        identity = Identity(tenant, rights=frozenset({Right.READ}))
        response = self._answer_of(self._library.LocateSources, request, _SWEEP_S, identity)
        return frozenset(each.document_id for each in response.documents if each.purged)

    def _answer_of(self, method: Callable[..., Any], request: Any, timeout_s: float, identity: Identity) -> Any:
        async def call() -> Any:
            request_context.bind(RequestContext("", identity))
            return await method(request, timeout=timeout_s)

        try:
            return asyncio.run_coroutine_threadsafe(call(), self._loop).result()
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error


def _open_channel(server: ServerSettings, address: str) -> grpc.aio.Channel:
    credentials = None
    if server.retrieve_tls_ca is not None:
        own = (server.tls_certificate, server.tls_key) if server.tls_certificate and server.tls_key else None
        credentials = ClientTls(server.retrieve_tls_ca, own)
    key = server.service_key
    # With a certificate alone it acts only for callers who presented theirs: `check_delegation` refuses the rest.
    delegation = Delegation(key.get_secret_value() if key else "")
    is_trusted = key is not None or (server.has_credentials and not server.has_bearers)
    return open_channel(
        address, user_agent=_USER_AGENT, credentials=credentials, delegation=delegation if is_trusted else None
    )
