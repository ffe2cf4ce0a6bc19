"""Uploads outlive the connections that a server closes because of their age."""

import asyncio
import time
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client import GroundwireClient
from groundwire.client import uploads as client_uploads
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.integration.ingest.test_over_grpc import header_of, parts_of
from tests.integration.rpc.fake_ingest import connected, serving

_PART_BYTES = 1 << 10
_PAUSE_S = 0.1


@pytest.fixture
def content() -> bytes:
    """Thirty parts, which take three seconds to send with the pauses, and little time to ingest."""
    text = long_text(1).encode()
    return (text * (30 * _PART_BYTES // len(text) + 1))[: 30 * _PART_BYTES]


async def _upload(stub: Any, collection: str, content: bytes) -> list[pb.UploadDocumentResponse]:
    async def messages() -> AsyncIterator[pb.UploadDocumentRequest]:
        yield header_of(collection, "slow.txt", len(content))
        for part in parts_of(content, _PART_BYTES):
            await asyncio.sleep(_PAUSE_S)
            yield part

    return [event async for event in stub.UploadDocument(messages())]


async def test_an_upload_goes_on_while_its_connection_is_closed_to_new_calls(
    harness: Harness, collection: str, content: bytes
) -> None:
    async with connected(harness.services(), connection_age_s=0.5, connection_age_grace_s=60.0) as (_, stub):
        began = time.monotonic()
        events = await _upload(stub, collection, content)
    assert time.monotonic() - began > 2 * 0.5
    assert [event.WhichOneof("event") for event in events].count("accepted") == 1
    assert events[-1].result.document.total_chars > 0


async def test_without_the_grace_the_stream_is_cut(harness: Harness, collection: str, content: bytes) -> None:
    async with connected(harness.services(), connection_age_s=0.5, connection_age_grace_s=0.2) as (_, stub):
        with pytest.raises(grpc.aio.AioRpcError):
            await _upload(stub, collection, content)


async def test_the_client_goes_on_where_the_cut_connection_was(
    harness: Harness, collection: str, content: bytes, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    offsets: list[int] = []
    take, next_part = client_uploads.Upload.take, client_uploads.Upload.next_part

    def noting_take(self: client_uploads.Upload, response: pb.UploadDocumentResponse) -> int | None:
        offset = take(self, response)
        if offset is not None:
            offsets.append(offset)
        return offset

    def slow_part(self: client_uploads.Upload, file: Any, offset: int) -> pb.UploadDocumentRequest | None:
        if len(offsets) == 1:  # afterwards a slow machine has the whole age of each connection to get on
            time.sleep(_PAUSE_S)
        return next_part(self, file, offset)

    monkeypatch.setattr(client_uploads.Upload, "take", noting_take)
    monkeypatch.setattr(client_uploads.Upload, "next_part", slow_part)
    monkeypatch.setattr(client_uploads, "_PART_BYTES", _PART_BYTES)
    path = tmp_path / "slow.txt"
    path.write_bytes(content)
    header = pb.UploadHeader(collection=collection, source_uri="slow.txt")

    def send(port: int) -> Any:
        with GroundwireClient(f"127.0.0.1:{port}") as client:
            return client.upload_document(path, header)

    async with serving(harness.services(), connection_age_s=2.5, connection_age_grace_s=0.2) as (_, port):
        result = await asyncio.to_thread(send, port)
    assert result.document.total_chars > 0
    assert offsets[0] == 0
    assert len(offsets) > 1
    assert 0 < offsets[1] < len(content)
