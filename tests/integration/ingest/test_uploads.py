"""Uploads that are cut, taken up again, and never lose or double anything."""

import asyncio
import errno
import fcntl
import hashlib
import os
import random
import shutil
import signal
import uuid
from collections.abc import AsyncIterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import grpc
import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.uploads import UploadNotFoundError
from groundwire.ingest.parsing import parser_pool
from groundwire.ingest.servicer.upload_stream import UploadClaims
from groundwire.ingest.uploads import MAX_PART_BYTES, StagedFile, StagingFolder, translated_failures
from groundwire.kernel.budget import Budget
from groundwire.kernel.document_errors import EmptyDocumentError
from groundwire.kernel.errors import (
    ConflictError,
    ExhaustedError,
    GroundwireError,
    InvalidRequestError,
    NotFoundError,
    RequestIdReusedError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.rpc.error_status import from_rpc_error
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.integration.rpc.fake_ingest import connected
from tests.manual_clock import LaterClock
from tests.stubs import by_id

PART = 1 << 20


@pytest.fixture
async def stub(harness: Harness) -> AsyncIterator[Any]:
    async with connected(harness.services()) as (_, connection):
        yield connection


class Stream:
    """One connection of an upload."""

    def __init__(self, stub: Any, header: pb.UploadHeader) -> None:
        self.call = stub.UploadDocument()
        self.header = header
        self.upload_id = ""

    async def open(self) -> int:
        """Send the header and return the offset that the server wants next."""
        await self.call.write(pb.UploadDocumentRequest(header=self.header))
        first = await self.read()
        self.upload_id = first.accepted.upload_id
        return int(first.accepted.durable_offset)

    async def send(self, content: bytes, start: int, end: int) -> None:
        for offset in range(start, end, PART):
            data = content[offset : min(offset + PART, end)]
            await self.call.write(pb.UploadDocumentRequest(part=pb.UploadPart(offset=offset, data=data)))

    async def read(self) -> pb.UploadDocumentResponse:
        response = await self.call.read()
        if response is grpc.aio.EOF:
            await self.call.wait_for_connection()
            raise AssertionError(f"the stream ended: {await self.call.code()} {await self.call.details()}")
        assert isinstance(response, pb.UploadDocumentResponse)
        return response

    async def finish(self) -> ingest_result_pb2.IngestResult:
        await self.call.done_writing()
        while (event := await self.read()).WhichOneof("event") != "result":
            pass
        return event.result

    async def failure(self) -> GroundwireError:
        """Return the error the stream ends with."""
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await self.drain()
        return from_rpc_error(caught.value)

    async def drain(self) -> None:
        while await self.call.read() is not grpc.aio.EOF:
            pass


def header_of(collection: str, source: str, content: bytes, **fields: Any) -> pb.UploadHeader:
    return pb.UploadHeader(collection=collection, source_uri=source, total_bytes=len(content), **fields)


def again(header: pb.UploadHeader, upload_id: str) -> pb.UploadHeader:
    repeated = pb.UploadHeader(upload_id=upload_id)
    repeated.MergeFrom(header)
    return repeated


async def whole(stub: Any, header: pb.UploadHeader, content: bytes) -> ingest_result_pb2.IngestResult:
    stream = Stream(stub, header)
    await stream.send(content, await stream.open(), len(content))
    return await stream.finish()


async def begun(stub: Any, header: pb.UploadHeader, content: bytes) -> Stream:
    """Send a part of an upload, wait until it is durable, and break the connection."""
    stream = Stream(stub, header)
    await stream.open()
    await stream.send(content, 0, len(content) // 2)
    while (await stream.read()).progress.durable_offset < len(content) // 2:
        pass
    stream.call.cancel()
    await asyncio.sleep(0.2)  # the server hears of it
    return stream


def staged(folder: Path) -> set[str]:
    return {path.name for path in (folder / "staging").glob("*")}


def chunks_of(harness: Harness, collection: str) -> list[tuple[str, str, int, int]]:
    found: list[tuple[str, str, int, int]] = []
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id("book"), page_size=1000)
    while True:
        page = harness.library.list_chunks(request)
        found += [(each.chunk_id, each.content_hash, each.span.start, each.span.end) for each in page.chunks]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            return found


async def cut_upload(stub: Any, header: pb.UploadHeader, content: bytes, offsets: list[int]) -> list[int]:
    """Upload with the connection cut at each offset; return from where each stream went on."""
    upload_id, starts = "", []
    for end in [*offsets, len(content)]:
        stream = Stream(stub, again(header, upload_id))
        starts.append(await stream.open())
        upload_id = stream.upload_id
        await stream.send(content, starts[-1], end)
        if end < len(content):
            await asyncio.sleep(0.02)
            stream.call.cancel()
    assert (await stream.finish()).outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    return starts


async def same_chunks_after_cuts(tmp_path: Path, content: bytes, cuts: int) -> None:
    offsets = sorted(random.Random(7).sample(range(1, len(content)), cuts))
    found = []
    for name in ("whole", "cut"):
        folder = tmp_path / name
        folder.mkdir()
        harness = Harness(folder).start()
        try:
            harness.create("books")
            async with connected(harness.services()) as (_, stub):
                header = header_of("books", "book.md", content, document_id="book")
                starts = await cut_upload(stub, header, content, offsets if name == "cut" else [])
            found.append(chunks_of(harness, "books"))
            assert staged(folder) == set()
        finally:
            harness.close()
    assert starts == sorted(starts)
    assert starts[-1] > 0
    assert found[0] == found[1]
    assert len(found[0]) > 20


@pytest.mark.requirement("R12")
async def test_an_upload_cut_at_random_offsets_makes_the_same_chunks(tmp_path: Path) -> None:
    await same_chunks_after_cuts(tmp_path, long_text(5, 1500).encode(), 20)


@pytest.mark.slow
@pytest.mark.timeout(1500)
@pytest.mark.requirement("R12")
async def test_fifty_megabytes_cut_at_random_offsets_make_the_same_chunks(tmp_path: Path) -> None:
    sentences = [f"Paragraph {number} tells of {long_text(number, 1)[:180]}.\n\n" for number in range(500)]
    chance, parts, size = random.Random(9), list[str](), 0
    while size < 50_000_000:
        parts.append(f"## Part {len(parts)}\n\n" + "".join(chance.choices(sentences, k=40)))
        size += len(parts[-1])
    await same_chunks_after_cuts(tmp_path, "".join(parts).encode(), 20)


async def test_an_upload_outlives_the_process(tmp_path: Path) -> None:
    content = long_text(6, 400).encode()
    harness = Harness(tmp_path).start()
    harness.create("books")
    header = header_of("books", "a.txt", content)
    async with connected(harness.services()) as (_, stub):
        first = await begun(stub, header, content)
    harness.close()
    (tmp_path / "staging" / str(uuid.uuid4())).write_bytes(b"of no upload")
    (tmp_path / "staging" / "thesis.md").write_bytes(b"of somebody else")
    harness = Harness(tmp_path).start()
    try:
        async with connected(harness.services()) as (_, stub):
            second = Stream(stub, again(header, first.upload_id))
            offset = await second.open()
            assert offset >= len(content) // 2
            await second.send(content, offset, len(content))
            result = await second.finish()
        assert result.document.source_hash == hashlib.sha256(content).hexdigest()
        assert harness.text("books", "a.txt") == content.decode()
        for _ in range(600):
            if staged(tmp_path) == {"thesis.md"}:
                break
            await asyncio.sleep(0.05)
        assert staged(tmp_path) == {"thesis.md"}
    finally:
        harness.close()


async def test_bytes_behind_the_durable_offset_are_not_trusted(stub: Any, harness: Harness, collection: str) -> None:
    """After a power loss a file may be longer than what was flushed, with anything in it."""
    content = long_text(7, 60).encode()
    header = header_of(collection, "a.txt", content)
    first = await begun(stub, header, content)
    with (harness.folder / "staging" / first.upload_id).open("ab") as file:
        file.write(b"\x00" * 5000)
    second = Stream(stub, again(header, first.upload_id))
    await second.send(content, await second.open(), len(content))
    await second.finish()
    assert harness.text(collection, "a.txt") == content.decode()


@pytest.mark.parametrize("fault", ["is a file", "locks nothing"])
async def test_a_staging_folder_that_fails_is_said_to_be_unavailable(
    stub: Any, harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch, fault: str
) -> None:
    def refuse(*_: object) -> None:
        raise OSError(errno.ENOLCK, "no locks available")

    staging, aside = harness.folder / "staging", harness.folder / "aside"
    staging.mkdir(exist_ok=True)
    staging.rename(aside)
    if fault == "is a file":
        staging.write_bytes(b"")
    else:
        monkeypatch.setattr(fcntl, "flock", refuse)
    unfinished = harness.service.long_work.uploads.uploads.staged_bytes("default", frozenset())
    stream = Stream(stub, header_of(collection, "a.txt", b"a"))
    await stream.call.write(pb.UploadDocumentRequest(header=stream.header))
    failure = await stream.failure()
    shutil.rmtree(staging) if staging.is_dir() else staging.unlink()
    aside.rename(staging)
    assert isinstance(failure, StoreUnavailableError)
    assert failure.metadata["engine"] == "staging"
    assert harness.service.long_work.uploads.uploads.staged_bytes("default", frozenset()) == unfinished


def test_a_full_disk_below_the_staging_folder_is_named() -> None:
    with pytest.raises(ExhaustedError) as failed, translated_failures(), Path("/dev/full").open("wb", 0) as file:
        file.write(b"content")
    assert failed.value.metadata == {"what": "disk"}


def test_a_folder_from_which_nothing_can_be_removed_is_said_to_be_unavailable(tmp_path: Path) -> None:
    (tmp_path / "staging").write_bytes(b"")
    with pytest.raises(StoreUnavailableError):
        StagingFolder(tmp_path / "staging").remove("upload")


def test_a_copy_that_a_child_has_of_an_open_file_does_not_keep_its_upload(harness: Harness) -> None:
    """As a process has that was forked just now and does not run its own program yet."""
    uploads, upload_id = harness.service.long_work.uploads, str(uuid.uuid4())
    uploads.begin("default", upload_id, b"", 20)
    first = uploads.open("default", upload_id)
    (descriptor,) = [each for each in Path("/proc/self/fd").iterdir() if each.resolve().name == upload_id]
    copy = os.dup(int(descriptor.name))
    try:
        first.close()
        uploads.open("default", upload_id).close()
    finally:
        os.close(copy)
        uploads.forget("default", upload_id)


def test_a_document_that_cannot_be_staged_leaves_nothing(harness: Harness, monkeypatch: pytest.MonkeyPatch) -> None:
    def fill(_: StagedFile) -> None:
        raise ExhaustedError("no space left for uploads")

    monkeypatch.setattr(StagedFile, "sync", fill)
    uploads, upload_id = harness.service.long_work.uploads, str(uuid.uuid4())
    with pytest.raises(ExhaustedError):
        uploads.keep("default", upload_id, b"content")
    assert upload_id not in staged(harness.folder)
    with pytest.raises(UploadNotFoundError):
        uploads.open("default", upload_id)


def test_an_upload_that_was_closed_takes_nothing_from_a_thread_that_comes_late(harness: Harness) -> None:
    uploads, upload_id = harness.service.long_work.uploads, str(uuid.uuid4())
    uploads.begin("default", upload_id, b"", 20)
    first = uploads.open("default", upload_id)
    first.close()
    for late in (lambda: first.take(0, b"ten bytes!"), first.sync, first.complete().__enter__):
        with pytest.raises(ConflictError):
            late()
    uploads.forget("default", upload_id)


def test_an_upload_that_is_whole_is_read_while_its_stream_is_open(harness: Harness) -> None:
    uploads, upload_id = harness.service.long_work.uploads, str(uuid.uuid4())
    uploads.begin("default", upload_id, b"", 10)
    first = uploads.open("default", upload_id)
    with pytest.raises(UnavailableError):
        uploads.open("default", upload_id)
    assert first.take(0, b"ten bytes!")
    with uploads.kept("default", upload_id) as original:
        assert original.read() == b"ten bytes!"
    first.close()
    uploads.forget("default", upload_id)


def test_what_an_earlier_upload_left_under_an_id_is_no_part_of_another(harness: Harness) -> None:
    uploads, upload_id = harness.service.long_work.uploads, str(uuid.uuid4())
    uploads.keep("default", upload_id, b"a longer content than the next one")
    uploads.uploads.forget("default", upload_id)  # as a crash leaves it, before the file is gone
    uploads.keep("default", upload_id, b"content")
    with uploads.kept("default", upload_id) as original:
        assert original.read() == b"content"
    uploads.forget("default", upload_id)


def test_what_another_replica_brought_until_it_let_go_is_kept(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The second one reads how far the upload is; before it has the file, the first one brings more and leaves."""
    uploads, upload_id, open_file = harness.service.long_work.uploads, str(uuid.uuid4()), StagingFolder.open
    uploads.begin("default", upload_id, b"", 20)
    first = uploads.open("default", upload_id)

    def open_late(*args: Any, **kwargs: Any) -> StagedFile:
        first.take(0, b"ten bytes!")
        first.close()
        return open_file(*args, **kwargs)

    monkeypatch.setattr(StagingFolder, "open", open_late)
    second = uploads.open("default", upload_id)
    assert second.durable_bytes == 10
    assert (harness.folder / "staging" / upload_id).read_bytes() == b"ten bytes!"
    second.close()
    uploads.forget("default", upload_id)


async def test_a_staged_file_that_lost_bytes_is_forgotten(stub: Any, harness: Harness, collection: str) -> None:
    content = long_text(8, 60).encode()
    header = header_of(collection, "a.txt", content)
    first = await begun(stub, header, content)
    os.truncate(harness.folder / "staging" / first.upload_id, 10)
    for _ in range(2):
        second = Stream(stub, again(header, first.upload_id))
        await second.call.write(pb.UploadDocumentRequest(header=second.header))
        gone = await second.failure()
        assert isinstance(gone, NotFoundError)
        assert (gone.name, gone.message) == (first.upload_id, f"upload {first.upload_id!r} does not exist")
    uploads = harness.service.long_work.uploads
    assert first.upload_id not in uploads.uploads.ids() | uploads.staging.names()


@pytest.mark.parametrize(
    ("field", "value"),
    [
        ("collection", "other"),
        ("source_uri", "b.txt"),
        ("total_bytes", 7),
        ("document_id", "mine"),
        ("source_hash", "0" * 64),
        ("duplicate_policy", ingest_result_pb2.DUPLICATE_POLICY_ALLOW),
        ("request_id", "3f0c9a52-7f0e-4c53-9a39-51d0c8b5e6a7"),
        ("fields", document_pb2.DocumentFields(title="New")),
    ],
)
async def test_another_header_is_refused_by_the_name_of_its_field(
    stub: Any, harness: Harness, collection: str, field: str, value: Any
) -> None:
    content = long_text(9, 20).encode()
    header = header_of(collection, "a.txt", content)
    first = await begun(stub, header, content)
    changed = again(header, first.upload_id)
    changed.MergeFrom(pb.UploadHeader(**{field: value}))
    second = Stream(stub, changed)
    await second.call.write(pb.UploadDocumentRequest(header=changed))
    refused = await second.failure()
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == [f"header.{field}"]
    third = Stream(stub, again(header, first.upload_id))
    await third.send(content, await third.open(), len(content))
    assert (await third.finish()).outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED


@pytest.mark.parametrize("total_bytes", [0, -1, -(2**63)])
async def test_less_than_a_byte_cannot_be_announced(stub: Any, collection: str, total_bytes: int) -> None:
    header = pb.UploadHeader(collection=collection, source_uri="a.txt", total_bytes=total_bytes)
    stream = Stream(stub, header)
    await stream.call.write(pb.UploadDocumentRequest(header=header))
    refused = await stream.failure()
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == ["header.total_bytes"]


async def test_a_field_of_the_header_is_named_below_it(stub: Any, collection: str) -> None:
    header = pb.UploadHeader(collection=collection, source_uri="../a.txt", total_bytes=5)
    stream = Stream(stub, header)
    await stream.call.write(pb.UploadDocumentRequest(header=header))
    refused = await stream.failure()
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == ["header.source_uri"]


async def test_of_two_streams_of_one_upload_the_newer_goes_on(stub: Any, harness: Harness, collection: str) -> None:
    content = long_text(10, 60).encode()
    header = header_of(collection, "a.txt", content)
    older = Stream(stub, header)
    await older.open()
    await older.send(content, 0, 10_000)
    newer = Stream(stub, again(header, older.upload_id))
    offset = await newer.open()
    assert isinstance(await older.failure(), ConflictError)
    await newer.send(content, offset, len(content))
    assert (await newer.finish()).outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    assert harness.text(collection, "a.txt") == content.decode()


async def test_of_many_streams_of_one_upload_one_goes_on(stub: Any, harness: Harness, collection: str) -> None:
    content = long_text(11, 60).encode()
    header = header_of(collection, "a.txt", content)
    first = await begun(stub, header, content)
    streams = [Stream(stub, again(header, first.upload_id)) for _ in range(5)]

    async def run(stream: Stream) -> ingest_result_pb2.IngestResult | GroundwireError:
        try:
            await stream.send(content, await stream.open(), len(content))
            return await stream.finish()
        except (AssertionError, grpc.aio.AioRpcError, asyncio.InvalidStateError):
            return await stream.failure()

    ended = await asyncio.gather(*map(run, streams))
    results = [each for each in ended if isinstance(each, ingest_result_pb2.IngestResult)]
    assert results
    assert all(each == results[0] for each in results)
    # A status that comes while a message is being written is lost by the library.
    failures = [each for each in ended if isinstance(each, GroundwireError)]
    assert all(isinstance(each, ConflictError) or each.message == "Internal error from Core" for each in failures)
    assert harness.text(collection, "a.txt") == content.decode()


@pytest.mark.requirement("R12")
@pytest.mark.parametrize("fields", [{}, {"request_id": str(uuid.uuid4())}], ids=["upload id", "request id"])
async def test_a_finished_upload_gives_its_result_again(
    stub: Any, harness: Harness, collection: str, fields: dict[str, str]
) -> None:
    content = long_text(12, 60).encode()
    header = header_of(collection, f"{collection}.txt", content, **fields)
    if "request_id" in fields:
        header.request_id = str(uuid.uuid4())
    first = Stream(stub, header)
    await first.send(content, await first.open(), len(content))
    result = await first.finish()
    assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    second = Stream(stub, again(header, first.upload_id))
    assert await second.open() == len(content)
    assert await second.finish() == result
    assert harness.embedder.texts == list(dict.fromkeys(harness.embedder.texts))


@pytest.mark.requirement("R12")
async def test_other_bytes_under_a_used_request_id_are_refused(stub: Any, harness: Harness, collection: str) -> None:
    request_id = str(uuid.uuid4())
    one, other = (long_text(seed, 10).encode()[:5000] for seed in (13, 14))
    header = header_of(collection, "a.txt", one, request_id=request_id)
    result = await whole(stub, header, one)
    assert await whole(stub, header, one) == result
    stream = Stream(stub, header)
    await stream.send(other, await stream.open(), len(other))
    await stream.call.done_writing()
    assert isinstance(await stream.failure(), RequestIdReusedError)
    unary = pb.IngestDocumentRequest(collection=collection, source_uri="a.txt", content=one, request_id=request_id)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await stub.IngestDocument(unary)
    assert isinstance(from_rpc_error(caught.value), RequestIdReusedError)
    assert harness.text(collection, "a.txt") == one.decode()


@pytest.mark.requirement("R12")
async def test_a_request_sent_many_times_at_once_has_one_effect(stub: Any, harness: Harness, collection: str) -> None:
    content = long_text(15, 30).encode()
    header = header_of(collection, "a.txt", content, request_id=str(uuid.uuid4()))
    results = await asyncio.gather(*(whole(stub, header, content) for _ in range(6)))
    assert all(result == results[0] for result in results)
    assert (results[0].outcome, results[0].document.generation) == (ingest_result_pb2.INGEST_OUTCOME_CREATED, 1)
    others = [long_text(seed, 3).encode()[:500] for seed in range(6)]
    shared_id = str(uuid.uuid4())

    async def attempt(body: bytes) -> Any:
        request = pb.IngestDocumentRequest(
            collection=collection, source_uri="b.txt", content=body, request_id=shared_id
        )
        try:
            return (await stub.IngestDocument(request)).result
        except grpc.aio.AioRpcError as error:
            return from_rpc_error(error)

    ended = await asyncio.gather(*map(attempt, others))
    assert [type(each) for each in ended].count(ingest_result_pb2.IngestResult) == 1
    assert [type(each) for each in ended].count(RequestIdReusedError) == 5


async def test_a_waiting_client_hears_within_seconds_that_its_bytes_are_safe(
    stub: Any, harness: Harness, collection: str
) -> None:
    content = b"x" * 1000
    stream = Stream(stub, header_of(collection, "a.txt", content))
    await stream.open()
    await stream.send(content, 0, 10)
    event = await asyncio.wait_for(stream.read(), 10)
    assert event.progress.durable_offset == 10
    folder = harness.folder / "staging"
    on_disk = (folder / stream.upload_id).stat()
    assert on_disk.st_size == 10
    assert (on_disk.st_mode | folder.stat().st_mode) & 0o077 == 0, "nobody else may read it"
    await stream.send(content, 10, len(content))
    await stream.finish()


@pytest.mark.parametrize(
    ("offset", "size", "field"),
    [
        (0, 0, "part.data"),
        (0, MAX_PART_BYTES + 1, "part.data"),
        (-1, 1, "part.offset"),
        (2 * MAX_PART_BYTES, 1, "part.offset"),
    ],
)
async def test_a_part_out_of_bounds_is_refused_by_the_name_of_its_field(
    stub: Any, collection: str, offset: int, size: int, field: str
) -> None:
    stream = Stream(stub, header_of(collection, "a.txt", b"x" * 2 * MAX_PART_BYTES))
    await stream.open()
    await stream.call.write(pb.UploadDocumentRequest(part=pb.UploadPart(offset=offset, data=b"x" * size)))
    refused = await stream.failure()
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == [field]


async def test_more_than_was_announced_is_refused_and_the_rest_can_still_come(stub: Any, collection: str) -> None:
    content = b"All that was announced."
    header = header_of(collection, "a.txt", content)
    first = Stream(stub, header)
    await first.open()
    await first.call.write(pb.UploadDocumentRequest(part=pb.UploadPart(data=content + b"!")))
    refused = await first.failure()
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == ["part.data"]
    result = await whole(stub, again(header, first.upload_id), content)
    assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED


async def test_a_refused_part_costs_nothing_that_came_before(stub: Any, collection: str) -> None:
    content = long_text(16, 20).encode()
    header = header_of(collection, "a.txt", content)
    first = Stream(stub, header)
    await first.open()
    await first.send(content, 0, 5000)
    await first.call.write(pb.UploadDocumentRequest(part=pb.UploadPart(offset=6000, data=b"behind a gap")))
    refused = await first.failure()
    assert isinstance(refused, InvalidRequestError)
    assert refused.violations[0].field == "part.offset"
    second = Stream(stub, again(header, first.upload_id))
    assert await second.open() == 5000
    await second.send(content, 4000, len(content))
    assert (await second.finish()).outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED


@pytest.mark.parametrize(
    ("content", "fields", "error"),
    [
        (b"  \n\t ", {}, EmptyDocumentError),
        (b"text of another hash", {"source_hash": "1" * 64}, InvalidRequestError),
    ],
)
async def test_a_refused_document_is_forgotten(
    stub: Any,
    harness: Harness,
    collection: str,
    content: bytes,
    fields: dict[str, Any],
    error: type[InvalidRequestError],
) -> None:
    before = staged(harness.folder)
    header = header_of(collection, "a.txt", content, **fields)
    first = Stream(stub, header)
    await first.send(content, await first.open(), len(content))
    await first.call.done_writing()
    assert type(await first.failure()) is error
    assert staged(harness.folder) <= before
    second = Stream(stub, again(header, first.upload_id))
    await second.call.write(pb.UploadDocumentRequest(header=second.header))
    assert isinstance(await second.failure(), NotFoundError)


async def test_a_tenant_cannot_fill_the_disk_with_unfinished_uploads(tmp_path: Path) -> None:
    harness = Harness(tmp_path, max_staged_bytes=10_000).start()
    try:
        harness.create("books")
        async with connected(harness.services()) as (_, stub):
            content = b"word " * 1600
            first = await begun(stub, header_of("books", "a.txt", content), content)
            second = Stream(stub, header_of("books", "b.txt", content))
            await second.call.write(pb.UploadDocumentRequest(header=second.header))
            refused = await second.failure()
            assert isinstance(refused, ExhaustedError)
            assert refused.metadata["limit_bytes"] == "10000"
            third = Stream(stub, again(first.header, first.upload_id))
            await third.send(content, await third.open(), len(content))
            await third.finish()
            more = content + b"more"
            assert (await whole(stub, header_of("books", "b.txt", more), more)).counts.chunk_count
    finally:
        harness.close()


async def test_another_tenant_interrupts_no_upload_whose_id_it_has() -> None:
    claims = UploadClaims()
    async with claims.hold("id", "ann", Budget()) as lost, asyncio.timeout(5):
        async with claims.hold("id", "bob", Budget()):
            pass
        assert not lost.is_set()


def test_what_streams_announce_counts_for_their_tenant_alone_and_for_documents_that_come_whole(tmp_path: Path) -> None:
    harness = Harness(tmp_path, max_staged_bytes=1000)
    uploads = harness.service.long_work.uploads
    with uploads.announced("ann", "id", 600), uploads.announced("bob", "id", 900):
        with pytest.raises(ExhaustedError) as caught:
            uploads.keep("ann", str(uuid.uuid4()), b"x" * 500)
        assert caught.value.metadata == {"limit_bytes": "1000", "staged_bytes": "600"}
        uploads.begin("ann", "id", b"", 1000)  # its own announcement does not count twice
        with closing(uploads.open("ann", "id")) as incoming:
            incoming.take(0, b"x" * 300)
        uploads.keep("ann", str(uuid.uuid4()), b"x" * 400)  # nor do its bytes that have arrived
        uploads.forget("ann", "id")
    uploads.keep("ann", str(uuid.uuid4()), b"x" * 500)
    harness.close()


async def test_an_upload_without_a_part_for_a_day_is_forgotten(tmp_path: Path) -> None:
    clock = LaterClock()
    harness = Harness(tmp_path, clock=clock).start()
    try:
        harness.create("books")
        async with connected(harness.services()) as (_, stub):
            content = long_text(17, 20).encode()
            header = header_of("books", "a.txt", content)
            first = await begun(stub, header, content)
            clock.ahead = timedelta(hours=23)
            second = Stream(stub, again(header, first.upload_id))
            assert await second.open() > 0
            second.call.cancel()
            await asyncio.sleep(0.3)
            clock.ahead = timedelta(hours=48)
            third = Stream(stub, again(header, first.upload_id))
            await third.call.write(pb.UploadDocumentRequest(header=third.header))
            assert isinstance(await third.failure(), NotFoundError)
        harness.forget()
        assert staged(tmp_path) == set()
    finally:
        harness.close()


async def test_an_upload_survives_a_parser_that_does_not_start(
    stub: Any, harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = long_text(21, 30).encode()
    header = header_of(collection, "book.txt", content)
    for process_id in harness.service.parser.process_ids:
        os.kill(process_id, signal.SIGKILL)
    with monkeypatch.context() as broken:
        broken.setattr(parser_pool, "_MODULE", "no_such_parser")
        stream = Stream(stub, header)
        await stream.send(content, await stream.open(), len(content))
        await stream.call.done_writing()
        refused = await stream.failure()
    assert type(refused) is UnavailableError
    assert stream.upload_id in staged(harness.folder)
    later = Stream(stub, again(header, stream.upload_id))
    assert await later.open() == len(content)
    assert (await later.finish()).outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
