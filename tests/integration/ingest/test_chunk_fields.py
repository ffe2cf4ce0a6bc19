"""Chunks as the service returns them: every field, links, levels, sentences, and the limits of the model."""

import time
from dataclasses import replace
from itertools import pairwise

import pytest

from groundwire.api.common.v1 import chunk_pb2, document_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import collection_service_pb2 as collections_pb
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.catalog.search_view import SearchViews
from groundwire.kernel.errors import ChunkNotFoundError, DocumentNotFoundError, InvalidRequestError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.catalogs import problems_of
from tests.integration.ingest.harness import CountingEmbedder, Harness
from tests.stubs import by_id, by_source
from tests.unit.ingest.test_chunking import prose

BOOK = (
    f"# Tides\n\nIntro of tides.\n\n## Spring\n\n{prose(900, 1)}\n\n## Neap\n\n{prose(40, 2)}\n\n"
    f"# Moon\n\nOnly a chapter, {prose(200, 3)}\n"
)
POLICY = collection_pb2.ChunkingPolicy


def listed(harness: Harness, collection: str, source: str, *, vectors: bool = False) -> list[chunk_pb2.Chunk]:
    document = harness.library.get_document(
        library_pb.GetDocumentRequest(collection=collection, reference=by_source(source))
    ).document
    request = library_pb.ListChunksRequest(
        collection=collection,
        reference=by_id(document.document_id),
        include_embedding=vectors,
        page_size=1000,
    )
    return list(harness.library.list_chunks(request).chunks)


def chunk_of_id(harness: Harness, collection: str, chunk_id: str) -> chunk_pb2.Chunk:
    return harness.library.get_chunk(
        library_pb.GetChunkRequest(collection=collection, reference=ChunkReference(chunk_id=chunk_id))
    ).chunk


@pytest.mark.requirement("S1-71")
def test_unknown_documents_and_chunks_are_not_found(harness: Harness, collection: str) -> None:
    with pytest.raises(DocumentNotFoundError):
        harness.library.list_chunks(library_pb.ListChunksRequest(collection=collection, reference=by_id("doc_none")))
    with pytest.raises(ChunkNotFoundError):
        chunk_of_id(harness, collection, "doc_none#chunk_000")


def test_a_reference_to_no_chunk_is_named_as_the_request_has_it(harness: Harness, collection: str) -> None:
    one = library_pb.GetChunkRequest(collection=collection, reference=ChunkReference())
    given = [ChunkReference(chunk_number=1), ChunkReference(), ChunkReference()]
    several = library_pb.BatchGetChunksRequest(collection=collection, references=given)
    with pytest.raises(InvalidRequestError) as of_one:
        harness.library.get_chunk(one)
    with pytest.raises(InvalidRequestError) as of_several:
        harness.library.batch_get_chunks(several)
    assert [each.field for each in of_one.value.violations] == ["reference"]
    assert [each.field for each in of_several.value.violations] == ["references[1]", "references[2]"]


@pytest.mark.requirement("S1-107", "S1-111", "S1-116")
@pytest.mark.requirement("S1-49")
@pytest.mark.requirement("S1-51")
@pytest.mark.requirement("S1-53")
@pytest.mark.requirement("S1-54")
@pytest.mark.requirement("T09")
def test_links_and_overlaps_lead_through_the_whole_text(harness: Harness, collection: str) -> None:
    result = harness.ingest(collection, "long", prose(3000))
    chunks = listed(harness, collection, "long")
    document = result.document.document_id
    assert result.counts.chunk_count == len(chunks) > 3
    assert [chunk.chunk_id for chunk in chunks] == [f"{document}#chunk_{n:03d}" for n in range(len(chunks))]
    prefixed = library_pb.ListChunksRequest(collection=collection, chunk_id_prefix=f"{document}#")
    assert list(harness.library.list_chunks(prefixed).chunks) == chunks
    walked = [chunks[0]]
    while walked[-1].next_chunk_id:
        walked.append(chunk_of_id(harness, collection, walked[-1].next_chunk_id))
    assert walked == chunks
    back = [chunks[-1]]
    while back[-1].prev_chunk_id:
        back.append(chunk_of_id(harness, collection, back[-1].prev_chunk_id))
    assert back[::-1] == chunks
    assert (chunks[0].overlap_prev_chars, chunks[-1].overlap_next_chars) == (0, 0)
    for before, after in pairwise(chunks):
        assert before.overlap_next_chars == after.overlap_prev_chars == before.span.end - after.span.start > 0
    text, rebuilt = harness.text(collection, "long"), ""
    for chunk in chunks:
        assert chunk.unique_content_start == chunk.span.start + chunk.overlap_prev_chars
        assert chunk.unique_content_end == chunk.span.end - chunk.overlap_next_chars
        rebuilt += chunk.content[len(rebuilt) - chunk.span.start :]
    assert rebuilt == text


@pytest.mark.requirement("S3-06")
@pytest.mark.requirement("S3-10")
@pytest.mark.requirement("S3-11")
@pytest.mark.requirement("S3-12")
@pytest.mark.requirement("S3-13")
@pytest.mark.requirement("S1-78")
@pytest.mark.requirement("T33")
def test_every_field_of_a_chunk_is_there(harness: Harness, collection: str) -> None:
    text = "Two words — and more.\nA second line."
    titled = document_pb2.DocumentFields(title="Titled")
    began = time.time()
    harness.ingest(collection, "a", text, fields=titled)
    between = time.time()
    harness.ingest(collection, "b", f"{text} Another.", fields=document_pb2.DocumentFields())
    ended = time.time()
    ((one,), (two,)) = (listed(harness, collection, source) for source in "ab")
    assert 0 < one.chunk_number < two.chunk_number < 2**53
    assert (one.section_heading, two.section_heading) == ("Titled", "b")
    assert (one.sequence_num, one.word_count, one.char_count) == (0, len(text.split()), len(text))
    assert one.token_count == harness.embedder.tokenizer.count(text)
    assert one.tokenizer == harness.embedder.tokenizer.name
    assert one.embedding_model == harness.embedder.identity.model_name
    # Stored times are in milliseconds.
    for chunk, since, until in ((one, began, between), (two, between, ended)):
        for moment in (chunk.create_time, chunk.embed_time):
            assert since - 0.001 <= moment.ToNanoseconds() / 1e9 <= until + 0.001


@pytest.mark.requirement("S1-78")
@pytest.mark.requirement("S3-13")
def test_a_text_that_is_stored_again_is_a_new_chunk_with_the_embedding_it_had(
    harness: Harness, collection: str
) -> None:
    fields = document_pb2.DocumentFields(title="Same")
    harness.ingest(collection, "a", "A text that stays. " * 10, fields=fields)
    (before,) = listed(harness, collection, "a", vectors=True)
    time.sleep(0.01)
    began = time.time()
    allow = ingest_result_pb2.DUPLICATE_POLICY_ALLOW
    harness.ingest(collection, "b", "A text that stays. " * 10, fields=fields, duplicate_policy=allow)
    (after,) = listed(harness, collection, "b", vectors=True)
    assert after.create_time.ToNanoseconds() / 1e9 >= began - 0.001 > before.create_time.ToNanoseconds() / 1e9
    assert after.embed_time.ToNanoseconds() / 1e9 < began, "it was not embedded again"
    assert list(after.embedding) == list(before.embedding)
    assert after.embedding_model == before.embedding_model == harness.embedder.identity.model_name


@pytest.mark.requirement("S4-19")
@pytest.mark.requirement("S4-20")
@pytest.mark.requirement("S4-21")
@pytest.mark.requirement("S4-23")
@pytest.mark.requirement("S4-25")
def test_a_book_of_many_files_keeps_its_chapters_and_sections(harness: Harness) -> None:
    harness.create("book", collection_pb2.PROFILE_BOOK)
    for number in range(3):
        text = f"# Chapter {number}\n\nIntro \u00e9\t🌊.\n\n## First of {number}\n\n{prose(1600, number)}\n"
        harness.ingest("book", f"ch{number}.md", text)
        chunks = listed(harness, "book", f"ch{number}.md")
        assert {chunk.chapter for chunk in chunks} == {f"Chapter {number}"}
        assert chunks[-1].section == f"First of {number}"
        assert all(text[chunk.span.start : chunk.span.end] == chunk.content for chunk in chunks)
    numbers = harness.live_numbers("book")
    assert harness.points("book") == sorted(set(numbers)) == numbers


@pytest.mark.requirement("S1-45")
def test_sentences_have_numbers_and_a_window(harness: Harness, collection: str) -> None:
    text = " ".join(f"This is sentence {number} of eight." for number in range(1, 9))
    harness.ingest(collection, "s", text, chunking=POLICY(chunker=collection_pb2.CHUNKER_SENTENCE, window_size=2))
    chunks = listed(harness, collection, "s", vectors=True)
    assert [chunk.content for chunk in chunks] == [f"This is sentence {number} of eight." for number in range(1, 9)]
    assert [(chunk.sentence_index, chunk.window_size) for chunk in chunks] == [(number, 2) for number in range(8)]
    assert len({tuple(chunk.embedding) for chunk in chunks}) == 8
    plain = listed(harness, collection, "s")[0]
    assert plain.HasField("sentence_index")
    harness.ingest(collection, "s", text)
    assert not listed(harness, collection, "s")[0].HasField("sentence_index")


def test_texts_of_sections_are_rows_of_the_catalog_alone(harness: Harness, collection: str) -> None:
    fields = document_pb2.DocumentFields(title="Sea", description="What the moon does to the sea, in short.")
    policy = POLICY(chunker=collection_pb2.CHUNKER_HIERARCHY, target_size=60, minimum_size=10, maximum_size=120)
    result = harness.ingest(collection, "book.md", BOOK, chunking=policy, fields=fields)
    request = library_pb.GetDocumentRequest(collection=collection, reference=by_id(result.document.document_id))
    assert harness.library.get_document(request).document.fields.description == fields.description
    sections = listed(harness, collection, "book.md")[result.counts.chunk_count :]
    assert [chunk.section_heading for chunk in sections if chunk.level == 2] == ["Spring", "Neap"]
    assert not set(harness.points(collection)) & {chunk.chunk_number for chunk in sections}


@pytest.mark.requirement("S1-46")
def test_levels_are_chunks_that_no_search_returns(harness: Harness, collection: str) -> None:
    policy = POLICY(chunker=collection_pb2.CHUNKER_HIERARCHY, target_size=60, minimum_size=10, maximum_size=120)
    result = harness.ingest(
        collection, "book.md", BOOK, chunking=policy, fields=document_pb2.DocumentFields(title="Sea")
    )
    chunks = listed(harness, collection, "book.md", vectors=True)
    leaves, uppers = chunks[: result.counts.chunk_count], chunks[result.counts.chunk_count :]
    assert {chunk.level for chunk in leaves} == {3}
    assert [(chunk.level, "/".join(chunk.hierarchy_path)) for chunk in uppers] == [
        (0, "Sea"),
        (1, "Sea/Tides"),
        (2, "Sea/Tides/Spring"),
        (2, "Sea/Tides/Neap"),
        (1, "Sea/Moon"),
    ]
    ids = {"/".join(chunk.hierarchy_path): chunk.chunk_id for chunk in uppers}
    spring = [chunk for chunk in leaves if chunk.section == "Spring"]
    assert len(spring) > 5
    assert ["/".join(chunk.hierarchy_path) for chunk in spring] == [
        f"Sea/Tides/Spring/para_{number}" for number in range(1, len(spring) + 1)
    ]
    for chunk in spring:
        assert (chunk.parent_chunk_id, chunk.grandparent_chunk_id) == (ids["Sea/Tides/Spring"], ids["Sea/Tides"])
        assert chunk.section_heading == "Spring"
    assert (leaves[0].parent_chunk_id, leaves[0].grandparent_chunk_id) == (ids["Sea/Tides"], ids["Sea"])
    assert [bool(chunk.prev_chunk_id or chunk.next_chunk_id) for chunk in uppers] == [False] * 5
    assert (leaves[0].prev_chunk_id, leaves[-1].next_chunk_id) == ("", "")
    assert all(BOOK[chunk.span.start : chunk.span.end] == chunk.content for chunk in chunks)
    assert all(len(chunk.embedding) == len(leaves[0].embedding) for chunk in uppers)
    parent = chunk_of_id(harness, collection, spring[0].parent_chunk_id)
    assert parent.content.startswith("## Spring")
    assert harness.points(collection) == [chunk.chunk_number for chunk in leaves]
    view = SearchViews(harness.catalog).open(DEFAULT_TENANT, collection)
    found = view.lexical(["tides"], [], 100).numbers.tolist()
    assert set(view.matching(None).tolist()) == {chunk.chunk_number for chunk in leaves}
    assert set(found) <= {chunk.chunk_number for chunk in leaves}
    figures = harness.calls.get_collection(collections_pb.GetCollectionRequest(collection=collection)).collection
    assert figures.chunk_count == result.document.chunk_count == len(leaves)
    assert problems_of(harness.catalog) == []


def test_a_paragraph_more_embeds_no_other_one_again(harness: Harness, collection: str) -> None:
    policy = POLICY(chunker=collection_pb2.CHUNKER_HIERARCHY, target_size=60, minimum_size=10, maximum_size=120)
    harness.ingest(collection, "book.md", BOOK, chunking=policy)
    harness.embedder.texts.clear()
    longer = BOOK.replace("Intro of tides.\n", f"Intro of tides.\n\n{prose(50, 9)}\n")
    harness.ingest(collection, "book.md", longer, chunking=policy)
    assert not any("Spring" in text and "para_" in text for text in harness.embedder.texts)
    assert len(harness.embedder.texts) <= 4  # the new paragraphs, and the document and chapter that hold them


@pytest.mark.requirement("S1-54")
@pytest.mark.requirement("S1-52")
def test_fixed_windows_have_the_figures_of_the_source_design(harness: Harness, collection: str) -> None:
    policy = POLICY(
        chunker=collection_pb2.CHUNKER_FIXED,
        unit=collection_pb2.CHUNK_UNIT_CHARS,
        target_size=400,
        maximum_size=400,
        overlap_ratio=0.2,
    )
    harness.ingest(collection, "fixed", "x" * 1000, chunking=policy)
    assert [
        (chunk.span.start, chunk.span.end, chunk.unique_content_start, chunk.unique_content_end)
        for chunk in listed(harness, collection, "fixed")
    ] == [(0, 400, 0, 320), (320, 720, 400, 640), (640, 1000, 720, 1000)]


@pytest.mark.requirement("T32")
def test_chunks_longer_than_the_model_are_told(tmp_path_factory: pytest.TempPathFactory) -> None:
    embedder = CountingEmbedder()
    embedder_identity = replace(embedder.identity, max_tokens=256)
    embedder.identity = embedder_identity
    running = Harness(tmp_path_factory.mktemp("short"), embedder=embedder).start_without_parser_process()
    try:
        running.create("docs")
        request = pb.PlanIngestRequest(collection="docs", source_uri="long", text=prose(2000))
        planned = running.calls.plan_ingest(request)
        result = running.ingest("docs", "long", prose(2000))
        assert list(result.warnings) == list(planned.warnings)
        (warning,) = result.warnings
        assert warning.kind == ingest_result_pb2.INGEST_WARNING_KIND_CHUNK_BEYOND_MODEL
        assert warning.occurrence_count == result.counts.chunk_count
        assert not running.ingest("docs", "short", prose(200)).warnings
    finally:
        running.close()
