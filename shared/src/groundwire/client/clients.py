"""The two clients: connections to servers, the calls of the contract, and collections."""

import asyncio
from collections.abc import Callable, Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc

from groundwire.client.collection import AsyncCollection, ClientOperations, Collection
from groundwire.client.contract import Contract
from groundwire.client.transport import (
    AsyncCaller,
    AsyncTransport,
    CallMetadata,
    SyncCaller,
    SyncTransport,
    addresses,
    check_argument,
)
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.channels import channel_arguments, open_with_credentials
from groundwire.rpc.tls import ClientTls


def token_from_file(path: Path) -> Callable[[], Mapping[str, str]]:
    """Return a function for `metadata` of the clients that sends the key or token in a file.

    The file is read before each call, so that a renewed token or a replaced key takes effect at once.

    Raises:
        InvalidRequestError: raised by the function if the file cannot be read or is empty.
    """

    def metadata() -> Mapping[str, str]:
        try:
            token = path.read_text("utf-8", "replace").strip()
        except OSError as error:
            raise InvalidRequestError.of("token_file", f"{str(path)!r} cannot be read: {error.strerror}") from error
        if not token or not token.isascii() or not token.isprintable():
            raise InvalidRequestError.of("token_file", f"{str(path)!r} holds neither a key nor a token")
        return {"authorization": f"Bearer {token}"}

    return metadata


def tls_from_files(
    ca: Path | None = None, certificate: Path | None = None, key: Path | None = None
) -> grpc.ChannelCredentials:
    """Return TLS credentials for `credentials` of the clients; all files are in PEM.

    A client reads the files again when they change and makes later calls with them, on a new connection.

    Args:
        ca: authority that signed the server's certificate; None for the authorities of the system.
        certificate: the client's certificate, if the server asks for one.
        key: private key of the certificate.

    Raises:
        InvalidRequestError: a file cannot be read, or certificate and key do not fit or one of them is missing.
    """
    if ca is None and certificate is None and key is None:
        return grpc.ssl_channel_credentials()
    if certificate is None or key is None:
        if certificate is not key:
            raise InvalidRequestError.of("tls_client_certificate", "certificate and key must be given together")
        return ClientTls(ca)
    return ClientTls(ca, (certificate, key))


class GroundwireClient(Contract, ClientOperations, SyncCaller):
    """Calls groundwire servers; safe to share between threads; close it or use it in `with`.

    Calls that fail with UNAVAILABLE are retried up to 3 times; mutating ones carry a request id, so that they
    take effect once. After `close` every call raises CallCancelledError.

    Args:
        address: HOST:PORT of a server that has all services or the one that is called, or an address for each
            service: `ingest=HOST:PORT,retrieve=HOST:PORT,answer=HOST:PORT`. Instead of HOST:PORT any name that gRPC
            resolves, such as `dns:///retrieve:50051`. Calls that every server answers go to the first.
        timeout_s: time limit of every call, above 0, instead of the defaults in `groundwire.rpc.methods`.
        credentials: for TLS; without them the connection is plain. Files of `tls_from_files` are read again when they
            change.
        metadata: sent with every call, such as `{"authorization": "Bearer …"}`; a function is called before each.

    Example:
        with GroundwireClient("127.0.0.1:50051") as client:
            print(client.collection("handbook").ask("What is a span?").text)
    """

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        timeout_s: float | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: CallMetadata | None = None,
    ) -> None:
        channels = _open_channels(grpc, address, credentials, "groundwire-python")
        self._transport = SyncTransport(channels, timeout_s, metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection and cancel running calls and uploads; may be called from any thread."""
        self._transport.closed.set()
        for channel in set(self._transport.channels.values()):  # services at one target share a channel
            channel.close()

    def collection(self, name: str) -> Collection:
        """Return a handle for a collection, which need not exist yet; sends nothing to the server.

        Example:
            handbook = client.collection("handbook")
        """
        return Collection(self._transport, name)


class AsyncGroundwireClient(Contract, ClientOperations, AsyncCaller):
    """`GroundwireClient` for asyncio: the same calls, awaited or iterated with `async for`.

    Create it on the running event loop, and close it or use it in `async with`.

    Example:
        async with AsyncGroundwireClient("127.0.0.1:50051") as client:
            print((await client.collection("handbook").ask("What is a span?")).text)
    """

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        timeout_s: float | None = None,
        credentials: grpc.ChannelCredentials | None = None,
        metadata: CallMetadata | None = None,
    ) -> None:
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            message = "an AsyncGroundwireClient belongs to the running event loop: create it in a coroutine"
            raise RuntimeError(message) from None
        channels = _open_channels(grpc.aio, address, credentials, "groundwire-python-asyncio")
        self._transport = AsyncTransport(channels, timeout_s, metadata)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; running calls are cancelled."""
        self._transport.closed.set()
        for channel in set(self._transport.channels.values()):
            await channel.close()

    def collection(self, name: str) -> AsyncCollection:
        """Return the collection of a name; see `GroundwireClient.collection`."""
        return AsyncCollection(self._transport, name)


def _open_channels(
    library: Any, address: str, credentials: grpc.ChannelCredentials | None, user_agent: str
) -> dict[str, Any]:
    """Return the channel of each service, opened by `grpc` or `grpc.aio`; services at the same target share it."""
    from importlib.metadata import version  # noqa: PLC0415 - a third of the time that importing the client would take

    check_argument("address", address, str)
    options = channel_arguments(f"{user_agent}/{version('groundwire')}")
    targets = addresses(address)
    opened = {
        target: open_with_credentials(library, target, credentials, options=options)
        for target in dict.fromkeys(targets.values())
    }
    return {service: opened[target] for service, target in targets.items()}
