"""PostgreSQL needs a driver, which only those install who use it."""

import importlib.util
from importlib.machinery import ModuleSpec

import pytest

from groundwire.catalog.postgresql import CatalogServer
from groundwire.kernel.errors import MissingExtraError


def test_a_missing_driver_is_reported_with_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    find_spec = importlib.util.find_spec

    def without_driver(name: str) -> ModuleSpec | None:
        return None if name == "psycopg" else find_spec(name)

    monkeypatch.setattr(importlib.util, "find_spec", without_driver)
    with pytest.raises(MissingExtraError, match=r"pip install 'groundwire\[postgres\]'") as missing:
        CatalogServer("postgresql://nobody@127.0.0.1:1/none")
    assert missing.value.metadata == {"extra": "postgres"}
