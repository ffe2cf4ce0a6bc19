"""GetSchema, ValidateMetadata and ListStats, and how documents, chunks and points refer to one another."""

import json
import random
from datetime import UTC, datetime
from typing import Any

import pytest
from google.protobuf.timestamp_pb2 import Timestamp

from groundwire.api.common.v1 import document_format_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.common.v1.metadata_value_pb2 import DoubleList, Int64List, MetadataValue, StringList
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.api.retrieve.v1 import schema_pb2, stats_pb2
from groundwire.kernel.errors import CollectionNotFoundError, InvalidRequestError, NotFoundError
from groundwire.schemas import get_all_schemas
from tests.integration.documents.store import Store, number, story, text
from tests.stubs import by_id

KINDS = ["persona", "faq", "memory", "turn", "summary", "document", "chunk"]


def _schemas(store: Store, document_type: str = "") -> list[schema_pb2.SchemaEntry]:
    request = library_pb.GetSchemaRequest(document_type=document_type)
    return list(store.harness.library.get_schema(request).schemas)


def _validate(store: Store, document_type: str, /, **metadata: MetadataValue) -> dict[str, MetadataValue]:
    request = library_pb.ValidateMetadataRequest(document_type=document_type, metadata=metadata)
    return dict(store.harness.library.validate_metadata(request).metadata)


def _stats(store: Store, collection: str = "") -> list[stats_pb2.CollectionStats]:
    request = library_pb.ListStatsRequest(collection=collection)
    return list(store.harness.library.list_stats(request).stats)


def _message(value: Any) -> MetadataValue:
    if isinstance(value, list):
        if all(isinstance(each, str) for each in value):
            return MetadataValue(string_list=StringList(values=value))
        return MetadataValue(int64_list=Int64List(values=value))
    return text(value) if isinstance(value, str) else number(value)


@pytest.mark.requirement("S0-48")
def test_all_schemas_are_listed_in_order(store: Store) -> None:
    entries = _schemas(store)
    assert [entry.document_type for entry in entries] == KINDS
    for entry in entries:
        schema = json.loads(entry.schema_json)
        assert schema["type"] == "object"
        assert list(schema["properties"]) == list(entry.fields)
        assert schema == get_all_schemas()[entry.document_type]


@pytest.mark.requirement("C20")
@pytest.mark.requirement("S0-49")
@pytest.mark.requirement("S0-50")
@pytest.mark.requirement("T07")
def test_one_schema_is_returned_by_kind(store: Store) -> None:
    [memory] = _schemas(store, "memory")
    assert memory.document_type == "memory"
    assert list(memory.required_fields) == ["type", "timestamp", "importance"]
    assert list(memory.fields)[:4] == ["type", "timestamp", "source", "scope"]
    schema = json.loads(memory.schema_json)
    # JSON Schema tells the truth: a field with a default may be left out.
    assert schema["required"] == ["type", "timestamp"]
    importance = schema["properties"]["importance"]
    assert (importance["type"], importance["minimum"], importance["maximum"]) == ("integer", 1, 5)
    with pytest.raises(NotFoundError):
        _schemas(store, "dream")


@pytest.mark.requirement("S0-50")
@pytest.mark.requirement("T07")
@pytest.mark.parametrize("kind", KINDS)
def test_what_a_schema_requires_is_refused_when_missing_and_nothing_else_is(store: Store, kind: str) -> None:
    [entry] = _schemas(store, kind)
    example = json.loads(entry.example_json)
    required = json.loads(entry.schema_json)["required"]
    assert required
    assert set(required) <= set(entry.required_fields) <= set(entry.fields)
    assert set(required) <= set(example)
    for left_out in example:
        given = {key: _message(value) for key, value in example.items() if key not in {left_out, "custom"}}
        if left_out in required:
            with pytest.raises(InvalidRequestError) as refused:
                _validate(store, kind, **given)
            assert [each.field for each in refused.value.violations] == [f"metadata['{left_out}']"]
        else:
            assert set(given) <= set(_validate(store, kind, **given))


@pytest.mark.requirement("S1-105")
@pytest.mark.requirement("T48")
@pytest.mark.parametrize("kind", KINDS)
def test_the_example_of_a_schema_passes_its_own_validation(store: Store, kind: str) -> None:
    [entry] = _schemas(store, kind)
    example = json.loads(entry.example_json)
    own = {f"custom.{key}": value for key, value in example.pop("custom", {}).items()}
    given = {key: _message(value) for key, value in (example | own).items()}
    found = _validate(store, kind, **given)
    assert given
    assert {key: found[key] for key in given} == given


@pytest.mark.requirement("T03")
@pytest.mark.requirement("T20")
def test_the_keys_of_an_faq_keep_their_underscore(store: Store) -> None:
    needed = {"type": text("faq"), "timestamp": text("2025-12-16T06:00:00Z")}
    found = _validate(store, "faq", **needed, _specialist_name=text("web_search"), _version=text("2"))
    assert (found["_specialist_name"], found["_version"]) == (text("web_search"), text("2"))
    assert not {"specialist_name", "version"} & set(found)
    [entry] = _schemas(store, "faq")
    assert {"_specialist_name", "_version"} <= set(entry.fields)
    assert not {"specialist_name", "version"} & set(entry.fields)


@pytest.mark.requirement("S0-52")
def test_defaults_are_filled_in_and_times_become_canonical(store: Store) -> None:
    found = _validate(store, "memory", type=text("memory"), timestamp=text("2025-12-16T07:00:00+01:00"))
    assert found["timestamp"] == text("2025-12-16T06:00:00+00:00")
    assert (found["source"], found["scope"], found["importance"]) == (text("system"), text("global"), number(3))
    assert "tags" not in found
    moment = Timestamp()
    moment.FromDatetime(datetime(2025, 12, 16, 6, tzinfo=UTC))
    stamped = _validate(store, "faq", type=text("faq"), timestamp=MetadataValue(timestamp_value=moment))
    assert (stamped["timestamp"], stamped["_version"]) == (text("2025-12-16T06:00:00+00:00"), text("auto"))


@pytest.mark.requirement("S0-27")
@pytest.mark.requirement("S0-53")
@pytest.mark.requirement("T06")
def test_every_broken_field_is_named(store: Store) -> None:
    given = {"type": text("memory"), "importance": number(10), "importanse": number(1), "custom.a b": number(1)}
    with pytest.raises(InvalidRequestError) as refused:
        _validate(store, "memory", **given)
    named = {violation.field: violation.description for violation in refused.value.violations}
    assert set(named) == {
        "metadata['timestamp']",
        "metadata['importance']",
        "metadata['importanse']",
        "metadata['custom']",
    }
    assert "importance must be between 1 and 5" in named["metadata['importance']"]
    assert "custom.<key>" in named["metadata['importanse']"]


@pytest.mark.requirement("S0-15")
@pytest.mark.parametrize(
    ("kind", "metadata", "field"),
    [
        ("dream", {}, "document_type"),
        ("", {}, "document_type"),
        ("memory", {"importance": MetadataValue()}, "metadata['importance']"),
        ("memory", {"importance": MetadataValue(bool_value=True)}, "metadata['importance']"),
        ("memory", {"importance": MetadataValue(double_value=4.0)}, "metadata['importance']"),
        ("memory", {"timestamp": MetadataValue(timestamp_value=Timestamp(seconds=10**15))}, "metadata['timestamp']"),
        ("memory", {"tags": MetadataValue(double_list=DoubleList(values=[1.0]))}, "metadata['tags'][0]"),
        ("memory", {"custom.x": MetadataValue(double_value=float("nan"))}, "metadata['custom']"),
        ("persona", {"type": text("faq")}, "metadata['type']"),
    ],
)
def test_what_is_no_metadata_is_refused_by_name(
    store: Store, kind: str, metadata: dict[str, MetadataValue], field: str
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        _validate(store, kind, **metadata)
    assert field in [violation.field for violation in refused.value.violations]


@pytest.mark.requirement("C07")
def test_the_kinds_that_sources_call_type_are_four_different_things(store: Store) -> None:
    memo = {"title": "A", "category": "memo", "metadata": {"type": text("faq")}}
    markdown = store.ingest("a.md", story(random.Random(1)), **memo)
    plain = store.ingest("b.txt", "A tide and a lantern. " * 40, category="contract", metadata={"type": text("memo")})
    assert [each.format for each in (markdown, plain)] == [
        document_format_pb2.DOCUMENT_FORMAT_MARKDOWN,
        document_format_pb2.DOCUMENT_FORMAT_TEXT,
    ]
    for where, expected in (
        ({"format": "markdown"}, {"a.md"}),
        ({"doc_type": "text"}, {"b.txt"}),
        ({"category": "memo"}, {"a.md"}),
        ({"type": "memo"}, {"b.txt"}),
        ({"type": "markdown"}, set()),
    ):
        assert {hit.chunk.source_uri for hit in store.search("tide", where)} == expected, where
    fields = {kind: set(_schemas(store, kind)[0].fields) for kind in ("memory", "document", "chunk")}
    assert {"type", "kind"} <= fields["memory"]
    assert "doc_type" in fields["document"]
    assert "type" not in fields["document"] | fields["chunk"]


@pytest.mark.requirement("S1-08")
@pytest.mark.requirement("S1-104")
def test_figures_count_what_is_live(engine_store: Store) -> None:
    chance = random.Random(1)
    first = engine_store.ingest("a.md", story(chance), project="apollo")
    second = engine_store.ingest("b.txt", "A comet and a lantern. " * 400, project="apollo")
    third = engine_store.ingest("c.md", story(chance))
    gone = engine_store.ingest("d.md", story(chance))
    hidden = engine_store.ingest("e.md", story(chance))
    engine_store.delete(gone.document_id)
    engine_store.delete(hidden.document_id, purge=False)
    [stats] = _stats(engine_store, "docs")
    live = (first, second, third)
    chunks = sum(document.chunk_count for document in live)
    assert (stats.collection, stats.document_count, stats.chunk_count) == ("docs", 3, chunks)
    assert stats.total_chars == sum(document.total_chars for document in live)
    assert {each.key: each.count for each in stats.by_format} == {"markdown": 2, "text": 1}
    assert {each.key: each.count for each in stats.by_project} == {"": 1, "apollo": 2}
    assert {each.key: each.count for each in stats.by_embedding_model} == {first.embedding_model: chunks}
    assert stats.embedding.model_name == first.embedding_model
    assert stats.vector_count == len(engine_store.points()) == chunks
    assert stats.average_vectors_per_document == pytest.approx(chunks / 3)
    stored = engine_store.chunks()
    shared, length = sum(c.overlap_prev_chars for c in stored), sum(c.char_count for c in stored)
    assert stats.overlap_share == pytest.approx(shared / length)
    assert stats.overlap_share > 0


def test_figures_count_neither_sections_nor_what_is_kept_for_the_past(store: Store) -> None:
    chunking = collection_pb2.ChunkingPolicy(chunker=collection_pb2.CHUNKER_HIERARCHY, min_chars=1, minimum_size=1)
    settings = collection_pb2.CollectionSettings(chunking=chunking)
    settings.generation_retention.FromSeconds(3600)
    calls = store.harness.calls
    calls.create_collection(collections_pb.CreateCollectionRequest(collection="levels", settings=settings))
    store.harness.ingest("levels", "a.md", story(random.Random(1)))
    document = store.harness.ingest("levels", "a.md", story(random.Random(2))).document
    with store.harness.catalog.read() as connection:
        rows = connection.exec_driver_sql("SELECT count(*) FROM chunks").scalar_one()
    [stats] = _stats(store, "levels")
    assert rows > document.chunk_count + 1
    assert stats.chunk_count == document.chunk_count
    assert {each.count for each in stats.by_embedding_model} == {document.chunk_count}


def test_figures_of_all_collections_stand_in_the_order_of_their_names(store: Store) -> None:
    store.harness.create("atlas")
    assert [stats.collection for stats in _stats(store)] == ["atlas", "docs"]
    empty = _stats(store)[0]
    assert (empty.document_count, empty.overlap_share, empty.average_vectors_per_document) == (0, 0.0, 0.0)
    with pytest.raises(CollectionNotFoundError):
        _stats(store, "unknown")


@pytest.mark.requirement("S1-01")
@pytest.mark.requirement("S1-03")
@pytest.mark.requirement("S1-04")
def test_documents_chunks_and_points_lead_to_one_another(engine_store: Store) -> None:
    document = engine_store.ingest("a.md", story(random.Random(1)))
    request = library_pb.GetDocumentRequest(
        collection="docs", reference=by_id(document.document_id), include_chunk_ids=True, include_text=True
    )
    found = engine_store.harness.library.get_document(request)
    chunks = [engine_store.chunk(chunk_id) for chunk_id in found.chunk_ids]
    assert {chunk.document_id for chunk in chunks} == {document.document_id}
    assert engine_store.points() == [chunk.chunk_number for chunk in chunks]
    assert len(chunks) == document.chunk_count
    for chunk in chunks:
        by_number = library_pb.GetChunkRequest(
            collection="docs", reference=ChunkReference(chunk_number=chunk.chunk_number)
        )
        answer = engine_store.harness.library.get_chunk(by_number)
        assert (answer.chunk, answer.document) == (chunk, document)
        assert found.text[chunk.span.start : chunk.span.end] == chunk.content
    hits = engine_store.search("tide")
    assert {hit.chunk.chunk_id for hit in hits} == set(found.chunk_ids)


@pytest.mark.requirement("S1-02")
@pytest.mark.requirement("S1-05")
def test_a_document_with_a_bad_field_leaves_no_trace(store: Store) -> None:
    kept = store.ingest("kept.md", story(random.Random(2)))
    before = (_stats(store, "docs"), store.documents(), store.chunks(), store.points())
    for fields in ({"metadata": {"a": MetadataValue()}}, {"language": "english"}, {"tags": ["a,b"]}):
        with pytest.raises(InvalidRequestError):
            store.ingest("a.md", story(random.Random(1)), **fields)
        # Neither as a new document nor as another generation of one that is there.
        with pytest.raises(InvalidRequestError):
            store.ingest("kept.md", story(random.Random(1)), **fields)
    assert before[1] == [kept]
    assert (_stats(store, "docs"), store.documents(), store.chunks(), store.points()) == before


@pytest.mark.requirement("S1-70")
@pytest.mark.requirement("T25")
def test_metadata_of_every_kind_comes_back_as_it_was_sent(store: Store) -> None:
    metadata = {
        "text": text("é\n\t"),
        "whole": number(-(2**63)),
        "truth": MetadataValue(bool_value=False),
        "share": MetadataValue(double_value=5.0),
        "texts": MetadataValue(string_list=StringList(values=["b", "a"])),
        "wholes": MetadataValue(int64_list=Int64List(values=[2**63 - 1, 0])),
        "shares": MetadataValue(double_list=DoubleList(values=[0.5, 1.0])),
    }
    document = store.ingest("a.md", story(random.Random(1)), metadata=metadata, tags=[" x ", "x", "y"])
    assert dict(store.get(document.document_id).fields.metadata) == metadata
    chunks = store.chunks(document.document_id)
    assert [dict(chunk.metadata) for chunk in chunks] == [metadata] * document.chunk_count
    assert [list(chunk.tags) for chunk in chunks] == [["x", "y"]] * document.chunk_count
    store.ingest("other.md", story(random.Random(2)), metadata={**metadata, "whole": number(1)})
    hits = store.search("tide", {"truth": False, "share": 5, "whole": -(2**63), "wholes": {"$contains": 2**63 - 1}})
    assert {hit.chunk.chunk_id for hit in hits} == {chunk.chunk_id for chunk in chunks}
    assert [dict(hit.chunk.metadata) for hit in hits] == [metadata] * len(chunks)
