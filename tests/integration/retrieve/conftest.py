"""Libraries to search in."""

from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.integration.retrieve.library import Library
from tests.integration.retrieve.serving import serving

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

ENGINES = {"memory": "memory:", "qdrant-edge": "qdrant-edge:vectors", "chroma": "chroma:vectors"}
_PACKAGES = {"qdrant-edge": "qdrant_edge", "chroma": "chromadb"}


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    """A library on the reference engine."""
    opened = Library(tmp_path)
    yield opened
    opened.close()


@pytest.fixture(params=ENGINES)
def engine_library(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Library]:
    """A library on each engine in turn."""
    if request.param in _PACKAGES:
        pytest.importorskip(_PACKAGES[request.param])
    opened = Library(tmp_path, ENGINES[request.param])
    yield opened
    opened.close()


@pytest.fixture
async def stub(library: Library) -> "AsyncIterator[Stub]":
    """A stub of the service of `library`."""
    async with serving(library) as opened:
        yield opened
