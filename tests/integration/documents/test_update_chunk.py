"""UpdateChunk: tags and metadata of single chunks, over those of their document."""

import random
import uuid
from typing import Any

import pytest

from groundwire.api.common.v1 import chunk_pb2, document_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    CollectionNotFoundError,
    DocumentChangedError,
    InvalidRequestError,
)
from tests.integration.documents.store import Store, number, story, text


@pytest.fixture
def document(store: Store) -> document_pb2.Document:
    return store.ingest("a.md", story(random.Random(1)), tags=["x"], metadata={"state": text("new"), "n": number(1)})


@pytest.fixture
def chunk(store: Store, document: document_pb2.Document) -> chunk_pb2.Chunk:
    return store.chunks(document.document_id)[1]


@pytest.mark.requirement("S1-35")
@pytest.mark.requirement("S1-37")
def test_a_review_is_found_by_the_next_search_and_nothing_is_embedded(engine_store: Store) -> None:
    document = engine_store.ingest("a.md", story(random.Random(1)), metadata={"state": text("new")})
    chunk = engine_store.chunks(document.document_id, include_embedding=True)[1]
    engine_store.harness.embedder.texts.clear()
    review = {"reviewed_by": text("Ada"), "review_date": text("2026-03-01"), "state": text("approved")}
    changed = engine_store.update_chunk(chunk.chunk_id, tags=["checked"], set_metadata=review)
    assert (changed.embed_time, list(changed.tags)) == (chunk.embed_time, ["checked"])
    assert engine_store.harness.embedder.texts == []
    [hit] = engine_store.search("tide", {"reviewed_by": "Ada", "state": "approved", "tags": {"$contains": "checked"}})
    assert hit.chunk.chunk_id == chunk.chunk_id
    assert dict(hit.chunk.metadata) == dict(changed.metadata) == review
    stored = engine_store.chunk(chunk.chunk_id, include_embedding=True)
    assert (dict(stored.metadata), list(stored.tags)) == (review, ["checked"])
    assert stored.embedding == chunk.embedding
    others = engine_store.search("tide", {"state": "new"})
    assert len(others) == len(engine_store.chunks(document.document_id)) - 1


@pytest.mark.requirement("S1-36")
def test_keys_that_are_not_named_stay(store: Store, chunk: chunk_pb2.Chunk) -> None:
    store.update_chunk(chunk.chunk_id, set_metadata={"a": number(1), "b": number(2)})
    changed = store.update_chunk(chunk.chunk_id, set_metadata={"b": number(3)})
    assert dict(changed.metadata) == {"state": text("new"), "n": number(1), "a": number(1), "b": number(3)}


def test_in_a_collection_that_is_missing_no_chunk_is_changed(store: Store, chunk: chunk_pb2.Chunk) -> None:
    request = pb.UpdateChunkRequest(
        collection="nowhere", chunk=chunk_pb2.Chunk(chunk_id=chunk.chunk_id), set_metadata={"a": number(1)}
    )
    with pytest.raises(CollectionNotFoundError):
        store.changes.update_chunk(request)
    assert store.chunk(chunk.chunk_id) == chunk


@pytest.mark.parametrize(
    ("paths", "changes", "tags", "own"),
    [
        (["tags"], {"tags": ["b"]}, ["x", "b"], {"a": number(1)}),
        ([], {"remove_metadata": ["a", "unknown"]}, ["x", "own"], {}),
        ([], {"remove_metadata": ["*"], "set_metadata": {"z": number(1)}}, ["x", "own"], {"z": number(1)}),
        (["*"], {}, ["x"], {"a": number(1)}),
    ],
)
def test_mask_and_keys_say_what_changes(
    store: Store,
    chunk: chunk_pb2.Chunk,
    paths: list[str],
    changes: dict[str, Any],
    tags: list[str],
    own: dict[str, Any],
) -> None:
    store.update_chunk(chunk.chunk_id, tags=["own"], set_metadata={"a": number(1)})
    changed = store.update_chunk(chunk.chunk_id, *paths, **changes)
    assert list(changed.tags) == tags
    assert dict(changed.metadata) == {"state": text("new"), "n": number(1), **own}


@pytest.mark.parametrize("change", ["tags", "metadata", "document"])
def test_a_chunk_that_someone_changed_since_is_not_changed(store: Store, chunk: chunk_pb2.Chunk, change: str) -> None:
    other = store.chunks(chunk.document_id)[0]
    assert chunk.etag not in {"", other.etag}
    if change == "tags":
        store.update_chunk(chunk.chunk_id, tags=["own"])
    elif change == "metadata":
        store.update_chunk(chunk.chunk_id, set_metadata={"a": number(1)})
    else:
        store.update(chunk.document_id, tags=["y"])
    before = store.chunk(chunk.chunk_id)
    with pytest.raises(DocumentChangedError) as refused:
        store.update_chunk(chunk.chunk_id, set_metadata={"b": number(2)}, etag=chunk.etag)
    assert refused.value.metadata["document_id"] == chunk.document_id
    assert store.chunk(chunk.chunk_id) == before
    after = store.update_chunk(chunk.chunk_id, set_metadata={"b": number(2)}, etag=before.etag)
    assert after.metadata["b"] == number(2)
    assert store.chunk(chunk.chunk_id).etag == after.etag != before.etag


def test_tags_of_the_document_that_are_sent_back_do_not_become_the_chunks_own(
    store: Store, chunk: chunk_pb2.Chunk
) -> None:
    assert list(store.update_chunk(chunk.chunk_id, tags=[*chunk.tags, "own"]).tags) == ["x", "own"]
    store.update(chunk.document_id, tags=["y"])
    assert list(store.chunk(chunk.chunk_id).tags) == ["y", "own"]


def test_a_key_of_the_chunk_lies_over_that_of_the_document(store: Store, chunk: chunk_pb2.Chunk) -> None:
    store.update_chunk(chunk.chunk_id, set_metadata={"state": text("mine")})
    store.update(chunk.document_id, set_metadata={"state": text("everyone's"), "more": number(1)})
    assert store.chunk(chunk.chunk_id).metadata["state"] == text("mine")
    assert store.chunk(chunk.chunk_id).metadata["more"] == number(1)
    assert [hit.chunk.chunk_id for hit in store.search("tide", {"state": "mine"})] == [chunk.chunk_id]
    store.update_chunk(chunk.chunk_id, remove_metadata=["state"])
    assert store.chunk(chunk.chunk_id).metadata["state"] == text("everyone's")


def test_what_a_chunk_has_of_its_own_goes_with_its_generation(store: Store, chunk: chunk_pb2.Chunk) -> None:
    store.update_chunk(chunk.chunk_id, tags=["own"], set_metadata={"a": number(1)})
    store.ingest("a.md", story(random.Random(1)) + "\n\nOne sentence more.\n")
    assert list(store.chunk(chunk.chunk_id).tags) == ["x"]
    assert store.search("tide", {"tags": {"$contains": "own"}}) == []


@pytest.mark.parametrize("path", ["content", "metadata.page", "tag", "metadata", "chunk.tags"])
def test_nothing_else_of_a_chunk_can_be_changed(store: Store, chunk: chunk_pb2.Chunk, path: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        store.update_chunk(chunk.chunk_id, path, tags=["own"])
    assert refused.value.violations[0].field == "update_mask.paths[0]"
    assert store.chunk(chunk.chunk_id) == chunk


@pytest.mark.parametrize(
    ("field", "changes"),
    [
        ("chunk.tags[0]", {"tags": [" "]}),
        ("set_metadata['doc_type']", {"set_metadata": {"doc_type": text("memo")}}),
        ("set_metadata['a b']", {"set_metadata": {"a b": text("memo")}}),
        ("remove_metadata[1]", {"set_metadata": {"a": text("memo")}, "remove_metadata": ["b", "a"]}),
        ("update_mask", {}),
    ],
)
def test_a_bad_value_is_named_and_changes_nothing(
    store: Store, chunk: chunk_pb2.Chunk, field: str, changes: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        store.update_chunk(chunk.chunk_id, **changes)
    assert refused.value.violations[0].field == field
    assert store.chunk(chunk.chunk_id) == chunk


def test_a_repeated_request_has_one_answer(store: Store, chunk: chunk_pb2.Chunk) -> None:
    request = pb.UpdateChunkRequest(
        collection="docs",
        chunk=chunk_pb2.Chunk(chunk_id=chunk.chunk_id, tags=["one"]),
        request_id=str(uuid.uuid4()),
    )
    first = store.changes.update_chunk(request).chunk
    store.update_chunk(chunk.chunk_id, tags=["two"])
    assert store.changes.update_chunk(request).chunk == first
    assert list(store.chunk(chunk.chunk_id).tags) == ["x", "two"]


def test_an_unknown_chunk_cannot_be_changed(store: Store, chunk: chunk_pb2.Chunk) -> None:
    for wanted in ("unknown", chunk.document_id):
        with pytest.raises(ChunkNotFoundError):
            store.update_chunk(wanted, tags=["own"])


def test_a_chunk_of_another_collection_cannot_be_changed(store: Store, chunk: chunk_pb2.Chunk) -> None:
    other = collections_pb.CreateCollectionRequest(collection="other", profile=collection_pb2.PROFILE_DOCUMENTS)
    store.changes.create_collection(other)
    changed = chunk_pb2.Chunk(chunk_id=chunk.chunk_id, tags=["own"])
    with pytest.raises(ChunkNotFoundError):
        store.changes.update_chunk(pb.UpdateChunkRequest(collection="other", chunk=changed))
    assert list(store.chunk(chunk.chunk_id).tags) == ["x"]
