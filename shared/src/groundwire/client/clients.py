"""The two clients: connections to servers, the calls of the contract, and collections."""

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
)
from groundwire.rpc.channels import channel_arguments, open_with_credentials


class GroundwireClient(Contract, ClientOperations, SyncCaller):
    """Calls groundwire servers; safe to share between threads; close it or use it in `with`.

    Calls that fail with UNAVAILABLE are repeated up to 3 times; mutating ones carry a request id, so that they
    take effect once. After `close` every call raises CallCancelledError.

    Args:
        address: HOST:PORT of a server that has all services or the one that is called, or an address for each
            service: `ingest=HOST:PORT,retrieve=HOST:PORT,answer=HOST:PORT`. Instead of HOST:PORT any name that gRPC
            resolves, such as `dns:///retrieve:50051`. What every server can tell of itself is asked of the first.
        timeout_s: time limit of every call instead of those of `groundwire.rpc.methods`.
        credentials: for TLS; without them the connection is plain. Files of `tls_from_files` are read again when they
            change.
        metadata: sent with every call, such as `{"authorization": "Bearer …"}`; a function is asked before each.

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
        """Close the connection; running calls are cancelled, and an upload does not go on. May be called anywhere."""
        self._transport.closed.set()
        for channel in set(self._transport.channels.values()):
            channel.close()

    def collection(self, name: str) -> Collection:
        """Return the collection of a name, which need not exist yet; asks the server nothing.

        Example:
            handbook = client.collection("handbook")
        """
        return Collection(self._transport, name)


class AsyncGroundwireClient(Contract, ClientOperations, AsyncCaller):
    """`GroundwireClient` for asyncio: the same calls, awaited or iterated with `async for`.

    Make it on the running event loop, and close it or use it in `async with`.

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

    options = channel_arguments(f"{user_agent}/{version('groundwire')}")
    targets = addresses(address)
    opened = {
        target: open_with_credentials(library, target, credentials, options=options)
        for target in dict.fromkeys(targets.values())
    }
    return {service: opened[target] for service, target in targets.items()}
