"""VectorStore on a Chroma server; it shares queries and filters with the embedded engine."""

import importlib.util
import socket
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any, Final, TypeVar

from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import CollectionNotFoundError, GroundwireError, MissingExtraError
from groundwire.vectorstores.chroma.records import (
    checked_dimensions_of,
    compile_filter,
    existing,
    facts_of,
    make_collection,
    nearest,
    records,
    remove,
    replace,
)
from groundwire.vectorstores.points import EngineAdapter, as_ints
from groundwire.vectorstores.servers import (
    Parse,
    StoreAddress,
    name_prefix,
    own_names,
    repeated,
    unavailable,
    whole_number,
)
from groundwire.vectorstores.stored_fields import Stored

_BUSY = 429
_SERVER_ERROR = 500
# TCP retries at growing intervals: after this long a new attempt finds a server that is back sooner.
_CONNECT_S = 3.0
# A firewall that forgets a connection, or a cable that is pulled, says nothing: without these a request in flight
# holds its worker until `timeout_s`. The probes find out within four seconds, however long an answer may take.
_PROBES = {"TCP_KEEPIDLE": 2, "TCP_KEEPINTVL": 1, "TCP_KEEPCNT": 2, "TCP_USER_TIMEOUT": 4000}
_SOCKET_OPTIONS = (
    (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
    # Not every system has all of them.
    *((socket.IPPROTO_TCP, getattr(socket, name), value) for name, value in _PROBES.items() if hasattr(socket, name)),
)
# Limit for connecting and for each answer of this thread's requests: the library takes none per call.
_request_limit_s: ContextVar[float | None] = ContextVar("request_limit_s", default=None)

OPTIONS: Final[Mapping[str, Parse]] = {
    "tenant": str,
    "database": str,
    "prefix": name_prefix,
    "timeout_s": whole_number(1, 3600),
}
"""Options of the URL and what they may be; docs/reference/vector-stores.md describes each."""


class ChromaAddress(StoreAddress):
    """A server at `chroma+http://HOST:PORT?tenant=&database=&prefix=&timeout_s=`."""

    default_port = 8000
    known_options = OPTIONS


def open_server(address: ChromaAddress) -> Any:
    """Return the library's client after it has talked to the server once."""
    import chromadb  # noqa: PLC0415 - only the engine asked for
    import httpx  # noqa: PLC0415 - comes with the library
    from chromadb.config import Settings  # noqa: PLC0415 - the same

    key = address.api_key
    timeout = httpx.Timeout(address.timeout_s, connect=_CONNECT_S)
    # The library waits forever, even in its constructor.
    origin = f"{'https' if address.is_encrypted else 'http'}://{address.host}:{address.port}"
    # Each client reads the certificates, which takes longer than a request; a plain connection needs none.
    encrypted = address.is_encrypted
    httpx.get(f"{origin}/api/v2/heartbeat", timeout=timeout, verify=encrypted).raise_for_status()
    client = chromadb.HttpClient(
        host=address.host,
        port=address.port,
        ssl=encrypted,
        # A self-hosted server behind a proxy checks the first header, a hosted one the second.
        headers={"Authorization": f"Bearer {key}", "x-chroma-token": key} if key else None,
        settings=Settings(anonymized_telemetry=False, chroma_server_ssl_verify=encrypted),
        tenant=address.options.get("tenant", "default_tenant"),
        database=address.options.get("database", "default_database"),
    )

    def limit(request: Any) -> None:
        if (seconds := _request_limit_s.get()) is not None:
            limits = dict.fromkeys(("read", "write", "pool"), seconds)
            request.extensions["timeout"] = {**limits, "connect": min(seconds, _CONNECT_S)}

    for server in (client._server, client._admin_client._server):  # noqa: SLF001 - there is no setting for what follows
        session = server._session  # noqa: SLF001 - see above
        session.timeout = timeout
        session.event_hooks = {"request": [limit]}
        session._transport.close()  # noqa: SLF001 - see above
        session._transport = httpx.HTTPTransport(  # noqa: SLF001 - see above
            limits=server.http_limits, socket_options=_SOCKET_OPTIONS, verify=encrypted
        )
    return client


def close_server(client: Any) -> None:
    """Close the client with its connections and those of the client inside it, which its own `close` leaves open."""
    client.close()
    for each in (client, client._admin_client):  # noqa: SLF001 - see above
        each._server._session.close()  # noqa: SLF001 - see above


def is_transient(error: Exception) -> bool:
    """Tell whether a retry may succeed: the connection failed, the server is overloaded, or it failed itself.

    It does where a search meets a deletion: it found a record in its graph and then no longer in its rows.
    """
    import httpx  # noqa: PLC0415 - comes with the library
    from chromadb.errors import ChromaError  # noqa: PLC0415 - only the engine asked for

    # The library hides the status of an answer that is not in its own form, a proxy's, behind a bare Exception.
    for each in (error, error.__context__):
        if isinstance(each, ChromaError | httpx.HTTPStatusError):
            status: int = each.code() if isinstance(each, ChromaError) else each.response.status_code
            return status == _BUSY or status >= _SERVER_ERROR
    return isinstance(error, httpx.TransportError) and not isinstance(error, httpx.TimeoutException)


def is_missing(error: Exception) -> bool:
    """Tell whether the server says that a collection does not exist."""
    from chromadb.errors import NotFoundError  # noqa: PLC0415 - only the engine asked for

    return isinstance(error, NotFoundError)


T = TypeVar("T")

_ENGINE = "chroma"
_CHECK_S = 2.0


class ChromaServerVectorStore(EngineAdapter):
    """VectorStore over a server, which other processes may use as well; record ids are the numbers as text.

    Raises:
        MissingExtraError: neither chromadb nor chromadb-client is installed.
        StoreUnavailableError: the server does not answer, or refuses the key.
    """

    _batch = 500
    _compiled = staticmethod(compile_filter)

    def __init__(self, address: ChromaAddress) -> None:
        if importlib.util.find_spec("chromadb") is None:
            raise MissingExtraError("chroma needs the package chromadb: groundwire[chroma]", extra="chroma")
        self._prefix = address.prefix
        self._timeout_s = address.timeout_s
        self._handles: dict[str, tuple[Any, int]] = {}
        try:
            self._client = repeated(lambda _: open_server(address), is_transient, Budget(), self._timeout_s)
        except Exception as error:
            raise unavailable(_ENGINE, error) from error

    def drop_collection(self, collection: str, budget: Budget) -> None:
        """Remove a collection, record by record first; see the port."""
        try:
            self._call(collection, lambda held: remove(held, as_ints(held.get(include=[])["ids"])), budget)
            self._call(collection, lambda _: self._client.delete_collection(self._prefix + collection), budget)
        except CollectionNotFoundError:
            return
        finally:
            # Also when it failed: the next call looks up what there is.
            self._handles.pop(collection, None)

    def collections(self, budget: Budget) -> list[str]:
        """Return the names of the collections that this system has made there, sorted."""
        found = self._guarded("", self._client.list_collections, budget)
        return own_names(self._prefix, (each.name for each in found))

    def delete(self, collection: str, numbers: Sequence[int], budget: Budget) -> None:
        self._call(collection, lambda held: remove(held, as_ints(numbers)), budget)

    def numbers(self, collection: str, budget: Budget) -> Iterator[int]:
        """Iterate over the numbers of all points, ascending; one request, for pages shift under writes of others."""
        found = self._call(collection, lambda held: held.get(include=[])["ids"], budget)
        return iter(sorted(map(int, found)))

    def count(self, collection: str, budget: Budget) -> int:
        return int(self._call(collection, lambda held: held.count(), budget))

    def check_responding(self) -> None:
        """Ask the server for its heartbeat; see the port."""
        self._guarded("", self._client.heartbeat, Budget(_CHECK_S))

    def close(self) -> None:
        self._handles.clear()
        close_server(self._client)

    def _put(
        self, collection: str, numbers: list[int], vectors: Vectors, stored: Sequence[Stored], budget: Budget
    ) -> None:
        # In the server's log when it returns.
        self._call(collection, lambda held: replace(held, numbers, vectors, stored), budget)

    def _nearest(
        self, collection: str, vector: Vectors, limit: int, condition: Any, within: list[int] | None, budget: Budget
    ) -> list[tuple[int, float]]:
        """Return the most similar points, approximately above some hundred."""
        selection = {} if condition is None else {"where": condition}

        def search(held: Any) -> list[tuple[int, float]]:
            if within is None:
                return nearest(held, vector, limit, selection)
            ids = existing(held, [str(number) for number in dict.fromkeys(within)])
            return nearest(held, vector, limit, selection | {"ids": ids}) if ids else []

        return self._call(collection, search, budget)

    def _points(self, collection: str, numbers: list[int], budget: Budget) -> tuple[list[int], Vectors, list[Stored]]:
        return self._call(collection, lambda held: records(held, numbers), budget)

    def _dimensions_of(self, collection: str, budget: Budget) -> int:
        return self._handle(collection, budget)[1]

    def _ensure(self, collection: str, dimensions: int, budget: Budget) -> int:
        # Without a lock, on which others would wait while the server is silent.
        with suppress(CollectionNotFoundError):
            return self._dimensions_of(collection, budget)
        try:
            made = self._guarded(
                collection, lambda: make_collection(self._client, self._prefix + collection, dimensions), budget
            )
        except GroundwireError as failure:
            # Another process may have made it at the same moment.
            try:
                return self._dimensions_of(collection, budget)
            except CollectionNotFoundError:
                raise failure from failure.__cause__
        return checked_dimensions_of(collection, facts_of(made))

    def _handle(self, collection: str, budget: Budget) -> tuple[Any, int]:
        """Return Chroma's object for a collection and its vector length; a dropped one is only noticed at a call."""
        known = self._handles.get(collection)
        if known is not None:
            return known
        name = self._prefix + collection
        held = self._guarded(collection, lambda: self._client.get_collection(name, embedding_function=None), budget)
        handle = (held, checked_dimensions_of(collection, facts_of(held)))
        self._handles[collection] = handle
        return handle

    def _call(self, collection: str, call: Callable[[Any], T], budget: Budget) -> T:
        """Make a call on a collection; one that was dropped and recreated meanwhile is looked up again."""
        held, _ = self._handle(collection, budget)
        try:
            return self._guarded(collection, lambda: call(held), budget)
        except CollectionNotFoundError:
            self._handles.pop(collection, None)
        held, _ = self._handle(collection, budget)
        return self._guarded(collection, lambda: call(held), budget)

    def _guarded(self, collection: str, call: Callable[[], T], budget: Budget) -> T:
        def limited(seconds: float) -> T:
            token = _request_limit_s.set(seconds)
            try:
                return call()
            finally:
                _request_limit_s.reset(token)

        try:
            return repeated(limited, is_transient, budget, self._timeout_s)
        except GroundwireError:
            raise
        except Exception as error:
            if is_missing(error):
                raise CollectionNotFoundError(collection) from error
            raise unavailable(_ENGINE, error) from error
