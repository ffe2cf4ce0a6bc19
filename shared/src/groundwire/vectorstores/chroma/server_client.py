"""Connects to a Chroma server, with every wait bounded and nothing sent to anybody else."""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from typing import Any, Final

from groundwire.vectorstores.server_url import Parse, ServerUrl, name_prefix, parse_server_url, whole_number

_SCHEMES = ("chroma+http", "chroma+https")
_PORT = 8000
_TIMEOUT_S = 30
_BUSY = 429
_SERVER_ERROR = 500
_request_limit_s: ContextVar[float | None] = ContextVar("request_limit_s", default=None)

OPTIONS: Final[Mapping[str, Parse]] = {
    "tenant": str,
    "database": str,
    "prefix": name_prefix,
    "timeout_s": whole_number(1, 3600),
}
"""Options of the URL and what they may be; docs/reference/vector-stores.md describes each."""


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where the server is and what is asked of it; `prefix` stands before the names of all collections."""

    url: ServerUrl
    api_key: str | None = None

    @property
    def prefix(self) -> str:
        """Return what the names of this installation's collections begin with."""
        return str(self.url.options.get("prefix", ""))

    @property
    def timeout_s(self) -> int:
        """Return the seconds that one request may take."""
        return int(self.url.options.get("timeout_s", _TIMEOUT_S))


def parse_options(url: str, api_key: str | None) -> ServerOptions:
    """Return the options of `chroma+http://HOST:PORT?tenant=&database=&prefix=&timeout_s=`.

    Raises:
        InvalidRequestError: naming everything wrong with the URL.
    """
    options: dict[str, Parse] = {
        "tenant": str,
        "database": str,
        "prefix": name_prefix,
        "timeout_s": whole_number(1, 3600),
    }
    parsed = parse_server_url(url, default_port=_PORT, encrypted_schemes=_SCHEMES[1:], options=options)
    return ServerOptions(parsed, api_key)


def open_server(options: ServerOptions) -> Any:
    """Return the library's client after it has talked to the server once."""
    import chromadb  # noqa: PLC0415 - only the engine asked for
    import httpx  # noqa: PLC0415 - comes with the library
    from chromadb.config import Settings  # noqa: PLC0415 - the same

    url, key = options.url, options.api_key
    timeout = httpx.Timeout(options.timeout_s)
    # The library waits forever, and already when it is made.
    address = f"{'https' if url.is_encrypted else 'http'}://{url.host}:{url.port}"
    httpx.get(f"{address}/api/v2/heartbeat", timeout=timeout).raise_for_status()
    client = chromadb.HttpClient(
        host=url.host,
        port=url.port,
        ssl=url.is_encrypted,
        # Servers of one's own check the first behind a proxy, hosted ones the second.
        headers={"Authorization": f"Bearer {key}", "x-chroma-token": key} if key else None,
        settings=Settings(anonymized_telemetry=False),
        tenant=url.options.get("tenant", "default_tenant"),
        database=url.options.get("database", "default_database"),
    )
    client._server._session.timeout = timeout  # noqa: SLF001 - there is no setting for it
    client._server._session.event_hooks = {"request": [_limit]}  # noqa: SLF001 - the same
    return client


@contextmanager
def requests_limited_to(seconds: float) -> Iterator[None]:
    """Give every request made inside, by this thread, so many seconds for connecting and for each answer."""
    token = _request_limit_s.set(seconds)
    try:
        yield
    finally:
        _request_limit_s.reset(token)


def _limit(request: Any) -> None:
    seconds = _request_limit_s.get()
    if seconds is not None:
        request.extensions["timeout"] = dict.fromkeys(("connect", "read", "write", "pool"), seconds)


def close_server(client: Any) -> None:
    """Close the client with its connections and those of the client inside it, which its own `close` leaves open."""
    client.close()
    for each in (client, client._admin_client):  # noqa: SLF001 - see above
        each._server._session.close()  # noqa: SLF001 - see above


def is_transient(error: Exception) -> bool:
    """Tell whether a call may do better the next time: the connection failed, or the server has too much to do."""
    import httpx  # noqa: PLC0415 - comes with the library

    if isinstance(error, httpx.HTTPStatusError):
        return error.response.status_code == _BUSY or error.response.status_code >= _SERVER_ERROR
    return isinstance(error, httpx.TransportError) and not isinstance(error, httpx.TimeoutException)


def is_missing(error: Exception) -> bool:
    """Tell whether the server says that a collection does not exist."""
    from chromadb.errors import NotFoundError  # noqa: PLC0415 - only the engine asked for

    return isinstance(error, NotFoundError)
