"""Libraries to search in."""

from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from groundwire.kernel.vector_store import VectorStore
from groundwire.vectorstores.factory import open_vector_store
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


@pytest.fixture(scope="session")
def shared_engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[[str], VectorStore]]:
    """Open an engine of `ENGINES` once for all tests: its process takes longer to start than a test takes."""
    opened: dict[str, VectorStore] = {}

    def engine(name: str) -> VectorStore:
        if name not in opened:
            opened[name] = open_vector_store(ENGINES[name], data_dir=tmp_path_factory.mktemp(name))
        return opened[name]

    yield engine
    for each in opened.values():
        each.close()


@pytest.fixture(params=ENGINES)
def engine_library(
    request: pytest.FixtureRequest, tmp_path: Path, shared_engine: Callable[[str], VectorStore]
) -> Iterator[Library]:
    """A library on each engine in turn."""
    if request.param in _PACKAGES:
        pytest.importorskip(_PACKAGES[request.param])
    opened = Library(tmp_path, engine=shared_engine(request.param))
    yield opened
    opened.close()


@pytest.fixture
async def stub(library: Library) -> "AsyncIterator[Stub]":
    """A stub of the service of `library`."""
    async with serving(library) as opened:
        yield opened
