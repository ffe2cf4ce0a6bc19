"""Collections: created once, found again, deleted with everything in them."""

from dataclasses import replace

import pytest
from sqlalchemy import Connection

from groundwire.catalog.collections import CollectionCounts
from groundwire.catalog.inspection import read_backlog
from groundwire.catalog.outbox import OutboxKind, queue_drop, queue_points
from groundwire.catalog.query_log import QueryLogs
from groundwire.kernel.collection import PROFILES, Collection, ProfileName
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.errors import AlreadyExistsError, CollectionNotFoundError, PreconditionError
from groundwire.kernel.query_log import LoggedQuery
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import NOON, TENANT, Catalog, make_collection, make_draft


@pytest.mark.parametrize("profile", PROFILES)
def test_every_setting_comes_back(catalog: Catalog, profile: ProfileName) -> None:
    collection = replace(make_collection(), profile=profile, settings=PROFILES[profile])
    assert catalog.collections.create(collection) == collection
    assert catalog.collections.get(TENANT, "docs") == collection


def test_creating_the_same_again_returns_the_first(catalog: Catalog, docs: Collection) -> None:
    assert catalog.collections.create(make_collection(uid="another")) == docs


@pytest.mark.parametrize("difference", ["profile", "identity", "settings"])
def test_a_name_is_not_shared_by_other_settings(catalog: Catalog, docs: Collection, difference: str) -> None:
    changed = {
        "profile": replace(docs, profile=ProfileName.BOOK),
        "identity": replace(docs, identity=replace(docs.identity, revision="2")),
        "settings": replace(docs, settings=PROFILES[ProfileName.BOOK]),
    }[difference]
    with pytest.raises(AlreadyExistsError):
        catalog.collections.create(changed)
    assert catalog.collections.get(TENANT, "docs") == docs


def test_updating_changes_no_other_collection(catalog: Catalog, docs: Collection) -> None:
    other = catalog.collections.create(make_collection("other"))
    settings = PROFILES[ProfileName.BOOK]
    assert docs.settings != settings
    assert catalog.collections.update(TENANT, "docs", lambda _: settings).settings == settings
    assert catalog.collections.get(TENANT, "docs").settings == settings
    assert catalog.collections.get(TENANT, "other") == other


def test_pages_go_through_all_names_in_order(catalog: Catalog) -> None:
    for name in ("c", "a", "b"):
        catalog.collections.create(make_collection(name))
    assert [each.name for each in catalog.collections.page(TENANT, "", 2)] == ["a", "b"]
    assert [each.name for each in catalog.collections.page(TENANT, "b", 2)] == ["c"]


@pytest.mark.requirement("S1-08")
def test_counts_add_up_by_format_project_and_model(catalog: Catalog, docs: Collection) -> None:
    assert catalog.collections.counts(TENANT, "docs") == CollectionCounts(0, 0, 0, 0)
    catalog.put(docs, make_draft("one", "two", fields=DocumentFields(project="p")))
    catalog.put(docs, make_draft("three", source="b"))
    catalog.begin(docs, make_draft("pending", source="c"))
    assert catalog.collections.counts(TENANT, "docs") == CollectionCounts(2, 0, 3, 12)
    figures = catalog.collections.statistics(TENANT, "docs")
    assert (figures.documents, figures.chunks, figures.total_chars) == (2, 3, 12)
    assert figures.by_format == {"markdown": 2}
    assert figures.by_project == {"p": 1, "": 1}
    assert figures.by_model == {"tiny": 3}


def logged(collection: Collection) -> LoggedQuery:
    name, uid = collection.name, collection.uid
    return LoggedQuery(f"log-{name}", TENANT, name, uid, "tides", None, 0, 0.0, 0.1, NOON, "", None, "")


def test_deleting_removes_everything_and_queues_the_engine_collection(catalog: Catalog, docs: Collection) -> None:
    other = catalog.collections.create(make_collection("other"))
    logs = QueryLogs(catalog.database)
    logs.append([logged(docs), logged(other)])
    catalog.put(docs, make_draft("tide"))
    catalog.begin(docs, make_draft("pending", source="b"))
    catalog.put(other, make_draft("tide"))
    assert catalog.collections.delete(TENANT, "docs").traces.engine_name == docs.engine_name
    with pytest.raises(CollectionNotFoundError):
        catalog.collections.get(TENANT, "docs")
    with pytest.raises(CollectionNotFoundError):
        catalog.collections.delete(TENANT, "docs")
    assert [(each.kind, each.engine_name) for each in catalog.outbox.pending(10)] == [
        (OutboxKind.DROP_COLLECTION, docs.engine_name)
    ]
    assert len(catalog.numbers_for(other, "tide")) == 1
    with catalog.database.read() as connection:
        assert connection.exec_driver_sql("SELECT collection FROM query_logs").scalars().all() == ["other"]
    assert catalog.recovery.leftovers() == []
    assert problems_of(catalog.database) == []


def test_an_empty_collection_is_deleted_whatever_others_hold(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("one"))
    catalog.collections.create(make_collection("empty"))
    catalog.collections.delete(TENANT, "empty", only_empty=True)
    with pytest.raises(PreconditionError):
        catalog.collections.delete(TENANT, "docs", only_empty=True)


def test_engine_collections_that_wait_longest_come_first(catalog: Catalog) -> None:
    def queue(connection: Connection) -> None:
        for engine in ("gw-z", "gw-a", "gw-z"):
            queue_drop(connection, TENANT, engine)

    catalog.database.write(queue)
    assert catalog.outbox.waiting() == [("gw-z", TENANT, ""), ("gw-a", TENANT, "")]


def test_tasks_come_oldest_first_in_parts_that_an_engine_does_in_time(catalog: Catalog) -> None:
    numbers = list(range(1, 10_002))

    def queue(connection: Connection) -> list[int]:
        queued = queue_points(connection, OutboxKind.DELETE_POINTS, "acme", "gw-a", numbers)
        return queued + queue_points(connection, OutboxKind.MATCH_POINTS, "globex", "gw-b", [7])

    catalog.clock.advance(hours=1)
    ids = catalog.database.write(queue)
    catalog.clock.advance(seconds=90)
    backlog = read_backlog(catalog.database)
    assert (backlog.outbox, backlog.outbox_age_s) == (4, 90.0)
    pending = catalog.outbox.pending(10)
    assert [each.id for each in pending] == ids == sorted(ids)
    assert [len(each.numbers) for each in pending] == [5000, 5000, 1, 1]
    assert [number for each in pending[:3] for number in each.numbers] == numbers
    assert {each.kind for each in pending[:3]} == {OutboxKind.DELETE_POINTS}
    assert (pending[3].kind, pending[3].numbers) == (OutboxKind.MATCH_POINTS, (7,))
    assert catalog.outbox.pending(2) == pending[:2]
    assert catalog.outbox.pending(10, "gw-b") == pending[3:]
    assert catalog.outbox.of_ids([*reversed(ids), 999]) == pending
    assert catalog.outbox.waiting() == [("gw-a", "acme", ""), ("gw-b", "globex", "")]
    catalog.outbox.done(ids[1:])
    assert catalog.outbox.of_ids(ids) == pending[:1]


def test_done_tasks_leave_the_outbox(catalog: Catalog, docs: Collection) -> None:
    for source in "abc":
        catalog.documents.abandon(catalog.begin(docs, make_draft("x", source=source)))
    first, second, third = catalog.outbox.pending(10)
    assert [each.id for each in catalog.outbox.pending(2)] == [first.id, second.id]
    catalog.outbox.done([first.id, third.id, 999])
    assert catalog.outbox.pending(10) == [second]
    catalog.outbox.done([])
    assert catalog.outbox.pending(10) == [second]


def test_a_huge_deletion_is_cut_into_several_tasks(catalog: Catalog, docs: Collection) -> None:
    pending = catalog.begin(docs, make_draft(*("x" for _ in range(5001))))
    catalog.documents.abandon(pending)
    items = catalog.outbox.pending(10)
    assert [len(item.numbers) for item in items] == [5000, 1]
    assert [number for item in items for number in item.numbers] == list(pending.numbers)
