"""No call of one tenant sees, changes or names anything of another."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta

import pytest

from groundwire.catalog.deletions import Deletions
from groundwire.catalog.records import RecordAccesses, Records
from groundwire.catalog.sessions import NewMessage
from groundwire.catalog.uploads import UploadNotFoundError, Uploads
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.errors import CollectionNotFoundError, DocumentNotFoundError, NotFoundError
from groundwire.kernel.filters import Exists
from groundwire.kernel.session import Role
from tests.integration.catalog.drafts import (
    NOON,
    TENANT,
    Catalog,
    make_collection,
    make_draft,
    matching,
    new_session,
    request_key,
)

STRANGER = "stranger"


@dataclass
class Belongings:
    """What the tenant `default` owns."""

    catalog: Catalog
    collection: Collection
    document: Document
    number: int
    chunk_id: str

    def __post_init__(self) -> None:
        self.catalog.sessions.create(TENANT, new_session("s-1", NOON, timedelta(hours=1)))
        question = NewMessage("q", Role.USER, "question", NOON)
        answer = NewMessage("a", Role.ASSISTANT, "answer", NOON, "q")
        self.catalog.sessions.append(TENANT, "s-1", "", [question, answer])


@pytest.fixture
def mine(catalog: Catalog, docs: Collection) -> Belongings:
    fields = DocumentFields(tags=("x",), metadata={"n": 1})
    document, pending = catalog.put(docs, make_draft("tide", fields=fields))
    catalog.ledger.record(TENANT, request_key(), b"answer")
    return Belongings(catalog, docs, document, pending.numbers[0], pending.chunk_ids[0])


@pytest.fixture(params=[True, False], ids=["same name", "no collection"])
def stranger(request: pytest.FixtureRequest, catalog: Catalog, mine: Belongings) -> str:
    """A tenant that has an empty collection of the same name, or none."""
    if request.param:
        catalog.collections.create(make_collection(tenant=STRANGER))
    return STRANGER


REFUSED: dict[str, Callable[[Belongings, str], object]] = {
    "get a document": lambda my, who: my.catalog.documents.get(who, "docs", my.document.document_id),
    "delete a document": lambda my, who: my.catalog.documents.delete(who, "docs", my.document.document_id),
    "name a document": lambda my, who: my.catalog.documents.add_alias(who, "docs", my.document.document_id, "b"),
    "change a chunk": lambda my, who: my.catalog.documents.change_chunk(who, "docs", my.chunk_id, lambda chunk: chunk),
    "list chunks": lambda my, who: my.catalog.chunks.page(who, "docs", my.document.document_id, -1, 10),
    "read a slice": lambda my, who: my.catalog.slice(who, "docs", my.document.document_id, 1, [(0, 1)]),
    "read a text": lambda my, who: my.catalog.texts.parts(who, "docs", my.document.document_id, None, 10),
    "get a session": lambda my, who: my.catalog.sessions.get(who, "s-1"),
    "read messages": lambda my, who: my.catalog.sessions.messages(who, "s-1"),
    "read all messages": lambda my, who: my.catalog.sessions.history(who, "s-1", 0, 10),
    "find an exchange": lambda my, who: my.catalog.sessions.exchange(who, "s-1", "q"),
    "delete a session": lambda my, who: my.catalog.sessions.delete(who, "s-1"),
    "append to a session": lambda my, who: my.catalog.sessions.append(who, "s-1", "a", []),
    "end a session": lambda my, who: my.catalog.sessions.end(who, "s-1"),
}
EMPTY: dict[str, Callable[[Belongings, str], object]] = {
    "find by source": lambda my, who: my.catalog.documents.find_by_source(who, "docs", "a.md"),
    "find by hash": lambda my, who: my.catalog.documents.find_by_hash(who, "docs", my.document.source_hash),
    "locate documents": lambda my, who: my.catalog.documents.locate(who, [my.document.document_id], None)[0],
    "find chunks": lambda my, who: my.catalog.chunks.find(who, [my.number, my.chunk_id]),
    "audit": lambda my, who: [row for row in my.catalog.audit.rows(who, 0, 10) if row.tenant != who],
    "ledger": lambda my, who: my.catalog.ledger.find(who, request_key()),
    "sessions": lambda my, who: my.catalog.sessions.page(who, None, 10),
}
EMPTY_OR_REFUSED: dict[str, Callable[[Belongings, str], object]] = {
    "live chunks": lambda my, who: my.catalog.live(who, "docs", [my.number]),
    "list documents": lambda my, who: my.catalog.documents.page(who, "docs", None, 10),
    "matching": lambda my, who: matching(my.catalog, who, "docs", Exists("document_id")),
    "fields": lambda my, who: my.catalog.chunks.fields(who, "docs"),
    "search": lambda my, who: my.catalog.full_text.search(who, "docs", ["tide"], ["tide"], 10),
    "frequencies": lambda my, who: sum(my.catalog.full_text.document_frequencies(who, "docs", ["tide"]).values()),
    "live count": lambda my, who: my.catalog.full_text.live_chunks(who, "docs"),
    "counts": lambda my, who: my.catalog.collections.counts(who, "docs").documents,
}


@pytest.mark.parametrize("call", REFUSED.values(), ids=REFUSED)
def test_what_names_a_foreign_thing_is_not_found(
    mine: Belongings, stranger: str, call: Callable[[Belongings, str], object]
) -> None:
    with pytest.raises(NotFoundError):
        call(mine, stranger)
    assert mine.catalog.documents.get(TENANT, "docs", mine.document.document_id) == mine.document
    call(mine, TENANT)


@pytest.mark.parametrize("call", EMPTY.values(), ids=EMPTY)
def test_what_lists_shows_nothing_foreign(
    mine: Belongings, stranger: str, call: Callable[[Belongings, str], object]
) -> None:
    assert not call(mine, stranger)


@pytest.mark.parametrize("call", EMPTY_OR_REFUSED.values(), ids=EMPTY_OR_REFUSED)
def test_what_looks_into_a_collection_sees_its_own_only(
    mine: Belongings, stranger: str, call: Callable[[Belongings, str], object]
) -> None:
    if any(each.tenant == stranger for each in mine.catalog.collections.page(stranger, "", 10)):
        assert not call(mine, stranger)
    else:
        with pytest.raises(CollectionNotFoundError):
            call(mine, stranger)
    assert call(mine, TENANT)


def test_deletions_are_those_of_the_tenant(mine: Belongings, stranger: str) -> None:
    catalog, deletions = mine.catalog, Deletions(mine.catalog.database)
    deletion = catalog.documents.delete(TENANT, "docs", mine.document.document_id).deletion
    catalog.outbox.done([item.id for item in catalog.outbox.pending(10)])

    def seen_by(tenant: str) -> list[object]:
        of_id = tenant, deletion.deletion_id
        return [deletions.find(*of_id), deletions.ready_now(*of_id), deletions.incomplete(tenant, 10)]

    assert all(seen_by(TENANT))
    assert not any(seen_by(stranger))
    deletions.note(stranger, [replace(deletion, complete_time=NOON)])
    deletions.forget(stranger, deletion.deletion_id)
    assert deletions.find(TENANT, deletion.deletion_id) == deletion


def test_collections_of_one_name_are_two(catalog: Catalog, docs: Collection) -> None:
    theirs = catalog.collections.create(make_collection(tenant=STRANGER))
    catalog.put(docs, make_draft("tide"))
    _, pending = catalog.put(theirs, make_draft("tide"))
    assert catalog.collections.page(STRANGER, "", 10) == [theirs]
    assert [catalog.collections.position(tenant, "docs").uid for tenant in (TENANT, STRANGER)] == [docs.uid, theirs.uid]
    assert catalog.numbers_for(theirs, "tide") == list(pending.numbers)
    assert [number for each in catalog.vectors.points(theirs, 10) for number in each.numbers] == list(pending.numbers)
    catalog.collections.delete(STRANGER, "docs")
    assert catalog.collections.get(TENANT, "docs") == docs
    assert len(catalog.numbers_for(docs, "tide")) == 1


def test_two_tenants_may_use_the_same_ids(catalog: Catalog, docs: Collection) -> None:
    theirs = catalog.collections.create(make_collection(tenant=STRANGER))
    for collection, text in ((docs, "mine"), (theirs, "theirs")):
        catalog.put(collection, make_draft(text, document_id="doc-1"))
        catalog.put(collection, replace(make_draft("its chunk has an id", source="b.md"), chunk_ids=["c-1"]))
        catalog.ledger.record(collection.tenant, request_key(), text.encode(), "doc-1")
        catalog.operations.begin(collection.tenant, "op-1", "IngestDocument", "docs", b"")
        catalog.operations.finish(collection.tenant, "op-1", text.encode(), "doc-1")
    catalog.documents.raise_source_version(catalog.documents.get(TENANT, "docs", "doc-1"), TENANT, 7)
    assert catalog.documents.get(STRANGER, "docs", "doc-1").source_version is None
    for tenant, text in ((TENANT, "mine"), (STRANGER, "theirs")):
        (found,) = catalog.chunks.find(tenant, ["doc-1#chunk_000"])
        assert found.chunk.content == text
        assert catalog.chunks.find(tenant, [found.chunk_number]) == [found]
        with catalog.chunks.passages(tenant, "docs") as reader:
            assert reader.chunks("doc-1", 0, 9) == [found]
            assert [place.sequence_num for place in reader.places("doc-1")] == [0]
        assert catalog.ledger.find(tenant, request_key()) == text.encode()
        assert [(each.tenant, each.outcome) for each in catalog.operations.page(tenant, None, 10)] == [
            (tenant, text.encode())
        ]
    catalog.documents.delete(TENANT, "docs", "doc-1")
    with pytest.raises(DocumentNotFoundError):
        catalog.ledger.find(TENANT, request_key())
    assert catalog.operations.get(TENANT, "op-1").outcome == b""
    assert catalog.ledger.find(STRANGER, request_key()) == catalog.operations.get(STRANGER, "op-1").outcome == b"theirs"
    catalog.operations.begin(TENANT, "op-2", "IngestDocument", "docs", b"")
    catalog.operations.finish(TENANT, "op-2", b"too late", "doc-1")
    assert catalog.operations.get(TENANT, "op-2").outcome == b""
    assert catalog.documents.locate(TENANT, ["doc-1"], None) == ({}, {"doc-1"})
    assert catalog.documents.locate("newcomer", ["doc-1"], None) == ({}, set())
    newcomers = catalog.collections.create(make_collection(tenant="newcomer"))
    assert catalog.put(newcomers, make_draft("new", document_id="doc-1"))[0].generation == 1


def test_two_tenants_may_have_records_of_the_same_ids(catalog: Catalog, docs: Collection) -> None:
    theirs = catalog.collections.create(make_collection(tenant=STRANGER))
    records, accesses = Records(catalog.database), RecordAccesses(catalog.database)
    record_id = "chunk-2026-03-01-00000001"
    for collection, scope in ((docs, "entity:ada"), (theirs, "global")):
        memory = {"type": "memory", "scope": scope, "timestamp": NOON.isoformat()}
        fields = DocumentFields(record=memory)
        draft = make_draft(scope, source=f"record:{record_id}", document_id="doc-1", fields=fields)
        catalog.put(collection, replace(draft, chunk_ids=["c-1"]))
    accesses.note(STRANGER, ["doc-1"])
    assert accesses.flush() == 1
    for tenant, scope, count in ((TENANT, "entity:ada", 0), (STRANGER, "global", 1)):
        assert records.scope_of(tenant, document_id="doc-1") == records.scope_of(tenant, chunk_id="c-1") == scope
        found = records.find(tenant, "docs", [record_id])[record_id]
        assert (found.metadata["scope"], found.access_count) == (scope, count)


def test_two_tenants_may_have_sessions_of_the_same_ids_about_documents_of_the_same_ids(
    catalog: Catalog, docs: Collection
) -> None:
    theirs = catalog.collections.create(make_collection(tenant=STRANGER))
    for collection in (docs, theirs):
        catalog.put(collection, make_draft("tide", document_id="doc-1"))
        catalog.sessions.create(collection.tenant, new_session("s-1", NOON, timedelta(hours=1)))
        question = NewMessage("q", Role.USER, "?", NOON)
        answer = NewMessage("a", Role.ASSISTANT, "tide", NOON, "q", answer=b"tide", cited=("doc-1",))
        catalog.sessions.append(collection.tenant, "s-1", "", [question, answer])
    catalog.documents.delete(TENANT, "docs", "doc-1")
    contents = {
        tenant: [message.content for message in catalog.sessions.history(tenant, "s-1", 0, 10)]
        for tenant in (TENANT, STRANGER)
    }
    assert contents == {TENANT: ["?", ""], STRANGER: ["?", "tide"]}


def test_two_tenants_may_have_uploads_of_the_same_ids(catalog: Catalog) -> None:
    uploads = Uploads(catalog.database)
    for tenant, durable_bytes in ((TENANT, 7), (STRANGER, 5)):
        uploads.add(tenant, "up-1", tenant.encode(), 20)
        uploads.advance(tenant, "up-1", durable_bytes)
    for tenant, durable_bytes in ((TENANT, 7), (STRANGER, 5)):
        stored = uploads.get(tenant, "up-1")
        assert (stored.header, stored.durable_bytes) == (tenant.encode(), durable_bytes)
        assert uploads.staged_bytes(tenant, frozenset()) == durable_bytes
    uploads.drop_bytes(STRANGER, "up-1")
    assert uploads.get(TENANT, "up-1").durable_bytes == 7
    uploads.forget(STRANGER, "up-1")
    assert uploads.get(TENANT, "up-1").durable_bytes == 7
    catalog.operations.begin(STRANGER, "up-1", "IngestDocument", "docs", b"")
    catalog.clock.advance(hours=25)
    with pytest.raises(UploadNotFoundError):
        uploads.get(TENANT, "up-1")


def test_a_generation_is_published_only_by_its_tenant(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("tide"))
    with pytest.raises(Exception, match="changed or deleted"):
        catalog.documents.publish(replace(pending, collection=replace(docs, tenant=STRANGER)))
    assert catalog.numbers_for(docs, "tide") == []
