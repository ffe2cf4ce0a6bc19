"""Credentials of a client from files, so that no secret stands in a flag, a variable or a URL."""

from collections.abc import Callable, Mapping
from pathlib import Path

import grpc

from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.tls import ClientTls


def token_from_file(path: Path) -> Callable[[], Mapping[str, str]]:
    """Return the metadata of calls with the key or token of a file, for `metadata` of the clients.

    The file is read before each call, so that a token that somebody renews, or a key that is replaced, is used at once.

    Raises:
        InvalidRequestError: by the function: the file cannot be read, or is empty.
    """

    def metadata() -> Mapping[str, str]:
        try:
            token = path.read_text("utf-8", "replace").strip()
        except OSError as error:
            raise InvalidRequestError.of("token_file", f"{str(path)!r} cannot be read: {error.strerror}") from error
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidRequestError.of("token_file", f"{str(path)!r} holds no key and no token")
        return {"authorization": f"Bearer {token}"}

    return metadata


def tls_from_files(
    ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> grpc.ChannelCredentials:
    """Return the TLS of a connection, for `credentials` of the clients; all files are in PEM.

    A client reads the files again when they change: calls that begin then are made with them, on a new connection.

    Args:
        ca: the authority that signed the server's certificate; None for those of the system.
        certificate: what the client proves itself with, where the server asks for it.
        key: that of the certificate.

    Raises:
        InvalidRequestError: a file cannot be read, or certificate and key do not fit or one of them is missing.
    """
    if ca is None and certificate is None and key is None:
        return grpc.ssl_channel_credentials()
    if certificate is None or key is None:
        if certificate is not key:
            raise InvalidRequestError.of("tls_client_certificate", "certificate and key need one another")
        return ClientTls(ca)
    return ClientTls(ca, (certificate, key))
