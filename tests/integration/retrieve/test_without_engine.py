"""A hybrid search while the vector engine does not answer: the words find what they can, and the response says so."""

import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import SearchMode
from groundwire.kernel.errors import DeadlineError, StoreUnavailableError
from groundwire.retrieve.search_types import SearchRequest, SearchResult
from tests.conformance.processes import engine_pids, freeze
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.replay import replay

DEADLINE_S = 3.0


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    pytest.importorskip("qdrant_edge")
    library = Library(tmp_path, "qdrant-edge:vectors")
    library.put("wolves.txt", ["Grey wolves eat deer."])
    library.put("foxes.txt", ["Red foxes eat mice."])
    library.put("owls.txt", ["Owls hunt at night."])
    yield library
    library.close()


@pytest.fixture
def engine(library: Library, tmp_path: Path) -> Iterator[int]:
    (pid,) = engine_pids(os.getpid(), tmp_path)
    yield pid
    os.kill(pid, signal.SIGCONT)


def search(library: Library, mode: SearchMode = SearchMode.HYBRID) -> SearchResult:
    request = SearchRequest("default", "docs", "deer wolves", mode=mode, min_relevance=0.0)
    return library.service.search.search(request, Budget(DEADLINE_S))


def test_the_words_find_chunks_with_their_true_similarity_while_the_engine_hangs(library: Library, engine: int) -> None:
    whole = search(library)
    assert not whole.lacks_dense
    best = whole.hits[0]
    assert (best.stored.document.source_uri, len(whole.hits)) == ("wolves.txt", 3)
    freeze(engine)
    began_at = time.monotonic()
    words = search(library)
    assert time.monotonic() - began_at < DEADLINE_S
    assert words.lacks_dense
    (hit,) = words.hits
    assert hit.stored.chunk_id == best.stored.chunk_id
    assert best.score.similarity > 0.1
    assert hit.score.similarity == pytest.approx(best.score.similarity, abs=1e-5)
    assert hit.score.relevance == pytest.approx(best.score.relevance, abs=1e-5)
    with pytest.raises((DeadlineError, StoreUnavailableError)):
        search(library, SearchMode.VECTOR)
    os.kill(engine, signal.SIGCONT)
    again = search(library)
    assert (again.lacks_dense, len(again.hits)) == (False, 3)


def test_words_alone_ask_no_engine_also_for_a_chunk_without_a_vector(library: Library, engine: int) -> None:
    library.database.write(lambda connection: connection.exec_driver_sql("DELETE FROM embeddings"))
    freeze(engine)
    (hit,) = search(library, SearchMode.LEXICAL).hits
    assert hit.stored.document.source_uri == "wolves.txt"


def test_the_response_says_what_is_missing_and_is_not_remembered(library: Library, engine: int) -> None:
    freeze(engine)
    response = library.retrieve("deer wolves", min_relevance=0.0)
    assert list(response.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_DENSE]
    assert [hit.chunk.source_uri for hit in response.results] == ["wolves.txt"]
    explained = library.retrieve("deer wolves", min_relevance=0.0, explain=True)
    assert list(explained.degraded_stages) == [degraded_stage_pb2.DEGRADED_STAGE_DENSE]
    assert replay(explained.explain_plan) == [hit.chunk.chunk_id for hit in explained.results] != []
    os.kill(engine, signal.SIGCONT)
    ends_at = time.monotonic() + 30
    while (response := library.retrieve("deer wolves", min_relevance=0.0)).degraded_stages:
        assert time.monotonic() < ends_at
    assert (len(response.results), response.report.from_cache) == (3, False)
