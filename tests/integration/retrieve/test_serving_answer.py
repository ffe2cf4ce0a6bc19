"""What the answer service asks of retrieve besides searches: where sources stand, what a collection is, vectors."""

import asyncio
from collections.abc import Iterator
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.common.v1.span_pb2 import Span
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as ingest_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CollectionNotFoundError, InvalidRequestError
from groundwire.rpc.in_process import InProcessStub
from tests.integration.retrieve.reading_room import ReadingRoom
from tests.unit.ingest.made_files import make_pdf


@pytest.fixture
def room(tmp_path: Path) -> Iterator[ReadingRoom]:
    opened = ReadingRoom(tmp_path)
    yield opened
    opened.close()


def _library(room: ReadingRoom) -> Any:
    return InProcessStub(room.service.library_servicer)


async def test_documents_and_chunks_of_any_collection_are_located_together(room: ReadingRoom) -> None:
    room.create("one")
    room.create("two")
    first, second = room.put("one", "a.txt", "Foxes eat mice."), room.put("two", "b.txt", "Owls eat mice.")
    purged = room.put("two", "c.txt", "Cats eat mice.")
    delete = ingest_pb.DeleteDocumentRequest(
        collection="two", reference=DocumentReference(document_id=purged), purge=True
    )
    room.ingest.calls.delete_document(delete)
    stub = _library(room)
    (chunk,) = (await stub.ListChunks(library_pb.ListChunksRequest(collection="two"))).chunks
    by_id, by_number = ChunkReference(chunk_id=chunk.chunk_id), ChunkReference(chunk_number=chunk.chunk_number)
    request = library_pb.LocateSourcesRequest(
        document_ids=[second, "doc_no", purged, first], chunks=[by_number, ChunkReference(chunk_id="no"), by_id]
    )
    found = await stub.LocateSources(request)
    assert [(each.collection, each.live_generation, each.purged) for each in found.documents] == [
        ("two", 1, False),
        ("", 0, False),
        ("", 0, True),
        ("one", 1, False),
    ]
    assert [each.document_id for each in found.documents] == list(request.document_ids)
    assert (found.chunks[0], found.chunks[1]) == (found.chunks[2], library_pb.ChunkLocation())
    located = found.chunks[0]
    assert (located.collection, located.document_id, located.generation) == ("two", second, 1)
    assert (located.chunk_number, located.span) == (chunk.chunk_number, chunk.span)


async def test_an_answer_is_read_and_compared_while_every_thread_for_searches_is_taken(room: ReadingRoom) -> None:
    room.create("notes")
    document = room.put("notes", "a.txt", "Foxes eat mice.")
    searched, searches = Event(), room.ingest.workers
    busy = [asyncio.create_task(searches.run(Budget(), searched.wait, 30)) for _ in range(8)]
    try:
        await asyncio.sleep(0)  # they begin
        assert searches.waiting
        stub: Any = InProcessStub(room.service.servicer)
        async with asyncio.timeout(10):
            assert (await stub.EmbedTexts(pb.EmbedTextsRequest(texts=["Foxes eat mice."]))).vectors
            request = library_pb.LocateSourcesRequest(document_ids=[document])
            assert (await _library(room).LocateSources(request)).documents
    finally:
        searched.set()
        await asyncio.gather(*busy)


@pytest.mark.parametrize(
    "request_",
    [
        library_pb.LocateSourcesRequest(),
        library_pb.LocateSourcesRequest(document_ids=["doc"] * 1001),
        library_pb.LocateSourcesRequest(chunks=[ChunkReference(chunk_number=1)] * 1001),
        library_pb.LocateSourcesRequest(chunks=[ChunkReference()]),
    ],
)
async def test_what_cannot_be_located_is_refused(room: ReadingRoom, request_: library_pb.LocateSourcesRequest) -> None:
    with pytest.raises(InvalidRequestError):
        await _library(room).LocateSources(request_)


async def test_a_collection_is_described(room: ReadingRoom) -> None:
    limits = collection_pb2.CollectionLimits(max_query_chars=77)
    room.create("rules", collection_pb2.CollectionSettings(limits=limits), profile=collection_pb2.PROFILE_BOOK)
    stub = _library(room)
    found = await stub.DescribeCollection(library_pb.DescribeCollectionRequest(collection="rules"))
    assert (found.collection, found.profile, found.max_query_chars) == ("rules", "book", 77)
    assert found.embedding.dimensions == room.ingest.embedder.identity.dimensions
    with pytest.raises(CollectionNotFoundError):
        await stub.DescribeCollection(library_pb.DescribeCollectionRequest(collection="missing"))


async def test_queries_and_texts_are_embedded_in_their_order_by_the_model_of_the_server(room: ReadingRoom) -> None:
    stub: Any = InProcessStub(room.service.servicer)
    request = pb.EmbedTextsRequest(queries=["Who eats mice?"], texts=["Foxes eat mice.", "Bread is made of flour."])
    answer = await stub.EmbedTexts(request)
    rows = np.array([each.values for each in answer.vectors], dtype=np.float32)
    assert np.allclose(np.linalg.norm(rows, axis=1), 1.0)
    model, budget = room.ingest.embedder, Budget()
    expected = [model.embed_query("Who eats mice?", budget), *model.embed_documents(list(request.texts), budget)]
    assert np.allclose(rows, [row / np.linalg.norm(row) for row in expected], atol=1e-5)
    assert answer.embedding.probe_digest == model.identity.probe_digest


async def test_as_many_vectors_come_as_fit_into_a_response(tmp_path: Path) -> None:
    room = ReadingRoom(tmp_path, dimensions=4096)
    stub: Any = InProcessStub(room.service.servicer)
    try:
        answer = await stub.EmbedTexts(pb.EmbedTextsRequest(queries=["a b"], texts=[f"text {n}" for n in range(250)]))
    finally:
        room.close()
    assert 150 < len(answer.vectors) < 251
    assert answer.ByteSize() <= 3 << 20


@pytest.mark.parametrize(
    ("request_", "field"),
    [
        (pb.EmbedTextsRequest(), "texts"),
        (pb.EmbedTextsRequest(queries=["a"], texts=["a"] * 1000), "texts"),
        (pb.EmbedTextsRequest(queries=["a", " "]), "queries[1]"),
        (pb.EmbedTextsRequest(texts=["", "a"]), "texts[0]"),
    ],
)
async def test_what_cannot_be_embedded_is_refused(
    room: ReadingRoom, request_: pb.EmbedTextsRequest, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        await InProcessStub(room.service.servicer).EmbedTexts(request_)
    assert [wrong.field for wrong in refused.value.violations] == [field]


async def test_spans_come_with_the_pages_that_they_stand_on(room: ReadingRoom) -> None:
    room.create("pages")
    printed = make_pdf(["The tide of the first page.", "The moon of the second.", "The wind of the third."])
    documents = [
        room.ingest.ingest("pages", source, content).document
        for source, content in (("a.txt", "No pages here."), ("b.pdf", printed))
    ]
    middle = documents[1].total_chars // 2
    wanted = [(documents[0], 0, 2), (documents[1], 0, 8), (documents[1], middle, documents[1].total_chars)]
    spans = [
        library_pb.SpanReference(
            reference=DocumentReference(document_id=each.document_id), span=Span(start=start, end=end)
        )
        for each, start, end in wanted
    ]
    read = await _library(room).ReadSpans(library_pb.ReadSpansRequest(collection="pages", spans=spans))
    assert [list(each.found.page_numbers) for each in read.outcomes] == [[], [1], [2, 3]]
