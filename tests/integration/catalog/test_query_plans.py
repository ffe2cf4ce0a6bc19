"""The questions asked for every search are answered through keys and indexes, however large the tables."""

import json
from collections.abc import Iterator
from typing import Any

import pytest
from sqlalchemy import Engine, Executable, event, select

from groundwire.catalog import chunks, documents, generations, operations, rows, schema, search_view, sqlite
from tests.integration.catalog.drafts import TENANT, Catalog, make_collection, make_draft, open_catalog

pytestmark = pytest.mark.sqlite


LARGE_TABLES = {"chunks", "documents", "generations", "text_segments", "embeddings", "document_aliases"}
IN_COLLECTION = {"tenant": TENANT, "collection": "docs"}


def _plan(catalog: Catalog, statement: Any, given: dict[str, Any]) -> list[str]:
    with catalog.database.read() as connection:
        compiled = statement.compile(connection.engine)
        values = compiled.construct_params(given)
        ordered = tuple(values[name] for name in compiled.positiontup)
        return [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {compiled}", ordered)]


def _scanned(catalog: Catalog, statement: Any, given: dict[str, Any]) -> set[str]:
    """Return the large tables that a statement reads from end to end."""
    steps = [step.split() for step in _plan(catalog, statement, given)]
    return {step[1] for step in steps if step[0] == "SCAN" and step[1] in LARGE_TABLES}


@pytest.fixture(scope="module", params=[False, True], ids=["no statistics", "statistics"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Catalog]:
    """Two collections, before and after SQLite has looked at what the tables hold."""
    catalog = open_catalog(tmp_path_factory.mktemp("plans") / "catalog.db")
    made = [catalog.collections.create(make_collection(name)) for name in ("docs", "other")]
    for number in range(30):
        catalog.put(made[number % 2], make_draft("tide", "moon", source=f"{number}.md"))
    if request.param:
        catalog.database.write(lambda connection: connection.exec_driver_sql("ANALYZE"))
    yield catalog
    catalog.database.close()


@pytest.mark.parametrize(
    ("statement", "given"),
    [
        (chunks._BY_NUMBERS, IN_COLLECTION | {"values": json.dumps([1, 2, 3])}),
        (chunks._BY_ANY_NUMBERS, {"tenant": TENANT, "values": json.dumps([1, 2, 3])}),
        (chunks._BY_IDS, {"tenant": TENANT, "values": json.dumps(["doc-1#chunk_000", "none"])}),
        (chunks._OF_DOCUMENT, {"document": 3, "after": 0, "limit": 10}),
        (rows.SELECT_VISIBLE_DOCUMENT, IN_COLLECTION | {"value": "doc-1"}),
        (generations._STORED, {"tenant": TENANT, "ids": '["doc-1"]'}),
        (generations._LAST_WRITTEN, {"keys": "[1]"}),
        (generations._OWNING, {"key": 1}),
        (generations._OWNERS, {"key": 1, "sources": '["1.md"]'}),
        (generations._PENDING, {"keys": "[1]"}),
        (generations._PUBLISH, {"keys": "[1]", "at_position": 7}),
        (generations._PUBLISHED, {"keys": "[1]"}),
        (rows._ROWS, IN_COLLECTION | {"ids": '["doc-1"]'}),
        (documents._BY_SOURCE, IN_COLLECTION | {"value": "a.md"}),
        (documents._BY_ALIAS, IN_COLLECTION | {"value": "a.md"}),
        (documents._BY_HASH, IN_COLLECTION | {"value": "0" * 64}),
    ],
)
def test_no_large_table_is_scanned(filled: Catalog, statement: Executable, given: dict[str, Any]) -> None:
    assert _scanned(filled, statement, given) == set()


@pytest.mark.parametrize("template", [sqlite.READ_POSTINGS, sqlite.READ_POSITIONS, sqlite.COUNT_POSTINGS])
def test_words_are_looked_up_in_the_segments_of_the_collection(filled: Catalog, template: str) -> None:
    statement = sqlite.filled(template, 2, 3)
    with filled.database.read() as connection:
        given = (1, "LIVE", "SUPERSEDED", "moon", "tide", "yeast")
        steps = [row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", given)]
    segments, postings = ([step for step in steps if name in step] for name in ("_segments ", "_postings "))
    assert ["(collection_key=? AND state=?)" in step for step in segments] == [True]
    assert ["(segment_key=? AND word=?)" in step for step in postings] == [True]


@pytest.mark.parametrize(
    ("statement", "given", "index"),
    [
        (operations._ENDED_BEFORE, {"oldest": 7}, "operations_end_steady (end_steady<?)"),
        (operations._UNFINISHED, {}, "operations_end_steady (end_steady=?)"),
        (operations._NEWEST_FIRST, {"tenant": TENANT}, "operations_tenant (tenant=?)"),
    ],
)
def test_a_call_that_begins_or_lists_operations_reads_no_others(
    filled: Catalog, statement: Executable, given: dict[str, Any], index: str
) -> None:
    (step,) = _plan(filled, statement, given)
    assert step == f"SEARCH operations USING INDEX {index}"


def test_the_records_of_a_type_and_documents_that_are_none_are_found_by_an_index(filled: Catalog) -> None:
    given = {"key": 1, "type": "persona", "most": 5}
    assert _plan(filled, search_view.OF_TYPE, given) == [
        "SEARCH records USING COVERING INDEX records_type (collection_key=? AND record_type=?)"
    ]
    steps = [step for step in _plan(filled, search_view.OF_NO_TYPE, given) if "documents" in step]
    assert steps
    assert all("documents_source_path (collection_key=? AND source_path" in step for step in steps)


def test_the_newest_records_of_a_conversation_are_found_without_those_of_others(filled: Catalog) -> None:
    given = {"key": 1, "conversation": "conv-1", "type": "turn", "most": 5}
    steps = [step for step in _plan(filled, search_view._newest(rows.IS_LIVE), given) if "SEARCH records" in step]
    assert ["conversation_id=?" in step for step in steps] == [True]


def test_of_a_document_the_first_aliases_alone_are_read(filled: Catalog) -> None:
    plan = _plan(filled, rows.SELECT_VISIBLE_DOCUMENT, IN_COLLECTION | {"value": "doc-1"})
    assert [step.split(" USING ")[1] for step in plan if "document_aliases" in step] == [
        "COVERING INDEX document_aliases_document (document_key=? AND collection_key=?)"
    ]
    assert not any("TEMP B-TREE" in step for step in plan)


def test_the_softly_deleted_document_of_a_source_is_found_without_reading_the_others(filled: Catalog) -> None:
    plan = _plan(filled, documents._HIDDEN, {"tenant": TENANT, "uid": "u", "sources": '["1.md"]'})
    (step,) = (step for step in plan if " documents " in step)
    assert step.endswith("INDEX documents_hidden (collection_key=? AND source_path=?)")


@pytest.mark.parametrize(
    ("given", "index"),
    [
        ({"resource": "doc-1"}, "audit_resource (tenant=? AND resource=?)"),
        ({"resource": "doc-1", "before_id": 9}, "audit_resource (tenant=? AND resource=? AND id<?)"),
        ({"subject": "ann"}, "audit_subject (tenant=? AND subject=?)"),
        ({"subject": "ann", "before_id": 9}, "audit_subject (tenant=? AND subject=? AND id<?)"),
    ],
)
def test_a_page_of_some_of_the_audit_log_reads_no_other_rows(
    filled: Catalog, given: dict[str, Any], index: str
) -> None:
    asked = list[tuple[str, Any]]()

    def note(_connection: Any, _cursor: Any, statement: str, parameters: Any, *_: Any) -> None:
        asked.append((statement, parameters))

    event.listen(Engine, "before_cursor_execute", note)
    try:
        filled.audit.page(TENANT, **given, limit=5)
    finally:
        event.remove(Engine, "before_cursor_execute", note)
    ((statement, parameters),) = asked
    with filled.database.read() as connection:
        (step,) = (row[3] for row in connection.exec_driver_sql(f"EXPLAIN QUERY PLAN {statement}", parameters))
    assert step == f"SEARCH audit USING INDEX {index}", "and it needs no sorting"


def test_chunks_by_number_are_looked_up_by_their_key(filled: Catalog) -> None:
    plan = _plan(filled, chunks._BY_NUMBERS, IN_COLLECTION | {"values": "[1]"})
    assert any("SEARCH chunks USING INTEGER PRIMARY KEY" in step for step in plan)


def test_collections_with_duplicates_are_found_by_the_chunks_that_are_not_indexed(filled: Catalog) -> None:
    """Housekeeping asks every second, however much is stored."""
    plan = _plan(filled, chunks._WITH_DUPLICATES, {})
    assert any("SCAN chunks USING" in step and "chunks_not_indexed" in step for step in plan)
    assert not any("SCAN" in step and "generations" in step for step in plan)


def test_the_limit_of_a_statement_is_no_bare_parameter_which_sqlite_would_plan_anew_for(filled: Catalog) -> None:
    statement = select(schema.documents.c.document_id).limit(3)
    with filled.database.read() as connection:
        assert "LIMIT ? + 0" in str(statement.compile(connection.engine))
    assert "LIMIT ? + 0" in sqlite._compiled(statement, ()).sql
