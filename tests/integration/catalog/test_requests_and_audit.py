"""One effect and one answer for each request id, and a trace of every change."""

import threading
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

import pytest

from groundwire.catalog.audit import first_broken
from groundwire.catalog.documents import Documents
from groundwire.catalog.inspection import Inspection
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document
from groundwire.kernel.errors import ConflictError, DocumentNotFoundError, RequestIdReusedError
from groundwire.kernel.identity import CURRENT_IDENTITY, Identity
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, Catalog, make_draft, receipt, request_key


def test_an_answer_is_remembered_with_its_effect(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft("one"))
    document = catalog.documents.publish(pending, receipt(lambda made: made.document_id.encode()))
    assert catalog.ledger.find(TENANT, request_key()) == document.document_id.encode()
    assert catalog.ledger.find(TENANT, request_key("r-2")) is None


@pytest.mark.parametrize(("method", "digest"), [("Ingest", "other"), ("Delete", "d")])
def test_a_request_id_with_another_body_or_method_is_refused(catalog: Catalog, method: str, digest: str) -> None:
    catalog.ledger.record(TENANT, request_key(), b"answer")
    with pytest.raises(RequestIdReusedError):
        catalog.ledger.find(TENANT, request_key(method=method, digest=digest))
    with pytest.raises(RequestIdReusedError):
        catalog.ledger.record(TENANT, request_key(method=method, digest=digest), b"answer")


def test_the_first_recorded_answer_counts(catalog: Catalog) -> None:
    assert catalog.ledger.record(TENANT, request_key(), b"first") == b"first"
    assert catalog.ledger.record(TENANT, request_key(), b"second") == b"first"


def test_an_effect_rolls_back_when_its_request_was_completed(catalog: Catalog, docs: Collection) -> None:
    catalog.ledger.record(TENANT, request_key(), b"answer")
    pending = catalog.begin(docs, make_draft("tide"))
    with pytest.raises(ConflictError):
        catalog.documents.publish(pending, receipt())
    with pytest.raises(RequestIdReusedError):
        catalog.documents.publish(pending, receipt(digest="other"))
    assert catalog.documents.page(TENANT, "docs", None, 10) == []
    assert catalog.numbers_for(docs, "tide") == []
    assert [left.key for left in catalog.recovery.leftovers()] == [pending.key]


def test_a_generation_that_is_published_while_leftovers_are_looked_for_is_none(
    catalog: Catalog, docs: Collection, monkeypatch: pytest.MonkeyPatch
) -> None:
    left = catalog.begin(docs, make_draft("storm", source="left.md"))
    written = catalog.begin(docs, make_draft("tide", source="written.md"))

    def publish(_documents: Documents) -> frozenset[int]:
        catalog.documents.publish(written)
        return frozenset()

    monkeypatch.setattr(Documents, "under_way", property(publish))
    assert [each.key for each in catalog.recovery.leftovers()] == [left.key]


def test_concurrent_repetitions_have_one_effect(catalog: Catalog, docs: Collection) -> None:
    together = threading.Barrier(8)

    def attempt(number: int) -> Document | None:
        pending = catalog.begin(docs, make_draft("tide", source=f"{number % 2}.md"))
        together.wait()
        try:
            return catalog.documents.publish(pending, receipt(lambda made: made.document_id.encode()))
        except ConflictError:
            catalog.documents.abandon(pending)
            return None

    with ThreadPoolExecutor(8) as threads:
        made = [document for document in threads.map(attempt, range(8)) if document is not None]
    assert len(made) == 1
    assert catalog.documents.page(TENANT, "docs", None, 10) == made
    assert catalog.ledger.find(TENANT, request_key()) == made[0].document_id.encode()
    assert problems_of(catalog.database) == []
    assert catalog.recovery.leftovers() == []


def test_answers_are_forgotten_after_a_day(catalog: Catalog, docs: Collection) -> None:
    catalog.ledger.record(TENANT, request_key(), b"old")
    catalog.clock.advance(hours=23, minutes=59)
    assert catalog.ledger.find(TENANT, request_key()) == b"old"
    assert catalog.ledger.sweep() == 0
    catalog.clock.advance(minutes=2)
    assert catalog.ledger.find(TENANT, request_key()) is None
    assert catalog.ledger.record(TENANT, request_key(digest="other"), b"new") == b"new"
    catalog.clock.advance(hours=25)
    assert catalog.ledger.sweep() == 1


def test_an_id_that_is_used_again_after_a_day_is_that_of_the_later_call_and_its_document(
    catalog: Catalog, docs: Collection
) -> None:
    catalog.put(docs, make_draft("tide", document_id="doc-1"))
    catalog.ledger.record(TENANT, request_key(), b"old", "doc-0")
    catalog.clock.advance(hours=25)
    later = request_key(digest="other", method="Update")
    catalog.ledger.record(TENANT, later, b"new", "doc-1")
    assert catalog.ledger.find(TENANT, later) == b"new"
    catalog.documents.delete(TENANT, "docs", "doc-1")
    with pytest.raises(DocumentNotFoundError, match="doc-1"):
        catalog.ledger.find(TENANT, later)


@pytest.mark.parametrize("kind", ["create", "delete collection", "delete document", "begin operation"])
def test_every_change_can_leave_a_receipt(catalog: Catalog, docs: Collection, kind: str) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    if kind == "create":
        catalog.collections.create(replace(docs, name="more", uid="u", engine_name="e"), receipt())
    elif kind == "delete collection":
        catalog.collections.delete(TENANT, "docs", receipt())
    elif kind == "begin operation":
        catalog.operations.begin(TENANT, "op-1", "Reindex", "docs", b"", receipt())
    else:
        catalog.documents.delete(
            TENANT,
            "docs",
            document.document_id,
            receipt(lambda deletion: str(deletion.chunks).encode()),
        )
    expected = b"1" if kind == "delete document" else b"answer"
    assert catalog.ledger.find(TENANT, request_key()) == expected


def test_every_change_is_traced_in_a_chain(catalog: Catalog, docs: Collection) -> None:
    document, _ = catalog.put(docs, make_draft("one"))
    catalog.documents.delete(TENANT, "docs", document.document_id, receipt())
    catalog.collections.delete(TENANT, "docs")
    rows = catalog.audit.rows(TENANT, 0, 100)
    assert [(row.action, row.resource, row.request_id, row.position) for row in rows] == [
        ("create_collection", "docs", "", 0),
        ("publish_document", document.document_id, "", 1),
        ("delete_document", document.document_id, "r-1", 2),
        ("delete_collection", "docs", "", 3),
    ]
    assert first_broken(rows) is None
    assert first_broken(rows[1:], rows[0].hash) is None
    assert catalog.audit.rows(TENANT, rows[1].id, 1) == rows[2:3]


def test_a_changed_or_removed_trace_is_noticed(catalog: Catalog, docs: Collection) -> None:
    for source in "abc":
        catalog.put(docs, make_draft("x", source=source))
    rows = catalog.audit.rows(TENANT, 0, 100)
    forged = [*rows[:2], replace(rows[2], resource="another"), *rows[3:]]
    assert first_broken(forged) == forged[2]
    assert first_broken([rows[0], *rows[2:]]) == rows[2]


def test_a_trace_says_who_made_the_change_and_cannot_be_given_to_another(catalog: Catalog, docs: Collection) -> None:
    CURRENT_IDENTITY.set(Identity(TENANT, "ada"))
    catalog.put(docs, make_draft("x"))
    CURRENT_IDENTITY.set(Identity(TENANT))
    catalog.collections.delete(TENANT, "docs")
    rows = catalog.audit.rows(TENANT, 0, 100)
    assert [row.subject for row in rows] == ["", "ada", ""]
    assert first_broken(rows) is None
    assert first_broken([rows[0], replace(rows[1], subject="bob"), rows[2]]) == replace(rows[1], subject="bob")
    assert first_broken([rows[0], replace(rows[1], subject=""), rows[2]]) == replace(rows[1], subject="")
    assert first_broken([replace(rows[0], subject="bob"), *rows[1:]]) == replace(rows[0], subject="bob")


def test_a_change_that_fails_leaves_no_trace(catalog: Catalog, docs: Collection) -> None:
    before = catalog.audit.rows(TENANT, 0, 100)
    with pytest.raises(DocumentNotFoundError):
        catalog.documents.delete(TENANT, "docs", "unknown", receipt())
    assert catalog.audit.rows(TENANT, 0, 100) == before
    assert catalog.ledger.find(TENANT, request_key()) is None


def test_tasks_are_overdue_by_the_time_that_passed_and_not_by_the_clock(catalog: Catalog, docs: Collection) -> None:
    inspection = Inspection(catalog.database)
    catalog.put(docs, make_draft("one"))
    # The last write was long ago: a task is as old as its transaction, not as that.
    catalog.clock.advance(hours=2)
    catalog.collections.delete(TENANT, "docs")
    catalog.clock.jump(minutes=5)
    assert inspection.overdue(TENANT) == []
    catalog.clock.jump(days=-1)
    catalog.clock.advance(seconds=62)
    (finding,) = inspection.overdue(TENANT)
    assert finding.subject == docs.engine_name
