"""The scores of a collection do not tell of another: neither what is written there nor what is deleted."""

import random

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.catalog.collections import Collections
from groundwire.kernel.identifiers import DEFAULT_TENANT
from tests.integration.retrieve.library import Library

WORDS = ("tide", "moon", "harbour", "granite", "yeast", "comet", "lantern", "orchard", "compass", "glacier")
QUERIES = ("tide", "granite harbour", '"moon tide" compass', "which orchard has a lantern and a glacier")
MODES = (search_mode_pb2.SEARCH_MODE_LEXICAL, search_mode_pb2.SEARCH_MODE_HYBRID)


def _texts(chance: random.Random, count: int) -> list[str]:
    return [" ".join(chance.choices(WORDS, k=chance.randrange(4, 20))) for _ in range(count)]


def _results(library: Library) -> list[list[tuple[str, float, float, float]]]:
    responses = [library.retrieve(query, mode=mode, top_k=20) for mode in MODES for query in QUERIES]
    return [
        [(hit.chunk.content, hit.relevance_score, hit.similarity, hit.lexical_score) for hit in response.results]
        for response in responses
    ]


def test_lexical_and_hybrid_results_are_the_same_beside_any_other_collection(library: Library) -> None:
    chance = random.Random(11)
    library.put("a.txt", _texts(chance, 40))
    before = _results(library)
    assert min(len(results) for results in before) > 0
    other = library.create("b")
    stored = [library.put(f"{number}.txt", _texts(chance, 30), collection=other) for number in range(2)]
    assert _results(library) == before
    library.documents.delete(DEFAULT_TENANT, "b", stored[0].document_id)
    assert _results(library) == before
    Collections(library.database).delete(DEFAULT_TENANT, "b")
    assert _results(library) == before
