"""The ingest service behind a real server, called by the generated stub."""

import asyncio
import hashlib
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2, progress_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel.document_errors import BinaryDocumentError
from groundwire.kernel.errors import (
    DocumentNotFoundError,
    GroundwireError,
    InvalidRequestError,
)
from groundwire.rpc.error_status import from_rpc_error
from tests.integration.ingest.harness import Harness
from tests.integration.ingest.test_ingest_document import REFUSED, long_text
from tests.integration.rpc.fake_ingest import connected
from tests.stubs import by_id, by_source


@pytest.fixture
async def stub(harness: Harness) -> AsyncIterator[Any]:
    async with connected(harness.services()) as (_, connection):
        yield connection


async def failure(call: Any) -> GroundwireError:
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await call
    return from_rpc_error(caught.value)


def parts_of(content: bytes, size: int = 1 << 20) -> list[pb.UploadDocumentRequest]:
    return [
        pb.UploadDocumentRequest(part=pb.UploadPart(offset=start, data=content[start : start + size]))
        for start in range(0, len(content), size)
    ]


def header_of(collection: str, source: str, total: int, **fields: Any) -> pb.UploadDocumentRequest:
    header = pb.UploadHeader(collection=collection, source_uri=source, total_bytes=total, **fields)
    return pb.UploadDocumentRequest(header=header)


async def upload(stub: Any, messages: list[pb.UploadDocumentRequest]) -> list[pb.UploadDocumentResponse]:
    return [event async for event in stub.UploadDocument(iter(messages))]


def staged(harness: Harness) -> list[Path]:
    return list((harness.folder / "staging").glob("*"))


@pytest.mark.parametrize(("content", "error", "field"), REFUSED, ids=range(len(REFUSED)))
async def test_refusals_arrive_with_type_and_field(
    stub: Any, collection: str, content: bytes, error: type[InvalidRequestError], field: str
) -> None:
    request = pb.IngestDocumentRequest(collection=collection, source_uri="bad.md", content=content)
    refused = await failure(stub.IngestDocument(request))
    assert type(refused) is error
    assert isinstance(refused, InvalidRequestError)
    assert [violation.field for violation in refused.violations] == [field]


async def test_a_document_is_ingested_read_and_deleted(stub: Any, collection: str) -> None:
    text = "# Tides 🌊\n\n" + long_text(1)
    result = (
        await stub.IngestDocument(pb.IngestDocumentRequest(collection=collection, source_uri="a.md", text=text))
    ).result
    found = await stub.GetDocument(
        library_pb.GetDocumentRequest(
            collection=collection, reference=by_source("a.md"), include_text=True, include_chunk_ids=True
        )
    )
    assert (found.document, found.text) == (result.document, text)
    chunk = (
        await stub.GetChunk(
            library_pb.GetChunkRequest(collection=collection, reference=ChunkReference(chunk_id=found.chunk_ids[1]))
        )
    ).chunk
    by_number = await stub.GetChunk(
        library_pb.GetChunkRequest(collection=collection, reference=ChunkReference(chunk_number=chunk.chunk_number))
    )
    assert by_number.chunk == chunk
    assert text[chunk.span.start : chunk.span.end] == chunk.content
    wanted = result.document.document_id
    deleted = await stub.DeleteDocument(
        pb.DeleteDocumentRequest(collection=collection, reference=by_id(wanted), purge=True)
    )
    stores = {store.store: store.removed_count for store in deleted.receipt.stores}
    assert stores == {
        "catalog": 1 + len(found.chunk_ids),
        "texts": 1,
        "full_text": len(found.chunk_ids),
        "vectors": len(found.chunk_ids),
        "embedding_cache": len(found.chunk_ids),
        "sessions": 0,
        "records": 0,
    }
    gone = await failure(
        stub.GetDocument(library_pb.GetDocumentRequest(collection=collection, reference=by_id(wanted)))
    )
    assert isinstance(gone, DocumentNotFoundError)


async def test_the_answer_of_a_restore_that_had_no_effect_goes_with_its_document(stub: Any, collection: str) -> None:
    ingested = await stub.IngestDocument(
        pb.IngestDocumentRequest(collection=collection, source_uri="a.md", text="# Foxes\n\nFoxes eat mice.")
    )
    reference = by_id(ingested.result.document.document_id)
    restore = pb.RestoreDocumentRequest(collection=collection, reference=reference, request_id=str(uuid.uuid4()))
    assert (await stub.RestoreDocument(restore)).document.document_id == ingested.result.document.document_id
    await stub.DeleteDocument(pb.DeleteDocumentRequest(collection=collection, reference=reference, purge=True))
    assert isinstance(await failure(stub.RestoreDocument(restore)), DocumentNotFoundError)


@pytest.mark.requirement("T37")
@pytest.mark.parametrize(("start", "end"), [(None, None), (0, 1), (65_535, 65_537), (70_000, 200_000), (5, 5)])
async def test_text_is_streamed_without_gaps(
    stub: Any, harness: Harness, collection: str, start: int | None, end: int | None
) -> None:
    text = "Ebbe und Flut 🌊 am Fluß.\n" * 9000
    document = harness.ingest(collection, "a.txt", text).document
    request = library_pb.GetDocumentTextRequest(
        collection=collection, reference=by_id(document.document_id), start=start, end=end
    )
    parts = [part async for part in stub.GetDocumentText(request)]
    assert "".join(part.text for part in parts) == text[slice(start, end)]
    for part in parts:
        assert part.text == text[part.span.start : part.span.end]
        assert part.text == text.encode()[part.span.start_byte : part.span.end_byte].decode()
        assert (part.total_chars, part.generation) == (len(text), 1)
        assert 1 <= len(part.text) <= 65_536


async def test_an_old_generation_can_still_be_read(stub: Any, harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "a.txt", "The first text.").document
    harness.ingest(collection, "a.txt", "The second, longer text.")
    request = library_pb.GetDocumentTextRequest(
        collection=collection, reference=by_id(document.document_id), generation=1
    )
    assert [part.text async for part in stub.GetDocumentText(request)] == ["The first text."]
    request.generation = 9
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        [part async for part in stub.GetDocumentText(request)]
    assert isinstance(from_rpc_error(caught.value), DocumentNotFoundError)


async def test_a_range_outside_the_text_is_refused(stub: Any, harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "a.txt", "Ten chars.").document
    for start, end, field in ((0, 11, "end"), (5, 4, "start"), (11, None, "start"), (-1, 5, "start"), (0, -1, "end")):
        request = library_pb.GetDocumentTextRequest(
            collection=collection, reference=by_id(document.document_id), start=start, end=end
        )
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            [part async for part in stub.GetDocumentText(request)]
        refused = from_rpc_error(caught.value)
        assert isinstance(refused, InvalidRequestError)
        assert refused.violations[0].field == field


async def test_lists_are_paged(stub: Any, harness: Harness, collection: str) -> None:
    names = [f"docs/{number}.txt" for number in range(7)]
    for name in [*names, "other/a.txt"]:
        harness.ingest(collection, name, f"The text of {name}.")
    request = library_pb.ListDocumentsRequest(collection=collection, source_prefix="docs/", page_size=3)
    seen: list[str] = []
    while True:
        page = await stub.ListDocuments(request)
        seen += [document.source_uri for document in page.documents]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
        assert len(page.documents) == 3
    assert seen == names
    of_chunks = library_pb.ListChunksRequest(collection=collection, page_size=3)
    numbers: list[int] = []
    while True:
        chunks = await stub.ListChunks(of_chunks)
        numbers += [chunk.chunk_number for chunk in chunks.chunks]
        of_chunks.page_token = chunks.next_page_token
        if not chunks.next_page_token:
            break
    assert numbers == sorted(numbers)
    assert len(numbers) == 8
    other = library_pb.ListChunksRequest(collection=collection, page_size=3, chunk_id_prefix="doc_")
    assert len((await stub.ListChunks(other)).chunks) == 3
    other.chunk_id_prefix = "doc%"
    assert not (await stub.ListChunks(other)).chunks


async def test_collections_are_created_listed_and_deleted(stub: Any) -> None:
    for name in ("list-b", "list-a", "list-c"):
        await stub.CreateCollection(
            collections_pb.CreateCollectionRequest(collection=name, profile=collection_pb2.PROFILE_BOOK)
        )
    again = await stub.CreateCollection(
        collections_pb.CreateCollectionRequest(collection="list-a", profile=collection_pb2.PROFILE_BOOK)
    )
    found = await stub.GetCollection(collections_pb.GetCollectionRequest(collection="list-a"))
    assert again.collection == found.collection
    assert found.collection.vector_engine == "memory"
    request, names = collections_pb.ListCollectionsRequest(page_size=1), list[str]()
    while True:
        page = await stub.ListCollections(request)
        names += [collection.name for collection in page.collections]
        request.page_token = page.next_page_token
        if not page.next_page_token:
            break
    assert [name for name in names if name.startswith("list-")] == ["list-a", "list-b", "list-c"]
    await stub.DeleteCollection(collections_pb.DeleteCollectionRequest(collection="list-b", force=True))
    assert (await failure(stub.GetCollection(collections_pb.GetCollectionRequest(collection="list-b")))).reason == (
        "COLLECTION_NOT_FOUND"
    )


async def test_without_a_profile_a_collection_is_general_and_one_that_exists_stays_as_it_is(stub: Any) -> None:
    new = await stub.CreateCollection(collections_pb.CreateCollectionRequest(collection="no-profile"))
    assert new.collection.profile == collection_pb2.PROFILE_GENERAL
    chunking = new.collection.settings.chunking
    assert (chunking.target_size, chunking.minimum_size, chunking.maximum_size) == (96, 20, 192)
    assert (chunking.overlap_ratio, new.collection.settings.retrieval.top_k) == (0.0, 10)
    request = collections_pb.CreateCollectionRequest(collection="of-0-1-0", profile=collection_pb2.PROFILE_DOCUMENTS)
    old = await stub.CreateCollection(request)
    again = await stub.CreateCollection(collections_pb.CreateCollectionRequest(collection="of-0-1-0"))
    assert again.collection == old.collection


async def test_bad_settings_are_named(stub: Any) -> None:
    request = collections_pb.CreateCollectionRequest(collection="bad-settings")
    request.settings.chunking.overlap_ratio = 0.5
    request.settings.chunking.target_size = 2000
    refused = await failure(stub.CreateCollection(request))
    assert isinstance(refused, InvalidRequestError)
    assert {violation.field for violation in refused.violations} == {
        "settings.chunking.overlap_ratio",
        "settings.chunking.maximum_size",
    }


async def test_bad_fields_are_all_named(stub: Any, collection: str) -> None:
    request = pb.IngestDocumentRequest(collection=collection, source_uri="a.txt", text="Text that is fine.")
    request.fields.language = "english"
    request.fields.tags[:] = ["a,b", " "]
    request.fields.metadata["title"].string_value = "built in"
    request.fields.metadata["rank"].double_value = float("nan")
    request.fields.date_created.seconds = 10**15
    refused = await failure(stub.IngestDocument(request))
    assert isinstance(refused, InvalidRequestError)
    assert sorted(violation.field for violation in refused.violations) == [
        "fields.date_created",
        "fields.language",
        "fields.metadata['rank']",
        "fields.metadata['title']",
        "fields.tags[0]",
        "fields.tags[1]",
    ]


@pytest.mark.requirement("T37")
async def test_an_upload_tells_how_far_it_is(stub: Any, harness: Harness, collection: str) -> None:
    content = long_text(1, 3000).encode()
    events = await upload(stub, [header_of(collection, "big.txt", len(content)), *parts_of(content, 300_000)])
    assert [event.WhichOneof("event") for event in (events[0], events[-1])] == ["accepted", "result"]
    progress = [event.progress.progress for event in events[1:-1]]
    names = [progress_pb2.ProgressStage.Name(each.stage).removeprefix("PROGRESS_STAGE_") for each in progress]
    assert list(dict.fromkeys(names)) == ["RECEIVING", "PARSING", "CHUNKING", "EMBEDDING", "WRITING"]
    received = [each.done_count for each, name in zip(progress, names, strict=True) if name == "RECEIVING"]
    assert received == sorted(received)
    assert received[-1] == len(content)
    document = events[-1].result.document
    assert document.source_hash == hashlib.sha256(content).hexdigest()
    request = library_pb.GetDocumentTextRequest(collection=collection, reference=by_id(document.document_id))
    text = "".join([part.text async for part in stub.GetDocumentText(request)])
    assert text == content.decode()
    assert staged(harness) == []


async def test_an_unchanged_upload_needs_no_bytes(stub: Any, collection: str) -> None:
    content = long_text(2, 30).encode()
    header = header_of(
        collection, "a.txt", len(content), source_hash=hashlib.sha256(content).hexdigest(), request_id=str(uuid.uuid4())
    )
    first = await upload(stub, [header, *parts_of(content)])
    repeated = await upload(stub, [header])
    assert repeated[-1].result == first[-1].result
    header.header.request_id = str(uuid.uuid4())
    for _ in range(2):
        unchanged = await upload(stub, [header])
        assert unchanged[-1].result.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED


async def test_an_upload_of_known_bytes_that_says_more_of_them_is_ingested(stub: Any, collection: str) -> None:
    content = long_text(2, 30).encode()
    given = {"source_hash": hashlib.sha256(content).hexdigest()}
    first = await upload(stub, [header_of(collection, "a.txt", len(content), **given), *parts_of(content)])
    later = header_of(collection, "a.txt", len(content), **given, source_version=3)
    result = (await upload(stub, [later, *parts_of(content)]))[-1].result
    assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    assert (result.document.document_id, result.document.source_version) == (first[-1].result.document.document_id, 3)
    renamed = header_of(collection, "a.txt", len(content), **given, document_id="another")
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await upload(stub, [renamed, *parts_of(content)])
    refused = from_rpc_error(caught.value)
    assert isinstance(refused, InvalidRequestError)
    assert refused.violations[0].field == "header.document_id"


async def test_bad_uploads_are_refused_and_store_no_document(stub: Any, harness: Harness, collection: str) -> None:
    head = header_of(collection, "a.txt", 8)
    part = pb.UploadDocumentRequest(part=pb.UploadPart(offset=0, data=b"12345678"))
    cases = {
        "header": [part],
        "message": [head, head],
        "header.total_bytes": [head, *parts_of(b"1234")],
        "part.offset": [head, pb.UploadDocumentRequest(part=pb.UploadPart(offset=4, data=b"5678"))],
        "part.data": [head, pb.UploadDocumentRequest(part=pb.UploadPart(offset=0, data=b"123456789"))],
    }
    before_it = pb.UploadDocumentRequest(part=pb.UploadPart(offset=-1, data=b"012345678"))
    for field, messages in [*cases.items(), ("part.offset", [head, before_it])]:
        with pytest.raises(grpc.aio.AioRpcError) as caught:
            await upload(stub, messages)
        refused = from_rpc_error(caught.value)
        assert isinstance(refused, InvalidRequestError)
        assert refused.violations[0].field == field
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await upload(stub, [header_of(collection, "a.md", 4), *parts_of(b"\x00\x01\x02\x03")])
    assert isinstance(from_rpc_error(caught.value), BinaryDocumentError)
    with pytest.raises(grpc.aio.AioRpcError) as caught:
        await upload(stub, [header_of(collection, "a.txt", 8, upload_id="gone")])
    assert from_rpc_error(caught.value).reason == "NOT_FOUND"
    assert harness.sources(collection) == []


async def test_parts_that_came_twice_are_skipped(stub: Any, harness: Harness, collection: str) -> None:
    content = b"abcdefgh and some more text"
    messages = [header_of(collection, "a.txt", len(content)), *parts_of(content[:10]), *parts_of(content)]
    assert (await upload(stub, messages))[-1].result.document.total_chars == len(content)
    assert harness.text(collection, "a.txt") == content.decode()


async def test_an_upload_that_is_cancelled_leaves_no_document(stub: Any, harness: Harness, collection: str) -> None:
    content = long_text(3, 4000).encode()
    call = stub.UploadDocument(iter([header_of(collection, "big.txt", len(content)), *parts_of(content)]))
    async for event in call:
        if event.progress.progress.stage == progress_pb2.PROGRESS_STAGE_EMBEDDING:
            call.cancel()
            break
    for _ in range(600):
        if not harness.service.long_work.documents.locks._queues:
            break
        await asyncio.sleep(0.05)
    assert harness.sources(collection) == []
    harness.sweep()
    assert harness.points(collection) == []


async def test_other_calls_are_answered_while_a_document_is_parsed(
    stub: Any, harness: Harness, collection: str
) -> None:
    content = long_text(4, 4000).encode()
    uploading = asyncio.create_task(upload(stub, [header_of(collection, "big.txt", len(content)), *parts_of(content)]))
    longest, clock = 0.0, asyncio.get_running_loop().time
    began = clock()
    while not uploading.done():
        started = clock()
        await stub.GetCollection(collections_pb.GetCollectionRequest(collection=collection))
        longest = max(longest, clock() - started)
    assert (await uploading)[-1].result.document.chunk_count > 500
    assert longest < max(1.0, (clock() - began) / 4)
