"""A TCP proxy on loopback that can be cut, as a network is, and frozen, as a host is that hangs."""

import asyncio
import socket
import struct
import threading
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

_CHUNK_BYTES = 1 << 16
_WAIT_S = 30.0


class TcpProxy:
    """Passes on what clients and a server on a port of loopback say to one another.

    Attributes:
        port: where clients connect to.
        connections: how many are open.
    """

    def __init__(self, target: int) -> None:
        self._target = target
        self._links: set[tuple[asyncio.StreamWriter, ...]] = set()
        self._connections = set[asyncio.Task[None]]()
        self._is_cut = False
        self._marker, self._markers = b"", 0
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="tcp-proxy", daemon=True)
        self._thread.start()
        self._passing = asyncio.Event()
        self._forgotten: list[asyncio.Event] = []
        self.port: int = self._run(self._listen())

    @property
    def connections(self) -> int:
        return len(self._links)

    @contextmanager
    def cut(self) -> Iterator[None]:
        """Reset every connection, and each new one, for a while."""
        self._run(self._set_cut(is_cut=True))
        try:
            yield
        finally:
            self._run(self._set_cut(is_cut=False))

    @contextmanager
    def frozen(self) -> Iterator[None]:
        """Accept connections and bytes, and pass none of them on for a while; afterwards all that came."""
        self._loop.call_soon_threadsafe(self._passing.clear)
        try:
            yield
        finally:
            self._loop.call_soon_threadsafe(self._passing.set)

    def forget(self) -> None:
        """Pass on nothing more of the connections that there are, as a firewall does after a restart."""
        self._run(self._forget())

    def lose_answer(self, marker: bytes, number: int) -> None:
        """Let the server get the request with the number-th marker from now on, from 1, and nobody the answer."""
        self._marker, self._markers = marker, number

    @property
    def has_lost_answer(self) -> bool:
        """Return whether the request that `lose_answer` is about has come."""
        return self._markers <= 0

    def close(self) -> None:
        self._run(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(_WAIT_S)
        self._loop.close()

    def _run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result(_WAIT_S)

    async def _listen(self) -> int:
        self._passing.set()
        self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0, backlog=512)
        port: int = self._server.sockets[0].getsockname()[1]
        return port

    async def _set_cut(self, *, is_cut: bool) -> None:
        self._is_cut = is_cut
        for link in [*self._links] if is_cut else ():
            _reset(*link)

    async def _forget(self) -> None:
        self._passing.clear()
        self._forgotten.append(self._passing)
        self._passing = asyncio.Event()
        self._passing.set()

    async def _end(self) -> None:
        self._server.close()
        await self._set_cut(is_cut=True)
        for passing in self._forgotten:
            passing.set()
        # A task that is destroyed before it has ended complains when garbage is collected, in whatever test that is.
        if self._connections:
            await asyncio.wait(self._connections)

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task, passing = asyncio.current_task(), self._passing
        if task is not None:
            self._connections.add(task)
            task.add_done_callback(self._connections.discard)
        await passing.wait()
        if self._is_cut:
            _reset(writer)
            return
        try:
            back, forth = await asyncio.open_connection("127.0.0.1", self._target)
        except OSError:
            _reset(writer)
            return
        link = writer, forth
        self._links.add(link)
        loses = asyncio.Event()
        try:
            async with asyncio.TaskGroup() as both:
                both.create_task(self._requests(reader, forth, loses, passing))
                both.create_task(self._answers(back, writer, loses, passing))
        except* OSError:
            pass
        finally:
            self._links.discard(link)
            _reset(*link)

    async def _requests(
        self, reader: asyncio.StreamReader, forth: asyncio.StreamWriter, loses: asyncio.Event, passing: asyncio.Event
    ) -> None:
        while data := await reader.read(_CHUNK_BYTES):
            await passing.wait()
            if self._markers > 0 and (found := data.count(self._marker)):
                self._markers -= found
                if self._markers <= 0:
                    loses.set()
            forth.write(data)
            await forth.drain()
        raise ConnectionResetError

    async def _answers(
        self, back: asyncio.StreamReader, writer: asyncio.StreamWriter, loses: asyncio.Event, passing: asyncio.Event
    ) -> None:
        while data := await back.read(_CHUNK_BYTES):
            await passing.wait()
            if loses.is_set():
                break
            writer.write(data)
            await writer.drain()
        raise ConnectionResetError


def _reset(*writers: asyncio.StreamWriter) -> None:
    for writer in writers:
        connected = writer.get_extra_info("socket")
        if connected is not None and not writer.is_closing():
            connected.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        writer.transport.abort()


@contextmanager
def tcp_proxy(target: int) -> Iterator[TcpProxy]:
    """Run a proxy before a port for a while."""
    proxy = TcpProxy(target)
    try:
        yield proxy
    finally:
        proxy.close()
