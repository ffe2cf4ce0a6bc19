"""Stored vectors: exact, kept while a chunk needs them, and enough to rebuild an index."""

from dataclasses import replace
from datetime import timedelta

import numpy as np
import pytest

from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.vectors import NewVectors
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import DataLossError, DocumentChangedError
from tests.integration.catalog.drafts import DIMENSIONS, TENANT, Catalog, make_collection, make_draft, vector_key


def test_vectors_come_back_bit_by_bit(catalog: Catalog) -> None:
    given = np.array([[1.0, -0.0, 1e-42, np.float32(0.1)], [2.0, 3.0, 4.0, 5.0]], dtype=np.float32)
    catalog.vectors.put("m", ["a", "b"], given)
    found = catalog.vectors.get("m", ["b", "a", "unknown"])
    assert set(found) == {"a", "b"}
    assert found["a"].tobytes() == given[0].tobytes()
    assert (found["b"].dtype, found["b"].shape) == (np.dtype(np.float32), (4,))
    assert catalog.vectors.get("other model", ["a"]) == {}
    assert catalog.vectors.get("m", []) == {}


def test_the_first_vector_of_a_content_stays(catalog: Catalog) -> None:
    catalog.vectors.put("m", ["a"], np.ones((1, 4), dtype=np.float32))
    catalog.vectors.put("m", ["a", "b"], np.zeros((2, 4), dtype=np.float32))
    assert catalog.vectors.get("m", ["a"])["a"].tolist() == [1, 1, 1, 1]


def test_rows_and_hashes_must_be_as_many(catalog: Catalog) -> None:
    with pytest.raises(ValueError, match="zip"):
        catalog.vectors.put("m", ["a", "b"], np.ones((1, 4), dtype=np.float32))


def test_many_vectors_are_stored_in_one_call(catalog: Catalog) -> None:
    given = np.random.default_rng(1).standard_normal((1000, 4)).astype(np.float32)
    catalog.vectors.put("m", [str(i) for i in range(1000)], given)
    found = catalog.vectors.get("m", [str(i) for i in range(1000)])
    assert np.array_equal(np.stack([found[str(i)] for i in range(1000)]), given)


@pytest.mark.parametrize("batch", [1, 2, 3, 100])
def test_points_are_those_of_live_chunks(catalog: Catalog, docs: Collection, batch: int) -> None:
    other = catalog.collections.create(make_collection("other"))
    document, _ = catalog.put(docs, make_draft("one", "two"))
    _, second = catalog.put(docs, make_draft("three", "four", "five", source="b"))
    catalog.put(other, make_draft("six"))
    _, renewed = catalog.put(docs, make_draft("one", "seven", document_id=document.document_id, expected=1))
    catalog.begin(docs, make_draft("pending", source="p"))
    batches = list(catalog.vectors.points(docs, batch))
    assert all(len(each.numbers) <= batch for each in batches)
    assert all(each.vectors.shape == (len(each.numbers), DIMENSIONS) for each in batches)
    payloads = dict(zip([*second.numbers, *renewed.numbers], [*second.payloads, *renewed.payloads], strict=True))
    found = {n: p for each in batches for n, p in zip(each.numbers, each.payloads, strict=True)}
    assert found == payloads
    assert sum(len(each.numbers) for each in batches) == len(found)
    stored = catalog.vectors.get(docs.identity.digest, [vector_key("seven", 1)])[vector_key("seven", 1)]
    rows = {n: row for each in batches for n, row in zip(each.numbers, each.vectors, strict=True)}
    assert np.array_equal(rows[renewed.numbers[1]], stored)


def test_a_chunk_without_vector_is_named_and_never_left_out_silently(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("one", "two"))
    catalog.vectors.put(docs.identity.digest, [vector_key("one")], np.ones((1, DIMENSIONS), dtype=np.float32))
    catalog.documents.publish(pending)
    assert [chunk.content for chunk in catalog.vectors.missing(docs, 10)] == ["two"]
    with pytest.raises(DataLossError):
        list(catalog.vectors.points(docs, 10))


def test_vectors_are_missing_where_searches_may_need_them(catalog: Catalog) -> None:
    made = make_collection()
    docs = catalog.collections.create(
        replace(made, settings=replace(made.settings, generation_retention=timedelta(days=1)))
    )
    other = catalog.collections.create(make_collection("other"))

    def publish(collection: Collection, draft: GenerationDraft) -> Document:
        return catalog.documents.publish(catalog.begin(collection, draft))

    first = publish(docs, make_draft("old"))
    publish(docs, make_draft("new", document_id=first.document_id, expected=1))
    second = publish(docs, make_draft("two", source="b"))
    publish(other, make_draft("elsewhere", source="c"))

    def missing(collection: Collection, *document_ids: str) -> set[str]:
        return {chunk.content for chunk in catalog.vectors.missing(collection, 10, document_ids or None)}

    assert missing(docs) == {"old", "new", "two"}
    assert missing(docs, second.document_id) == {"two"}
    assert len(catalog.vectors.missing(docs, 1)) == 1
    # Nobody reads the past across a change of models.
    assert missing(replace(docs, identity=replace(docs.identity, model_name="another"))) == {"new", "two"}
    assert catalog.vectors.count_missing(docs) == 3


def test_vectors_are_stored_with_the_chunks_that_need_them_or_not_at_all(catalog: Catalog, docs: Collection) -> None:
    first, second = (catalog.begin(docs, make_draft(word, source=word)) for word in ("one", "two"))
    digest, given = docs.identity.digest, np.full((1, DIMENSIONS), 0.5, dtype=np.float32)
    catalog.documents.publish(first, vectors=NewVectors(digest, [vector_key("one")], given))
    catalog.documents.abandon(second)
    with pytest.raises(DocumentChangedError):
        catalog.documents.publish(second, vectors=NewVectors(digest, [vector_key("two")], given))
    found = catalog.vectors.get(digest, [vector_key("one"), vector_key("two")])
    assert list(found) == [vector_key("one")]
    assert np.array_equal(found[vector_key("one")], given[0])
    (batch,) = catalog.vectors.points(docs, 10)
    assert list(batch.numbers) == list(first.numbers)


def test_vectors_that_no_chunk_needs_are_swept_after_an_hour(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("kept", "old"))
    catalog.put(docs, make_draft("kept", document_id=document.document_id, expected=1))
    catalog.begin(docs, make_draft("pending", source="p"))
    digest, one = docs.identity.digest, np.ones((1, DIMENSIONS), dtype=np.float32)
    catalog.vectors.put(digest, [vector_key("pending")], one)
    assert catalog.vectors.sweep() == 0
    catalog.clock.jump(minutes=61)
    assert catalog.vectors.sweep() == 0
    catalog.clock.jump(days=-1)
    catalog.clock.advance(minutes=61)
    catalog.vectors.put(digest, [vector_key("new")], one)
    assert catalog.vectors.sweep() == 1
    hashes = [vector_key("old", 1), *map(vector_key, ("kept", "pending", "new"))]
    assert set(catalog.vectors.get(digest, hashes)) == set(hashes[1:])


def test_points_of_a_deleted_collection_are_none(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("one"))
    catalog.collections.delete(TENANT, "docs")
    again = catalog.collections.create(make_collection(uid="again"))
    catalog.put(again, make_draft("two"))
    assert list(catalog.vectors.points(docs, 10)) == []
    assert [len(each.numbers) for each in catalog.vectors.points(again, 10)] == [1]
    assert list(catalog.vectors.points(replace(docs, uid="never"), 10)) == []
    assert catalog.vectors.get(docs.identity.digest, [vector_key("one")]) == {}
