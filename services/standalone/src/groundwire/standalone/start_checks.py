"""Checks of settings, address and data folder, so that mistakes are reported in one sentence before a slow start."""

import errno
import ipaddress
import os
import re
import shutil
import socket
import stat
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

from groundwire.kernel.catalog_urls import is_on_server
from groundwire.kernel.errors import (
    ExhaustedError,
    FieldViolation,
    InvalidRequestError,
    PreconditionError,
    StoreUnavailableError,
    refuse,
)
from groundwire.standalone.settings import IN_MEMORY, ServerSettings, ServiceName

_MAX_PORT = 65_535
# gRPC would take the port of https where there is none, and look up a URL as a name.
_TARGET = re.compile(r"(?:[a-z0-9]+://[^/]*/)?[^/]+:\d+")
_TARGET_FORM = "must be HOST:PORT or dns:///NAME:PORT, such as dns:///retrieve:50051"
_NO_ROOM = {errno.ENOSPC, errno.EDQUOT}
_ROOM_BYTES = 1 << 20
"""Free space below which a store cannot work."""
_BLOCK = b"\0" * 4096
_ADDRESS_TROUBLES = {
    errno.EADDRINUSE: "the port is in use; stop the process that has it, or choose another",
    errno.EADDRNOTAVAIL: "this machine has no such address",
    errno.EACCES: "only root may listen on such a port",
}


def check_stores(service: ServiceName, server: ServerSettings) -> None:
    """Return if a process can run this service on the stores that are configured.

    Raises:
        InvalidRequestError: naming the setting that does not fit.
    """
    is_answer, is_alone = service is ServiceName.ANSWER, service is not ServiceName.ALL
    shares_catalog = is_on_server(server.catalog)
    shares_sessions = is_on_server(server.sessions)
    rules = (
        (is_answer and not server.retrieve, "retrieve", "must say where to search, such as dns:///retrieve:50051"),
        *(
            (is_answer and target and not _TARGET.fullmatch(target), name, _TARGET_FORM)
            for name, target in (("retrieve", server.retrieve), ("ingest", server.ingest))
        ),
        (
            server.metrics and server.metrics == server.listen and not server.listen.endswith(":0"),
            "metrics",
            "must be another address than that of the calls",
        ),
        (not is_answer and server.retrieve, "retrieve", "is for `serve answer`"),
        (not is_answer and server.ingest, "ingest", "is for `serve answer`"),
        (not is_answer and server.sessions, "sessions", "is for `serve answer`; elsewhere they are in the catalog"),
        (
            server.processes > 1 and service not in {ServiceName.RETRIEVE, ServiceName.ANSWER},
            "processes",
            "is for `serve retrieve` and `serve answer`",
        ),
        (
            is_answer and server.processes > 1 and not shares_sessions,
            "sessions",
            "must be postgresql://…, which several processes can share",
        ),
        (
            is_alone and not is_answer and not shares_catalog,
            "catalog",
            f"must be postgresql://… for `serve {service}`: SQLite has one owner, which is `serve`",
        ),
        (
            is_alone and not is_answer and "://" not in server.vectors,
            "vectors",
            f"must be a server for `serve {service}`, such as qdrant://HOST: an engine in a folder has one owner",
        ),
    )
    refuse(FieldViolation(field, message) for is_broken, field, message in rules if is_broken)


def check_address(listen: str, field: str = "listen") -> None:
    """Return if one can listen on HOST:PORT; another process may still take it afterwards.

    Raises:
        InvalidRequestError: it is malformed, or the name is unknown; names `field`.
        PreconditionError: it is in use, or not ours; metadata: address.
    """
    host, colon, port = listen.rpartition(":")
    if not colon or not host or not port.isdecimal() or int(port) > _MAX_PORT:
        raise InvalidRequestError.of(field, f"{listen!r} is not of the form HOST:PORT, such as 127.0.0.1:50051")
    try:
        places = socket.getaddrinfo(host.strip("[]"), int(port), type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE)
    except (socket.gaierror, UnicodeError) as error:
        raise InvalidRequestError.of(field, f"{host!r} is neither an address nor a known name") from error
    failures = []
    for place in places:
        try:
            with closing(socket.socket(place[0], socket.SOCK_STREAM)) as probe:
                # As the server does: lingering connections of a predecessor are no obstacle, a listening socket is.
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                probe.bind(place[4])
        except OSError as error:
            failures.append(error)
    # One address of a name with several is enough, as it is for the server.
    if len(failures) == len(places):
        reason = _ADDRESS_TROUBLES.get(failures[0].errno or 0, os.strerror(failures[0].errno or 0))
        raise PreconditionError(f"cannot listen on {listen}: {reason}", address=listen)


def check_exposure(listen: str, *, has_credentials: bool, insecure: bool) -> None:
    """Return if only this machine reaches the server, callers need a credential, or `insecure` is set.

    Raises:
        PreconditionError: everybody in the network could read, change and delete everything; metadata: address.
    """
    host = listen.rpartition(":")[0].strip("[]")
    places = socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)
    is_local = all(ipaddress.ip_address(str(place[4][0]).partition("%")[0]).is_loopback for place in places)
    if not (is_local or has_credentials or insecure):
        raise PreconditionError(
            f"without credentials only this machine may call, and {listen} is open to others: make a key with "
            "`groundwire keys create --keys FILE` and add --keys FILE, or add --insecure where a proxy or the network "
            "decides who may call",
            address=listen,
        )


def check_delegation(server: ServerSettings) -> None:
    """Return if an answer service that asks for credentials has one for its background work, and vice versa.

    Raises:
        InvalidRequestError: conversations could never be recorded, or anybody could act for anybody.
    """
    if server.service_key is not None and not server.has_bearers:
        # Otherwise anybody who reaches the port would have the rights of the key.
        raise InvalidRequestError.of("service_key", "needs --keys or a JWKS: answer must know for whom it acts")
    if server.has_bearers and server.service_key is None and server.sessions != IN_MEMORY:
        description = (
            "is needed where callers show keys or tokens: what is done behind the calls has none of them; set "
            "GROUNDWIRE_SERVICE_KEY to a key from `groundwire keys create answer --right service`"
        )
        raise InvalidRequestError.of("service_key", description)
    if server.has_credentials and not server.has_bearers and server.retrieve_tls_ca is None:
        description = "is needed where callers show certificates alone: answer shows its own to retrieve and ingest"
        raise InvalidRequestError.of("retrieve_tls_ca", description)


def check_credential_files(server: ServerSettings) -> None:
    """Return if only owner and group may change the files that say who may call.

    Raises:
        PreconditionError: anybody on this machine could give itself a key; metadata: path.
    """
    for path in (server.keys, server.jwks, server.tls_certificate, server.tls_key, server.tls_client_ca):
        # A missing file is reported when it is read.
        if path is not None and path.exists() and path.stat().st_mode & stat.S_IWOTH:
            raise PreconditionError(f"anybody may change {str(path)!r}: chmod o-w it", path=str(path))


def check_folder(data: Path) -> None:
    """Make the data folder if it is missing, and check that it is writable.

    Raises:
        InvalidRequestError: it, or what should be a folder above it, is a file.
        PreconditionError: it cannot be made or written, or the disk is full.
    """
    with plain_disk_failures(data):
        try:
            data.mkdir(mode=0o700, parents=True, exist_ok=True)
        except (FileExistsError, NotADirectoryError) as error:
            message = f"{str(data)!r} is a file, or below one, and must be a folder"
            raise InvalidRequestError.of("data", message) from error
        try:
            with tempfile.TemporaryFile(dir=data) as file:
                file.write(_BLOCK)
                file.flush()
                # Some file systems report a full disk only when the bytes are on their way to it.
                os.fsync(file.fileno())
        except OSError as error:
            error.filename = str(data)  # that of a temporary file would say nothing
            raise


@contextmanager
def plain_disk_failures(folder: Path, what: str = "data folder") -> Iterator[None]:
    """Turn errors of the file system, and of stores that lack room in a folder, into what operators can act on.

    Args:
        folder: where the files are.
        what: what operators know it as.

    Raises:
        PreconditionError: in place of such an error.
    """
    try:
        yield
    except OSError as error:
        if error.errno in _NO_ROOM:
            raise PreconditionError(f"the disk of the {what} {str(folder)!r} is full") from error
        place = error.filename if isinstance(error.filename, str) else str(folder)
        where = f"the {what} " if place == str(folder) else ""
        raise PreconditionError(f"cannot use {where}{place!r}: {error.strerror or error}") from error
    except (StoreUnavailableError, ExhaustedError) as error:
        # The catalog may call it an error of input and output when its disk is full.
        if shutil.disk_usage(folder).free < _ROOM_BYTES:
            message = f"the disk of the {what} {str(folder)!r} is full: {error.message}"
            raise PreconditionError(message) from error
        raise
