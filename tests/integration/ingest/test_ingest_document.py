"""Ingesting one document: what is stored, what is refused, what an update costs."""

import hashlib
import random
from itertools import pairwise
from typing import Any

import pytest

from groundwire.api.common.v1 import document_format_pb2, document_pb2, metadata_value_pb2
from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.ingest.parsing.parsed_document import Original, ParsedDocument, ParseRules
from groundwire.ingest.parsing.parser_pool import ParserPool
from groundwire.kernel.budget import Budget
from groundwire.kernel.document_errors import (
    BinaryDocumentError,
    DocumentEncodingError,
    DocumentFormatMismatchError,
    DocumentTooLargeError,
    EmptyDocumentError,
)
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    DuplicateDocumentError,
    InvalidRequestError,
    QuotaExceededError,
)
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.identity import Identity, Quota
from groundwire.rpc import request_context
from groundwire.rpc.request_context import RequestContext
from tests.integration.ingest.harness import Harness
from tests.stubs import by_id, by_source
from tests.unit.ingest.made_files import make_pdf

TRICKY = (
    '\ufeff---\r\ntitle: Flüsse\r\ntags: [wasser, "stadt"]\r\n---\r\n# Die Elbe 🌊\r\n\r\n'
    + "Cafe\u0301 und café, 👩\u200d👩\u200d👧 und 🇩🇪.\r\n" * 200
    + "\r\n## Die Spree\r\n\r\nMehr.\r\n"
)


def long_text(seed: int, paragraphs: int = 40) -> str:
    chance = random.Random(seed)
    words = ["tide", "moon", "harbour", "granite", "yeast", "comet", "lantern", "orchard", "compass", "glacier"]
    return "\n\n".join(" ".join(chance.choices(words, k=90)) + "." for _ in range(paragraphs))


def chunks_of(harness: Harness, collection: str, document_id: str) -> list[Any]:
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id(document_id), page_size=1000)
    return list(harness.library.list_chunks(request).chunks)


@pytest.mark.requirement("S4-21")
@pytest.mark.requirement("S1-66")
@pytest.mark.requirement("S1-67")
@pytest.mark.requirement("T47")
def test_returns_marks_emoji_and_front_matter_are_ingested_exactly(harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "elbe.md", TRICKY).document
    text = harness.text(collection, "elbe.md")
    assert text == TRICKY.removeprefix("\ufeff")
    assert (document.total_chars, document.total_bytes) == (len(text), len(text.encode()))
    assert (document.fields.title, list(document.fields.tags)) == ("Flüsse", ["wasser", "stadt"])
    assert document.source_hash == hashlib.sha256(TRICKY.encode()).hexdigest()
    chunks = chunks_of(harness, collection, document.document_id)
    assert len(chunks) == document.chunk_count > 3
    for chunk in chunks:
        assert text[chunk.span.start : chunk.span.end] == chunk.content
        assert text.encode()[chunk.span.start_byte : chunk.span.end_byte].decode() == chunk.content
        assert chunk.chapter == "Die Elbe 🌊"
        assert chunk.content_hash == hashlib.sha256(chunk.content.encode()).hexdigest()


@pytest.mark.requirement("S1-49")
@pytest.mark.requirement("S1-51")
@pytest.mark.requirement("S1-53")
@pytest.mark.requirement("S1-54")
def test_chunks_are_linked_and_tell_their_overlap(harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "long.txt", long_text(1)).document
    chunks = chunks_of(harness, collection, document.document_id)
    assert [chunk.chunk_id for chunk in chunks] == [
        f"{document.document_id}#chunk_{number:03d}" for number in range(len(chunks))
    ]
    assert [chunk.prev_chunk_id for chunk in chunks] == ["", *(chunk.chunk_id for chunk in chunks[:-1])]
    assert [chunk.next_chunk_id for chunk in chunks] == [*(chunk.chunk_id for chunk in chunks[1:]), ""]
    for before, after in pairwise(chunks):
        assert before.overlap_next_chars == after.overlap_prev_chars == before.span.end - after.span.start > 0
        assert after.unique_content_start == after.span.start + after.overlap_prev_chars
        assert before.unique_content_end == before.span.end - before.overlap_next_chars


@pytest.mark.requirement("S1-68")
@pytest.mark.requirement("S4-20")
@pytest.mark.requirement("S1-80")
def test_every_chunk_has_a_point_with_its_vector(harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "long.txt", long_text(2)).document
    assert harness.points(collection) == harness.live_numbers(collection)
    request = library_pb.ListChunksRequest(
        collection=collection, reference=by_id(document.document_id), include_embedding=True
    )
    for chunk in harness.library.list_chunks(request).chunks:
        assert list(chunk.embedding) == pytest.approx(
            harness.embedder.embed_documents([chunk.content], Budget())[0].tolist()
        )
        assert chunk.embedding_model == "hashing-words"


REFUSED = [
    (b"", EmptyDocumentError, "content"),
    (b" \r\n\t ", EmptyDocumentError, "content"),
    (b"---\ntitle: x\n---\n", EmptyDocumentError, "content"),
    (b"\x89PNG\r\n\x1a\n\x00\x01", BinaryDocumentError, "content"),
    (b"text\x00text", BinaryDocumentError, "content"),
    (b"tr\xe8s", DocumentEncodingError, "content"),
    (b"x" * 3_000_001, DocumentTooLargeError, "content"),
]


@pytest.mark.parametrize(("content", "error", "field"), REFUSED, ids=range(len(REFUSED)))
def test_bad_content_is_refused_and_nothing_is_stored(
    harness: Harness, collection: str, content: bytes, error: type[InvalidRequestError], field: str
) -> None:
    with pytest.raises(error) as caught:
        harness.ingest(collection, "bad.md", content)
    assert [violation.field for violation in caught.value.violations] == [field]
    assert harness.sources(collection) == []
    assert harness.points(collection) == []
    assert harness.embedder.texts == []
    assert harness.ingest(collection, "bad.md", "# Good\n\nNow it is text.").document.generation == 1


@pytest.mark.parametrize("text", ["a\x00b\x00c\x00d\x00", "\x00a\x00b\x00c\x00d"])
def test_a_text_with_nuls_is_refused_and_not_taken_for_utf_16(harness: Harness, collection: str, text: str) -> None:
    request = pb.IngestDocumentRequest(collection=collection, source_uri="nuls.txt", text=text)
    with pytest.raises(BinaryDocumentError) as caught:
        harness.calls.ingest_document(request)
    assert caught.value.violations[0].field == "text"


def test_a_page_sent_as_text_keeps_its_characters_whatever_encoding_it_declares(
    harness: Harness, collection: str
) -> None:
    page = "<html><head><meta charset='windows-1251'></head><body><p>Très bien.</p></body></html>"
    # The same bytes as a file are in the encoding that they declare.
    first = harness.ingest(collection, "page.html", page.encode()).document
    assert first.encoding == "cp1251"
    request = pb.IngestDocumentRequest(collection=collection, source_uri="page.html", text=page)
    document = harness.calls.ingest_document(request).result.document
    assert document.encoding == "utf-8"
    assert [chunk.content for chunk in chunks_of(harness, collection, document.document_id)] == ["Très bien."]
    again = harness.calls.ingest_document(request).result
    assert again.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED


@pytest.mark.requirement("S1-57")
@pytest.mark.parametrize("source", ["", "a/../b.md", "..", "a\x00b.md", "a\nb.md", "x" * 1025, " "])
def test_bad_names_are_refused(harness: Harness, collection: str, source: str) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        harness.ingest(collection, source, "Text that is fine.")
    assert caught.value.violations[0].field == "source_uri"


def test_a_heading_only_file_is_ingested(harness: Harness, collection: str) -> None:
    document = harness.ingest(collection, "toc.md", "# One\n\n## Two\n").document
    assert [chunk.content for chunk in chunks_of(harness, collection, document.document_id)] == ["# One\n\n## Two"]


def test_a_line_of_two_megabytes_is_ingested_exactly(harness: Harness, collection: str) -> None:
    line = "lorem ipsum, " * 154_000
    document = harness.ingest(collection, "line.md", line).document
    assert document.total_chars == len(line)
    assert document.chunk_count > 300
    assert harness.points(collection) == [*range(min(harness.points(collection)), max(harness.points(collection)) + 1)]


def test_content_of_another_format_than_the_declared_one_is_refused(harness: Harness, collection: str) -> None:
    with pytest.raises(DocumentFormatMismatchError) as caught:
        harness.ingest(collection, "a.bin", "Text.", format=document_format_pb2.DOCUMENT_FORMAT_PDF)
    assert [violation.field for violation in caught.value.violations] == ["format"]
    assert caught.value.metadata == {"declared": "pdf", "found": "text"}
    assert harness.sources(collection) == []


@pytest.mark.requirement("S1-58")
@pytest.mark.requirement("T35")
def test_the_callers_hash_is_checked(harness: Harness, collection: str) -> None:
    content = "Text with a hash."
    good = hashlib.sha256(content.encode()).hexdigest()
    for bad in (good[:-1], "z" * 64, "0" * 64):
        with pytest.raises(InvalidRequestError) as caught:
            harness.ingest(collection, "a.txt", content, source_hash=bad)
        assert caught.value.violations[0].field == "source_hash"
    assert harness.ingest(collection, "a.txt", content, source_hash=good.upper()).document.source_hash == good


@pytest.mark.requirement("S4-27")
@pytest.mark.requirement("C06")
def test_unchanged_bytes_cost_nothing(harness: Harness, collection: str) -> None:
    first = harness.ingest(collection, "long.txt", long_text(3))
    harness.embedder.texts.clear()
    points = harness.points(collection)
    again = harness.ingest(collection, "long.txt", long_text(3))
    assert again.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED
    assert again.document == first.document
    assert (again.counts.embedded_count, again.counts.chunk_count) == (0, first.counts.chunk_count)
    assert harness.embedder.texts == []
    assert harness.points(collection) == points


def test_a_new_reader_reads_the_same_bytes_again_once(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    content = make_pdf(["The tide rises.\nThe moon pulls."])
    monkeypatch.setattr("groundwire.ingest.documents.READER_REVISIONS", {})
    first = harness.ingest(collection, "tides.pdf", content)
    harness.ingest(collection, "tides.txt", "The tide rises twice a day.")
    monkeypatch.undo()
    digest = hashlib.sha256(content).hexdigest()
    again = harness.ingest(collection, "tides.pdf", content, source_hash=digest)
    assert again.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert again.document.document_id == first.document.document_id
    assert again.counts.embedded_count == 0
    text = harness.ingest(collection, "tides.txt", "The tide rises twice a day.")
    for result in (text, harness.ingest(collection, "tides.pdf", content)):
        assert result.outcome == ingest_result_pb2.INGEST_OUTCOME_UNCHANGED


def test_only_changed_chunks_are_embedded_again(harness: Harness, collection: str) -> None:
    sections = [f"# Part {number}\n\n{long_text(number, 6)}\n\n" for number in range(8)]
    first = harness.ingest(collection, "book.md", "".join(sections))
    harness.embedder.texts.clear()
    sections[3] = f"# Part 3\n\n{long_text(99, 6)}\n\n"
    second = harness.ingest(collection, "book.md", "".join(sections))
    assert second.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert (second.document.document_id, second.document.generation) == (first.document.document_id, 2)
    assert second.counts.embedded_count == len(harness.embedder.texts) < second.counts.chunk_count / 4
    assert second.counts.embedded_count + second.counts.reused_embedding_count == second.counts.chunk_count
    assert harness.text(collection, "book.md") == "".join(sections)
    harness.sweep()
    assert harness.points(collection) == harness.live_numbers(collection)


def test_a_tenant_without_room_is_refused_before_its_document_is_taken_apart(
    harness: Harness, collection: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "The moon moves the sea."
    harness.ingest(collection, "a.txt", text)
    parsed: list[str] = []
    parse = ParserPool.parse

    def counted(pool: ParserPool, original: Original, rules: ParseRules, budget: Budget) -> ParsedDocument:
        parsed.append(rules.file_name)
        return parse(pool, original, rules, budget)

    monkeypatch.setattr(ParserPool, "parse", counted)

    def ingest(source: str, content: str, **quota: int) -> None:
        request_context.bind(RequestContext("", Identity(DEFAULT_TENANT, quota=Quota(**quota))))
        harness.ingest(collection, source, content)

    try:
        with pytest.raises(QuotaExceededError):
            ingest("b.txt", "Another text.", documents=1)
        with pytest.raises(QuotaExceededError):
            ingest("a.txt", "Another text.", stored_bytes=len(text))
        assert parsed == []
        ingest("a.txt", text, documents=1, stored_bytes=len(text))  # as it is
        assert parsed == []
        ingest("a.txt", "Another text.", documents=1, stored_bytes=1 << 40)
        assert parsed == ["a.txt"]
    finally:
        request_context.bind(RequestContext("", Identity()))


def test_other_fields_make_a_generation_without_embedding(harness: Harness, collection: str) -> None:
    harness.ingest(collection, "long.txt", long_text(4))
    harness.embedder.texts.clear()
    fields = document_pb2.DocumentFields(title="Tides", tags=["sea"])
    fields.metadata["rank"].CopyFrom(metadata_value_pb2.MetadataValue(int64_value=3))
    changed = harness.ingest(collection, "long.txt", long_text(4), fields=fields)
    assert changed.outcome == ingest_result_pb2.INGEST_OUTCOME_REPLACED
    assert changed.document.fields.title == "Tides"
    assert harness.embedder.texts == []
    kept = harness.ingest(collection, "long.txt", long_text(5))
    assert (kept.document.fields.title, kept.document.fields.metadata["rank"].int64_value) == ("Tides", 3)


def test_the_same_bytes_are_read_again_as_another_format(harness: Harness, collection: str) -> None:
    text = "# Tides\n\nThe moon pulls the sea."
    assert harness.ingest(collection, "a.md", text).document.format == document_format_pb2.DOCUMENT_FORMAT_MARKDOWN
    plain = document_format_pb2.DOCUMENT_FORMAT_TEXT
    for outcome in (ingest_result_pb2.INGEST_OUTCOME_REPLACED, ingest_result_pb2.INGEST_OUTCOME_UNCHANGED):
        again = harness.ingest(collection, "a.md", text, format=plain)
        assert (again.outcome, again.document.format) == (outcome, plain)


def test_new_bytes_stand_below_the_title_that_was_given_before(harness: Harness, collection: str) -> None:
    title = "Given by hand"
    first = harness.ingest(
        collection, "a.txt", "The moon pulls the sea.", fields=document_pb2.DocumentFields(title=title)
    )
    again = harness.ingest(collection, "a.txt", "The sea follows the moon.")
    assert again.document.document_id == first.document.document_id
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id(first.document.document_id))
    (chunk,) = harness.library.list_chunks(request).chunks
    assert (chunk.content, chunk.section_heading) == ("The sea follows the moon.", title)


@pytest.mark.requirement("C06")
def test_the_same_bytes_under_another_source(harness: Harness, collection: str) -> None:
    text = "The same bytes twice."
    first = harness.ingest(collection, "a.txt", text).document
    with pytest.raises(DuplicateDocumentError) as caught:
        harness.ingest(collection, "b.txt", text, duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_REJECT)
    assert caught.value.metadata == {"document_id": first.document_id, "source_uri": "a.txt"}
    for _ in range(2):
        reused = harness.ingest(collection, "b.txt", text, duplicate_policy=ingest_result_pb2.DUPLICATE_POLICY_REUSE)
        assert reused.outcome == ingest_result_pb2.INGEST_OUTCOME_REUSED
        assert reused.document.document_id == first.document_id
    allowed = harness.ingest(collection, "c.txt", text)
    assert allowed.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    assert harness.sources(collection) == ["a.txt", "c.txt"]
    own = harness.ingest(collection, "b.txt", "Now bytes of its own.")
    assert own.outcome == ingest_result_pb2.INGEST_OUTCOME_CREATED
    assert harness.sources(collection) == ["a.txt", "b.txt", "c.txt"]
    assert harness.text(collection, "a.txt") == text


@pytest.mark.requirement("C03")
@pytest.mark.requirement("S1-56")
def test_document_ids_are_the_callers_or_random(harness: Harness, collection: str) -> None:
    own = harness.ingest(collection, "a.txt", "The first text.", document_id="doc_20241126_001").document
    assert own.document_id == "doc_20241126_001"
    assert harness.ingest(collection, "b.txt", "The second text.").document.document_id.startswith("doc_")
    for bad in ("a/b", "a..b", "x" * 129):
        with pytest.raises(InvalidRequestError):
            harness.ingest(collection, "c.txt", "The third text.", document_id=bad)
    with pytest.raises(InvalidRequestError) as caught:
        harness.ingest(collection, "a.txt", "The first text, changed.", document_id="other")
    assert caught.value.violations[0].field == "document_id"


def test_a_missing_collection_is_named(harness: Harness) -> None:
    with pytest.raises(CollectionNotFoundError):
        harness.ingest("missing", "a.txt", "Text that is fine.")


def test_undersized_chunks_are_told(harness: Harness, collection: str) -> None:
    (warning,) = harness.ingest(collection, "short.md", "# A\n\nShort.\n\n# B\n\nAlso short.\n").warnings
    assert warning.kind == ingest_result_pb2.INGEST_WARNING_KIND_CHUNK_UNDERSIZED
    assert warning.occurrence_count == 2
    assert not harness.ingest(collection, "tiny.md", "# C\n\nThe only one.\n").warnings


@pytest.mark.requirement("S4-24")
def test_the_book_profile_makes_book_sized_chunks(harness: Harness) -> None:
    harness.create("a-book", collection_pb2.PROFILE_BOOK)
    document = harness.ingest("a-book", "ch01.md", "## Tides\n\n" + long_text(6)).document
    chunks = chunks_of(harness, "a-book", document.document_id)
    assert all(500 <= chunk.token_count <= 1000 for chunk in chunks)
    assert {chunk.chapter for chunk in chunks} == {"Tides"}


def test_front_matter_that_breaks_rules_is_left_out_with_a_warning_and_updates_go_on(
    harness: Harness, collection: str
) -> None:
    matter = f"---\ntitle: {'t' * 5000}\nlanguage: xx\ndate: 0001-01-01T00:00:00+14:00\n---\n"
    result = harness.ingest(collection, "a.md", matter + "# Tides\n\nThe moon pulls the sea.\n")
    warnings = {warning.kind: warning.occurrence_count for warning in result.warnings}
    assert warnings[ingest_result_pb2.INGEST_WARNING_KIND_PROPERTY_IGNORED] == 3
    stored = result.document.fields
    assert (stored.language, len(stored.title), stored.HasField("date_created")) == ("en", 1024, False)
    update = pb.UpdateDocumentRequest(
        collection=collection, reference=by_id(result.document.document_id), document=result.document
    )
    update.document.fields.category = "sea"
    changed = harness.calls.update_document(update)
    assert changed.document.fields.category == "sea"


@pytest.mark.parametrize(
    ("codec", "encoding"), [("cp932", "shift_jis"), ("utf-16", "utf-16-le"), ("utf-8-sig", "utf-8")]
)
def test_a_document_names_its_encoding_and_its_spans_refer_to_the_text(
    harness: Harness, collection: str, codec: str, encoding: str
) -> None:
    text = "# アオサギ\n\nアオサギは正午に葦の中に立っています。魚を待っています。\n"
    document = harness.ingest(collection, "heron.md", text.encode(codec)).document
    assert document.encoding == encoding
    assert harness.text(collection, "heron.md") == text
    request = library_pb.ListChunksRequest(collection=collection, reference=by_id(document.document_id))
    (chunk,) = harness.library.list_chunks(request).chunks
    assert text[chunk.span.start : chunk.span.end] == chunk.content
    assert text.encode()[chunk.span.start_byte : chunk.span.end_byte].decode() == chunk.content
    found = harness.library.get_document(
        library_pb.GetDocumentRequest(collection=collection, reference=by_source("heron.md"))
    )
    assert found.document.encoding == encoding


def test_an_alias_whose_bytes_are_another_documents_now_moves_to_that_document(
    harness: Harness, collection: str
) -> None:
    reuse = ingest_result_pb2.DUPLICATE_POLICY_REUSE
    first = harness.ingest(collection, "a.txt", "Tides rise.").document
    second = harness.ingest(collection, "b.txt", "Tides fall.").document
    assert harness.ingest(collection, "x.txt", "Tides rise.", duplicate_policy=reuse).document.alias_uris == ["x.txt"]
    for _ in range(2):
        moved = harness.ingest(collection, "x.txt", "Tides fall.", duplicate_policy=reuse)
        assert moved.outcome == ingest_result_pb2.INGEST_OUTCOME_REUSED
        assert (moved.document.document_id, list(moved.document.alias_uris)) == (second.document_id, ["x.txt"])
    reference = library_pb.GetDocumentRequest(collection=collection, reference=by_id(first.document_id))
    left = harness.library.get_document(reference).document
    assert (list(left.alias_uris), left.alias_count) == ([], 0)


def test_an_id_of_a_document_with_another_source_is_refused_for_good(harness: Harness, collection: str) -> None:
    harness.ingest(collection, "a.txt", "Tides rise.", document_id="tides")
    with pytest.raises(AlreadyExistsError, match=r"the id 'tides' is that of another source, 'a\.txt'"):
        harness.ingest(collection, "b.txt", "Tides fall.", document_id="tides")
    assert harness.ingest(collection, "a.txt", "Tides turn.", document_id="tides").document.generation > 1
