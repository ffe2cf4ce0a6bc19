"""A catalog on a real file for each test."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.kernel.collection import Collection
from tests.integration.catalog.drafts import Catalog, make_collection, open_catalog


@pytest.fixture
def catalog(tmp_path: Path) -> Iterator[Catalog]:
    opened = open_catalog(tmp_path / "catalog.db")
    yield opened
    opened.database.close()


@pytest.fixture
def docs(catalog: Catalog) -> Collection:
    return catalog.collections.create(make_collection())
