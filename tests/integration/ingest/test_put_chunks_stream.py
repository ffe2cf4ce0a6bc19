"""The stream of PutChunks over a real server: many messages, one document, and nothing of one that does not end."""

import asyncio
import threading
import uuid
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import Any

import grpc
import pytest

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client import AsyncGroundwireClient
from groundwire.ingest.servicer import put_chunks
from groundwire.kernel.document_errors import DocumentTooLargeError
from groundwire.kernel.errors import (
    ExhaustedError,
    GroundwireError,
    InvalidRequestError,
    RequestIdReusedError,
    StreamIdleError,
)
from groundwire.rpc.error_status import from_rpc_error
from tests.integration.ingest.harness import DIMENSIONS, Harness
from tests.integration.rpc.fake_ingest import connected, serving
from tests.stubs import Stubs, put_chunks_messages

MANY = 10_000
MESSAGE_BYTES = 4 << 20


@pytest.fixture
async def stub(harness: Harness) -> AsyncIterator[Any]:
    async with connected(harness.services()) as (_, connection):
        yield connection


def chunks(count: int, chars: int = 40, **fields: Any) -> list[pb.ReadyChunk]:
    return [
        pb.ReadyChunk(content=f"Chunk {number}.".ljust(chars, "."), sequence_num=number, **fields)
        for number in range(count)
    ]


def with_vectors(harness: Harness, count: int) -> list[pb.ReadyChunk]:
    made = chunks(count, 250, chapter="Of tides and what they leave behind on the shore, a chapter without an end")
    for number, chunk in enumerate(made):
        vector = [1.0] * DIMENSIONS
        vector[number % DIMENSIONS] = 1.0 + number
        chunk.embedding[:] = vector
    return made


def header(collection: str, **fields: Any) -> pb.PutChunksHeader:
    return pb.PutChunksHeader(collection=collection, **{"source_uri": "ready", **fields})


async def refusal(call: Any) -> GroundwireError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value)


def field_of(error: GroundwireError) -> str:
    assert isinstance(error, InvalidRequestError), error
    return error.violations[0].field


def spooled(harness: Harness) -> list[str]:
    """Return the files without a name that this process has open in the folder of the service."""
    links = [str(entry.readlink()) for entry in Path("/proc/self/fd").iterdir() if entry.is_symlink()]
    return [link for link in links if link.startswith(f"{harness.folder}/staging/") and link.endswith("(deleted)")]


async def settled(harness: Harness) -> None:
    """Wait until the server holds nothing of any stream."""
    async with asyncio.timeout(20):
        while spooled(harness) or harness.service.ingest.chunks.incoming_bytes.total():  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


async def open_stream(stub: Any, harness: Harness, messages: Iterator[pb.PutChunksRequest]) -> Any:
    """Send messages and return the call, still open, once the server has taken them."""
    call, sent = stub.PutChunks(), 0
    for message in messages:
        await call.write(message)
        sent += message.part.ByteSize()
    async with asyncio.timeout(20):
        while harness.service.ingest.chunks.incoming_bytes.total() < sent:  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)
    return call


async def test_ten_thousand_chunks_with_vectors_become_one_document(
    stub: Any, harness: Harness, collection: str
) -> None:
    digest = harness.embedder.identity.probe_digest
    made = with_vectors(harness, MANY)
    messages = list(put_chunks_messages(header(collection, embedding_probe_digest=digest), made, 500))
    assert sum(message.ByteSize() for message in messages) > MESSAGE_BYTES
    assert max(message.ByteSize() for message in messages) < MESSAGE_BYTES

    call = await open_stream(stub, harness, iter(messages))
    assert spooled(harness), "what is larger than a mebibyte waits on disk"
    assert (harness.sources(collection), harness.points(collection)) == ([], [])
    await call.done_writing()
    result = (await call).result

    assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    assert (result.counts.chunk_count, result.counts.embedded_count) == (MANY, 0)
    assert len(harness.points(collection)) == MANY
    assert result.document.total_chars == sum(len(chunk.content) for chunk in made) + 2 * (MANY - 1)
    await settled(harness)


@pytest.mark.parametrize("how", ["cancelled", "broken"])
async def test_a_stream_that_is_cut_in_the_middle_stores_nothing(harness: Harness, collection: str, how: str) -> None:
    harness.put_chunks(collection, "ready", *chunks(2))
    before = (harness.live_numbers(collection), harness.points(collection), harness.text(collection, "ready"))
    async with serving(harness.services()) as (_, port):
        async with grpc.aio.insecure_channel(f"127.0.0.1:{port}") as channel:
            messages = put_chunks_messages(header(collection), chunks(4000, 500), 1000)
            call = await open_stream(Stubs(channel), harness, messages)
            assert spooled(harness)
            if how == "cancelled":
                call.cancel()
        # Here the channel is closed with its connection.
        await settled(harness)
    harness.sweep()
    assert (harness.live_numbers(collection), harness.points(collection), harness.text(collection, "ready")) == before


async def test_half_of_a_small_document_is_not_taken_for_the_whole(
    stub: Any, harness: Harness, collection: str
) -> None:
    """It would be stored before the server hears that the client did not close its side, but is gone."""
    for number in range(60):
        head, part, *_ = put_chunks_messages(header(collection, source_uri=f"half-{number}"), chunks(4), 2)
        call = stub.PutChunks()
        await call.write(head)
        await call.write(part)
        await asyncio.sleep(0.01 * (number % 4))
        call.cancel()
    await asyncio.sleep(0.5)
    await settled(harness)
    assert harness.sources(collection) == []


async def test_a_file_made_for_a_caller_who_has_left_is_dropped(
    stub: Any, harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    staging, began, has_left = harness.service.ingest.chunks.staging, threading.Event(), threading.Event()
    made, make = list["SpooledTemporaryFile[bytes]"](), staging.scratch

    def make_late() -> "SpooledTemporaryFile[bytes]":
        began.set()
        assert has_left.wait(20)
        made.append(make())
        return made[-1]

    monkeypatch.setattr(staging, "scratch", make_late)
    call = stub.PutChunks()
    await call.write(pb.PutChunksRequest(header=header(collection)))
    async with asyncio.timeout(20):
        while not began.is_set():  # noqa: ASYNC110 - a thread
            await asyncio.sleep(0.02)
        call.cancel()
        await asyncio.sleep(0.3)  # until the server has heard of it
        has_left.set()
        while not (made and made[0].closed):  # noqa: ASYNC110 - nobody tells
            await asyncio.sleep(0.02)


async def test_a_stream_that_stands_still_is_ended(harness: Harness, collection: str) -> None:
    async with connected(harness.services(), stream_idle_s=0.5) as (_, stub):
        call = await open_stream(stub, harness, put_chunks_messages(header(collection), chunks(2), 1))
        assert isinstance(await refusal(call), StreamIdleError)
    await settled(harness)
    assert harness.sources(collection) == []


async def test_chunks_that_were_announced_and_did_not_come_are_missed(
    stub: Any, harness: Harness, collection: str
) -> None:
    for announced, came in ((4, 3), (3, 4), (0, 1), (MANY + 1, 1)):
        messages = put_chunks_messages(header(collection, chunk_count=announced), chunks(came), 2)
        assert field_of(await refusal(stub.PutChunks(messages))) == "header.chunk_count"
    assert harness.sources(collection) == []
    messages = put_chunks_messages(header(collection, chunk_count=3), chunks(3), 2)
    assert (await stub.PutChunks(messages)).result.counts.chunk_count == 3


async def test_messages_out_of_order_are_refused(stub: Any, harness: Harness, collection: str) -> None:
    head, *parts = put_chunks_messages(header(collection), chunks(2), 1)
    cases = [([], "header"), (parts, "header"), ([head, head], "message"), ([head, pb.PutChunksRequest()], "message")]
    for messages, field in cases:
        assert field_of(await refusal(stub.PutChunks(iter(messages)))) == field
    assert field_of(await refusal(stub.PutChunks(iter([head, *reversed(parts)])))) == "chunks[0].sequence_num"
    assert field_of(await refusal(stub.PutChunks(iter([head])))) == "chunks"
    bad = pb.PutChunksRequest(header=header(collection, source_uri="../up"))
    call = stub.PutChunks()
    await call.write(bad)
    assert field_of(await refusal(call)) == "header.source_uri", "told before anything is sent"
    assert harness.sources(collection) == []


async def test_a_chunk_is_named_by_its_place_in_the_document(stub: Any, collection: str) -> None:
    made = chunks(7)
    made[5].content = "   "
    assert field_of(await refusal(stub.PutChunks(put_chunks_messages(header(collection), made, 3)))) == (
        "chunks[5].content"
    )


async def test_more_chunks_or_bytes_than_a_document_may_have_end_the_stream(
    stub: Any, harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    call = stub.PutChunks()
    for message in put_chunks_messages(header(collection), chunks(MANY + 1), 5000):
        await call.write(message)
    assert field_of(await refusal(call)) == "chunks", "told before the client has closed its side"
    monkeypatch.setattr(put_chunks, "MAX_PARTS_BYTES", 1000)
    error = await refusal(stub.PutChunks(put_chunks_messages(header(collection), chunks(30), 5)))
    assert isinstance(error, DocumentTooLargeError)
    assert error.metadata["limit_bytes"] == "1000"
    await settled(harness)


async def test_what_is_on_its_way_in_is_bounded_over_all_streams(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(vars(harness.service.ingest), "chunks", quota(harness, 2000))
    async with connected(harness.services()) as (_, stub):
        first = await open_stream(stub, harness, put_chunks_messages(header(collection), chunks(30), 10))
        assert isinstance(
            await refusal(stub.PutChunks(put_chunks_messages(header(collection), chunks(30), 10))), ExhaustedError
        )
        await first.done_writing()
        assert (await first).result.counts.chunk_count == 30
        messages = put_chunks_messages(header(collection, source_uri="next"), chunks(30), 10)
        assert (await stub.PutChunks(messages)).result.counts.chunk_count == 30


def quota(harness: Harness, quota_bytes: int) -> put_chunks.ChunkStream:
    own = harness.service.ingest.chunks
    return put_chunks.ChunkStream(own.documents, own.staging, own.parts, quota_bytes)


async def test_how_a_document_is_cut_does_not_count_for_a_repeated_request(
    stub: Any, harness: Harness, collection: str
) -> None:
    head = header(collection, request_id=str(uuid.uuid4()))
    first = (await stub.PutChunks(put_chunks_messages(head, chunks(6), 2))).result
    harness.put_chunks(collection, "ready", *chunks(2))
    again = (await stub.PutChunks(put_chunks_messages(head, chunks(6), 5))).result
    assert (again.document, again.counts) == (first.document, first.counts)
    assert len(harness.live_numbers(collection)) == 2
    other = await refusal(stub.PutChunks(put_chunks_messages(head, chunks(5), 5)))
    assert isinstance(other, RequestIdReusedError)


async def test_a_text_comes_in_runs(stub: Any, harness: Harness, collection: str) -> None:
    text = "The moon pulls the sea. 🌊 The sea follows."
    spans = [("The moon pulls the sea.", 0), ("The sea follows.", 1)]
    made = [pb.ReadyChunk(content=content, sequence_num=number) for content, number in spans]
    messages = [
        pb.PutChunksRequest(header=header(collection)),
        pb.PutChunksRequest(part=pb.PutChunksPart(text=text[:10], chunks=made[:1])),
        pb.PutChunksRequest(part=pb.PutChunksPart(chunks=made[1:])),
        pb.PutChunksRequest(part=pb.PutChunksPart(text=text[10:])),
    ]
    assert (await stub.PutChunks(iter(messages))).result.counts.chunk_count == 2
    assert harness.text(collection, "ready") == text


async def test_the_client_cuts_a_document_into_messages(harness: Harness, collection: str) -> None:
    lines = [f"Line {number} of the text. 🌊" + "-" * 400 for number in range(2400)]
    made = [
        pb.ReadyChunk(content=line, sequence_num=number, chapter="Of lines and how they end")
        for number, line in enumerate(lines)
    ]
    assert sum(chunk.ByteSize() for chunk in made) > 1 << 20, "one message would do"
    async with serving(harness.services()) as (_, port), AsyncGroundwireClient(f"127.0.0.1:{port}") as client:
        result = await client.put_chunks(header(collection), made, "\n".join(lines))
    assert result.counts.chunk_count == len(lines)
    assert harness.text(collection, "ready") == "\n".join(lines)


async def test_the_client_keeps_to_the_number_of_chunks_that_its_caller_expects(
    harness: Harness, collection: str
) -> None:
    async with serving(harness.services()) as (_, port), AsyncGroundwireClient(f"127.0.0.1:{port}") as client:
        with pytest.raises(InvalidRequestError, match="chunk_count: announces 3 chunks, but 2 arrived"):
            await client.put_chunks(header(collection, chunk_count=3), chunks(2))
    assert harness.sources(collection) == []
