"""ListDocuments and ListChunks: prefixes, filters, pages."""

import random
from typing import Any

import pytest

from groundwire.api.common.v1 import chunk_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.kernel.errors import (
    DocumentNotFoundError,
    InvalidFilterError,
    InvalidPageTokenError,
    InvalidRequestError,
)
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.documents.store import Store, number, story, text
from tests.stubs import by_id


def _filter(document: dict[str, Any]) -> Any:
    return to_filter_message(parse_filter(document))


@pytest.fixture
def filled(store: Store) -> Store:
    for index in range(7):
        folder, project = ("a", "b")[index % 2], ("apollo", "gemini", "apollo")[index % 3]
        metadata = {"n": number(index), "team": text("red" if index < 4 else "blue")}
        store.ingest(f"{folder}/{index}.md", story(random.Random(index)), project=project, metadata=metadata)
    return store


def _sources(store: Store, **query: Any) -> list[str]:
    return [document.source_uri for document in store.documents(**query)]


def test_documents_are_listed_by_source_prefix(filled: Store) -> None:
    assert _sources(filled, source_prefix="a/") == ["a/0.md", "a/2.md", "a/4.md", "a/6.md"]
    assert _sources(filled, source_prefix="b/3") == ["b/3.md"]
    assert _sources(filled, source_prefix="c") == []


def test_documents_are_listed_by_filter(filled: Store) -> None:
    assert _sources(filled, filter=_filter({"project": "gemini"})) == ["a/4.md", "b/1.md"]
    assert _sources(filled, filter=_filter({"n": {"$gte": 5}})) == ["a/6.md", "b/5.md"]
    where = _filter({"team": "red", "section": "Part 1"})
    assert _sources(filled, filter=where, source_prefix="a/") == ["a/0.md", "a/2.md"]


def test_documents_that_were_deleted_softly_are_filtered_too(filled: Store) -> None:
    gone = filled.documents(source_prefix="a/0")[0].document_id
    filled.delete(gone, purge=False)
    where = _filter({"n": {"$lt": 2}})
    assert _sources(filled, filter=where) == ["b/1.md"]
    assert _sources(filled, filter=where, include_deleted=True) == ["a/0.md", "b/1.md"]


def test_a_chunk_of_its_own_kind_makes_its_document_match(filled: Store) -> None:
    chunk = filled.chunks(filled.documents()[2].document_id)[1]
    filled.update_chunk(chunk.chunk_id, set_metadata={"reviewed": text("yes")})
    assert _sources(filled, filter=_filter({"reviewed": "yes"})) == [filled.documents()[2].source_uri]
    assert [each.chunk_id for each in filled.chunks(filter=_filter({"reviewed": "yes"}))] == [chunk.chunk_id]


def test_unknown_fields_of_a_listing_are_refused(filled: Store) -> None:
    for call in (filled.documents, filled.chunks):
        with pytest.raises(InvalidFilterError) as refused:
            call(filter=_filter({"unknown": 1}))
        assert refused.value.violations[0].field == "filter.condition.field"


@pytest.mark.parametrize("query", [{}, {"filter": _filter({"team": "red"})}, {"source_prefix": "a/"}])
def test_pages_of_documents_join_to_the_whole(filled: Store, query: dict[str, Any]) -> None:
    whole, token, found = _sources(filled, **query), "", []
    while True:
        request = pb.ListDocumentsRequest(collection="docs", page_size=2, page_token=token, **query)
        page = filled.harness.library.list_documents(request)
        found += [document.source_uri for document in page.documents]
        token = page.next_page_token
        if not token:
            break
    assert found == whole


def test_a_page_token_belongs_to_its_filter(filled: Store) -> None:
    first = pb.ListDocumentsRequest(collection="docs", page_size=1, filter=_filter({"team": "red"}))
    token = filled.harness.library.list_documents(first).next_page_token
    for other in ({"filter": _filter({"team": "blue"})}, {}, {"filter": first.filter, "include_deleted": True}):
        with pytest.raises(InvalidPageTokenError):
            filled.documents(page_token=token, **other)


@pytest.mark.requirement("S1-51")
def test_chunks_by_document_and_by_prefix_of_their_ids_agree(filled: Store) -> None:
    document = filled.documents()[1]
    by_document = [chunk.chunk_id for chunk in filled.chunks(document.document_id)]
    assert by_document == [f"{document.document_id}#chunk_{index:03d}" for index in range(document.chunk_count)]
    prefix = f"{document.document_id}#"
    assert [chunk.chunk_id for chunk in filled.chunks(chunk_id_prefix=prefix)] == by_document
    assert [chunk.chunk_id for chunk in filled.chunks(document.document_id, chunk_id_prefix=prefix)] == by_document
    assert {chunk_id.partition("#")[0] for chunk_id in by_document} == {document.document_id}
    assert filled.chunks(chunk_id_prefix="doc_") == filled.chunks()
    assert filled.chunks(chunk_id_prefix="doc%") == filled.chunks(chunk_id_prefix="d_c") == []
    assert filled.chunks(chunk_id_prefix="d" * 256) == []
    with pytest.raises(InvalidRequestError, match="chunk_id_prefix: must be at most 256 characters"):
        filled.chunks(chunk_id_prefix="d" * 100_000)


def test_chunks_of_a_document_are_filtered_in_the_order_of_the_text(filled: Store) -> None:
    document = filled.documents()[0]
    found = filled.chunks(document.document_id, filter=_filter({"section": {"$in": ["Part 2", "Part 0"]}}))
    assert found
    assert [chunk.sequence_num for chunk in found] == sorted(chunk.sequence_num for chunk in found)
    assert {chunk.section for chunk in found} == {"Part 0", "Part 2"}
    with pytest.raises(DocumentNotFoundError):
        filled.chunks("unknown", filter=_filter({"section": "Part 0"}))


def test_pages_of_chunks_join_to_the_whole(filled: Store) -> None:
    where = _filter({"n": {"$gte": 2}})
    whole, token = filled.chunks(filter=where), ""
    found: list[chunk_pb2.Chunk] = []
    while True:
        request = pb.ListChunksRequest(collection="docs", page_size=3, page_token=token, filter=where)
        page = filled.harness.library.list_chunks(request)
        found += page.chunks
        token = page.next_page_token
        if not token:
            break
    assert found == whole
    assert len(whole) == sum(document.chunk_count for document in filled.documents(filter=where))


@pytest.mark.parametrize("before", range(1, 7))
@pytest.mark.parametrize("query", ["filter", "document", "prefix"])
def test_a_page_of_chunks_is_of_one_moment(store: Store, before: int, query: str) -> None:
    """Before any one of its reads the document is replaced: the page has all of one version, and says what follows."""
    old = [f"# A\n\n## One\n\n{'Old words. ' * 60}\n\n## Two\n\n{'More old words. ' * 60}\n"]
    document_id = store.harness.ingest("docs", "a.md", old[0]).document.document_id
    catalog, reads = store.harness.catalog, 0
    read = catalog.read

    def counted() -> Any:
        nonlocal reads
        reads += 1
        if reads == before:
            store.harness.ingest("docs", "a.md", old[0].replace("ld words", "ther text"))
        return read()

    catalog.read = counted  # type: ignore[method-assign]  # a fault that is planted
    try:
        queries: dict[str, dict[str, Any]] = {
            "filter": {"filter": to_filter_message(parse_filter({"source": {"$like": "a%"}}))},
            "document": {"document": by_id(document_id)},
            "prefix": {"document": by_id(document_id), "chunk_id_prefix": document_id[:4]},
        }
        found = store.chunks(include_embedding=True, **queries[query])
    finally:
        catalog.read = read  # type: ignore[method-assign]  # as before
    contents = "".join(chunk.content for chunk in found)
    assert ("ld words" in contents) != ("ther text" in contents)
    assert all(list(chunk.embedding) for chunk in found)
