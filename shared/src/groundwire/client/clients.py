"""The two clients: a connection to one address, the calls of the contract, and collections."""

from types import TracebackType
from typing import Self

import grpc

from groundwire.client.collection import AsyncCollection, ClientOperations, Collection
from groundwire.client.contract import Contract
from groundwire.client.transport import AsyncCaller, AsyncTransport, CallMetadata, SyncCaller, SyncTransport
from groundwire.rpc.channels import channel_arguments


class GroundwireClient(Contract, ClientOperations, SyncCaller):
    """Calls groundwire servers at one address; safe to share between threads; close it or use it in `with`.

    Calls that fail with UNAVAILABLE are repeated up to 3 times; mutating ones carry a request id, so that they
    take effect once. After `close` every call raises CallCancelledError.

    Args:
        address: HOST:PORT of a server that has the service of the call.
        timeout_s: time limit of every call instead of those of `groundwire.rpc.methods`.
        credentials: for TLS; without them the connection is plain.
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
        options = channel_arguments(_user_agent("groundwire-python"))
        if credentials is None:
            channel = grpc.insecure_channel(address, options=options)
        else:
            channel = grpc.secure_channel(address, credentials, options=options)
        self._transport = SyncTransport(channel, timeout_s, metadata)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; running calls are cancelled, and an upload does not go on. May be called anywhere."""
        self._transport.closed.set()
        self._transport.channel.close()

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
        options = channel_arguments(_user_agent("groundwire-python-asyncio"))
        if credentials is None:
            channel = grpc.aio.insecure_channel(address, options=options)
        else:
            channel = grpc.aio.secure_channel(address, credentials, options=options)
        self._transport = AsyncTransport(channel, timeout_s, metadata)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; running calls are cancelled."""
        self._transport.closed.set()
        await self._transport.channel.close()

    def collection(self, name: str) -> AsyncCollection:
        """Return the collection of a name; see `GroundwireClient.collection`."""
        return AsyncCollection(self._transport, name)


def _user_agent(name: str) -> str:
    from importlib.metadata import version  # noqa: PLC0415 - a third of the time that importing the client would take

    return f"{name}/{version('groundwire')}"
