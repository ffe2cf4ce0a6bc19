"""The scores of a collection do not tell of another: neither what is written there nor what is deleted."""

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.catalog.collections import Collections
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.retrieve.settings import RetrieveSettings
from tests.integration.retrieve.library import Library

WORDS = ("tide", "moon", "harbour", "granite", "yeast", "comet", "lantern", "orchard", "compass", "glacier")
QUERIES = ("tide", "granite harbour", '"moon tide" compass', "which orchard has a lantern and a glacier")
MODES = (search_mode_pb2.SEARCH_MODE_LEXICAL, search_mode_pb2.SEARCH_MODE_HYBRID)


def _texts(chance: random.Random, count: int) -> list[str]:
    """Return texts of rare words: a word that most chunks contain counts next to nothing."""
    others = [f"word{number}" for number in range(200)]
    return [" ".join(chance.choices(others, k=12) + chance.choices(WORDS, k=2)) for _ in range(count)]


def _results(library: Library) -> list[list[tuple[str, float, float, float]]]:
    responses = [library.retrieve(query, mode=mode, top_k=20) for mode in MODES for query in QUERIES]
    return [
        [(hit.chunk.content, hit.relevance_score, hit.similarity, hit.lexical_score) for hit in response.results]
        for response in responses
    ]


@pytest.fixture
def library(tmp_path: Path) -> Iterator[Library]:
    """A library that remembers no responses, for those would be the same anyway."""
    opened = Library(tmp_path, settings=RetrieveSettings(result_cache_mib=0))
    yield opened
    opened.close()


def test_lexical_and_hybrid_results_are_the_same_beside_any_other_collection(library: Library) -> None:
    chance = random.Random(11)
    library.put("a.txt", _texts(chance, 40))
    before = _results(library)
    assert min(len(results) for results in before) > 0
    other = library.create("b")
    stored = [
        library.put(f"{number}.txt", [f"tide compass {text}" for text in _texts(chance, 30)], collection=other)
        for number in range(2)
    ]
    assert _results(library) == before
    library.documents.delete(DEFAULT_TENANT, "b", stored[0].document_id)
    assert _results(library) == before
    Collections(library.database).delete(DEFAULT_TENANT, "b")
    assert _results(library) == before
