"""A catalog on a real file for each test."""

import shutil
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.kernel.collection import Collection
from tests.integration.catalog.drafts import Catalog, make_collection, open_catalog


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A new catalog, to be copied: quicker than migrating for each test."""
    path = tmp_path_factory.mktemp("migrated") / "catalog.db"
    open_catalog(path).database.close()
    return path


@pytest.fixture
def catalog(tmp_path: Path, migrated_file: Path) -> Iterator[Catalog]:
    shutil.copy(migrated_file, tmp_path / "catalog.db")
    opened = open_catalog(tmp_path / "catalog.db")
    yield opened
    opened.database.close()


@pytest.fixture
def docs(catalog: Catalog) -> Collection:
    return catalog.collections.create(make_collection())
