"""TLS of a server: certificate, key and the authority of its clients, read again when the files change."""

import ssl
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.watched_file import WatchedFiles


@dataclass(frozen=True, slots=True)
class TlsFiles:
    """Files in PEM: the certificate with those between it and its authority, and its private key.

    With `client_ca` only clients connect whose certificate this authority has signed.
    """

    certificate: Path
    key: Path
    client_ca: Path | None = None


class ServerTls:
    """Credentials of a server whose new connections get the files as they are now; the open ones go on.

    Raises:
        InvalidRequestError: a file cannot be read, or the key is not that of the certificate.
    """

    def __init__(self, files: TlsFiles) -> None:
        self._files = files
        paths = [files.certificate, files.key, *([files.client_ca] if files.client_ca else [])]
        self._contents = WatchedFiles(paths, self._checked, "tls_certificate")
        self._given = self._contents.value
        self.credentials: Any = grpc.dynamic_ssl_server_credentials(
            _configuration(self._given), self._fetch, require_client_authentication=files.client_ca is not None
        )

    def close(self) -> None:
        """Stop watching the files."""
        self._contents.close()

    def _checked(self, contents: list[bytes]) -> list[bytes]:
        try:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(self._files.certificate, self._files.key)
            if self._files.client_ca is not None:
                context.load_verify_locations(self._files.client_ca)
        except (OSError, ValueError) as error:  # errors of TLS are errors of the system to Python
            description = "certificate, key and authority must be in PEM, and the key that of the certificate"
            raise InvalidRequestError.of("tls_certificate", description) from error
        return contents

    def _fetch(self) -> Any:
        """Return what a new connection gets, None if it is what the last one got; a thread of the library asks."""
        contents = self._contents.value
        if contents is self._given:
            return None
        self._given = contents
        return _configuration(contents)


def _configuration(contents: list[bytes]) -> Any:
    # One for each use: the library frees what it is given.
    certificate, key, *client_ca = contents
    return grpc.ssl_server_certificate_configuration([(key, certificate)], client_ca[0] if client_ca else None)
