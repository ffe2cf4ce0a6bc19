"""The log of queries: whose entries a page has, and which are not stored."""

from dataclasses import replace
from datetime import timedelta

from groundwire.catalog.query_log import QueryLogs
from groundwire.kernel.collection import Collection
from groundwire.kernel.query_log import LoggedQuery
from tests.integration.catalog.drafts import NOON, TENANT, Catalog, make_collection


def entry(log_id: str, collection: Collection, seconds: int = 0, query: str = "tides") -> LoggedQuery:
    time = NOON + timedelta(seconds=seconds)
    return LoggedQuery(
        log_id, collection.tenant, collection.name, collection.uid, query, None, 0, 0.0, 0.1, time, "", None, ""
    )


def listed(logs: QueryLogs, **wanted: object) -> list[str]:
    return [each.log_id for each, _ in logs.page(TENANT, limit=10, **wanted)]  # type: ignore[arg-type] # as they come


def test_a_page_has_the_entries_of_the_collection_that_has_the_name_now(catalog: Catalog, docs: Collection) -> None:
    logs, theirs = QueryLogs(catalog.database), catalog.collections.create(make_collection(tenant="stranger"))
    nowhere = replace(docs, name="nowhere", uid="")
    logs.append([entry("mine", docs), entry("theirs", theirs), entry("before", replace(docs, uid=""))])
    logs.append([entry("failed", nowhere)])
    assert listed(logs, collection="docs") == ["mine"]
    assert listed(logs, collection="nowhere") == ["failed"]
    catalog.collections.delete(TENANT, "docs")
    logs.append([entry("late", docs)])  # a search that ends after its collection
    again = catalog.collections.create(make_collection(uid="again"))
    logs.append([entry("again", again)])
    assert listed(logs, collection="docs") == ["again"]
    assert listed(logs) == ["again", "failed", "before"]


def test_a_period_begins_with_its_start_and_ends_before_its_end(catalog: Catalog, docs: Collection) -> None:
    logs = QueryLogs(catalog.database)
    logs.append([entry(str(second), docs, second) for second in range(4)])
    assert listed(logs, start=NOON + timedelta(seconds=1), end=NOON + timedelta(seconds=3)) == ["2", "1"]


def test_an_entry_that_no_database_holds_as_it_is_holds_up_no_other(catalog: Catalog, docs: Collection) -> None:
    logs = QueryLogs(catalog.database)
    logs.append([entry("odd", replace(docs, name="no\0where", uid=""), 1, "tide\0s"), entry("usual", docs)])
    (odd, _), (usual, _) = logs.page(TENANT, limit=10)
    assert (odd.collection, odd.query) == ("no\ufffdwhere", "tide\ufffds")
    assert usual.query == "tides"
