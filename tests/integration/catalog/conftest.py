"""A catalog of its own for each test, on SQLite, and for a good share of the tests on PostgreSQL as well."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.kernel.collection import Collection
from tests.catalogs import POSTGRESQL, SQLITE, catalogs_are
from tests.integration.catalog.drafts import Catalog, make_collection, open_catalog

_ON_BOTH = {"test_documents", "test_filters", "test_filters_by_hypothesis", "test_lexical_scores", "test_vectors"}
"""Modules whose tests always run on both; `make test-postgres` runs all of them on PostgreSQL."""


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Say on which databases a test runs."""
    if "database_kind" not in metafunc.fixturenames:
        return
    chosen = os.environ.get("GROUNDWIRE_TEST_CATALOG")
    on_both = metafunc.module.__name__.rpartition(".")[2] in _ON_BOTH
    kinds = [chosen] if chosen else [SQLITE, POSTGRESQL] if on_both else [SQLITE]
    if metafunc.definition.get_closest_marker("sqlite"):
        kinds = [SQLITE]
    metafunc.parametrize("database_kind", kinds, scope="module")


@pytest.fixture
def catalog(tmp_path: Path, database_kind: str) -> Iterator[Catalog]:
    with catalogs_are(database_kind):
        opened = open_catalog(tmp_path / "catalog.db")
        yield opened
        opened.database.close()


@pytest.fixture
def docs(catalog: Catalog) -> Collection:
    return catalog.collections.create(make_collection())
