"""The tables in the file: what an operator finds there, and that the catalogs of earlier versions get the same."""

import re
import sqlite3
from collections.abc import Iterator
from pathlib import Path

import pysqlite3
import pytest
from alembic.operations import Operations as SchemaOperations
from sqlalchemy import Column, Connection, Text

from groundwire.catalog import migrations
from groundwire.catalog.index_words import IndexWords
from groundwire.catalog.operations import Operations
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import DocumentFields
from tests.catalogs import problems_of
from tests.integration.catalog.drafts import TENANT, Catalog, make_draft, open_catalog

pytestmark = pytest.mark.sqlite


@pytest.fixture
def file(catalog: Catalog, docs: Collection) -> Iterator[pysqlite3.Connection]:
    catalog.put(docs, make_draft("tide", "moon", fields=DocumentFields(tags=("x", "y"), creators=("Ada",))))
    connection = pysqlite3.connect(str(catalog.database.path))
    yield connection
    connection.close()


def _count(connection: Connection, table: str) -> int:
    return int(connection.exec_driver_sql(f"SELECT count(*) FROM {table}").scalar_one())  # noqa: S608 - our names


def _statements(path: Path) -> dict[str, str]:
    """Return what a file says of its tables and indexes, by name."""
    with sqlite3.connect(path) as connection:
        rows = connection.execute(
            "SELECT name, sql FROM sqlite_master WHERE sql IS NOT NULL AND name NOT LIKE 'sqlite%'"
        ).fetchall()
    connection.close()
    return {name: re.sub(r"\s", "", sql) for name, sql in rows}


@pytest.fixture
def released(tmp_path: Path) -> Path:
    """A catalog that 0.1.0 made: of `release_0_1_0.sql`, dumped from it."""
    path = tmp_path / "released.db"
    with sqlite3.connect(path) as connection:
        connection.executescript(Path(__file__).with_name("release_0_1_0.sql").read_text("utf-8"))
    connection.close()
    return path


def test_a_catalog_of_0_1_0_opens_with_all_that_is_in_it(released: Path, catalog: Catalog) -> None:
    opened = open_catalog(released)
    docs = opened.collections.get(TENANT, "docs")
    assert [document.document_id for document in opened.documents.page(TENANT, "docs", None, 10)] == ["doc-a", "doc-b"]
    assert opened.documents.find_by_source(TENANT, "docs", "c.md") == opened.documents.get(TENANT, "docs", "doc-b")
    assert opened.slice(TENANT, "docs", "doc-a", 2, [(0, 15)]) == ["tide moon comet"]
    assert len(opened.numbers_for(docs, "comet")) == 1
    assert [message.message_id for message in opened.sessions.messages(TENANT, "s-1")] == ["m-1"]
    assert [each.operation_id for each in Operations(opened.database).take_over()] == ["op-1"]
    opened.put(docs, make_draft("tide yeast", source="d.md"))
    assert problems_of(opened.database) == []
    opened.database.close()
    # What a change to `schema.py` adds to new catalogs, a migration has to add to those that exist.
    assert _statements(released) == _statements(catalog.database.path)


def test_a_later_migration_changes_a_released_catalog_once(released: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def add_notes(op: SchemaOperations) -> None:
        op.add_column("documents", Column("note", Text, nullable=False, server_default="none"))

    monkeypatch.setattr(migrations, "_REVISIONS", {**migrations._REVISIONS, "9999_notes": add_notes})
    monkeypatch.setattr(migrations, "HEAD", "9999_notes")
    for _ in range(2):
        opened = open_catalog(released)
        with opened.database.read() as connection:
            notes = connection.exec_driver_sql("SELECT document_id, note FROM documents ORDER BY 1").all()
        assert notes == [("doc-a", "none"), ("doc-b", "none")]
        opened.database.close()


@pytest.mark.requirement("S1-81")
def test_documents_have_the_columns_defaults_and_checks(file: pysqlite3.Connection) -> None:
    columns = {
        name: (required, default) for _, name, _, required, default, _ in file.execute("PRAGMA table_info(documents)")
    }
    for name in ("doc_type", "chunk_count", "total_chars", "embedding_model", "ingestion_date", "last_modified"):
        assert columns[name][0] == 1, name
    assert columns["language"] == (1, "'en'")
    assert file.execute("SELECT creator, tags FROM documents").fetchone() == ('["Ada"]', '["x","y"]')
    for column, value in (("chunk_count", -1), ("total_chars", -1), ("doc_type", "odt"), ("source_hash", "short")):
        with pytest.raises(pysqlite3.IntegrityError):
            file.execute(f"UPDATE documents SET {column} = ?", (value,))  # noqa: S608 - our names


@pytest.mark.requirement("S1-82")
@pytest.mark.requirement("S1-86")
def test_what_is_looked_up_is_indexed(file: pysqlite3.Connection) -> None:
    indexed = {
        (table, column)
        for (table,) in file.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
        for (_, index, *_) in file.execute(f"PRAGMA index_list({table})").fetchall()
        for (_, _, column) in file.execute(f"PRAGMA index_info({index})").fetchall()
    }
    assert indexed >= {
        ("documents", "source_path"),
        ("documents", "date_created"),
        ("document_tags", "tag"),
        ("chunks", "document_key"),
        ("chunks", "sequence_num"),
        ("chunks", "content_hash"),
        ("chunk_pages", "page"),
    }


@pytest.mark.requirement("S1-108")
@pytest.mark.requirement("S1-83")
@pytest.mark.requirement("S1-85")
def test_chunks_have_the_columns_and_checks(file: pysqlite3.Connection) -> None:
    row = dict(
        zip(
            [name for _, name, *_ in file.execute("PRAGMA table_info(chunks)")],
            file.execute("SELECT * FROM chunks ORDER BY sequence_num").fetchone(),
            strict=True,
        )
    )
    assert (row["content"], row["page_numbers"], row["section_heading"]) == ("tide", "[1,2]", "Heading 0")
    assert (row["overlap_prev_chars"], row["embedding_model"]) == (0, "tiny")
    for column, value in (
        ("sequence_num", -1),
        ("char_end", 0),
        ("char_start", -1),
        ("overlap_prev_chars", -1),
        ("overlap_next_chars", -1),
        ("content_hash", None),
    ):
        with pytest.raises(pysqlite3.IntegrityError):
            file.execute(f"UPDATE chunks SET {column} = ? WHERE sequence_num = 0", (value,))  # noqa: S608 - our names


@pytest.mark.requirement("T13")
def test_sequence_numbers_are_unique_in_a_generation_but_contents_are_not(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("same", "same"))
    catalog.put(docs, make_draft("same", source="b"))
    with pysqlite3.connect(str(catalog.database.path)) as file, pytest.raises(pysqlite3.IntegrityError):
        file.execute("UPDATE chunks SET sequence_num = 0")
    file.close()


@pytest.mark.requirement("S1-84")
@pytest.mark.requirement("T13")
def test_deleting_a_document_row_by_hand_leaves_no_orphan(catalog: Catalog, docs: Collection) -> None:
    catalog.put(docs, make_draft("tide", "moon"))
    catalog.put(docs, make_draft("tide", source="b"))
    file = pysqlite3.connect(str(catalog.database.path), isolation_level=None)
    file.execute("PRAGMA foreign_keys = ON")
    file.execute("DELETE FROM documents WHERE source_path = 'a.md'")
    file.close()
    with catalog.database.read() as connection:
        left = {table: _count(connection, table) for table in ("generations", "chunks", "text_segments")}
    assert left == {"generations": 1, "chunks": 1, "text_segments": 1}
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert len(catalog.numbers_for(docs, "tide")) == 1
    assert problems_of(catalog.database) == []


@pytest.mark.requirement("T13")
def test_full_text_rows_of_chunks_deleted_by_hand_are_found_and_removed(catalog: Catalog, docs: Collection) -> None:
    _, pending = catalog.put(docs, make_draft("tide", "moon"))
    catalog.database.write(lambda connection: connection.exec_driver_sql("DELETE FROM chunks WHERE sequence_num = 1"))
    messages = [problem.message for problem in problems_of(catalog.database) if "full-text" in problem.message]
    assert "1 full-text rows without a searchable chunk" in messages
    catalog.lexical_check.rebuild(TENANT, "docs", Budget())
    assert catalog.numbers_for(docs, "moon") == []
    assert catalog.numbers_for(docs, "tide") == [pending.numbers[0]]
    assert [problem for problem in problems_of(catalog.database) if "full-text" in problem.message] == []


@pytest.mark.requirement("S1-87")
def test_the_full_text_tables_hold_the_words_of_contents_and_headings(file: pysqlite3.Connection) -> None:
    words = file.execute("SELECT word, length(positions) / 2 FROM lexical_postings ORDER BY word").fetchall()
    assert words == [("0", 1), ("1", 1), ("head", 2), ("moon", 1), ("tide", 1)]
    (chunk_id,) = file.execute("SELECT chunk_id FROM chunks LIMIT 1").fetchone()
    assert not {word for word, _ in words} & set(IndexWords().of_each([chunk_id])[0]) - {"0", "1"}


@pytest.mark.requirement("S1-80")
def test_a_chunk_row_holds_no_vector(file: pysqlite3.Connection) -> None:
    columns = {name for _, name, *_ in file.execute("PRAGMA table_info(chunks)")}
    assert not columns & {"vector", "embedding"}


@pytest.mark.parametrize(
    ("damage", "said"),
    [
        ("DELETE FROM text_segments", "text"),
        ("UPDATE documents SET live_generation = 7", "live generation"),
        ("UPDATE documents SET live_generation = 0", "not visible"),
        ("DELETE FROM chunks WHERE sequence_num = 0", "sequence numbers"),
        ("UPDATE chunks SET content = 'other'", "full-text index differs"),
        ("UPDATE chunks SET section_heading = 'other'", "full-text index differs"),
        ("DELETE FROM lexical_postings WHERE word = 'tide'", "full-text index differs"),
        ("UPDATE lexical_segments SET word_count = 1", "full-text index differs"),
        ("DELETE FROM lexical_segments", "without a full-text row"),
        ("UPDATE lexical_segments SET members = CAST(members || members AS BLOB)", "twice"),
    ],
)
def test_every_kind_of_damage_is_found(catalog: Catalog, docs: Collection, damage: str, said: str) -> None:
    catalog.put(docs, make_draft("tide", "moon", "third"))
    assert problems_of(catalog.database) == []
    catalog.database.write(lambda connection: connection.exec_driver_sql(damage))
    assert any(said in problem.message for problem in problems_of(catalog.database))
