"""No response is larger than what a client takes by default, however much is stored."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import pytest

from groundwire.api.answer.v1 import answer_service_pb2, citation_pb2
from groundwire.api.common.v1 import document_pb2, metadata_value_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.common.v1.hit_pb2 import HIT_VIEW_FULL, HIT_VIEW_IDS
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.common.v1.span_pb2 import Span
from groundwire.api.ingest.v1 import collection_pb2, collection_service_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as retrieve_pb
from groundwire.kernel.errors import InvalidRequestError
from groundwire.rpc.error_status import from_rpc_error
from tests.e2e.server import ServerProcess
from tests.stubs import Stubs, by_id, by_source, put_chunks_messages

PAGE_BYTES = 3 << 20
FILLER = "ß" * 8000
"""16 kB in UTF-8."""
CHUNK = "ß" * 60_000
"""A chunk of 120 kB, a single word."""
LONG = collection_pb2.ChunkingPolicy(unit=collection_pb2.CHUNK_UNIT_CHARS, target_size=60_000, maximum_size=65_536)
DOCUMENTS, CHUNKS = 40, 60


@pytest.fixture(scope="module")
def stubs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Stubs]:
    """Stubs on a channel without any option, so that it takes 4 MiB; the collection is full of large things."""
    server = ServerProcess(
        tmp_path_factory.mktemp("sizes") / "data", ("--embedder", "hashing:64", "--vectors", "memory:")
    )
    try:
        with grpc.insecure_channel(server.address) as channel:
            stubs = Stubs(channel)
            fill(stubs)
            yield stubs
    finally:
        server.stop()


def fill(stubs: Stubs) -> None:
    descriptions = [
        collection_pb2.FieldDescription(
            name=f"field{number}", description="ß" * 1000, type=collection_pb2.FIELD_TYPE_STRING
        )
        for number in range(64)
    ]
    for number in range(DOCUMENTS):
        settings = collection_pb2.CollectionSettings(field_descriptions=descriptions, chunking=LONG)
        name = f"c{number:02}"
        stubs.CreateCollection(collection_service_pb2.CreateCollectionRequest(collection=name, settings=settings))
        metadata = {f"key{key}": metadata_value_pb2.MetadataValue(string_value=FILLER) for key in range(15)}
        fields = document_pb2.DocumentFields(metadata=metadata)
        stubs.IngestDocument(
            pb.IngestDocumentRequest(
                collection="c00", source_uri=f"{number:02}.md", text=f"Tide {number}.", fields=fields
            )
        )
    for source in ("long-1", "long-2"):
        chunks = [
            pb.ReadyChunk(content=f"{source} {number} {CHUNK}", sequence_num=number) for number in range(CHUNKS // 2)
        ]
        header = pb.PutChunksHeader(collection="c01", source_uri=source)
        stubs.PutChunks(put_chunks_messages(header, chunks, 10))


def pages(call: Any, request: Any) -> list[Any]:
    """Read a listing to its end with the largest pages, and return these."""
    read: list[Any] = []
    request.page_size = 1000
    while not read or request.page_token:
        read.append(call(request))
        request.page_token = read[-1].next_page_token
    return read


LISTINGS = {
    "ListCollections": (collection_service_pb2.ListCollectionsRequest(), "collections", DOCUMENTS),
    "ListDocuments": (library_pb.ListDocumentsRequest(collection="c00"), "documents", DOCUMENTS),
    "ListChunks": (library_pb.ListChunksRequest(collection="c01"), "chunks", CHUNKS),
}


@pytest.mark.parametrize("name", LISTINGS)
def test_a_page_ends_at_three_mebibytes_and_nothing_is_lost(stubs: Stubs, name: str) -> None:
    request, field, count = LISTINGS[name]
    read = pages(getattr(stubs, name), request)
    entries = [entry for page in read for entry in getattr(page, field)]

    assert max(page.ByteSize() for page in read) <= PAGE_BYTES
    assert len(read) > 1, "the entries would fit into one page"
    # A page ends because the next entry would not fit.
    assert min(page.ByteSize() for page in read[:-1]) > PAGE_BYTES - 300_000, "a page ended too early"
    assert len({entry.SerializeToString() for entry in entries}) == len(entries) == count


def test_chunks_of_one_document_are_cut_to_pages_too(stubs: Stubs) -> None:
    (document, _) = stubs.ListDocuments(library_pb.ListDocumentsRequest(collection="c01")).documents
    request = library_pb.ListChunksRequest(
        collection="c01", reference=by_id(document.document_id), include_embedding=True
    )
    read = pages(stubs.ListChunks, request)
    numbers = [chunk.sequence_num for page in read for chunk in page.chunks]
    assert max(page.ByteSize() for page in read) <= PAGE_BYTES
    assert len(read) > 1
    assert numbers == list(range(CHUNKS // 2))


def asked_again(call: Any, request: Any, field: str) -> list[Any]:
    """Ask for the rest of a batch until there is none, and return the responses."""
    entries = list(getattr(request, field))
    answers: list[Any] = []
    while entries:
        rest = type(request)()
        rest.CopyFrom(request)
        rest.ClearField(field)
        getattr(rest, field).extend(entries)
        answers.append(call(rest))
        entries = entries[len(answers[-1].outcomes) :]
    return answers


@pytest.mark.parametrize("call", ["BatchGetChunks", "ReadSpans"])
def test_a_batch_has_as_many_outcomes_as_fit_and_the_rest_is_asked_for_again(stubs: Stubs, call: str) -> None:
    request = library_pb.ListChunksRequest(collection="c01")
    chunks = [chunk for page in pages(stubs.ListChunks, request) for chunk in page.chunks]
    if call == "BatchGetChunks":
        references = [ChunkReference(chunk_id=chunk.chunk_id) for chunk in chunks]
        batch = library_pb.BatchGetChunksRequest(collection="c01", references=references)
        answers = asked_again(stubs.BatchGetChunks, batch, "references")
        contents = [outcome.chunk.content for answer in answers for outcome in answer.outcomes]
    else:
        spans = [library_pb.SpanReference(reference=by_id(chunk.document_id), span=chunk.span) for chunk in chunks]
        read = library_pb.ReadSpansRequest(collection="c01", spans=spans)
        answers = asked_again(stubs.ReadSpans, read, "spans")
        contents = [outcome.found.text for answer in answers for outcome in answer.outcomes]
    assert contents == [chunk.content for chunk in chunks]
    assert len(contents) == CHUNKS
    sizes = [answer.ByteSize() for answer in answers]
    assert max(sizes) <= PAGE_BYTES
    assert min(sizes[:-1]) > PAGE_BYTES - 300_000, "a batch ended too early"


WIDE = "🌊" * 1000
"""4 kB in UTF-8."""
MANY = 120
"""More than the hundred that a response shows, which have half a megabyte."""


def ingest_many(stubs: Stubs, collection: str, make: Callable[[int], pb.IngestDocumentRequest]) -> None:
    for first in range(0, MANY, 60):
        requests = [make(number) for number in range(first, first + 60)]
        batch = pb.BatchIngestDocumentsRequest(collection=collection, requests=requests)
        assert all(outcome.HasField("result") for outcome in stubs.BatchIngestDocuments(batch).outcomes)


def test_figures_have_the_projects_with_most_documents_and_count_the_others(stubs: Stubs) -> None:
    def make(number: int) -> pb.IngestDocumentRequest:
        fields = document_pb2.DocumentFields(project=f"{min(number, 110)} {WIDE}")
        return pb.IngestDocumentRequest(source_uri=f"{number}.md", text=f"Tide {number}.", fields=fields)

    ingest_many(stubs, "c02", make)
    (stats,) = stubs.ListStats(library_pb.ListStatsRequest(collection="c02")).stats
    assert (stats.document_count, stats.project_count, len(stats.by_project)) == (MANY, 111, 100)
    assert max(count.count for count in stats.by_project) == 10
    assert stats.ByteSize() < 500_000
    read = pages(stubs.ListStats, library_pb.ListStatsRequest())
    assert [each.collection for page in read for each in page.stats][:DOCUMENTS] == sorted(
        f"c{number:02}" for number in range(DOCUMENTS)
    )


def test_figures_of_all_collections_come_in_pages(stubs: Stubs) -> None:
    request, names = library_pb.ListStatsRequest(page_size=7), list[str]()
    while not names or request.page_token:
        page = stubs.ListStats(request)
        assert 1 <= len(page.stats) <= 7
        names += [each.collection for each in page.stats]
        request.page_token = page.next_page_token
    listed = pages(stubs.ListCollections, collection_service_pb2.ListCollectionsRequest())
    assert names == [each.name for page in listed for each in page.collections]
    assert len(names) >= DOCUMENTS
    assert [each.collection for each in stubs.ListStats(library_pb.ListStatsRequest(collection="c01")).stats] == ["c01"]


def test_a_document_shows_its_first_aliases_and_counts_the_others(stubs: Stubs) -> None:
    def make(number: int) -> pb.IngestDocumentRequest:
        return pb.IngestDocumentRequest(
            source_uri=f"{number:04} {WIDE}",
            text="The same text under many names.",
            duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_REUSE,
        )

    ingest_many(stubs, "c03", make)
    (document,) = stubs.ListDocuments(library_pb.ListDocumentsRequest(collection="c03")).documents
    assert document.alias_count == MANY - 1
    assert [uri[:4] for uri in document.alias_uris] == [f"{number:04}" for number in range(1, 101)]
    last = stubs.GetDocument(library_pb.GetDocumentRequest(collection="c03", reference=by_source(f"0119 {WIDE}")))
    assert last.document == document
    assert document.ByteSize() < 500_000
    stubs.DeleteDocument(pb.DeleteDocumentRequest(collection="c03", reference=by_source(f"0119 {WIDE}")))
    (after,) = stubs.ListDocuments(library_pb.ListDocumentsRequest(collection="c03")).documents
    assert after.alias_count == MANY - 2
    assert after.etag != document.etag, "it changes with aliases that are not shown, too"


def test_ids_of_more_chunks_than_a_page_has_are_listed(stubs: Stubs) -> None:
    small = collection_pb2.ChunkingPolicy(
        unit=collection_pb2.CHUNK_UNIT_CHARS, target_size=64, maximum_size=64, minimum_size=1
    )
    settings = collection_pb2.CollectionSettings(chunking=small)
    stubs.CreateCollection(collection_service_pb2.CreateCollectionRequest(collection="small", settings=settings))
    for source, count in (("few.md", 1000), ("many.md", 1001)):
        chunks = [pb.ReadyChunk(content=f"Tide number {number} rises.", sequence_num=number) for number in range(count)]
        header = pb.PutChunksHeader(collection="small", source_uri=source)
        stubs.PutChunks(put_chunks_messages(header, chunks, 500))
    few = library_pb.GetDocumentRequest(collection="small", reference=by_source("few.md"), include_chunk_ids=True)
    assert len(set(stubs.GetDocument(few).chunk_ids)) == 1000
    many = library_pb.GetDocumentRequest(collection="small", reference=by_source("many.md"), include_chunk_ids=True)
    with pytest.raises(grpc.RpcError) as caught:
        stubs.GetDocument(many)
    assert "ListChunks" in str(from_rpc_error(caught.value))
    request = library_pb.ListChunksRequest(collection="small", reference=by_source("many.md"))
    assert len({chunk.chunk_id for page in pages(stubs.ListChunks, request) for chunk in page.chunks}) == 1001


def test_verifications_leave_out_the_stored_texts_that_do_not_fit(stubs: Stubs) -> None:
    listed = pages(stubs.ListChunks, library_pb.ListChunksRequest(collection="c01"))
    chunks = [chunk for page in listed for chunk in page.chunks]
    citations = [
        citation_pb2.Citation(
            collection="c01",
            document_id=chunk.document_id,
            generation=chunk.generation,
            span=chunk.span,
            quote="Something else.",
        )
        for chunk in chunks
    ]
    whole = Span(start=0, end=chunks[CHUNKS // 2 - 1].span.end)
    first = citation_pb2.Citation(collection="c01", document_id=chunks[0].document_id, generation=1, span=whole)
    answer = stubs.VerifyCitations(answer_service_pb2.VerifyCitationsRequest(citations=[first, *citations]))
    assert answer.ByteSize() < PAGE_BYTES + 100_000
    assert {each.failure for each in answer.verifications} == {citation_pb2.VERIFICATION_FAILURE_TEXT_DIFFERS}
    texts = [each.stored_text for each in answer.verifications]
    assert texts[0] == "", "the text of a whole document does not fit"
    shown = [(text, chunk.content) for text, chunk in zip(texts[1:], chunks, strict=True) if text]
    assert len(shown) == PAGE_BYTES // len(chunks[0].content.encode())
    assert all(text == content for text, content in shown)


def test_an_expansion_leaves_out_the_last_passages_that_do_not_fit_and_names_their_chunks(stubs: Stubs) -> None:
    listed = pages(stubs.ListChunks, library_pb.ListChunksRequest(collection="c01"))
    contents = {chunk.chunk_id: chunk.content for page in listed for chunk in page.chunks}
    wanted = list(contents)[:32:2]  # neighbours would be one passage
    found: dict[str, str] = {}
    answers = list[retrieve_pb.ExpandResponse]()
    while len(found) < len(wanted):
        references = [ChunkReference(chunk_id=chunk_id) for chunk_id in wanted if chunk_id not in found]
        mode = retrieve_pb.EXPAND_MODE_NEIGHBOURS
        request = retrieve_pb.ExpandRequest(collection="c01", chunks=references, mode=mode, radius=0)
        answers.append(stubs.Expand(request))
        found |= {each.requested_chunk_ids[0]: each.content for each in answers[-1].passages}
    assert [len(answer.omitted_chunk_ids) for answer in answers] == [len(wanted) - len(answers[0].passages), 0]
    assert list(answers[0].omitted_chunk_ids) == wanted[len(answers[0].passages) :]
    assert PAGE_BYTES - 300_000 < answers[0].ByteSize() <= PAGE_BYTES + 5000
    assert found == {chunk_id: contents[chunk_id] for chunk_id in wanted}


def test_a_search_leaves_out_passages_that_do_not_fit_before_any_result(stubs: Stubs) -> None:
    options = RetrievalOptions(top_k=10, collapse_duplicates=False)
    request = retrieve_pb.RetrieveRequest(collection="c01", query="page", options=options)
    plain = stubs.Retrieve(request)
    request.expansion.CopyFrom(
        retrieve_pb.ResultExpansion(mode=retrieve_pb.EXPAND_MODE_NEIGHBOURS, radius=0, result_count=10)
    )
    expanded = stubs.Retrieve(request)
    assert expanded.results == plain.results
    assert expanded.omitted_result_count == plain.omitted_result_count
    assert 0 < len(expanded.passages) < 10, (len(plain.results), plain.ByteSize())
    assert expanded.ByteSize() <= PAGE_BYTES + 5000


def test_a_document_and_a_chunk_with_all_that_they_may_have_are_told_whole(stubs: Stubs) -> None:
    def wide(count: int) -> list[str]:
        return [f"{number:02}" + "🌊" * 1022 for number in range(count)]

    metadata = {f"key{key}": metadata_value_pb2.MetadataValue(string_value=FILLER) for key in range(16)}
    fields = document_pb2.DocumentFields(
        title="🌊" * 1024,
        creators=wide(64),
        subjects=wide(64),
        description="🌊" * 8192,
        category="🌊" * 1024,
        tags=[f"d{tag[:-1]}" for tag in wide(64)],
        project="🌊" * 1024,
        metadata=metadata,
    )
    chunk = pb.ReadyChunk(
        content="🌊" * 65_536,
        sequence_num=0,
        chapter="🌊" * 1024,
        section="🌊" * 1024,
        section_heading="🌊" * 1024,
        hierarchy_path=["🌊" * 1024] * 64,
        page_numbers=range(1, 10_001),
        tags=wide(64),
        metadata={f"own-{key}": value for key, value in metadata.items()},
    )
    header = pb.PutChunksHeader(collection="c04", source_uri="🌊" * 1024, fields=fields)
    stubs.PutChunks(put_chunks_messages(header, [chunk], 1))
    (document,) = stubs.ListDocuments(library_pb.ListDocumentsRequest(collection="c04")).documents
    (listed,) = stubs.ListChunks(library_pb.ListChunksRequest(collection="c04", include_embedding=True)).chunks
    assert (len(listed.tags), len(listed.metadata), len(listed.page_numbers)) == (128, 32, 10_000)
    assert (len(document.fields.creators), len(document.fields.metadata)) == (64, 16)
    reference = ChunkReference(chunk_id=listed.chunk_id)
    got = stubs.GetChunk(library_pb.GetChunkRequest(collection="c04", reference=reference, include_embedding=True))
    assert (got.chunk, got.document) == (listed, document)
    whole = library_pb.GetDocumentRequest(
        collection="c04", reference=by_id(document.document_id), include_text=True, include_chunk_ids=True
    )
    assert stubs.GetDocument(whole).text == chunk.content
    found = stubs.Retrieve(
        retrieve_pb.RetrieveRequest(
            collection="c04", query="🌊", options=RetrievalOptions(view=HIT_VIEW_FULL, min_relevance=0.0)
        )
    )
    assert found.ByteSize() <= PAGE_BYTES
    assert (len(found.results), found.omitted_result_count) == (1, 0)


def test_more_metadata_than_fits_is_refused(stubs: Stubs) -> None:
    metadata = {f"key{key}": metadata_value_pb2.MetadataValue(string_value=FILLER) for key in range(17)}
    fields = document_pb2.DocumentFields(metadata=metadata)
    request = pb.IngestDocumentRequest(collection="c00", source_uri="much.md", text="Much.", fields=fields)
    with pytest.raises(grpc.RpcError) as caught:
        stubs.IngestDocument(request)
    error = from_rpc_error(caught.value)
    assert isinstance(error, InvalidRequestError)
    assert [violation.field for violation in error.violations] == ["fields.metadata"]


def search(query: str, **options: Any) -> retrieve_pb.RetrieveRequest:
    return retrieve_pb.RetrieveRequest(collection="c01", query=query, options=RetrievalOptions(top_k=100, **options))


def test_a_search_leaves_out_the_last_results_that_do_not_fit_and_counts_them(stubs: Stubs) -> None:
    found = stubs.Retrieve(search("tides"))
    assert PAGE_BYTES - 300_000 < found.ByteSize() <= PAGE_BYTES
    assert len(found.results) + found.omitted_result_count == CHUNKS
    assert [hit.rank for hit in found.results] == list(range(1, len(found.results) + 1))
    assert {document.document_id for document in found.documents} == {hit.chunk.document_id for hit in found.results}
    again = stubs.Retrieve(search("tides"))  # from what the server remembers
    assert len(again.results) == len(found.results)

    every = stubs.Retrieve(search("tides", view=HIT_VIEW_IDS))
    assert (len(every.results), every.omitted_result_count) == (CHUNKS, 0)
    assert [hit.chunk.chunk_id for hit in every.results][: len(found.results)] == [
        hit.chunk.chunk_id for hit in found.results
    ]


def test_the_searches_of_a_batch_share_its_size(stubs: Stubs) -> None:
    searches = [search("tides"), search("moon"), search("sea")]
    batch = stubs.BatchRetrieve(retrieve_pb.BatchRetrieveRequest(requests=searches))
    assert batch.ByteSize() <= PAGE_BYTES + 1000
    for outcome in batch.outcomes:
        assert 5 < len(outcome.response.results) < 10
        assert len(outcome.response.results) + outcome.response.omitted_result_count == CHUNKS
    whole = stubs.Retrieve(search("moon"))
    assert len(whole.results) > 10, "what a batch left out is not remembered as left out"


def test_a_batch_of_documents_leaves_out_what_is_said_about_the_last_ones(stubs: Stubs) -> None:
    items = [pb.IngestDocumentRequest(source_uri=f"{each:02}.md", text=f"Tide {each}.") for each in range(DOCUMENTS)]
    batch = stubs.BatchIngestDocuments(pb.BatchIngestDocumentsRequest(collection="c00", requests=items))
    results = [outcome.result for outcome in batch.outcomes]
    assert [result.document.source_uri for result in results] == [item.source_uri for item in items]
    assert PAGE_BYTES - 300_000 < batch.ByteSize() <= PAGE_BYTES + 100_000
    whole = [result.document.HasField("fields") for result in results]
    assert whole == sorted(whole, reverse=True)
    assert 5 < sum(whole) < DOCUMENTS
