"""TLS of servers and clients: certificates, keys and authorities, read again when the files change."""

import logging
import ssl
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any, Final

import grpc

from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.watched_file import WatchedFiles, read_files

_SOON: Final = timedelta(days=7)
# The standard logger, because the client has TLS too and does not install structlog.
_LOG = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM: the certificate with those between it and its authority, and its private key.

    With `client_ca` only clients connect whose certificate this authority has signed.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServerTls:
    """Credentials of a server: new connections use the files as they are now, open ones are not affected.

    A certificate that is read and has expired, or will within a week, is named in the log.

    Raises:
        InvalidRequestError: a file cannot be read, or the key is not that of the certificate.
    """

    def __init__(self, files: TlsFiles) -> None:
        paths = [files.certificate, files.key, *([files.client_ca] if files.client_ca else [])]
        check = partial(_checked, (files.certificate, files.key), files.client_ca, "tls_certificate")

        def read(contents: list[bytes]) -> list[bytes]:
            checked = check(contents)
            warn_of_expiry(files.certificate)
            return checked

        self._contents = WatchedFiles(paths, read, "tls_certificate")
        self._given = self._contents.value
        self.credentials: Any = grpc.dynamic_ssl_server_credentials(
            _configuration(self._given), self._fetch, require_client_authentication=files.client_ca is not None
        )

    def close(self) -> None:
        self._contents.close()

    def _fetch(self) -> Any:
        """Return the configuration of a new connection, None if unchanged; called in a thread of the library."""
        contents = self._contents.value
        # The same object until a file changes, so that no connection has to compare keys.
        if contents is self._given:
            return None
        self._given = contents
        return _configuration(contents)


class ClientTls(grpc.ChannelCredentials):
    """Credentials of a client from files in PEM, for `RenewedChannel`, which reads them again when they change.

    Other channels of the library take them too, as the files are when this is made.

    Args:
        ca: the authority that signed the server's certificate; None for those of the system.
        certificate: what the client proves itself with, and its key, where the server asks for it.

    Raises:
        InvalidRequestError: a file cannot be read, or the key is not that of the certificate.
    """

    def __init__(self, ca: Path | None, certificate: tuple[Path, Path] | None = None) -> None:
        self._ca = ca
        self._certificate = certificate
        self._paths = [*([ca] if ca else []), *(certificate or ())]
        self._field = "tls_ca" if certificate is None else "tls_client_certificate"
        made: Any = read_files(self._paths, self._made, self._field)
        super().__init__(made._credentials)  # noqa: SLF001 - the library has no other way to make a subclass

    def watched(self) -> WatchedFiles[grpc.ChannelCredentials]:
        """Return the watched value of the files; the caller closes it."""
        return WatchedFiles(self._paths, self._made, self._field)

    def _made(self, contents: list[bytes]) -> grpc.ChannelCredentials:
        read = iter(_checked(self._certificate, self._ca, self._field, contents))
        ca = next(read) if self._ca else None
        certificate, key = read if self._certificate else (None, None)
        return grpc.ssl_channel_credentials(ca, key, certificate)


def _checked(pair: tuple[Path, Path] | None, authority: Path | None, field: str, contents: list[bytes]) -> list[bytes]:
    """Return the contents if certificate, key and authority are valid; else the library would fail each connection."""
    try:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        if pair is not None:
            # With an empty password an encrypted key fails; without one OpenSSL would prompt for it.
            context.load_cert_chain(*pair, password="")
        if authority is not None:
            context.load_verify_locations(authority)
    except (OSError, ValueError) as error:  # errors of TLS are errors of the system to Python
        description = "certificate, key and authority must be in PEM, and the key that of the certificate"
        raise InvalidRequestError.of(field, description) from error
    return contents


def warn_of_expiry(certificate: Path) -> None:
    """Log that a certificate has expired or soon will; one that cannot be read just now is passed over."""
    try:
        decoded: Any = ssl._ssl._test_decode_cert(certificate)  # type: ignore[attr-defined]  # noqa: SLF001 - nothing else of Python reads a certificate
    except OSError:
        return  # it is being replaced, and will be read again
    end = datetime.fromtimestamp(ssl.cert_time_to_seconds(decoded["notAfter"]), UTC)
    now = datetime.now(UTC)
    if end < now:
        _LOG.warning("the certificate %s expired at %s: clients refuse the connection", certificate, end.isoformat())
    elif end < now + _SOON:
        _LOG.warning("the certificate %s expires at %s", certificate, end.isoformat())


def _configuration(contents: list[bytes]) -> Any:
    # A new one for each use, because the library frees it.
    certificate, key, *client_ca = contents
    return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca[0] if client_ca else None)
