"""Settings of collections: given, returned whole, changed by mask, and obeyed."""

from typing import Any

import pytest
from google.protobuf.field_mask_pb2 import FieldMask

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2 as settings_pb
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.document_errors import DocumentTooLargeError
from groundwire.kernel.errors import AlreadyExistsError, CollectionNotFoundError, InvalidRequestError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.catalogs import problems_of
from tests.integration.ingest.harness import Harness

Settings = settings_pb.CollectionSettings


def whole() -> settings_pb.CollectionSettings:
    settings = Settings(
        chunking=settings_pb.ChunkingPolicy(
            unit=settings_pb.CHUNK_UNIT_CHARS,
            target_size=400,
            minimum_size=100,
            maximum_size=500,
            overlap_ratio=0.2,
            min_chars=4,
            chunker=settings_pb.CHUNKER_FIXED,
            window_size=3,
        ),
        retrieval=settings_pb.RetrievalDefaults(
            mode=search_mode_pb2.SEARCH_MODE_LEXICAL,
            top_k=7,
            min_relevance=0.25,
            dense_weight=0.5,
            memory=settings_pb.MemoryWeights(similarity=0.7, importance=0.2, recency=0.4, half_life_days=7.5),
        ),
        limits=settings_pb.CollectionLimits(max_query_chars=100, max_document_bytes=5000, require_url=True),
        approved_source_prefixes=["https://a.example/", "https://b.example/docs/"],
        duplicate_chunk_policy=settings_pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION,
        content_description="Tides and their tables.",
        field_descriptions=[
            settings_pb.FieldDescription(
                name="port", description="Where.", type=settings_pb.FIELD_TYPE_STRING, allowed_values=["Brest", "Dover"]
            ),
            settings_pb.FieldDescription(name="year", description="When.", type=settings_pb.FIELD_TYPE_INTEGER),
        ],
    )
    settings.generation_retention.FromSeconds(86_400)
    return settings


def create(
    harness: Harness, name: str, settings: settings_pb.CollectionSettings, **fields: Any
) -> settings_pb.Collection:
    request = collections_pb.CreateCollectionRequest(collection=name, settings=settings, **fields)
    return harness.calls.create_collection(request).collection


def get(harness: Harness, name: str) -> settings_pb.Collection:
    return harness.calls.get_collection(collections_pb.GetCollectionRequest(collection=name)).collection


def update(
    harness: Harness, name: str, settings: settings_pb.CollectionSettings, *paths: str, **fields: Any
) -> settings_pb.Collection:
    mask = FieldMask(paths=[f"settings.{path}" if path != "*" else path for path in paths])
    collection = settings_pb.Collection(name=name, settings=settings)
    request = collections_pb.UpdateCollectionRequest(collection=collection, update_mask=mask, **fields)
    return harness.calls.update_collection(request).collection


def test_every_setting_comes_back(harness: Harness) -> None:
    assert create(harness, "every", whole()).settings == whole()
    assert get(harness, "every").settings == whole()
    assert create(harness, "every", whole()).settings == whole()
    other = whole()
    other.limits.max_query_chars = 101
    with pytest.raises(AlreadyExistsError):
        create(harness, "every", other)


def test_a_book_of_0_1_0_is_created_again_with_the_weight_that_it_has(harness: Harness) -> None:
    vectors_count_more = Settings(retrieval=settings_pb.RetrievalDefaults(dense_weight=0.7))
    book = create(harness, "book", vectors_count_more, profile=settings_pb.PROFILE_BOOK)
    assert create(harness, "book", Settings(), profile=settings_pb.PROFILE_BOOK) == book
    assert create(harness, "book", Settings()) == book
    for weight in (0.5, 0.6):
        other = Settings(retrieval=settings_pb.RetrievalDefaults(dense_weight=weight))
        with pytest.raises(AlreadyExistsError):
            create(harness, "book", other, profile=settings_pb.PROFILE_BOOK)
    new = create(harness, "new", Settings(), profile=settings_pb.PROFILE_BOOK)
    assert new.settings.retrieval.dense_weight == 0.5


@pytest.mark.requirement("C05")
@pytest.mark.parametrize("profile", [value for value in settings_pb.Profile.values() if value])
def test_settings_that_are_not_given_are_the_profiles_and_none_is_missing(harness: Harness, profile: int) -> None:
    found = create(harness, f"profile-{profile}", Settings(), profile=profile).settings
    assert found.limits.max_query_chars == 500
    assert found.limits.max_document_bytes == 3_000_000  # the server's limit
    assert found.limits.require_url == (profile == settings_pb.PROFILE_WEB)
    assert found.retrieval.min_relevance == (
        0.3 if profile in {settings_pb.PROFILE_WEB, settings_pb.PROFILE_BOOK} else 0.0
    )
    assert found.chunking.chunker == settings_pb.CHUNKER_STRUCTURE
    assert found.duplicate_chunk_policy == settings_pb.DUPLICATE_CHUNK_POLICY_KEEP
    for message in (found.chunking, found.retrieval, found.limits):
        assert {field.name for field, _ in message.ListFields()} == set(message.DESCRIPTOR.fields_by_name)


@pytest.mark.parametrize(
    ("settings", "field"),
    [
        (Settings(chunking=settings_pb.ChunkingPolicy(target_size=0)), "chunking.target_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(target_size=15, minimum_size=1)), "chunking.target_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(maximum_size=8193)), "chunking.maximum_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(minimum_size=600)), "chunking.minimum_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(minimum_size=0)), "chunking.minimum_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(maximum_size=95)), "chunking.maximum_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(overlap_ratio=0.5)), "chunking.overlap_ratio"),
        (Settings(chunking=settings_pb.ChunkingPolicy(overlap_ratio=float("nan"))), "chunking.overlap_ratio"),
        (Settings(chunking=settings_pb.ChunkingPolicy(min_chars=0)), "chunking.min_chars"),
        (Settings(chunking=settings_pb.ChunkingPolicy(window_size=11)), "chunking.window_size"),
        (Settings(chunking=settings_pb.ChunkingPolicy(chunker=99)), "chunking.chunker"),  # type: ignore[arg-type]  # no such value
        (Settings(retrieval=settings_pb.RetrievalDefaults(top_k=101)), "retrieval.top_k"),
        (Settings(retrieval=settings_pb.RetrievalDefaults(min_relevance=1.5)), "retrieval.min_relevance"),
        (Settings(retrieval=settings_pb.RetrievalDefaults(mode=77)), "retrieval.mode"),  # type: ignore[arg-type]  # no such value
        (Settings(limits=settings_pb.CollectionLimits(max_query_chars=8193)), "limits.max_query_chars"),
        (Settings(limits=settings_pb.CollectionLimits(max_document_bytes=3_000_001)), "limits.max_document_bytes"),
        (Settings(limits=settings_pb.CollectionLimits(max_document_bytes=0)), "limits.max_document_bytes"),
        (Settings(approved_source_prefixes=["ok", ""]), "approved_source_prefixes[1]"),
        (Settings(duplicate_chunk_policy=9), "duplicate_chunk_policy"),  # type: ignore[arg-type]  # no such value
        (Settings(content_description="x" * 1025), "content_description"),
        (
            Settings(
                field_descriptions=[
                    settings_pb.FieldDescription(name="a b", description="d", type=settings_pb.FIELD_TYPE_STRING)
                ]
            ),
            "field_descriptions[0].name",
        ),
        (
            Settings(field_descriptions=[settings_pb.FieldDescription(name="a", type=settings_pb.FIELD_TYPE_STRING)]),
            "field_descriptions[0].description",
        ),
        (
            Settings(field_descriptions=[settings_pb.FieldDescription(name="a", description="d")]),
            "field_descriptions[0].type",
        ),
        (
            Settings(
                field_descriptions=[
                    settings_pb.FieldDescription(
                        name="a", description="d", type=settings_pb.FIELD_TYPE_INTEGER, allowed_values=["1"]
                    )
                ]
            ),
            "field_descriptions[0].allowed_values",
        ),
        (
            Settings(
                field_descriptions=[
                    settings_pb.FieldDescription(name="a", description="d", type=settings_pb.FIELD_TYPE_STRING)
                ]
                * 2
            ),
            "field_descriptions[1].name",
        ),
    ],
)
def test_a_setting_out_of_range_is_named(
    harness: Harness, collection: str, settings: settings_pb.CollectionSettings, field: str
) -> None:
    with pytest.raises(InvalidRequestError) as created:
        create(harness, "never", settings)
    assert created.value.violations[0].field == f"settings.{field}"
    with pytest.raises(InvalidRequestError) as updated:
        update(harness, collection, settings)
    assert updated.value.violations[0].field == f"collection.settings.{field}"
    with pytest.raises(CollectionNotFoundError):
        get(harness, "never")


def test_a_negative_or_endless_retention_is_refused(harness: Harness) -> None:
    for seconds in (-1, 4000 * 86_400):
        settings = Settings()
        settings.generation_retention.seconds = seconds
        with pytest.raises(InvalidRequestError) as caught:
            create(harness, "never", settings)
        assert caught.value.violations[0].field == "settings.generation_retention"


def test_a_mask_changes_what_it_names(harness: Harness, collection: str) -> None:
    before = get(harness, collection)
    found = update(harness, collection, whole(), "retrieval.top_k", "limits", "approved_source_prefixes")
    expected = Settings()
    expected.CopyFrom(before.settings)
    expected.retrieval.top_k = 7
    expected.limits.CopyFrom(whole().limits)
    expected.approved_source_prefixes.extend(whole().approved_source_prefixes)
    assert found.settings == expected == get(harness, collection).settings
    assert found.update_time.ToNanoseconds() >= before.update_time.ToNanoseconds()
    assert found.create_time == before.create_time


def test_without_a_mask_what_is_present_changes_and_lists_are_replaced(harness: Harness, collection: str) -> None:
    update(harness, collection, Settings(approved_source_prefixes=["a", "b"], content_description="Old."))
    found = update(harness, collection, Settings(approved_source_prefixes=["c"])).settings
    assert list(found.approved_source_prefixes) == ["c"]
    assert found.content_description == "Old."


def test_a_named_path_that_is_unset_and_a_star_go_back_to_the_profile(harness: Harness, collection: str) -> None:
    fresh = get(harness, collection).settings
    update(harness, collection, whole())
    assert update(
        harness, collection, Settings(), "chunking.target_size", "chunking.maximum_size"
    ).settings.chunking == (
        settings_pb.ChunkingPolicy(
            unit=settings_pb.CHUNK_UNIT_CHARS,
            target_size=512,
            minimum_size=100,
            maximum_size=1024,
            overlap_ratio=0.2,
            min_chars=4,
            chunker=settings_pb.CHUNKER_FIXED,
            window_size=3,
        )
    )
    assert update(harness, collection, Settings(), "*").settings == fresh


@pytest.mark.parametrize(
    "path", ["nonsense", "chunking.nonsense", "limits.", "content_description.x", "chunking.unit.x"]
)
def test_an_unknown_path_is_named(harness: Harness, collection: str, path: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        update(harness, collection, whole(), "retrieval", path)
    assert caught.value.violations[0].field == "update_mask.paths[1]"
    assert repr(f"settings.{path}") in caught.value.violations[0].description


def test_a_repeated_update_has_one_effect(harness: Harness, collection: str) -> None:
    request_id = "3d0f8a52-9d55-4a52-8a7e-6f8f3f7a1b11"
    first = update(harness, collection, Settings(content_description="One."), request_id=request_id)
    update(harness, collection, Settings(content_description="Two."))
    assert update(harness, collection, Settings(content_description="One."), request_id=request_id) == first
    assert get(harness, collection).settings.content_description == "Two."


@pytest.mark.requirement("S3-09")
@pytest.mark.requirement("T18")
def test_a_web_collection_takes_urls_and_keeps_them_as_sent(harness: Harness) -> None:
    harness.create("web", settings_pb.PROFILE_WEB)
    for bad in ("not a url", "/a/path", "ftp://a.example/x", "https://", "http://a b.example/", "https://a.example:x/"):
        with pytest.raises(InvalidRequestError) as caught:
            harness.ingest("web", bad, "Enough text to be kept.")
        assert caught.value.violations[0].field == "source_uri"
    for number, good in enumerate(
        ("https://a.example", "HTTP://B.example:8080/x?y=1#z", "https://[::1]/p", "https://bücher.example/")
    ):
        harness.ingest("web", good, f"Enough text to be kept, {number}.")
    assert set(harness.sources("web")) == {
        "https://a.example",
        "HTTP://B.example:8080/x?y=1#z",
        "https://[::1]/p",
        "https://bücher.example/",
    }


def test_only_approved_sources_are_taken(harness: Harness, collection: str) -> None:
    update(harness, collection, Settings(approved_source_prefixes=["docs/", "notes/a"]))
    harness.ingest(collection, "docs/x.md", "Some text.")
    harness.ingest(collection, "notes/abc.md", "Other text.")
    with pytest.raises(InvalidRequestError) as caught:
        harness.ingest(collection, "private/x.md", "More text.")
    assert caught.value.violations[0].field == "source_uri"
    assert harness.sources(collection) == ["docs/x.md", "notes/abc.md"]


def test_a_collection_may_take_smaller_documents_than_the_server(harness: Harness, collection: str) -> None:
    update(harness, collection, Settings(limits=settings_pb.CollectionLimits(max_document_bytes=20)))
    harness.ingest(collection, "small", "x" * 20)
    with pytest.raises(DocumentTooLargeError):
        harness.ingest(collection, "large", "x" * 21)
    chunk = pb.ReadyChunk(content="y" * 21, sequence_num=0)
    with pytest.raises(DocumentTooLargeError):
        harness.put_chunks(collection, "ready", chunk)
    assert harness.sources(collection) == ["small"]


def test_new_rules_cut_anew_what_is_ingested_again(harness: Harness, collection: str) -> None:
    text = "One sentence here. Another sentence here. A third sentence here."
    assert harness.ingest(collection, "a", text).counts.chunk_count == 1
    assert harness.ingest(collection, "a", text).outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    by_sentence = settings_pb.ChunkingPolicy(chunker=settings_pb.CHUNKER_SENTENCE)
    update(harness, collection, Settings(chunking=by_sentence))
    again = harness.ingest(collection, "a", text)
    assert (again.outcome, again.counts.chunk_count) == (ingest_result_pb2.INGEST_OUTCOME_REPLACED, 3)
    assert harness.ingest(collection, "a", text).outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED


def test_a_document_may_have_rules_of_its_own(harness: Harness, collection: str) -> None:
    text = "One sentence here. Another sentence here."
    own = settings_pb.ChunkingPolicy(chunker=settings_pb.CHUNKER_SENTENCE)
    assert harness.ingest(collection, "a", text, chunking=own).counts.chunk_count == 2
    assert harness.ingest(collection, "a", text, chunking=own).outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    assert harness.ingest(collection, "a", text).outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    with pytest.raises(InvalidRequestError) as caught:
        harness.ingest(collection, "a", text, chunking=settings_pb.ChunkingPolicy(minimum_size=2000))
    assert caught.value.violations[0].field == "chunking.minimum_size"


DUPLICATED = "The same boilerplate line in every document."


def numbers_for(harness: Harness, collection: str) -> int:
    """Return how many chunks the engine has; every one is live."""
    points = harness.points(collection)
    assert set(points) <= set(harness.live_numbers(collection))
    return len(points)


def by_sentence(policy: settings_pb.DuplicateChunkPolicy.ValueType) -> settings_pb.CollectionSettings:
    chunking = settings_pb.ChunkingPolicy(chunker=settings_pb.CHUNKER_SENTENCE)
    return Settings(chunking=chunking, duplicate_chunk_policy=policy)


@pytest.mark.requirement("C06")
@pytest.mark.parametrize(
    ("policy", "skipped"),
    [
        (settings_pb.DUPLICATE_CHUNK_POLICY_KEEP, (0, 0)),
        (settings_pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_DOCUMENT, (1, 0)),
        (settings_pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION, (1, 1)),
    ],
)
def test_repeated_chunks_are_stored_and_left_out_of_the_index_as_wanted(
    harness: Harness, collection: str, policy: settings_pb.DuplicateChunkPolicy.ValueType, skipped: tuple[int, int]
) -> None:
    update(harness, collection, by_sentence(policy))
    first = harness.ingest(collection, "a", f"{DUPLICATED} Something of its own. {DUPLICATED}")
    second = harness.ingest(collection, "b", f"Another thing entirely. {DUPLICATED}")
    counts = (first.counts, second.counts)
    assert tuple(each.skipped_duplicate_count for each in counts) == skipped
    assert [each.chunk_count for each in counts] == [3, 2]
    assert numbers_for(harness, collection) == 5 - sum(skipped)
    assert len(harness.live_numbers(collection)) == 5
    assert problems_of(harness.catalog) == []


@pytest.mark.requirement("C06")
def test_a_new_text_of_a_source_does_not_repeat_its_old_one(harness: Harness, collection: str) -> None:
    update(harness, collection, by_sentence(settings_pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION))
    harness.ingest(collection, "a", f"Something of its own. {DUPLICATED}")
    counts = harness.ingest(collection, "a", f"Another thing entirely. {DUPLICATED}").counts
    assert (counts.chunk_count, counts.skipped_duplicate_count) == (2, 0)


@pytest.mark.requirement("C06")
def test_when_the_indexed_chunk_goes_a_repeated_one_takes_its_place(harness: Harness, collection: str) -> None:
    update(harness, collection, by_sentence(settings_pb.DUPLICATE_CHUNK_POLICY_SKIP_IN_COLLECTION))
    first = harness.ingest(collection, "a", DUPLICATED)
    harness.ingest(collection, "b", f"Another thing entirely. {DUPLICATED}")
    harness.ingest(collection, "c", f"A third thing altogether. {DUPLICATED}")
    harness.sweep()
    assert numbers_for(harness, collection) == 3
    harness.delete(collection, first.document.document_id)
    harness.sweep()
    assert numbers_for(harness, collection) == 3
    view = SearchViews(harness.catalog).open(DEFAULT_TENANT, collection)
    (found,) = view.lexical(["boilerplate"], [], 10).numbers
    assert found in harness.points(collection)
    assert problems_of(harness.catalog) == []
