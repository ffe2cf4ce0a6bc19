"""Documents and their generations: written, published, replaced, taken back, deleted."""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from dataclasses import replace
from datetime import timedelta
from functools import partial

import numpy as np
import pytest
from sqlalchemy import Connection, func, insert, literal, select, update

from groundwire.catalog.deletions import Deleted, Deletion, Deletions, Restorations, trace_documents
from groundwire.catalog.generations import GenerationDraft, IndexMovedError, Prepared, insert_chunks
from groundwire.catalog.outbox import OutboxKind, queue_drop
from groundwire.catalog.rows import IS_STORED, document_rows
from groundwire.catalog.schema import collections, documents, generations, message_documents, messages, record_quotes
from groundwire.catalog.schema import deletions as deletions_table
from groundwire.catalog.sessions import NewMessage
from groundwire.catalog.vocabularies import Vocabularies
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import epoch_ms
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.errors import (
    AlreadyExistsError,
    CollectionNotFoundError,
    DocumentChangedError,
    DocumentNotFoundError,
    ExhaustedError,
    QuotaExceededError,
    StaleSourceVersionError,
)
from groundwire.kernel.filters import Exists
from groundwire.kernel.identity import CURRENT_IDENTITY, Identity, Quota
from groundwire.kernel.session import Role
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import (
    DIMENSIONS,
    NOON,
    TENANT,
    Catalog,
    make_collection,
    make_draft,
    matching,
    new_session,
    sha256,
    vector_key,
)

FIELDS = DocumentFields(
    title="Tides",
    creators=("Ada", "Émile"),
    subjects=("sea", "moon"),
    description="What tides are",
    date_created=NOON,
    language="fr",
    category="science",
    tags=("b", "a"),
    project="p",
    metadata={"n": 3, "share": 0.1, "flag": True, "labels": ("x", "y"), "counts": (1, 2)},
)


@pytest.mark.requirement("S1-59")
@pytest.mark.requirement("S1-60")
@pytest.mark.requirement("S1-61")
@pytest.mark.requirement("S1-62")
@pytest.mark.requirement("S1-63")
@pytest.mark.requirement("S1-65")
@pytest.mark.requirement("S1-70")
def test_every_field_comes_back_as_it_was_given(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one", "two", fields=FIELDS))
    assert catalog.documents.get(TENANT, "docs", document.document_id) == document
    assert document.fields == FIELDS
    assert (document.source_uri, document.source_hash) == ("a.md", sha256("one\ntwo"))
    assert (document.generation, document.chunk_count, document.total_chars) == (1, 2, 7)
    assert document.embedding_model == docs.identity.model_name


@pytest.mark.requirement("S1-67")
def test_lengths_count_code_points_and_bytes(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("naïve 東京 🦀", "é"))
    assert (document.total_chars, document.total_bytes) == (12, 21)


def _states(catalog: Catalog) -> dict[int, str]:
    with catalog.database.read() as connection:
        rows = connection.execute(select(generations.c.generation, generations.c.state)).all()
    return {row.generation: row.state for row in rows}


def test_a_pending_generation_is_seen_by_no_reader(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("tide one", "tide two", document_id="doc-1"))
    assert catalog.documents.find_by_source(TENANT, "docs", "a.md") is None
    assert catalog.documents.find_by_hash(TENANT, "docs", sha256("tide one\ntide two")) is None
    assert catalog.documents.page(TENANT, "docs", None, 10) == []
    assert catalog.live(TENANT, "docs", pending.numbers) == {}
    assert matching(catalog, TENANT, "docs", Exists("document_id")) == []
    assert catalog.numbers_for(docs, "tide") == []
    assert catalog.collections.counts(TENANT, "docs").documents == 0
    assert list(catalog.vectors.points(docs, 10)) == []
    for read in (
        lambda: catalog.documents.get(TENANT, "docs", "doc-1"),
        lambda: catalog.slice(TENANT, "docs", "doc-1", 1, [(0, 1)]),
        lambda: catalog.texts.parts(TENANT, "docs", "doc-1", None, 10),
        lambda: catalog.chunks.page(TENANT, "docs", "doc-1", -1, 10),
    ):
        with pytest.raises(DocumentNotFoundError):
            read()
    assert catalog.chunks.find(TENANT, [*pending.numbers, *pending.chunk_ids]) == []


@pytest.mark.requirement("S1-51")
def test_ids_and_filter_keys_are_made_when_the_generation_begins(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("one", "two", document_id="doc-1", fields=FIELDS))
    assert pending.chunk_ids == ["doc-1#chunk_000", "doc-1#chunk_001"]
    assert pending.numbers[1] == pending.numbers[0] + 1
    assert pending.payloads[1]["chunk_number"] == pending.numbers[1]
    assert pending.payloads[1]["labels"] == ("x", "y")
    assert catalog.begin(docs, make_draft("x", source="b")).document_id.startswith("doc_")


@pytest.mark.requirement("C03")
def test_chunk_numbers_are_never_given_twice(catalog: Catalog, docs: Collection) -> None:
    first = catalog.begin(docs, make_draft("one"))
    catalog.documents.abandon(first)
    document, second = catalog.put(docs, make_draft("one"))
    catalog.documents.delete(TENANT, "docs", document.document_id)
    _, third = catalog.put(docs, make_draft("one"))
    assert first.numbers[0] < second.numbers[0] < third.numbers[0]


@pytest.mark.requirement("C06")
@pytest.mark.requirement("S1-66")
def test_a_new_generation_replaces_the_old_one_at_once(catalog: Catalog, docs: Collection) -> None:
    document, old = catalog.put(docs, make_draft("tide one", "tide two", "tide three"))
    catalog.clock.advance(hours=1)
    draft = make_draft("moon one", "moon two", document_id=document.document_id, expected=1)
    new = catalog.begin(docs, draft)
    assert catalog.numbers_for(docs, "tide") == list(old.numbers)
    replaced = catalog.documents.publish(new)
    assert (replaced.document_id, replaced.generation, replaced.chunk_count) == (document.document_id, 2, 2)
    assert catalog.numbers_for(docs, "tide") == []
    assert catalog.numbers_for(docs, "moon") == list(new.numbers)
    assert list(catalog.live(TENANT, "docs", [*old.numbers, *new.numbers])) == list(new.numbers)
    (item,) = catalog.outbox.pending(10)
    assert (item.kind, item.engine_name, item.numbers) == (
        OutboxKind.DELETE_POINTS,
        docs.engine_name,
        tuple(old.numbers),
    )
    assert problems_of(catalog.database) == []


@pytest.mark.requirement("T10")
def test_times_are_aware_and_only_the_last_change_moves(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    assert document.ingest_time == document.update_time == NOON
    catalog.clock.advance(minutes=5)
    again, _ = catalog.put(docs, make_draft("two", document_id=document.document_id, expected=1))
    assert again.ingest_time == NOON
    assert (again.update_time - again.ingest_time).total_seconds() == 300


def test_the_text_of_a_replaced_generation_can_still_be_verified(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("first text"))
    catalog.put(docs, make_draft("second text", document_id=document.document_id, expected=1))
    assert catalog.slice(TENANT, "docs", document.document_id, 1, [(0, 5)]) == ["first"]
    assert catalog.slice(TENANT, "docs", document.document_id, 2, [(0, 6)]) == ["second"]


def test_the_second_of_two_writers_learns_that_the_document_changed(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    mine, theirs = (
        catalog.begin(docs, make_draft(text, document_id=document.document_id, expected=1))
        for text in ("mine", "theirs")
    )
    assert catalog.documents.publish(theirs).generation == theirs.generation
    with pytest.raises(DocumentChangedError):
        catalog.documents.publish(mine)
    catalog.documents.abandon(mine)
    assert catalog.slice(TENANT, "docs", document.document_id, theirs.generation, [(0, 6)]) == ["theirs"]
    assert problems_of(catalog.database) == []


def test_beginning_on_an_outdated_generation_is_refused(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    for expected in (0, 2):
        with pytest.raises(DocumentChangedError):
            catalog.begin(docs, make_draft("two", document_id=document.document_id, expected=expected))
    with pytest.raises(DocumentChangedError):
        catalog.begin(docs, make_draft("two", source="b", document_id="unknown", expected=1))
    assert catalog.recovery.leftovers() == []


@pytest.mark.requirement("S1-57")
def test_one_of_two_new_documents_with_one_source_wins(catalog: Catalog, docs: Collection) -> None:
    first, second = (catalog.begin(docs, make_draft(text)) for text in ("one", "two"))
    winner = catalog.documents.publish(second)
    with pytest.raises(DocumentChangedError):
        catalog.documents.publish(first)
    catalog.documents.abandon(first)
    assert catalog.documents.find_by_source(TENANT, "docs", "a.md") == winner
    with pytest.raises(DocumentChangedError):
        catalog.begin(docs, make_draft("three"))
    assert problems_of(catalog.database) == []


def test_a_generation_does_not_bring_back_a_source_that_was_deleted_meanwhile(
    catalog: Catalog, docs: Collection
) -> None:
    document, _ = catalog.put(docs, make_draft("one", source="a.md"))
    catalog.documents.add_alias(TENANT, "docs", document.document_id, "b.md")
    second = catalog.begin(docs, make_draft("two", source="a.md", document_id=document.document_id, expected=1))
    catalog.documents.drop_source(TENANT, "docs", "a.md", permanent=True)
    late = catalog.begin(docs, make_draft("late", source="a.md", document_id=document.document_id, expected=1))
    for pending in (second, late):
        with pytest.raises(DocumentChangedError):
            catalog.documents.publish(pending)
    assert catalog.documents.find_by_source(TENANT, "docs", "a.md") is None


def test_an_id_of_a_softly_deleted_document_is_not_given_to_another_source(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("one", source="a.md", document_id="doc-1"))
    catalog.documents.delete(TENANT, "docs", "doc-1", permanent=False)
    with pytest.raises(AlreadyExistsError, match="can be restored"):
        catalog.begin(docs, make_draft("two", source="b.md", document_id="doc-1"))


def test_a_late_version_is_refused_as_such_also_where_the_document_was_not_known(
    catalog: Catalog, docs: Collection
) -> None:
    catalog.put(docs, replace(make_draft("new", document_id="doc-1"), source_version=5))
    with pytest.raises(StaleSourceVersionError):
        catalog.begin(docs, replace(make_draft("old", document_id="doc-1"), source_version=3))


def test_a_version_that_became_late_while_it_was_written_is_refused(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one", document_id="doc-1"))
    late = catalog.begin(docs, replace(make_draft("two", document_id="doc-1", expected=1), source_version=3))
    catalog.documents.raise_source_version(document, TENANT, 5)
    with pytest.raises(StaleSourceVersionError):
        catalog.documents.publish(late)


def test_an_id_of_a_generation_that_was_never_published_is_free_for_another_source(
    catalog: Catalog, docs: Collection
) -> None:
    document_id = "11111111-1111-4111-8111-111111111111"
    catalog.begin(docs, make_draft("one", source="a.md", document_id=document_id))
    document, _ = catalog.put(docs, make_draft("two", source="b.md", document_id=document_id))
    assert catalog.documents.find_by_source(TENANT, "docs", "b.md") == document
    assert catalog.documents.find_by_source(TENANT, "docs", "a.md") is None


def test_a_page_of_long_chunks_ends_early_and_the_next_one_goes_on(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft(*("x" * 65_536 for _ in range(70))))
    for document_id in ("", document.document_id):
        found, after, sizes = list[int](), -1, list[int]()
        is_last = False
        while not is_last:
            page = catalog.chunks.listed(
                TENANT, "docs", document_id=document_id, where=None, after=after, limit=100, include_vectors=False
            )
            found += [stored.chunk.sequence_num for stored in page.chunks]
            sizes.append(sum(len(stored.chunk.content) for stored in page.chunks))
            after = page.chunks[-1].chunk.sequence_num if document_id else page.chunks[-1].chunk_number
            is_last = page.is_last
        assert found == list(range(70))
        assert (len(sizes), max(sizes)) == (2, 4 << 20)


def test_the_same_source_may_stand_in_two_collections(catalog: Catalog, docs: Collection) -> None:
    other = catalog.collections.create(make_collection("other"))
    catalog.put(docs, make_draft("one"))
    catalog.put(other, make_draft("one"))
    document = catalog.documents.find_by_source(TENANT, "docs", "a.md")
    assert document is not None
    for source in ("b", "a.md"):
        with pytest.raises(AlreadyExistsError):
            catalog.begin(other, make_draft("x", source=source, document_id=document.document_id))


def test_an_abandoned_generation_leaves_nothing_but_its_points_to_delete(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("tide", "moon"))
    catalog.documents.abandon(pending)
    catalog.documents.abandon(pending)
    items = catalog.outbox.pending(10)
    assert {item.numbers for item in items} == {tuple(pending.numbers)}
    with catalog.database.read() as connection:
        for table in ("documents", "generations", "chunks", "text_segments", "chunk_pages"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0  # noqa: S608 - our names
    with pytest.raises(DocumentChangedError):
        catalog.documents.publish(pending)


def test_abandoning_after_an_unnoticed_success_changes_nothing(catalog: Catalog, docs: Collection) -> None:
    document, pending = catalog.put(docs, make_draft("tide"))
    catalog.documents.abandon(pending)
    assert catalog.documents.get(TENANT, "docs", document.document_id) == document
    assert catalog.outbox.pending(10) == []


@pytest.mark.requirement("S1-84")
@pytest.mark.requirement("T13")
def test_deleting_removes_every_part_of_a_document(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("tide one", fields=FIELDS))
    document, pending = catalog.put(
        docs, make_draft("tide two", "moon", document_id=document.document_id, expected=1, fields=FIELDS)
    )
    catalog.documents.add_alias(TENANT, "docs", document.document_id, "alias.md")
    catalog.outbox.done([item.id for item in catalog.outbox.pending(10)])
    deletion = catalog.documents.delete(TENANT, "docs", document.document_id).deletion
    texts = next(each.total for each in deletion.stores if each.store == "texts")
    assert (deletion.documents, texts, deletion.chunks) == (1, 2, 2)
    assert catalog.numbers_for(docs, "tide") == []
    assert catalog.documents.find_by_source(TENANT, "docs", "alias.md") is None
    for generation in (1, 2):
        with pytest.raises(DocumentNotFoundError):
            catalog.slice(TENANT, "docs", document.document_id, generation, [(0, 1)])
    with pytest.raises(DocumentNotFoundError):
        catalog.documents.delete(TENANT, "docs", document.document_id)
    assert [item.numbers for item in catalog.outbox.pending(10)] == [tuple(pending.numbers)]
    with catalog.database.read() as connection:
        for table in ("documents", "generations", "chunks", "text_segments", "chunk_pages", "document_tags"):
            assert connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar() == 0, table  # noqa: S608 - our names
    assert catalog.vectors.get(docs.identity.digest, [sha256("tide two"), sha256("moon")]) == {}
    assert problems_of(catalog.database) == []


@pytest.fixture
def limited() -> Iterator[Callable[..., object]]:
    """Return what says how much the tenant of the caller may have stored."""
    yield lambda **limits: CURRENT_IDENTITY.set(Identity(TENANT, quota=Quota(**limits)))
    CURRENT_IDENTITY.set(Identity())


def test_a_tenant_stores_no_more_documents_than_the_caller_may_make_it(
    catalog: Catalog, docs: Collection, limited: Callable[..., object]
) -> None:
    other = catalog.collections.create(make_collection("docs", tenant="other"))
    limited(documents=2)
    first, _ = catalog.put(docs, make_draft("one", source="a.md"))
    second, _ = catalog.put(docs, make_draft("two", source="b.md"))
    with pytest.raises(QuotaExceededError) as caught:
        catalog.put(docs, make_draft("three", source="c.md"))
    assert (caught.value.metadata, caught.value.retry_after_s) == ({"quota": "documents", "limit": "2"}, None)
    assert not catalog.recovery.leftovers()
    catalog.put(other, make_draft("three", source="c.md"))  # of another tenant
    changed = replace(make_draft("1", source="a.md", expected=1), document_id=first.document_id)
    assert catalog.put(docs, changed)[0].generation == 2  # no further document
    limited(documents=1)
    changed = replace(make_draft("2", source="a.md", expected=2), document_id=first.document_id)
    assert catalog.put(docs, changed)[0].generation == 3  # though there are more than may be made now
    limited(documents=2)
    catalog.documents.delete(TENANT, "docs", first.document_id, permanent=False)
    with pytest.raises(QuotaExceededError):
        catalog.put(docs, make_draft("three", source="c.md"))
    catalog.documents.delete(TENANT, "docs", second.document_id)
    catalog.put(docs, make_draft("three", source="c.md"))


def test_a_tenant_stores_no_more_text_than_the_caller_may_make_it(
    catalog: Catalog, docs: Collection, limited: Callable[..., object]
) -> None:
    other = catalog.collections.create(make_collection("docs", tenant="other"))
    catalog.put(other, make_draft("of another tenant"))
    limited(stored_bytes=10)
    document, _ = catalog.put(docs, make_draft("éééé"))  # 8 bytes
    changed = replace(make_draft("123", expected=1), document_id=document.document_id)
    with pytest.raises(QuotaExceededError) as caught:
        catalog.put(docs, changed)
    assert caught.value.metadata == {"quota": "stored_bytes", "limit": "10"}
    limited(stored_bytes=11)
    catalog.put(docs, changed)
    catalog.documents.delete(TENANT, "docs", document.document_id)
    catalog.put(docs, make_draft("12345678901", source="b.md"))
    limited()
    catalog.put(docs, make_draft("and as much as one likes", source="c.md"))


def test_writers_side_by_side_do_not_exceed_a_limit_together(
    catalog: Catalog, docs: Collection, limited: Callable[..., object]
) -> None:
    limited(documents=5)

    def put(number: int) -> bool:
        try:
            catalog.put(docs, make_draft(f"text {number}", source=f"{number}.md"))
        except QuotaExceededError:
            return False
        return True

    with ThreadPoolExecutor(8) as threads:
        stored = [threads.submit(copy_context().run, put, number) for number in range(16)]
        assert sum(each.result() for each in stored) == 5


def test_a_vector_that_another_document_uses_survives_a_deletion(catalog: Catalog, docs: Collection) -> None:
    draft = make_draft("shared", "mine")
    document, _ = catalog.put(docs, draft)
    catalog.put(docs, make_draft("shared", source="b.md"))
    catalog.documents.delete(TENANT, "docs", document.document_id)
    shared, mine = (chunk.embedding_hash for chunk in draft.chunks)
    assert set(catalog.vectors.get(docs.identity.digest, [shared, mine])) == {shared}


def test_a_document_that_comes_back_goes_on_counting_generations(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one", document_id="doc-1"))
    catalog.documents.delete(TENANT, "docs", "doc-1")
    again, _ = catalog.put(docs, make_draft("two", document_id="doc-1"))
    assert (document.generation, again.generation) == (1, 2)
    with pytest.raises(DocumentNotFoundError):
        catalog.slice(TENANT, "docs", "doc-1", 1, [(0, 1)])


def test_what_was_replaced_before_a_soft_deletion_stays_replaced_after_it_is_undone(
    catalog: Catalog, docs: Collection
) -> None:
    first, _ = catalog.put(docs, make_draft("old"))
    document, pending = catalog.put(docs, make_draft("new", document_id=first.document_id, expected=1))
    restorations = Restorations(catalog.database)
    catalog.documents.delete(TENANT, "docs", document.document_id, permanent=False)
    assert _states(catalog) == {1: "SUPERSEDED", 2: "DELETED"}
    restoration = restorations.begin(TENANT, "docs", [document.document_id])
    assert restoration is not None
    assert restorations.finish(restoration) == [document]
    assert _states(catalog) == {1: "SUPERSEDED", 2: "LIVE"}
    assert catalog.numbers_for(docs, "new") == list(pending.numbers)


def test_however_many_generations_are_swept_nobody_reads_a_past_that_lacks_them(catalog: Catalog) -> None:
    keeping = replace(make_collection().settings, generation_retention=timedelta(days=1))
    docs = catalog.collections.create(replace(make_collection("kept"), settings=keeping))
    first, _ = catalog.put(docs, make_draft("text 0"))
    for number in range(1, 26):
        catalog.put(docs, make_draft(f"text {number}", document_id=first.document_id, expected=number))
    catalog.clock.advance(days=2)
    assert catalog.documents.sweep_generations(docs.uid, Budget()) == 25
    with catalog.database.read() as connection:
        readable_from = connection.execute(select(collections.c.readable_from)).scalar_one()
        assert readable_from == connection.execute(select(func.max(generations.c.live_to))).scalar_one()


def test_a_source_that_several_deleted_documents_had_goes_on_with_the_newest_of_them(
    catalog: Catalog, docs: Collection
) -> None:
    older, newer = "11111111-1111-4111-8111-111111111111", "22222222-2222-4222-8222-222222222222"
    restorations = Restorations(catalog.database)
    for document_id in (older, newer):
        catalog.put(docs, make_draft(document_id, document_id=document_id))
        catalog.documents.delete(TENANT, "docs", document_id, permanent=False)
    # Whichever row was written last.
    restoration = restorations.begin(TENANT, "docs", [older])
    assert restoration is not None
    restorations.finish(restoration)
    catalog.documents.delete(TENANT, "docs", older, permanent=False)
    assert catalog.put(docs, make_draft("again"))[0].document_id == newer


def test_a_source_that_became_an_alias_is_of_one_document_after_a_restoration(
    catalog: Catalog, docs: Collection
) -> None:
    first, _ = catalog.put(docs, make_draft("one", source="s"))
    other, _ = catalog.put(docs, make_draft("two", source="b"))
    catalog.documents.delete(TENANT, "docs", first.document_id, permanent=False)
    catalog.documents.add_alias(TENANT, "docs", other.document_id, "s")
    restorations = Restorations(catalog.database)
    restoration = restorations.begin(TENANT, "docs", [first.document_id])
    assert restoration is not None
    with pytest.raises(AlreadyExistsError, match=other.document_id):
        restorations.finish(restoration)
    catalog.documents.delete(TENANT, "docs", other.document_id, permanent=False)
    restorations.finish(restoration)
    again = restorations.begin(TENANT, "docs", [other.document_id])
    assert again is not None
    (restored,) = restorations.finish(again)
    assert (restored.alias_uris, restored.alias_count) == ((), 0)
    assert catalog.documents.find_by_source(TENANT, "docs", "s") == catalog.documents.get(
        TENANT, "docs", first.document_id
    )


def test_a_document_is_not_restored_to_an_index_that_was_replaced_meanwhile(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("tide"))
    catalog.documents.delete(TENANT, "docs", document.document_id, permanent=False)
    restorations = Restorations(catalog.database)
    restoration = restorations.begin(TENANT, "docs", [document.document_id])
    assert restoration is not None
    moved = update(collections).values(engine_name="gw-rebuilt")
    catalog.database.write(lambda connection: connection.execute(moved))
    with pytest.raises(IndexMovedError):
        restorations.finish(restoration)
    assert _states(catalog) == {1: "DELETED"}


def test_a_document_that_was_deleted_for_good_meanwhile_is_not_restored_with_others(
    catalog: Catalog, docs: Collection
) -> None:
    first, second = (catalog.put(docs, make_draft(name, source=name))[0].document_id for name in ("one", "two"))
    for document_id in (first, second):
        catalog.documents.delete(TENANT, "docs", document_id, permanent=False)
    restorations = Restorations(catalog.database)
    restoration = restorations.begin(TENANT, "docs", [first, second])
    assert restoration is not None
    catalog.documents.delete(TENANT, "docs", second)
    with pytest.raises(DocumentNotFoundError, match=second):
        restorations.finish(restoration)
    assert _states(catalog) == {1: "DELETED"}


def test_points_are_restored_of_those_chunks_that_had_some(catalog: Catalog, docs: Collection) -> None:
    draft = make_draft("one", "two")
    document, pending = catalog.put(
        docs, replace(draft, chunks=[replace(draft.chunks[0], indexed=False), draft.chunks[1]])
    )
    catalog.documents.delete(TENANT, "docs", document.document_id, permanent=False)
    restorations = Restorations(catalog.database)
    restoration = restorations.begin(TENANT, "docs", [document.document_id])
    assert restoration is not None
    assert [each.chunk_number for each in restorations.chunks(restoration, -1, 10)] == [pending.numbers[1]]


def test_of_a_document_that_is_written_anew_while_it_is_deleted_for_good_nothing_is_left(
    catalog: Catalog, docs: Collection
) -> None:
    fields = DocumentFields(
        tags=("secret",), record={"type": "memory", "scope": "global", "timestamp": "2026-01-01T00:00:00Z"}
    )
    draft = replace(make_draft("one", document_id="doc-1", fields=fields), source_version=5)
    catalog.put(docs, draft)
    catalog.begin(docs, make_draft("two", document_id="doc-1", expected=1))
    catalog.documents.delete(TENANT, "docs", "doc-1")
    with catalog.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM document_tags").scalar_one() == 0
        assert connection.exec_driver_sql("SELECT count(*) FROM records").scalar_one() == 0
    catalog.put(docs, replace(make_draft("three", document_id="doc-1"), source_version=1))


def test_readers_of_the_past_find_what_was_live_and_never_what_had_been_deleted(catalog: Catalog) -> None:
    keeping = replace(make_collection().settings, generation_retention=timedelta(days=1))
    docs = catalog.collections.create(replace(make_collection("kept"), settings=keeping))
    contents = {}
    for name in ("replaced", "deleted", "deleted later"):
        first, _ = catalog.put(docs, make_draft(f"old {name}", source=name))
        if is_deleted := name == "deleted":
            catalog.documents.delete(TENANT, "kept", first.document_id, permanent=False)
        catalog.put(
            docs, make_draft(f"new {name}", source=name, document_id=first.document_id, expected=0 if is_deleted else 1)
        )
        if name == "deleted later":
            catalog.documents.delete(TENANT, "kept", first.document_id, permanent=False)
        with catalog.database.read() as connection:
            rows = connection.exec_driver_sql("SELECT content FROM chunks").scalars().all()
        contents[name] = sorted(row for row in rows if row.endswith(name))
    assert contents == {
        "replaced": ["new replaced", "old replaced"],
        "deleted": ["new deleted"],
        "deleted later": ["new deleted later"],
    }


@pytest.mark.parametrize("is_hidden", [False, True])
def test_the_last_search_after_a_deletion_counts_what_is_left_in_each_store(
    catalog: Catalog, docs: Collection, is_hidden: bool
) -> None:
    document, _ = catalog.put(docs, make_draft("one", "two"))
    if is_hidden:
        catalog.documents.delete(TENANT, "docs", document.document_id, permanent=False)

    def trace(connection: Connection) -> Deleted:
        """Return what a deletion would look for, without deleting anything."""
        rows = document_rows(connection, TENANT, "docs", [document.document_id], IS_STORED)
        traces = trace_documents(connection, docs, rows, select(generations.c.generation_key), permanent=True)
        return Deleted.now(traces, [], epoch_ms(catalog.clock.now()))

    deleted, deletions = catalog.database.write(trace), Deletions(catalog.database)
    nothing = dict.fromkeys(deletions.left_of(deleted), 0)
    # A row of the document, one of its generation, and one of each chunk.
    assert deletions.left_of(deleted) == nothing | {"catalog": 4, "full_text": 0 if is_hidden else 2, "texts": 1}
    catalog.documents.delete(TENANT, "docs", document.document_id)
    assert deletions.left_of(deleted) == nothing

    vectors = np.ones((1, DIMENSIONS), dtype=np.float32)
    catalog.vectors.put(docs.identity.digest, [vector_key("one")], vectors)
    catalog.sessions.create(TENANT, new_session("s-1", NOON, timedelta(hours=1)))
    catalog.sessions.append(TENANT, "s-1", "", [NewMessage("q", Role.USER, "?", NOON)])
    other, _ = catalog.put(docs, make_draft("other", source="b.md"))

    def quote(connection: Connection) -> None:
        gone = literal(document.document_id)
        of_message = select(messages.c.message_key, gone, literal(TENANT), literal(1))
        connection.execute(insert(message_documents).from_select(message_documents.c.keys(), of_message))
        of_other = select(documents.c.document_key, gone).where(documents.c.document_id == other.document_id)
        connection.execute(insert(record_quotes).from_select(record_quotes.c.keys(), of_other))

    catalog.database.write(quote)
    # Those of another tenant may have the same id.
    foreign = catalog.collections.create(make_collection(tenant="another"))
    catalog.put(foreign, make_draft("x", document_id=document.document_id))
    assert deletions.left_of(deleted) == nothing | {"embedding_cache": 1, "sessions": 1, "records": 1}
    # What came after the deletion is none of its business.
    catalog.clock.advance(seconds=1)
    catalog.vectors.put(docs.identity.digest, [vector_key("two", 1)], vectors)
    catalog.put(docs, make_draft("three", document_id=document.document_id))
    assert deletions.left_of(deleted) == nothing | {"embedding_cache": 1}


def test_a_deletion_is_complete_with_its_last_step_and_forgotten_a_day_later(
    catalog: Catalog, docs: Collection
) -> None:
    first, second = (catalog.put(docs, make_draft(name, source=name))[0].document_id for name in ("one", "two"))
    deletions = Deletions(catalog.database)

    def step(*document_ids: str, is_last: bool = False) -> Deletion:
        return catalog.documents.delete_all(
            docs, document_ids, permanent=True, unfinished_id="steps", is_last=is_last
        ).deletion

    def note(deletion: Deletion) -> None:
        deletions.note(TENANT, [deletion.searched({each.store: 0 for each in deletion.stores}, catalog.clock.now())])

    begun = step(first)
    step(second)
    note(begun)  # of what was searched before the second step
    (waiting,) = deletions.incomplete(TENANT, 10)
    assert (waiting.deletion_id, waiting.documents) == ("steps", 2)
    of_store = {each.store: (each.total, each.left) for each in waiting.stores}
    assert (of_store["texts"], of_store["vectors"]) == ((2, 0), (2, 2))
    last = step(is_last=True)
    assert deletions.ready_now(TENANT, last.deletion_id) is None  # what the earlier steps queued is not done
    # Later tasks do not count, unless an engine collection that was replaced meanwhile is still to be dropped.
    replaced = catalog.database.write(lambda connection: queue_drop(connection, TENANT, docs.engine_name))
    earlier = [each.id for each in catalog.outbox.pending(10) if each.id != replaced]
    later, _ = catalog.put(docs, make_draft("three", source="three"))
    catalog.documents.delete(TENANT, "docs", later.document_id)
    catalog.outbox.done(earlier)
    assert (deletions.ready_now(TENANT, last.deletion_id), deletions.ready()) == (None, [])
    catalog.outbox.done([replaced])
    assert deletions.ready_now(TENANT, last.deletion_id) is not None
    (found,) = deletions.ready_of_engine(docs.engine_name)
    assert sorted(found.traces.document_ids) == sorted([first, second])
    assert [each.engine_name for each in deletions.ready()] == [docs.engine_name]
    deletions.forget(TENANT, deletions.incomplete(TENANT, 10)[-1].deletion_id)
    catalog.clock.advance(days=2)
    assert deletions.sweep() == 0
    note(last)
    completed = deletions.find(TENANT, last.deletion_id)
    assert completed is not None
    assert completed.complete_time == catalog.clock.now()
    with catalog.database.read() as connection:
        assert connection.execute(select(deletions_table.c.traces)).scalars().all() == [b""]
    fresh, _ = catalog.put(docs, make_draft("four", source="four"))
    recent = catalog.documents.delete(TENANT, "docs", fresh.document_id).deletion
    note(recent)
    assert deletions.sweep() == 1
    assert deletions.find(TENANT, last.deletion_id) is None
    assert deletions.find(TENANT, recent.deletion_id) is not None


@pytest.mark.parametrize("reverse", [False, True], ids=["one first", "other first"])
def test_a_deletion_waits_for_the_engine_collections_before_and_after_a_move(
    catalog: Catalog, docs: Collection, *, reverse: bool
) -> None:
    first, second = (catalog.put(docs, make_draft(name, source=name))[0].document_id for name in ("one", "two"))
    deletions = Deletions(catalog.database)
    delete = partial(catalog.documents.delete_all, docs, permanent=True, unfinished_id="steps")
    delete([first], is_last=False)
    catalog.database.write(lambda connection: connection.execute(update(collections).values(engine_name="moved")))
    last = delete([second]).deletion
    catalog.database.write(lambda connection: queue_drop(connection, TENANT, docs.engine_name))
    names = ["moved", docs.engine_name]
    done_first, left = (
        [each.id for each in catalog.outbox.pending(10, name)] for name in sorted(names, reverse=reverse)
    )
    catalog.outbox.done(done_first)
    assert left != []
    assert deletions.ready_now(TENANT, last.deletion_id) is None
    catalog.outbox.done(left)
    ready = deletions.ready_now(TENANT, last.deletion_id)
    assert ready is not None
    assert ready[0] == "moved"


def test_a_vocabulary_has_values_of_up_to_200_characters(catalog: Catalog, docs: Collection) -> None:
    short, long = "s" * 200, "l" * 201
    for source, text in (("a.md", short), ("b.md", long)):
        draft = make_draft("one", source=source, fields=DocumentFields(category=text, project=text))
        catalog.put(docs, replace(draft, chunks=[replace(draft.chunks[0], chapter=text)]))
    values = Vocabularies(catalog.database).read(TENANT, "docs", None).values
    assert (values["category"], values["project"], values["chapter"]) == ((short,), (short,), (short,))


def test_a_vocabulary_has_nothing_of_other_collections_tenants_scopes_and_deleted_documents(
    catalog: Catalog, docs: Collection
) -> None:
    def fields(word: str, record: dict[str, object] | None = None) -> DocumentFields:
        """Return fields with a word wherever a vocabulary looks."""
        named = DocumentFields(title=word, category=word, project=word, creators=(word,), tags=(word,))
        return replace(named, metadata={word: word}, record=record)

    def draft(source: str, words: DocumentFields) -> GenerationDraft:
        made = make_draft("one", source=source, fields=words)
        chapter = words.title or ""
        return replace(made, chunks=[replace(made.chunks[0], chapter=chapter, section=chapter, given_heading=chapter)])

    time = "2026-03-01T12:00:00Z"
    memory = {"type": "memory", "scope": "entity:ben", "timestamp": time, "importance": 3}
    catalog.put(docs, draft("a.md", fields("mine")))
    catalog.put(docs, draft("record:33333333-3333-4333-8333-333333333333", fields("scoped", memory)))
    catalog.put(catalog.collections.create(make_collection("other")), draft("a.md", fields("other")))
    catalog.put(catalog.collections.create(make_collection(tenant="foreign")), draft("a.md", fields("foreign")))
    deleted, _ = catalog.put(docs, draft("b.md", fields("deleted")))
    catalog.documents.delete(TENANT, "docs", deleted.document_id, permanent=False)
    for scopes, words in ((("global",), ("mine",)), (None, ("mine", "scoped"))):
        found = Vocabularies(catalog.database).read(TENANT, "docs", scopes)
        assert found.field_names == set(words)
        built_in = [tuple(sorted(values)) for field, values in found.values.items() if field not in words]
        assert built_in == [words] * 8, scopes
        assert {word: found.values[word] for word in words} == {word: (word,) for word in words}


def test_a_deletion_during_an_update_wins_and_leaves_nothing(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("secret", fields=FIELDS))
    catalog.documents.add_alias(TENANT, "docs", document.document_id, "secret.md")
    pending = catalog.begin(docs, make_draft("new", document_id=document.document_id, expected=1))
    catalog.documents.delete(TENANT, "docs", document.document_id)
    assert catalog.documents.page(TENANT, "docs", None, 10) == []
    with catalog.database.read() as connection:
        assert connection.exec_driver_sql("SELECT source_path FROM document_aliases").all() == []
    assert [left.key for left in catalog.recovery.leftovers()] == [pending.key]
    with pytest.raises(DocumentChangedError):
        catalog.documents.publish(pending)
    catalog.documents.abandon(pending)
    with catalog.database.read() as connection:
        assert connection.exec_driver_sql("SELECT count(*) FROM documents").scalar() == 0
    assert problems_of(catalog.database) == []


def test_an_alias_finds_its_document_until_a_document_takes_the_name(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    catalog.documents.add_alias(TENANT, "docs", document.document_id, "b.md")
    catalog.documents.add_alias(TENANT, "docs", document.document_id, "b.md")
    catalog.documents.add_alias(TENANT, "docs", document.document_id, "a.md")
    assert catalog.documents.find_by_source(TENANT, "docs", "b.md") == replace(
        document, alias_uris=("b.md",), alias_count=1, alias_changes=1
    )
    other, _ = catalog.put(docs, make_draft("two", source="b.md"))
    assert catalog.documents.find_by_source(TENANT, "docs", "b.md") == other
    with pytest.raises(DocumentChangedError):
        catalog.documents.add_alias(TENANT, "docs", document.document_id, "b.md")
    with pytest.raises(DocumentNotFoundError):
        catalog.documents.add_alias(TENANT, "docs", "unknown", "c.md")


def test_an_alias_is_not_taken_from_the_document_that_has_it(catalog: Catalog, docs: Collection) -> None:
    first, _ = catalog.put(docs, make_draft("one"))
    second, _ = catalog.put(docs, make_draft("two", source="b.md"))
    catalog.documents.add_alias(TENANT, "docs", first.document_id, "c.md")
    with pytest.raises(DocumentChangedError):
        catalog.documents.add_alias(TENANT, "docs", second.document_id, "c.md")


def test_the_oldest_document_of_equal_bytes_is_found(catalog: Catalog, docs: Collection) -> None:
    first, _ = catalog.put(docs, make_draft("same"))
    catalog.put(docs, make_draft("same", source="b.md"))
    assert catalog.documents.find_by_hash(TENANT, "docs", first.source_hash) == first
    assert catalog.documents.find_by_hash(TENANT, "docs", "0" * 64) is None


def test_pages_go_through_all_documents_in_order(catalog: Catalog, docs: Collection) -> None:
    for source in ("c", "a", "e", "b", "d"):
        catalog.put(docs, make_draft(f"text {source}", source=source))
    seen: list[Document] = []
    after = None
    while page := catalog.documents.page(TENANT, "docs", after, 2):
        assert len(page) <= 2
        seen += page
        after = (page[-1].source_uri, page[-1].document_id)
    assert [document.source_uri for document in seen] == ["a", "b", "c", "d", "e"]
    with pytest.raises(CollectionNotFoundError):
        catalog.documents.page(TENANT, "unknown", None, 2)


@pytest.mark.parametrize("damage", ["content", "bytes", "sequence", "outside"])
def test_a_chunk_that_is_not_its_text_is_never_stored(catalog: Catalog, docs: Collection, damage: str) -> None:
    draft = make_draft("naïve", "tide")
    chunk = draft.chunks[1]
    broken = {
        "content": replace(chunk, content="tid3"),
        "bytes": replace(chunk, span=replace(chunk.span, start_byte=6, end_byte=10)),
        "sequence": replace(chunk, sequence_num=2),
        "outside": replace(chunk, span=replace(chunk.span, end=99, end_byte=100)),
    }[damage]
    with pytest.raises(ValueError, match="chunk 1"):
        catalog.begin(docs, replace(draft, chunks=[draft.chunks[0], broken]))
    assert catalog.recovery.leftovers() == []


def test_leftovers_are_found_and_taken_back(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    new = catalog.begin(docs, make_draft("tide", "moon", source="b.md"))
    update = catalog.begin(docs, make_draft("two", document_id=document.document_id, expected=1))
    left = catalog.recovery.leftovers()
    assert [(each.document_id, list(each.numbers), each.collection) for each in left] == [
        (each.document_id, list(each.numbers), docs) for each in (new, update)
    ]
    for each in left:
        catalog.documents.abandon(each)
    assert catalog.recovery.leftovers() == []
    assert catalog.documents.page(TENANT, "docs", None, 10) == [document]
    assert problems_of(catalog.database) == []


def test_a_generation_cannot_begin_in_a_deleted_collection(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("one"))
    catalog.collections.delete(TENANT, "docs")
    catalog.collections.create(make_collection(uid="another"))
    with pytest.raises(CollectionNotFoundError):
        catalog.begin(docs, make_draft("one"))
    with pytest.raises(DocumentChangedError):
        catalog.documents.publish(pending)
    catalog.documents.abandon(pending)


def test_the_position_counts_what_readers_can_see_change(catalog: Catalog, docs: Collection) -> None:
    def position() -> int:
        with catalog.database.read() as connection:
            return catalog.database.position(connection)

    before = position()
    document, _ = catalog.put(docs, make_draft("one"))
    assert position() == before + 1
    catalog.begin(docs, make_draft("two", source="b"))
    assert position() == before + 1
    catalog.documents.delete(TENANT, "docs", document.document_id)
    assert position() == before + 2


@pytest.mark.parametrize("fails_at", [None, 3, 6])
def test_a_large_document_is_written_in_parts_and_wholly_or_not_at_all(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch, fails_at: int | None
) -> None:
    monkeypatch.setattr("groundwire.catalog.documents.CHUNKS_PER_TRANSACTION", 3)
    monkeypatch.setattr("groundwire.catalog.generations.CHUNKS_PER_TRANSACTION", 3)

    def failing(connection: Connection, prepared: Prepared, start: int) -> None:
        if start == fails_at:
            raise ExhaustedError("no space is left")
        insert_chunks(connection, prepared, start)

    monkeypatch.setattr("groundwire.catalog.documents.insert_chunks", failing)
    draft = make_draft(*(f"tide {number}" for number in range(8)))
    if fails_at is None:
        _, pending = catalog.put(docs, draft)
        assert catalog.numbers_for(docs, "tide") == list(pending.numbers)
        live = catalog.live(TENANT, "docs", pending.numbers)
        assert [stored.chunk for stored in live.values()] == draft.chunks
    else:
        with pytest.raises(ExhaustedError):
            catalog.begin(docs, draft)
        assert catalog.recovery.leftovers() == []
    assert problems_of(catalog.database) == []


def test_a_version_below_the_stored_one_is_not_noted(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("tide"))
    raised = catalog.documents.raise_source_version(document, TENANT, 5)
    # As it was read before another call noted the later version.
    with pytest.raises(StaleSourceVersionError):
        catalog.documents.raise_source_version(document, TENANT, 4)
    assert catalog.documents.get(TENANT, "docs", document.document_id) == raised
