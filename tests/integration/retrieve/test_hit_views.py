"""How much a search returns is the caller's to say: ids, what most need, or everything; the report only on request."""

import asyncio
import time
from datetime import UTC, datetime

import pytest

from groundwire.api.common.v1 import hit_pb2
from groundwire.api.common.v1.chunk_pb2 import Chunk, ChunkReference
from groundwire.api.common.v1.document_pb2 import Document
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.api.retrieve.v1.library_service_pb2 import GetChunkRequest
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import Value
from groundwire.rpc.value_messages import to_metadata
from tests.integration.retrieve.library import Library

_FIELDS = DocumentFields(
    title="Handbook",
    creators=("Ada",),
    subjects=("ops",),
    description="about ops " * 50,
    date_created=datetime(2024, 7, 1, tzinfo=UTC),
    tags=("red",),
    metadata={"n": 1},
)


def _search(library: Library, options: RetrievalOptions | None = None) -> pb.RetrieveResponse:
    request = pb.RetrieveRequest(collection="docs", query="alpha", options=options)
    response: pb.RetrieveResponse = library.service.servicer.retrieve(request, time.perf_counter()).message()
    return response


def _names(message: Chunk | Document) -> set[str]:
    return {field.name for field, _ in message.ListFields()}


@pytest.fixture
def filled(library: Library) -> Library:
    library.put("a.txt", ["alpha one", "alpha two", "alpha three"], fields=_FIELDS, pages=[(1,), (2,), (3,)])
    library.put("b.txt", ["alpha four"])
    return library


def test_unless_asked_a_search_returns_what_most_need(filled: Library) -> None:
    response = _search(filled)
    assert {field.name for field, _ in response.ListFields()} == {
        "results",
        "documents",
        "snapshot",
        "consistency_token",
        "log_id",
    }
    hit = next(each for each in response.results if each.chunk.content == "alpha two")
    assert _names(hit.chunk) == {
        *("chunk_id", "chunk_number", "document_id", "generation", "span", "content", "source_uri", "sequence_num"),
        *("chapter", "section_heading", "hierarchy_path", "level", "page_numbers", "tags", "metadata"),
    }
    (document,) = [each for each in response.documents if each.document_id == hit.chunk.document_id]
    assert _names(document) == {
        *("document_id", "collection", "source_uri", "format", "generation", "display_title", "fields"),
    }
    assert {field.name for field, _ in document.fields.ListFields()} == {
        "title",
        "creators",
        "date_created",
        "language",
    }


def test_documents_come_once_in_the_order_of_their_first_hit(filled: Library) -> None:
    response = _search(filled)
    of_hits = [hit.chunk.document_id for hit in response.results]
    assert len(of_hits) == 4
    assert [document.document_id for document in response.documents] == list(dict.fromkeys(of_hits))


def test_ids_are_nothing_but_names_places_and_scores(filled: Library) -> None:
    basic = _search(filled)
    response = _search(filled, RetrievalOptions(view=hit_pb2.HIT_VIEW_IDS))
    assert not response.documents
    assert len(response.results) == 4
    for hit, more in zip(response.results, basic.results, strict=True):
        assert _names(hit.chunk) == {"chunk_id", "chunk_number", "document_id", "generation", "span"}
        assert (hit.chunk.chunk_id, hit.chunk.span) == (more.chunk.chunk_id, more.chunk.span)
        assert (hit.rank, hit.relevance_score, hit.similarity) == (more.rank, more.relevance_score, more.similarity)


def test_the_full_view_is_what_the_library_returns(filled: Library) -> None:
    response = _search(filled, RetrievalOptions(view=hit_pb2.HIT_VIEW_FULL))
    calls = filled.service.library_servicer
    requests = [
        GetChunkRequest(collection="docs", reference=ChunkReference(chunk_id=hit.chunk.chunk_id))
        for hit in response.results
    ]
    stored = [asyncio.run(calls.GetChunk(request, None)) for request in requests]
    assert len(stored) == 4
    assert [hit.chunk for hit in response.results] == [each.chunk for each in stored]
    documents = {each.document.document_id: each.document for each in stored}
    assert list(response.documents) == list(documents.values())
    assert {each.fields.description for each in response.documents} == {_FIELDS.description, ""}


def test_every_character_and_every_kind_of_value_comes_back(library: Library) -> None:
    content = 'alpha "quoted" \\ back\\u0041 \x00\x01\x1f\x7f\t\n \u2028 é 𝄞 \U0010ffff end'
    metadata: dict[str, Value] = {
        "share": 0.1,
        "large": 2**60,
        "is_set": True,
        "names": ("a\x00", '"'),
        "numbers": (1, 2),
        "none": (),
    }
    library.put("odd.txt", [content], fields=DocumentFields(title='T"\\', metadata=metadata))
    for _ in range(2):  # the second time chunk and document are remembered
        response = _search(library, RetrievalOptions(view=hit_pb2.HIT_VIEW_FULL))
        (hit,), (document,) = response.results, response.documents
        assert hit.chunk.content == content
        get_chunk = GetChunkRequest(collection="docs", reference=ChunkReference(chunk_id=hit.chunk.chunk_id))
        read = asyncio.run(library.service.library_servicer.GetChunk(get_chunk, None))
        assert (hit.chunk, document) == (read.chunk, read.document)
        assert dict(hit.chunk.metadata) == to_metadata(metadata)


def test_each_view_is_larger_than_the_one_before(filled: Library) -> None:
    sizes = [
        _search(filled, RetrievalOptions(view=view)).ByteSize()
        for view in (hit_pb2.HIT_VIEW_IDS, hit_pb2.HIT_VIEW_BASIC, hit_pb2.HIT_VIEW_FULL)
    ]
    assert sizes[0] < sizes[1] < sizes[2]


def test_an_unknown_view_is_refused(filled: Library) -> None:
    options = RetrievalOptions()
    options.view = 99  # type: ignore[assignment]  # a client of a newer contract
    with pytest.raises(InvalidRequestError, match=r"options\.view"):
        _search(filled, options)


@pytest.mark.parametrize("view", [hit_pb2.HIT_VIEW_IDS, hit_pb2.HIT_VIEW_BASIC, hit_pb2.HIT_VIEW_FULL])
def test_the_flat_view_goes_with_every_view(filled: Library, view: hit_pb2.HitView.ValueType) -> None:
    response = _search(filled, RetrievalOptions(view=view, include_flat_view=True))
    flat = {hit.flat_view["source"].string_value for hit in response.results}
    assert flat == {"a.txt", "b.txt"}
