"""What only SQLite understands stands in one module of the catalog, so that another database needs one more."""

import re
from pathlib import Path

import groundwire.catalog as package

_OF_SQLITE = re.compile(
    r"json_each|json_extract|json_group|json_array\b|json_type|jsonb|group_concat|sqlite_sequence|sqlite_master"
    r"|USING fts5|PRAGMA|\browid\b|INSERT OR|\bGLOB\b|instr\(|pysqlite3|dialects",
    re.IGNORECASE,
)
# The words of texts are cut by a SQLite in memory, whatever the database of the catalog.
_MODULES = {"sqlite.py", "index_words.py"}


def test_what_only_sqlite_understands_is_in_its_module() -> None:
    (folder,) = (Path(each) for each in package.__path__)
    found = {
        (path.name, match.group())
        for path in folder.rglob("*.py")
        if path.name not in _MODULES
        for match in _OF_SQLITE.finditer(path.read_text("utf-8"))
    }
    assert found == set()
    assert _OF_SQLITE.search((folder / "sqlite.py").read_text("utf-8"))
