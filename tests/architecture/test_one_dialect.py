"""What only one database understands stands in one module of the catalog for each, and `dialects` picks it."""

import re
from pathlib import Path

import pytest

import groundwire.catalog as package

_PECULIAR = {
    "sqlite": re.compile(
        r"json_each|json_extract|json_group|json_array\b|json_type\b|jsonb\(|group_concat|sqlite_sequence|sqlite_master"
        r"|USING fts5|PRAGMA|\browid\b|INSERT OR|\bGLOB\b|instr\(|pysqlite3",
        re.IGNORECASE,
    ),
    "postgresql": re.compile(
        r"json_agg|jsonb_|json_build|string_agg|pg_[a-z]+|psycopg|strpos|current_schema", re.IGNORECASE
    ),
}
# The words of texts are cut by a SQLite in memory, whatever the database of the catalog.
_MODULES = {"sqlite": {"sqlite.py", "file_copy.py", "index_words.py"}, "postgresql": {"postgresql.py"}}


@pytest.mark.parametrize("database", sorted(_PECULIAR))
def test_what_only_one_database_understands_is_in_its_module(database: str) -> None:
    (folder,) = (Path(each) for each in package.__path__)
    other = {name for modules in _MODULES.values() for name in modules} - _MODULES[database]
    found = {
        (path.name, match.group())
        for path in folder.rglob("*.py")
        if path.name not in _MODULES[database] | other
        for match in _PECULIAR[database].finditer(path.read_text("utf-8"))
    }
    assert found == set()
    assert _PECULIAR[database].search((folder / f"{database}.py").read_text("utf-8"))
