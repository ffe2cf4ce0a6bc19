"""A chat model on loopback that speaks the protocol of OpenAI as its script says, also badly."""

import asyncio
import json
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

Body: TypeAlias = dict[str, Any]
Tokenizer: TypeAlias = Literal["none", "llama.cpp", "vllm"]


@dataclass
class ScriptedModel:
    """Streams `write(body)` piece by piece, then does what `ending` says.

    `statuses` are answered first, one for each request; `page` instead of a stream. `written` gives the chunks in which
    an event is sent, which other servers write with other line ends or in several lines. `tokenizer` says which server
    it is like; each character is one of its tokens. `counts` are answered first when it is asked to count tokens,
    as status and body, None by silence. `requests` holds the bodies of chats, `counted` the texts whose tokens were
    counted, `headers` those of the last chat. `open` is the number of chats whose client is there, `left` is set when
    one leaves early.
    """

    write: Callable[[Body], str] = lambda _: ""
    ending: Literal["stop", "length", "hang", "cut", "end", "bad json", "error", "cut event", "content_filter"] = "stop"
    statuses: list[int] = field(default_factory=list)
    page: bytes = b""
    written: Callable[[bytes], list[bytes]] = lambda event: [event]
    hangs_first: bool = False
    tokenizer: Tokenizer = "none"
    counts: list[tuple[int, bytes] | None] = field(default_factory=list)
    requests: list[Body] = field(default_factory=list)
    counted: list[str] = field(default_factory=list)
    headers: dict[str, str] = field(default_factory=dict)
    open: int = 0
    left: asyncio.Event = field(default_factory=asyncio.Event)
    port: int = 0
    _opened: asyncio.Condition = field(default_factory=asyncio.Condition)
    _free: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}/v1"

    def says(self, *lines: str) -> None:
        self.write = lambda _: "\n".join(lines)

    def let_go(self) -> None:
        """End the chats that hang, without a word."""
        self._free.set()

    async def until_open(self, chats: int) -> None:
        """Return when so many chats are open."""
        async with self._opened:
            await self._opened.wait_for(lambda: self.open >= chats)

    async def handle(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            head = (await reader.readuntil(b"\r\n\r\n")).decode()
            lines = head.split("\r\n")
            headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines[1:])}
            body = json.loads(await reader.readexactly(int(headers.get("content-length", 0))))
            if lines[0].split()[1] == "/tokenize":
                await self._count(body, reader, writer)
            else:
                self.headers = headers | {"path": lines[0].split()[1]}
                await self._chat(body, reader, writer)
            await writer.drain()
        except (OSError, asyncio.IncompleteReadError):
            self.left.set()
        finally:
            writer.close()

    async def _count(self, body: Body, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        if self.counts:
            answer = self.counts.pop(0)
            if answer is None:
                await self._hang(reader)
            else:
                writer.write(_response(*answer))
            return
        match self.tokenizer:
            case "none":
                writer.write(_response(404, b"{}"))
            case "llama.cpp":
                self.counted.append(body["content"])
                writer.write(_response(200, json.dumps({"tokens": [1] * len(body["content"])}).encode()))
            case "vllm":
                self.counted.append(body["prompt"])
                writer.write(_response(200, json.dumps({"count": len(body["prompt"])}).encode()))

    async def _chat(self, body: Body, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.requests.append(body)
        self.open += 1
        async with self._opened:
            self._opened.notify_all()
        try:
            if self.statuses:
                writer.write(_response(self.statuses.pop(0), b'{"error": {"message": "no"}}'))
                return
            if self.hangs_first:
                await self._hang(reader)
                return
            if self.page:
                writer.write(_response(200, self.page))
                return
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n")
            writer.write(self._sent(b": a comment\n\n"))
            for piece in _pieces(self.write(body)):
                writer.write(
                    self._event({"choices": [{"index": 0, "delta": {"content": piece}, "finish_reason": None}]})
                )
                await writer.drain()
            await self._end(reader, writer)
        finally:
            self.open -= 1

    async def _end(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        match self.ending:
            case "hang":
                await self._hang(reader)
            case "cut":
                return
            case "end":
                writer.write(b"0\r\n\r\n")
            case "cut event":
                writer.write(_chunk(b'data: {"choices": [{"delta"') + b"0\r\n\r\n")
            case "bad json":
                writer.write(_chunk(b'data: {"choices": [{"delta"\n\n') + b"0\r\n\r\n")
            case "error":
                writer.write(self._event({"error": {"message": "out of memory"}}) + b"0\r\n\r\n")
            case reason:
                writer.write(self._event({"choices": [{"index": 0, "delta": {}, "finish_reason": reason}]}))
                writer.write(self._event({"choices": [], "usage": {"total_tokens": 1}}))
                writer.write(self._sent(b"data: [DONE]\n\n") + b"0\r\n\r\n")

    def _event(self, message: Body) -> bytes:
        return self._sent(b"data: " + json.dumps(message).encode() + b"\n\n")

    def _sent(self, event: bytes) -> bytes:
        return b"".join(map(_chunk, self.written(event)))

    async def _hang(self, reader: asyncio.StreamReader) -> None:
        leaving = asyncio.ensure_future(reader.read(1))  # nothing comes until the client leaves
        freed = asyncio.ensure_future(self._free.wait())
        await asyncio.wait({leaving, freed}, return_when=asyncio.FIRST_COMPLETED)
        freed.cancel()
        if leaving.done():
            self.left.set()
        leaving.cancel()


@asynccontextmanager
async def scripted_model(**script: Any) -> AsyncIterator[ScriptedModel]:
    """Give a model that listens on loopback."""
    model = ScriptedModel(**script)
    server = await asyncio.start_server(model.handle, "127.0.0.1", 0)
    model.port = server.sockets[0].getsockname()[1]
    async with server:
        yield model


def _pieces(text: str) -> list[str]:
    """Return the text in pieces that end in the middle of words, sentences and markers."""
    return [text[at : at + 7] for at in range(0, len(text), 7)]


def _chunk(data: bytes) -> bytes:
    return f"{len(data):x}\r\n".encode() + data + b"\r\n"


def _response(status: int, body: bytes) -> bytes:
    return f"HTTP/1.1 {status} Said\r\nContent-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body
