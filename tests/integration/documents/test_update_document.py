"""UpdateDocument: fields change everywhere at once, and nothing is embedded again."""

import random
import threading
import time
import uuid
from typing import Any

import pytest

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import (
    DocumentChangedError,
    DocumentNotFoundError,
    InvalidRequestError,
    RequestIdReusedError,
)
from groundwire.kernel.vector_store import PointBatch
from tests.integration.documents.store import Store, number, story, text
from tests.stubs import by_id


@pytest.fixture
def document(store: Store) -> document_pb2.Document:
    return store.ingest(
        "a.md",
        story(random.Random(1)),
        title="Old",
        creators=["Ada", "Bob"],
        tags=["x"],
        project="apollo",
        metadata={"department": text("law"), "grade": number(2)},
    )


@pytest.mark.requirement("S1-117")
@pytest.mark.requirement("S1-35")
def test_fields_change_on_document_chunks_and_hits_without_embedding(engine_store: Store) -> None:
    before = engine_store.ingest("a.md", story(random.Random(1)), project="apollo", tags=["x"])
    chunks = engine_store.chunks(before.document_id)
    engine_store.harness.embedder.texts.clear()
    after = engine_store.update(before.document_id, project="gemini", tags=["y"], set_metadata={"state": text("done")})
    assert (after.fields.project, list(after.fields.tags)) == ("gemini", ["y"])
    assert engine_store.harness.embedder.texts == []
    hits = engine_store.search("tide", {"project": "gemini", "tags": {"$contains": "y"}, "state": "done"})
    assert {hit.chunk.chunk_id for hit in hits} == {chunk.chunk_id for chunk in chunks}
    assert {(hit.chunk.metadata["state"].string_value, *hit.chunk.tags) for hit in hits} == {("done", "y")}
    assert engine_store.search("tide", {"project": "apollo"}) == []
    for chunk in chunks:
        changed = engine_store.chunk(chunk.chunk_id)
        assert list(changed.tags) == ["y"]
        assert changed.embed_time == chunk.embed_time


@pytest.mark.requirement("S1-69")
def test_an_update_moves_the_change_but_not_the_day_of_ingestion(store: Store, document: document_pb2.Document) -> None:
    assert document.update_time == document.ingest_time
    assert abs(document.ingest_time.ToSeconds() - time.time()) < 60
    time.sleep(0.01)
    after = store.update(document.document_id, title="New")
    assert after.update_time.ToNanoseconds() > document.update_time.ToNanoseconds()
    assert after.ingest_time == document.ingest_time
    assert after.generation == document.generation
    assert store.get(document.document_id) == after
    time.sleep(0.01)
    again = store.ingest("a.md", story(random.Random(2)))
    assert again.update_time.ToNanoseconds() > after.update_time.ToNanoseconds()
    assert (again.ingest_time, again.generation) == (document.ingest_time, 2)


def test_what_changes_nothing_leaves_everything_as_it_was(store: Store, document: document_pb2.Document) -> None:
    assert store.update(document.document_id, "fields.title", title="Old") == document


@pytest.mark.requirement("S1-36")
def test_without_a_mask_keys_that_are_not_named_stay(store: Store, document: document_pb2.Document) -> None:
    after = store.update(document.document_id, set_metadata={"grade": number(3)})
    assert dict(after.fields.metadata) == {"department": text("law"), "grade": number(3)}
    assert (after.fields.title, list(after.fields.creators)) == ("Old", ["Ada", "Bob"])


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({"set_metadata": {"grade": number(9)}}, {"department": text("law"), "grade": number(9)}),
        ({"remove_metadata": ["grade", "unknown"]}, {"department": text("law")}),
        ({"remove_metadata": ["*"], "set_metadata": {"only": text("this")}}, {"only": text("this")}),
        ({"remove_metadata": ["*"]}, {}),
        (
            {"set_metadata": {"a.b": number(1)}, "remove_metadata": ["grade"]},
            {"department": text("law"), "a.b": number(1)},
        ),
        ({"title": "N"}, {"department": text("law"), "grade": number(2)}),
    ],
)
def test_keys_are_set_and_removed_by_name(
    store: Store, document: document_pb2.Document, changes: dict[str, Any], expected: dict[str, Any]
) -> None:
    assert dict(store.update(document.document_id, **changes).fields.metadata) == expected


def test_with_a_mask_a_document_can_be_sent_back_whole(store: Store, document: document_pb2.Document) -> None:
    whole = document_pb2.Document()
    whole.CopyFrom(document)
    whole.fields.title, whole.fields.project, whole.generation = "Sent back", "ignored", 7
    request = pb.UpdateDocumentRequest(collection="docs", reference=by_id(document.document_id), document=whole)
    request.update_mask.paths.append("fields.title")
    after = store.changes.update_document(request).document
    assert (after.fields.title, after.fields.project) == ("Sent back", document.fields.project)
    assert dict(after.fields.metadata) == dict(document.fields.metadata)
    assert after.generation == document.generation


def test_a_mask_clears_what_the_fields_leave_out(store: Store, document: document_pb2.Document) -> None:
    after = store.update(
        document.document_id, "fields.title", "fields.tags", "fields.creators", "fields.project"
    ).fields
    assert (after.title, list(after.tags), list(after.creators), after.project) == ("", [], [], "")
    assert after.language == "en"
    assert not store.search("tide", {"tags": {"$contains": "x"}})


@pytest.mark.parametrize("path", ["*", "fields"])
def test_a_star_replaces_everything_but_metadata(store: Store, document: document_pb2.Document, path: str) -> None:
    after = store.update(document.document_id, path, title="Only this")
    kept = document.fields.metadata
    assert after.fields == document_pb2.DocumentFields(title="Only this", language="en", metadata=kept)


@pytest.mark.parametrize(
    "path",
    ["fields.titel", "fields.metadata", "fields.metadata.grade", "title", "", "source_uri", "document.fields.title"],
)
def test_an_unknown_path_is_refused_by_name(store: Store, document: document_pb2.Document, path: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        store.update(document.document_id, "fields.title", path, title="New")
    assert [violation.field for violation in refused.value.violations] == ["update_mask.paths[1]"]
    assert store.get(document.document_id) == document


@pytest.mark.requirement("S1-02")
@pytest.mark.parametrize(
    ("field", "fields"),
    [
        ("document.fields.language", {"language": "english"}),
        ("document.fields.language", {"language": "zz"}),
        ("document.fields.tags[0]", {"tags": ["a,b"]}),
        ("document.fields.tags[1]", {"tags": ["a", " "]}),
        ("document.fields.title", {"title": "x" * 1025}),
        ("document.fields.title", {"title": "a\x00b"}),
        ("set_metadata['url']", {"set_metadata": {"url": text("x")}}),
        ("set_metadata['timestamp']", {"set_metadata": {"timestamp": text("x")}}),
        ("document.fields.metadata", {"metadata": {"grade": number(9)}}),
        ("remove_metadata[0]", {"set_metadata": {"grade": number(9)}, "remove_metadata": ["grade"]}),
        ("document.fields.creators", {"creators": ["c"] * 65}),
    ],
)
def test_a_bad_value_changes_nothing_and_is_named(
    store: Store, document: document_pb2.Document, field: str, fields: dict[str, Any]
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        store.update(document.document_id, project="other", **fields)
    assert field in [violation.field for violation in refused.value.violations]
    assert store.get(document.document_id) == document
    assert store.search("tide", {"project": "apollo"})


def test_more_keys_than_a_document_may_have_are_refused_also_in_two_updates(
    store: Store, document: document_pb2.Document
) -> None:
    store.update(document.document_id, set_metadata={f"k{index}": number(index) for index in range(62)})
    with pytest.raises(InvalidRequestError) as refused:
        store.update(document.document_id, set_metadata={"one_more": number(1)})
    assert refused.value.violations[0].field == "set_metadata"


def test_something_must_be_given(store: Store, document: document_pb2.Document) -> None:
    with pytest.raises(InvalidRequestError, match="nothing to change"):
        store.changes.update_document(
            pb.UpdateDocumentRequest(collection="docs", reference=by_id(document.document_id))
        )


@pytest.mark.parametrize("change", ["fields", "content", "alias", "deletion"])
def test_an_update_of_what_someone_else_changed_is_refused(
    store: Store, document: document_pb2.Document, change: str
) -> None:
    assert store.get(document.document_id).etag == document.etag
    assert store.update(document.document_id, title="New", etag=document.etag).fields.title == "New"
    read = store.get(document.document_id)
    if change == "fields":
        store.update(document.document_id, project="another")
    elif change == "content":
        store.ingest("a.md", story(random.Random(2)))
    elif change == "alias":
        store.harness.service.upkeep.catalog.documents.add_alias("default", "docs", document.document_id, "b.md")
    else:
        store.delete(document.document_id, purge=False)
        store.restore(document.document_id)
        store.update(document.document_id, description="restored")
    before = store.get(document.document_id)
    with pytest.raises(DocumentChangedError) as refused:
        store.update(document.document_id, title="Newer", etag=read.etag)
    assert refused.value.metadata["document_id"] == document.document_id
    assert store.get(document.document_id) == before
    assert store.update(document.document_id, title="Newer", etag=before.etag).fields.title == "Newer"


def test_an_unknown_document_cannot_be_updated(store: Store) -> None:
    with pytest.raises(DocumentNotFoundError):
        store.update("doc_unknown", title="New")


def test_a_repeated_request_has_one_effect_and_one_answer(store: Store, document: document_pb2.Document) -> None:
    request_id = str(uuid.uuid4())
    first = store.update(document.document_id, title="New", request_id=request_id)
    store.update(document.document_id, title="Newer")
    assert store.update(document.document_id, title="New", request_id=request_id) == first
    assert store.get(document.document_id).fields.title == "Newer"
    with pytest.raises(RequestIdReusedError):
        store.update(document.document_id, title="Other", request_id=request_id)


def test_a_title_that_stands_in_for_a_chapter_follows_the_title(store: Store) -> None:
    plain = store.ingest("notes.txt", "A comet and a lantern. " * 20, title="Zeppelin")
    assert {chunk.chapter for chunk in store.chunks(plain.document_id)} == {"Zeppelin"}
    assert store.search("zeppelin", mode=3)
    store.update(plain.document_id, title="Balloon")
    assert {(chunk.chapter, chunk.section_heading) for chunk in store.chunks(plain.document_id)} == {
        ("Balloon", "Balloon")
    }
    assert store.search("balloon", mode=3)
    assert not store.search("zeppelin", mode=3)
    assert store.search("comet", {"chapter": "Balloon"})
    store.update(plain.document_id, "fields.title")
    assert {chunk.chapter for chunk in store.chunks(plain.document_id)} == {"notes.txt"}


def test_the_title_of_a_document_with_headings_leaves_its_chapters_alone(
    store: Store, document: document_pb2.Document
) -> None:
    before = [(chunk.chapter, chunk.section_heading) for chunk in store.chunks(document.document_id)]
    store.update(document.document_id, title="Something else")
    assert [(chunk.chapter, chunk.section_heading) for chunk in store.chunks(document.document_id)] == before


@pytest.mark.requirement("S1-37")
def test_a_search_sees_an_update_whole_or_not_at_all(engine_store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    """Hold the engine between two points of an update, and search meanwhile."""
    document = engine_store.ingest("a.md", story(random.Random(1), sections=8), project="apollo")
    count = len(engine_store.chunks(document.document_id))
    assert count > 4
    halfway, go_on = threading.Event(), threading.Event()
    upsert = type(engine_store.vectors).upsert

    def slowly(self: Any, collection: str, points: PointBatch, budget: Budget) -> None:
        half = len(points.numbers) // 2
        for part in (slice(0, half), slice(half, None)):
            batch = PointBatch(points.numbers[part], points.vectors[part], points.payloads[part])
            upsert(self, collection, batch, budget)
            halfway.set()
            assert go_on.wait(20)

    monkeypatch.setattr(type(engine_store.vectors), "upsert", slowly)
    update = threading.Thread(target=engine_store.update, args=(document.document_id,), kwargs={"project": "gemini"})
    update.start()
    assert halfway.wait(20)
    try:
        assert len(engine_store.search("tide", {"project": "gemini"})) == count
        assert engine_store.search("tide", {"project": "apollo"}) == []
        assert len(engine_store.search("tide", {"project": {"$ne": "apollo"}})) == count
    finally:
        go_on.set()
        update.join()
    monkeypatch.undo()
    assert len(engine_store.search("tide", {"project": "gemini"})) == count


def test_an_update_waits_for_an_ingest_of_its_source_which_keeps_the_fields_it_read(
    store: Store, document: document_pb2.Document
) -> None:
    embedding, go_on = threading.Event(), threading.Event()

    def slowly() -> None:
        embedding.set()
        assert go_on.wait(20)

    store.harness.embedder.before_embedding = slowly
    ingest = threading.Thread(target=store.ingest, args=("a.md", story(random.Random(2))))
    ingest.start()
    assert embedding.wait(20)
    update = threading.Thread(target=store.update, args=(document.document_id,), kwargs={"title": "New"})
    update.start()
    update.join(0.3)
    assert update.is_alive()
    go_on.set()
    ingest.join()
    update.join()
    stored = store.get(document.document_id)
    assert (stored.fields.title, stored.generation) == ("New", document.generation + 1)


def test_an_update_changes_no_other_document_and_no_older_generation(store: Store) -> None:
    """Live, softly deleted and superseded rows beside it stay as they are."""
    other = store.ingest("b.md", story(random.Random(2)), project="apollo", tags=["x"])
    document = store.ingest("a.md", story(random.Random(1)), project="apollo", tags=["x"])
    document = store.ingest("a.md", story(random.Random(3)), project="apollo", tags=["x"])
    time.sleep(0.01)
    store.update(document.document_id, project="gemini", tags=["y"])
    assert store.get(other.document_id) == other
    statement = "SELECT source_path, generation, json_extract(fields, '$.project') FROM generations ORDER BY 1, 2"
    with store.harness.catalog.read() as connection:
        found = [tuple(row) for row in connection.exec_driver_sql(statement)]
        tags = connection.exec_driver_sql("SELECT tag FROM document_tags ORDER BY 1").scalars().all()
    assert found == [("a.md", 1, "apollo"), ("a.md", 2, "gemini"), ("b.md", 1, "apollo")]
    assert tags == ["x", "y"]
