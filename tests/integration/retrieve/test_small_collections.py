"""A collection that is cheap to scan is searched exactly, whatever the engine (docs/reference/vector-stores.md)."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.conftest import ENGINES
from tests.integration.retrieve.library import DIMENSIONS, Library

DOCUMENTS, CHUNKS_EACH = 12, 120
QUERIES = 100


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Library]]:
    """Equal libraries of 1,440 chunks on each engine, with the default settings."""
    pytest.importorskip("qdrant_edge")
    pytest.importorskip("chromadb")
    opened = {}
    for name, url in ENGINES.items():
        chance = np.random.default_rng(8)
        opened[name] = Library(tmp_path_factory.mktemp(name), url, RetrieveSettings())
        for document in range(DOCUMENTS):
            vectors = chance.standard_normal((CHUNKS_EACH, DIMENSIONS)).astype(np.float32)
            vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
            texts = [f"alpha {document} {number}" for number in range(CHUNKS_EACH)]
            opened[name].put(f"{document}.txt", texts, vectors=vectors)
    yield opened
    for library in opened.values():
        library.close()


def found(library: Library, number: int, **options: Any) -> list[tuple[int, float]]:
    """Return numbers and similarities of the ten nearest chunks to a random vector."""
    vector = np.random.default_rng(1000 + number).standard_normal(DIMENSIONS)
    request = pb.RetrieveRequest(
        collection="docs",
        query=f"q{number}",
        query_vector=vector,
        options=RetrievalOptions(
            mode=search_mode_pb2.SEARCH_MODE_VECTOR, top_k=10, min_relevance=0.0, explain=True, **options
        ),
    )
    response = library.service.servicer.retrieve(request, time.perf_counter()).message()
    (dense,) = [stage for stage in response.explain_plan.stages if stage.path]
    wanted = "filtered exact" if options else "exact"
    assert dense.path == wanted
    assert "1440 chunks are compared one by one" in dense.detail
    return [(hit.chunk.chunk_number, hit.similarity) for hit in response.results]


@pytest.mark.parametrize("filtered", [False, True])
def test_every_engine_gives_the_same_answers(libraries: dict[str, Library], filtered: bool) -> None:
    where = to_filter_message(parse_filter({"source": {"$in": [f"{number}.txt" for number in range(0, 12, 2)]}}))
    options: dict[str, Any] = {"filter": where} if filtered else {}
    reference = [found(libraries["memory"], number, **options) for number in range(QUERIES)]
    assert all(len(each) == 10 for each in reference)
    for name in ("qdrant-edge", "chroma"):
        assert [found(libraries[name], number, **options) for number in range(QUERIES)] == reference, name


def test_a_larger_collection_is_searched_by_its_engine(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(exact_chunks=3))
    library.put("a.txt", ["alpha one", "alpha two", "alpha three"])
    asked = []
    search = library.vectors.search

    def recorded(*args: Any, **kwargs: Any) -> Any:
        asked.append(args)
        return search(*args, **kwargs)

    library.vectors.search = recorded  # type: ignore[method-assign]  # a witness
    library.retrieve("alpha one")
    assert asked == []
    library.put("b.txt", ["alpha four"])
    library.retrieve("alpha one")
    assert len(asked) > 0
    assert library.vectors.count(library.collection.engine_name, Budget()) == 4
    library.close()
