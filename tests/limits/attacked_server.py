"""A server of its own for each attack, and what an attacker needs."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any

import grpc

from groundwire.client import AsyncGroundwireClient, GroundwireClient
from tests.e2e.server import ServerProcess
from tests.stubs import by_id

COLLECTION = "shelf"
DOCUMENT = "first"
STREAMS_PER_CONNECTION = 100
ENGINES = ("--embedder", "hashing:64", "--vectors", "memory:")


def start(folder: Path, vectors: str = "memory:", **variables: str) -> ServerProcess:
    """Start a server that needs no model; of an option that is given twice the last one counts."""
    return ServerProcess(folder / "data", (*ENGINES, "--vectors", vectors), **variables)


def fill(address: str, content: bytes = b"# First\n\nSome words.") -> None:
    """Make a collection with one document."""
    with GroundwireClient(address) as client:
        client.create_collection(collection=COLLECTION)
        client.ingest_document(collection=COLLECTION, source_uri=DOCUMENT, document_id=DOCUMENT, content=content)


@asynccontextmanager
async def channels(address: str, count: int) -> AsyncIterator[Sequence[grpc.aio.Channel]]:
    """Open enough connections for `count` streams at a time."""
    options = [
        ("grpc.use_local_subchannel_pool", 1),  # else all channels share one connection
        ("grpc.http2.bdp_probe", 0),  # else the window grows until it holds what a slow reader does not take
        ("grpc.http2.lookahead_bytes", 65_535),
    ]
    async with AsyncExitStack() as stack:
        number = -(-count // STREAMS_PER_CONNECTION)
        yield [
            await stack.enter_async_context(grpc.aio.insecure_channel(address, options=options)) for _ in range(number)
        ]


async def use_every_service(address: str, number: int, limit_s: float = 20.0) -> dict[str, float]:
    """Make one call of each kind of work and return how many seconds each took.

    Raises:
        GroundwireError: one was refused.
        TimeoutError: one took longer than `limit_s`.
    """
    async with AsyncGroundwireClient(address) as client:
        calls: dict[str, Callable[[], Awaitable[Any]]] = {
            "health": client.health,
            "read": client.list_collections,
            "write": lambda: client.ingest_document(
                collection=COLLECTION, source_uri=f"note-{number}", content=f"# Note {number}\n\nSome words.".encode()
            ),
            "search": lambda: client.retrieve(collection=COLLECTION, query="words"),
            "ask": lambda: client.ask(collection=COLLECTION, question="Which words?"),
            "stream": lambda: _all(client.document_text(collection=COLLECTION, reference=by_id(DOCUMENT))),
        }
        taken_s = {}
        for name, call in calls.items():
            began = time.monotonic()
            await asyncio.wait_for(call(), limit_s)
            taken_s[name] = time.monotonic() - began
        return taken_s


async def _all(messages: AsyncIterator[Any]) -> list[Any]:
    return [message async for message in messages]
