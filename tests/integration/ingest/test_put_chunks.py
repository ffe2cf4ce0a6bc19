"""Ready-made chunks: checked, placed, stored whole or not at all."""

import hashlib
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1 import chunk_pb2, document_format_pb2, document_pb2
from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.kernel.errors import (
    AlreadyExistsError,
    DimensionMismatchError,
    EmbeddingMismatchError,
    GroundwireError,
    InvalidRequestError,
)
from tests.integration.ingest.harness import DIMENSIONS, Harness
from tests.stubs import by_id

_HTML = document_format_pb2.DOCUMENT_FORMAT_HTML
TEXT = "The moon pulls the sea. The sea follows the moon. 🌊 Twice a day."


def chunk(content: str, number: int = 0, span: tuple[int, int] | None = None, **fields: Any) -> pb.ReadyChunk:
    if span is not None:
        fields |= {"char_start": span[0], "char_end": span[1]}
    return pb.ReadyChunk(content=content, sequence_num=number, **fields)


def put(harness: Harness, collection: str, *chunks: pb.ReadyChunk, **fields: Any) -> ingest_result_pb2.IngestResult:
    return harness.put_chunks(collection, fields.pop("source_uri", "ready"), *chunks, **fields)


def stored(harness: Harness, collection: str, document_id: str) -> list[chunk_pb2.Chunk]:
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id(document_id), include_embedding=True)
    return list(harness.library.list_chunks(request).chunks)


def contents(harness: Harness, collection: str) -> object:
    """Return the figures of a collection, its documents, its chunks and its points."""
    inspection = harness.library
    figures = inspection.list_stats(library_pb.ListStatsRequest(collection=collection)).stats[0]
    documents = harness.library.list_documents(library_pb.ListDocumentsRequest(collection=collection)).documents
    return figures, list(documents), harness.live_numbers(collection), harness.points(collection)


def refused(harness: Harness, collection: str, *chunks: pb.ReadyChunk, **fields: Any) -> tuple[str, str]:
    """Return field and description of what is refused, after checking that nothing was stored."""
    before = contents(harness, collection)
    with pytest.raises(InvalidRequestError) as caught:
        put(harness, collection, *chunks, **fields)
    assert contents(harness, collection) == before
    violation = caught.value.violations[0]
    return violation.field, violation.description


@pytest.mark.requirement("S1-71")
@pytest.mark.requirement("S1-75")
@pytest.mark.requirement("S1-77")
@pytest.mark.requirement("S1-80")
@pytest.mark.requirement("C25")
def test_chunks_come_back_as_they_were_put(harness: Harness, collection: str) -> None:
    parts = ["The moon pulls the sea.", "sea. The sea follows the moon.", "🌊 Twice a day."]
    starts = [TEXT.index(part) for part in parts]
    chunks = [
        chunk(part, number, (start, start + len(part)), chapter="Tides", section="Pull", section_heading="Strongly")
        for number, (part, start) in enumerate(zip(parts, starts, strict=True))
    ]
    result = put(harness, collection, *chunks, text=TEXT, fields=document_pb2.DocumentFields(title="Sea"))
    assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    assert (result.counts.chunk_count, result.counts.embedded_count) == (3, 3)
    found = stored(harness, collection, result.document.document_id)
    assert harness.text(collection, "ready") == TEXT
    for each, part in zip(found, parts, strict=True):
        assert TEXT[each.span.start : each.span.end] == each.content == part
        assert TEXT.encode()[each.span.start_byte : each.span.end_byte].decode() == part
        assert each.content_hash == hashlib.sha256(part.encode()).hexdigest()
        assert (each.chapter, each.section, each.section_heading) == ("Tides", "Pull", "Strongly")
        assert (each.word_count, each.char_count, each.level) == (len(part.split()), len(part), 3)
        assert each.tokenizer == harness.embedder.tokenizer.name
        assert len(each.embedding) == DIMENSIONS
    assert [(each.overlap_prev_chars, each.overlap_next_chars) for each in found] == [(0, 4), (4, 0), (0, 0)]
    assert [each.prev_chunk_id for each in found] == ["", found[0].chunk_id, found[1].chunk_id]
    assert harness.points(collection) == harness.live_numbers(collection)


@pytest.mark.parametrize(("title", "heading"), [("Tides of the sea", "Tides of the sea"), ("", "tides.txt")])
def test_a_chunk_without_a_place_has_the_title_or_the_file_for_its_heading(
    harness: Harness, collection: str, title: str, heading: str
) -> None:
    fields = document_pb2.DocumentFields(title=title)
    result = put(harness, collection, chunk("The moon pulls."), source_uri="https://a.example/tides.txt", fields=fields)
    assert [each.section_heading for each in stored(harness, collection, result.document.document_id)] == [heading]


@pytest.mark.requirement("S1-79")
@pytest.mark.requirement("T12")
@pytest.mark.parametrize("start", [0, 7])
def test_a_span_may_differ_by_five_characters_and_no_more(harness: Harness, collection: str, start: int) -> None:
    content = "w" * 40
    for number, length in enumerate((35, 40, 45)):
        source = f"{start}-{number}"
        result = put(harness, collection, chunk(content, 0, (start, start + length)), source_uri=source)
        (found,) = stored(harness, collection, result.document.document_id)
        text = harness.text(collection, source)
        assert text[found.span.start : found.span.end] == found.content == content
        assert found.span.start == start
    for length in (34, 46):
        field, said = refused(harness, collection, chunk(content, 0, (start, start + length)))
        assert field == "chunks[0].char_end"
        assert str(length) in said
        assert "40" in said


@pytest.mark.requirement("C25")
def test_where_text_and_content_differ_the_text_is_stored(harness: Harness, collection: str) -> None:
    text = "Twice  a\n day the sea comes back."
    result = put(harness, collection, chunk("Twice a day the sea comes back.", 0, (0, len(text))), text=text)
    (found,) = stored(harness, collection, result.document.document_id)
    assert found.content == text
    cut = put(harness, collection, chunk("y" * 40, 0, (0, 44)), text="y" * 50, source_uri="cut")
    assert stored(harness, collection, cut.document.document_id)[0].content == "y" * 44
    field, _ = refused(harness, collection, chunk("Quite another thing here.", 0, (0, 25)), text="z" * 30)
    assert field == "chunks[0].content"


def test_contents_are_found_in_the_text_when_no_span_is_given(harness: Harness, collection: str) -> None:
    text = "One two three. One two three. End of it."
    chunks = [chunk("One two three.", 0), chunk("two three. End", 1)]
    result = put(harness, collection, *chunks, text=text)
    assert [each.span.start for each in stored(harness, collection, result.document.document_id)] == [0, 19]
    twice = put(harness, collection, chunk("One two three.", 0), chunk("One two three.", 1), text=text, source_uri="b")
    assert [each.span.start for each in stored(harness, collection, twice.document.document_id)] == [0, 15]
    assert refused(harness, collection, chunk("Nowhere to be found", 0), text=text)[0] == "chunks[0].content"
    assert refused(harness, collection, chunk("End of it.xx", 0, (30, 42)), text=text)[0] == "chunks[0].char_end"


def test_without_text_spans_lay_the_text_out(harness: Harness, collection: str) -> None:
    chunks = [chunk("first part, ", 0, (2, 14)), chunk("part, second", 1, (8, 20)), chunk("third part", 2, (22, 32))]
    put(harness, collection, *chunks)
    assert harness.text(collection, "ready") == "\n\nfirst part, second\n\nthird part"
    torn = [chunk("first part, ", 0, (0, 12)), chunk("other, second", 1, (6, 19))]
    assert refused(harness, collection, *torn)[0] == "chunks[1].content"
    inside = [chunk("first part, second", 0, (0, 18)), chunk("part, second", 1, (6, 18))]
    put(harness, collection, *inside, source_uri="inside")
    assert harness.text(collection, "inside") == "first part, second"
    before = [chunk("first part, second", 0, (0, 18)), chunk("part, secon", 1, (6, 17))]
    assert refused(harness, collection, *before)[0] == "chunks[1].char_start"
    far = chunk("far away from it all", 0, (2_000_000_000, 2_000_000_020))
    assert refused(harness, collection, far)[0] == "chunks[0].char_end"
    some = [chunk("with a span", 0, (0, 11)), chunk("and without one", 1)]
    assert refused(harness, collection, *some)[0] == "chunks[1].char_start"


def test_without_text_and_spans_contents_are_joined_by_blank_lines(harness: Harness, collection: str) -> None:
    put(harness, collection, chunk("first content", 0), chunk("second content", 1))
    assert harness.text(collection, "ready") == "first content\n\nsecond content"


@pytest.mark.requirement("S1-02")
@pytest.mark.requirement("S1-72")
@pytest.mark.requirement("S1-73")
@pytest.mark.requirement("S1-74")
@pytest.mark.requirement("S1-75")
@pytest.mark.requirement("S3-11")
@pytest.mark.parametrize(
    ("chunks", "field"),
    [
        ([chunk("long enough text", -1)], "chunks[0].sequence_num"),
        ([chunk("long enough text", 1)], "chunks[0].sequence_num"),
        ([chunk("long enough text", 0), chunk("another long text", 2)], "chunks[1].sequence_num"),
        ([chunk("long enough text", 0, (5, 5))], "chunks[0].char_end"),
        ([chunk("long enough text", 0, (-1, 15))], "chunks[0].char_start"),
        ([chunk("long enough text", char_start=3)], "chunks[0].char_start"),
        ([chunk("          ")], "chunks[0].content"),
        ([chunk("nine char")], "chunks[0].content"),
        ([chunk("with a NUL \x00 inside")], "chunks[0].content"),
        ([chunk("long enough text", content_hash="0" * 63)], "chunks[0].content_hash"),
        ([chunk("long enough text", content_hash="0" * 64)], "chunks[0].content_hash"),
        ([chunk("long enough text", level=4)], "chunks[0].level"),
        ([chunk("long enough text", level=-1)], "chunks[0].level"),
        ([chunk("long enough text", chapter="c" * 1025)], "chunks[0].chapter"),
        ([chunk("long enough text", section=" ")], "chunks[0].section"),
        ([chunk("long enough text", section_heading="a\x00b")], "chunks[0].section_heading"),
        ([chunk("long enough text", hierarchy_path=["p"] * 65)], "chunks[0].hierarchy_path"),
        ([chunk("long enough text", hierarchy_path=["p", " "])], "chunks[0].hierarchy_path"),
        ([chunk("long enough text", hierarchy_path=["p" * 1025])], "chunks[0].hierarchy_path"),
        ([chunk("long enough text", embedding=[0.0] * DIMENSIONS)], "chunks[0].embedding"),
        ([chunk("long enough text", embedding=[float("nan")] * DIMENSIONS)], "chunks[0].embedding"),
        ([chunk("long enough text", chunk_id="a b")], "chunks[0].chunk_id"),
        ([chunk("long enough text", chunk_id="17")], "chunks[0].chunk_id"),
        ([chunk("long enough text", chunk_id="doc_x#chunk_000")], "chunks[0].chunk_id"),
        ([chunk("one more text", 0, chunk_id="a"), chunk("two more texts", 1, chunk_id="a")], "chunks[1].chunk_id"),
        ([chunk("one more text", 0, chunk_id="a"), chunk("two more texts", 1)], "chunks[1].chunk_id"),
        ([chunk("one more text", 0, (9, 22)), chunk("two more texts", 1, (3, 17))], "chunks[1].char_start"),
        ([chunk("long enough text", tags=["a,b"])], "chunks[0].tags[0]"),
        ([], "chunks"),
    ],
)
def test_a_bad_chunk_is_named_and_nothing_is_stored(
    harness: Harness, collection: str, chunks: list[pb.ReadyChunk], field: str
) -> None:
    put(harness, collection, chunk("a chunk that is there before"), source_uri="before")
    assert refused(harness, collection, *chunks)[0] == field
    assert refused(harness, collection, *chunks, source_uri="before")[0] == field


def test_a_place_may_be_as_long_and_as_deep_as_the_bounds_say(harness: Harness, collection: str) -> None:
    path = ["p" * 1024, *(f"part {number}" for number in range(63))]
    result = put(harness, collection, chunk("long enough text", chapter="c" * 1024, hierarchy_path=path, level=0))
    (found,) = stored(harness, collection, result.document.document_id)
    assert (found.chapter, list(found.hierarchy_path), found.level) == ("c" * 1024, path, 0)


@pytest.mark.requirement("S1-76")
@pytest.mark.parametrize(("pages", "named"), [([6, 5], ("6", "5")), ([5, 7], ("5", "7")), ([0, 1], ("1",))])
def test_pages_that_fall_or_leave_a_gap_are_named(
    harness: Harness, collection: str, pages: list[int], named: tuple[str, ...]
) -> None:
    field, said = refused(harness, collection, chunk("long enough text", page_numbers=pages))
    assert field == "chunks[0].page_numbers"
    assert all(page in said for page in named)


def test_more_pages_than_a_chunk_can_have_are_refused(harness: Harness, collection: str) -> None:
    pages = list(range(1, 10_002))
    assert refused(harness, collection, chunk("long enough text", page_numbers=pages)) == (
        "chunks[0].page_numbers",
        "must be at most 10000 pages",
    )
    result = put(harness, collection, chunk("long enough text", page_numbers=pages[:-1]))
    assert list(stored(harness, collection, result.document.document_id)[0].page_numbers) == pages[:-1]


@pytest.mark.requirement("S1-76")
def test_repeated_pages_are_dropped(harness: Harness, collection: str) -> None:
    result = put(harness, collection, chunk("long enough text", page_numbers=[5, 5, 6, 6]))
    assert list(stored(harness, collection, result.document.document_id)[0].page_numbers) == [5, 6]


@pytest.mark.requirement("S3-07")
def test_the_web_profile_takes_ten_to_two_thousand_characters(harness: Harness) -> None:
    harness.create("pages", collection_pb2.PROFILE_WEB)
    for length in (9, 2001):
        field, said = refused(harness, "pages", chunk("x" * length), source_uri="https://a.example/")
        assert field == "chunks[0].content"
        assert str(length) in said
    for length in (10, 2000):
        put(harness, "pages", chunk("x" * length), source_uri=f"https://a.example/{length}")


def digest(harness: Harness) -> str:
    return harness.embedder.identity.probe_digest


@pytest.mark.requirement("S1-91")
@pytest.mark.requirement("S3-08")
def test_a_vector_of_another_length_is_refused_with_both_numbers(harness: Harness, collection: str) -> None:
    with pytest.raises(DimensionMismatchError) as caught:
        put(harness, collection, chunk("long enough text", embedding=[1.0] * 7))
    assert caught.value.metadata == {"got": "7", "expected": str(DIMENSIONS)}
    assert "7" in caught.value.message
    assert str(DIMENSIONS) in caught.value.message
    assert harness.sources(collection) == []


@pytest.mark.requirement("S1-79")
def test_given_vectors_are_stored_and_never_taken_for_the_models(harness: Harness, collection: str) -> None:
    vector = [0.0] * DIMENSIONS
    vector[3] = 2.0
    given = chunk("a text with a vector", embedding=vector)
    result = put(harness, collection, given, embedding_probe_digest=digest(harness))
    assert (result.counts.embedded_count, result.counts.reused_embedding_count) == (0, 1)
    assert harness.embedder.texts == []
    (found,) = stored(harness, collection, result.document.document_id)
    expected = np.zeros(DIMENSIONS, dtype=np.float32)
    expected[3] = 1.0
    assert np.array_equal(np.array(found.embedding, dtype=np.float32), expected)
    plain = put(
        harness,
        collection,
        chunk("a text with a vector"),
        source_uri="plain",
        duplicate_policy="DUPLICATE_POLICY_ALLOW",
    )
    assert plain.counts.embedded_count == 1
    (other,) = stored(harness, collection, plain.document.document_id)
    assert list(other.embedding) != list(found.embedding)


@pytest.mark.parametrize(
    ("chunks", "probe", "error"),
    [
        ([chunk("long enough text", embedding=[1.0] * DIMENSIONS)], "", InvalidRequestError),
        ([chunk("long enough text", embedding=[1.0] * DIMENSIONS)], "f" * 64, EmbeddingMismatchError),
        ([chunk("long enough text", embedding=[float("nan")] * DIMENSIONS)], None, InvalidRequestError),
        ([chunk("long enough text", embedding=[0.0] * DIMENSIONS)], None, InvalidRequestError),
        (
            [chunk("one more text", embedding=[1.0] * DIMENSIONS), chunk("two more texts", 1)],
            None,
            InvalidRequestError,
        ),
    ],
)
def test_vectors_must_be_sound_of_this_model_and_complete(
    harness: Harness, collection: str, chunks: list[pb.ReadyChunk], probe: str | None, error: type[GroundwireError]
) -> None:
    with pytest.raises(error):
        put(harness, collection, *chunks, embedding_probe_digest=digest(harness) if probe is None else probe)
    assert harness.sources(collection) == []


@pytest.mark.requirement("S1-51")
@pytest.mark.requirement("S1-71")
@pytest.mark.requirement("S1-49")
def test_own_ids_are_kept_linked_and_unique(harness: Harness, collection: str) -> None:
    names = [f"{collection}-{name}" for name in "abc"]
    chunks = [chunk(f"text of chunk {name}", number, chunk_id=name) for number, name in enumerate(names)]
    result = put(harness, collection, *chunks)
    found = stored(harness, collection, result.document.document_id)
    assert [each.chunk_id for each in found] == names
    assert [(each.prev_chunk_id, each.next_chunk_id) for each in found] == [
        ("", names[1]),
        (names[0], names[2]),
        (names[1], ""),
    ]
    request = library_pb.GetChunkRequest(collection=collection, reference=ChunkReference(chunk_id=names[1]))
    assert harness.library.get_chunk(request).chunk.content == f"text of chunk {names[1]}"
    with pytest.raises(AlreadyExistsError):
        put(harness, collection, chunk("another document", chunk_id=names[0]), source_uri="other")
    assert harness.sources(collection) == ["ready"]
    again = put(harness, collection, chunk("text of a new generation", chunk_id=names[0]))
    assert again.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    renamed = put(harness, collection, chunk("text of a new generation", chunk_id=names[1]))
    assert renamed.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert [each.chunk_id for each in stored(harness, collection, renamed.document.document_id)] == [names[1]]


def test_the_same_chunks_again_are_unchanged_and_others_replace_them(harness: Harness, collection: str) -> None:
    first = chunk("the same text as before", page_numbers=[1])
    put(harness, collection, first)
    assert put(harness, collection, first).outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    changed = put(harness, collection, chunk("the same text as before", page_numbers=[2]))
    assert changed.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    of_page = put(harness, collection, chunk("the same text as before", page_numbers=[2]), format=_HTML)
    assert of_page.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert of_page.document.format == _HTML
    ingested = harness.ingest(collection, "ready", "the same text as before")
    assert ingested.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert not stored(harness, collection, ingested.document.document_id)[0].page_numbers


def test_other_chunks_without_fields_keep_those_that_are_stored(harness: Harness, collection: str) -> None:
    put(harness, collection, chunk("the moon rises"), fields=document_pb2.DocumentFields(title="Tides", tags=["sea"]))
    changed = put(harness, collection, chunk("the sun sinks"))
    assert changed.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert (changed.document.fields.title, list(changed.document.fields.tags)) == ("Tides", ["sea"])


def test_chunks_of_one_original_are_known_by_the_hash_that_the_caller_gives(harness: Harness, collection: str) -> None:
    given = {"source_hash": hashlib.sha256(b"an original").hexdigest()}
    first = put(harness, collection, chunk("the text of an original"), **given).document
    assert first.source_hash == given["source_hash"]
    otherwise = chunk("the same original, cut otherwise")
    reuse = ingest_result_pb2.DUPLICATE_POLICY_REUSE
    reused = put(harness, collection, otherwise, source_uri="other", duplicate_policy=reuse, **given)
    assert (reused.outcome, reused.document.document_id) == (
        ingest_result_pb2.INGEST_OUTCOME_REUSED,
        first.document_id,
    )
    assert harness.text(collection, "ready") == "the text of an original"


def test_a_repeated_request_has_one_effect(harness: Harness, collection: str) -> None:
    fields = {"request_id": "6b1b2b5e-6f3f-4a63-9a8e-0d2c3a4b5c6d"}
    first = put(harness, collection, chunk("once and only once"), **fields)
    put(harness, collection, chunk("something else meanwhile"))
    again = put(harness, collection, chunk("once and only once"), **fields)
    assert (again.document, again.outcome, again.counts) == (first.document, first.outcome, first.counts)
    assert harness.text(collection, "ready") == "something else meanwhile"


def test_chunks_have_tags_and_keys_of_their_own(harness: Harness, collection: str) -> None:
    given = chunk("a chunk with a tag", tags=["own"])
    result = put(harness, collection, given, fields=document_pb2.DocumentFields(tags=["all"]))
    assert list(stored(harness, collection, result.document.document_id)[0].tags) == ["all", "own"]


def test_white_space_counts_towards_the_size_of_a_chunk(harness: Harness, collection: str) -> None:
    wide = f"The moon{' ' * 8185}pulls."
    assert refused(harness, collection, chunk(wide)) == (
        "chunks[0].content",
        "has 1025 tokens, the collection takes at most 1024",
    )
    assert put(harness, collection, chunk(f"The moon{' ' * 8178}pulls.")).counts.chunk_count == 1
