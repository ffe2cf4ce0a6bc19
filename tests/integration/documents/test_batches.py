"""BatchGetChunks and ReadSpans: many reads in one call, each with an outcome of its own."""

import random
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import pytest
from google.rpc import error_details_pb2, status_pb2
from sqlalchemy import Connection

from groundwire.api.common.v1.chunk_pb2 import ChunkReference
from groundwire.api.common.v1.document_pb2 import DocumentReference
from groundwire.api.common.v1.span_pb2 import Span
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.catalog.database import Database
from groundwire.kernel.document import DocumentReference as KernelReference
from groundwire.kernel.errors import CollectionNotFoundError, InvalidRequestError
from groundwire.kernel.identity import Identity
from tests.integration.documents.store import Store, story
from tests.stubs import by_id, by_source

NOT_FOUND, INVALID = 5, 3
MULTILINGUAL = "# Flöde\n\nTidvattnet är starkt. 月が海を引く。 🌊 rolls in.\n"


def batch(store: Store, *references: ChunkReference, **fields: Any) -> list[pb.BatchGetChunksOutcome]:
    request = pb.BatchGetChunksRequest(collection="docs", references=references, **fields)
    return list(store.harness.library.batch_get_chunks(request).outcomes)


def read(store: Store, *spans: pb.SpanReference, collection: str = "docs") -> list[pb.ReadSpansOutcome]:
    request = pb.ReadSpansRequest(collection=collection, spans=spans)
    return list(store.harness.library.read_spans(request).outcomes)


def at(reference: DocumentReference, start: int, end: int, generation: int = 0, **bytes_: int) -> pb.SpanReference:
    return pb.SpanReference(reference=reference, generation=generation, span=Span(start=start, end=end, **bytes_))


def reason(error: status_pb2.Status) -> tuple[int, str]:
    info = error_details_pb2.ErrorInfo()
    assert next(detail for detail in error.details if detail.Is(info.DESCRIPTOR)).Unpack(info)
    return error.code, info.reason


def test_chunks_come_in_the_order_asked_for_and_those_that_are_gone_say_so(engine_store: Store) -> None:
    store = engine_store
    kept = store.chunks(store.ingest("a.md", story(random.Random(1), 70)).document_id, include_embedding=True)
    gone = store.chunks(store.ingest("b.md", story(random.Random(2))).document_id)
    store.delete(gone[0].document_id, purge=False)
    store.harness.create("other")
    elsewhere = store.harness.ingest("other", "c.md", story(random.Random(3))).document
    assert len(kept) > 60, "several slices are read"
    chunks = random.Random(4).sample(kept, len(kept))
    references = [
        ChunkReference(chunk_id=chunk.chunk_id) if number % 2 else ChunkReference(chunk_number=chunk.chunk_number)
        for number, chunk in enumerate(chunks)
    ]
    missing = [
        ChunkReference(chunk_id=gone[0].chunk_id),
        ChunkReference(chunk_number=gone[1].chunk_number),
        ChunkReference(chunk_id=f"{elsewhere.document_id}#chunk_000"),
        ChunkReference(chunk_id="never"),
        ChunkReference(chunk_number=2**62),
    ]
    outcomes = batch(store, *missing, *references, references[0], include_embedding=True)
    assert [reason(outcome.error) for outcome in outcomes[:5]] == [(NOT_FOUND, "CHUNK_NOT_FOUND")] * 5
    assert [outcome.chunk for outcome in outcomes[5:]] == [*chunks, chunks[0]]
    assert chunks[0].embedding
    (bare,) = batch(store, references[0])
    assert not bare.chunk.embedding
    assert bare.chunk == store.chunk(chunks[0].chunk_id)


def test_chunks_that_are_purged_while_they_are_read_are_not_found(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    going = store.chunks(store.ingest("a.md", story(random.Random(1))).document_id)[0]
    stays = store.chunks(store.ingest("b.md", story(random.Random(2))).document_id)[0]
    read, reads = Database.read, count()

    @contextmanager
    def read_and_purge(database: Database) -> Iterator[Connection]:
        """Purge once the chunks were read."""
        with read(database) as connection:
            yield connection
        if next(reads) == 0:
            store.delete(going.document_id, purge=True)

    monkeypatch.setattr(Database, "read", read_and_purge)
    references = [ChunkReference(chunk_id=chunk.chunk_id) for chunk in (going, stays)]
    outcomes = batch(store, *references, include_embedding=True)
    assert [len(outcome.chunk.embedding) > 0 for outcome in outcomes] == [True, True]
    assert reason(batch(store, *references, include_embedding=True)[0].error) == (NOT_FOUND, "CHUNK_NOT_FOUND")


def test_a_text_that_is_purged_while_it_is_read_is_not_found(store: Store) -> None:
    document_id = store.ingest("a.md", "The tide comes in. " * 8000).document_id

    def spans() -> Iterator[tuple[KernelReference, pb.SpanReference]]:
        reference = KernelReference(document_id=document_id)
        yield reference, at(by_id(document_id), 0, 3)
        store.delete(document_id, purge=True)
        yield reference, at(by_id(document_id), 140_000, 140_003)

    first, second = store.harness.library_servicer.read_spans(Identity(), "docs", spans())
    assert first.found.text == "The"
    assert reason(second.error) == (NOT_FOUND, "DOCUMENT_NOT_FOUND")


@pytest.mark.parametrize(
    ("references", "fields"),
    [
        ([], ["references"]),
        ([ChunkReference(chunk_id="x")] * 1001, ["references"]),
        ([ChunkReference(chunk_id="x"), ChunkReference(), ChunkReference()], ["references[1]", "references[2]"]),
    ],
)
def test_a_batch_that_names_nothing_or_too_much_is_refused(
    store: Store, references: list[ChunkReference], fields: list[str]
) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        batch(store, *references)
    assert [violation.field for violation in refused.value.violations] == fields


def test_spans_of_several_documents_are_exact_in_both_units(store: Store) -> None:
    texts = {
        "a.md": MULTILINGUAL,
        "long.txt": "".join(f"{number}. Ebbe, Flut und 潮汐.\n" for number in range(12_000)),
    }
    documents = {source: store.ingest(source, text) for source, text in texts.items()}
    assert documents["long.txt"].total_chars > 3 * 65_536, "spans cross the stored segments"
    chance, wanted = random.Random(5), []
    for _ in range(120):
        source = chance.choice(list(texts))
        total = documents[source].total_chars
        start = chance.randrange(total)
        wanted.append((source, start, chance.randint(start + 1, min(total, start + 70_000))))
    wanted += [(source, 0, min(262_144, document.total_chars)) for source, document in documents.items()]
    wanted += [("long.txt", 65_535, 65_537), ("long.txt", 65_536, 131_072)]
    chance.shuffle(wanted)
    references = [
        at(by_source(source) if number % 2 else by_id(documents[source].document_id), start, end)
        for number, (source, start, end) in enumerate(wanted)
    ]
    outcomes: list[pb.ReadSpansOutcome] = []
    while len(outcomes) < len(wanted):
        outcomes += read(store, *references[len(outcomes) :])
    for (source, start, end), outcome in zip(wanted, outcomes, strict=True):
        found = outcome.found
        assert found.text == texts[source][start:end]
        assert (found.document_id, found.generation) == (documents[source].document_id, 1)
        assert (found.span.start, found.span.end) == (start, end)
        assert texts[source].encode()[found.span.start_byte : found.span.end_byte] == found.text.encode()


def test_each_span_fails_for_itself(store: Store) -> None:
    document = store.ingest("a.md", MULTILINGUAL)
    store.ingest("a.md", MULTILINGUAL + "\nA second generation.\n")
    gone = store.ingest("gone.md", story(random.Random(1)))
    store.delete(gone.document_id)
    this, total = by_id(document.document_id), document.total_chars
    outcomes = read(
        store,
        at(this, 2, 7),
        at(this, 2, 7, generation=1),
        at(this, 2, 7, start_byte=2, end_byte=8),
        at(this, total, total + 1),
        at(this, total, total + 1, generation=1),
        at(this, 2, 7, start_byte=2, end_byte=7),
        at(this, 2, 7, generation=3),
        at(by_id(gone.document_id), 0, 1),
        at(by_source("nowhere.md"), 0, 1),
        at(this, 0, 1),
    )
    assert [outcome.WhichOneof("outcome") for outcome in outcomes] == [*["found"] * 4, *["error"] * 5, "found"]
    assert [outcome.found.text for outcome in outcomes[:3]] == ["Flöde"] * 3
    assert [outcome.found.generation for outcome in outcomes[:3]] == [2, 1, 2]
    assert [reason(outcome.error) for outcome in outcomes[4:9]] == [
        (INVALID, "INVALID_FIELD"),
        (INVALID, "INVALID_FIELD"),
        (NOT_FOUND, "DOCUMENT_NOT_FOUND"),
        (NOT_FOUND, "DOCUMENT_NOT_FOUND"),
        (NOT_FOUND, "DOCUMENT_NOT_FOUND"),
    ]
    assert outcomes[9].found.text == "#"


@pytest.mark.parametrize(
    ("spans", "fields"),
    [
        ([], ["spans"]),
        ([at(by_id("doc"), 0, 1)] * 1001, ["spans"]),
        ([at(by_id("doc"), 0, 1), at(DocumentReference(), 0, 1)], ["spans[1].reference"]),
        (
            [
                at(by_id("doc"), 3, 3),
                at(by_id("doc"), -1, 3),
                at(by_id("doc"), 0, 262_145),
                pb.SpanReference(reference=by_id("doc")),
            ],
            ["spans[0].span", "spans[1].span", "spans[2].span", "spans[3].span"],
        ),
        ([at(by_id("doc"), 0, 1, generation=-1)], ["spans[0].generation"]),
    ],
)
def test_spans_that_cannot_be_any_are_refused(store: Store, spans: list[pb.SpanReference], fields: list[str]) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        read(store, *spans)
    assert [violation.field for violation in refused.value.violations] == fields


def test_both_need_the_collection(store: Store) -> None:
    with pytest.raises(CollectionNotFoundError):
        read(store, at(by_id("doc"), 0, 1), collection="nowhere")
    request = pb.BatchGetChunksRequest(collection="nowhere", references=[ChunkReference(chunk_id="x")])
    with pytest.raises(CollectionNotFoundError):
        store.harness.library.batch_get_chunks(request)
