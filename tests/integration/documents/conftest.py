"""A store on the quick engine, and one on each engine that filters by its own keys."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.integration.documents.store import Store


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    running = Store(tmp_path).create()
    yield running
    running.close()


@pytest.fixture(params=["memory:", "qdrant-edge:"])
def engine_store(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Store]:
    url = request.param if request.param == "memory:" else f"qdrant-edge:{tmp_path / 'vectors'}"
    running = Store(tmp_path, url).create()
    yield running
    running.close()
