"""Every path through a filter finds what an exact comparison finds, and k results whenever there are k."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.filter_parsing import JsonFilter, parse_filter
from groundwire.retrieve import vector_search
from groundwire.rpc.filter_messages import to_filter_message
from groundwire.vectorstores.qdrant_edge.store import QdrantEdgeVectorStore
from tests.integration.retrieve.conftest import ENGINES
from tests.integration.retrieve.library import DIMENSIONS, Library
from tests.integration.retrieve.replay import figures

_VECTOR = search_mode_pb2.SEARCH_MODE_VECTOR
_HYBRID = search_mode_pb2.SEARCH_MODE_HYBRID
_DOCUMENTS, _CHUNKS = 40, 50
_SHAPES: dict[str, JsonFilter] = {
    "0.1 %": {"$and": [{"source": "7.txt"}, {"sequence_num": {"$lt": 2}}]},
    "1 %": {"source": "7.txt"},
    "10 %": {"project": "p3"},
    "50 %": {"category": "even"},
    "and": {"category": "even", "project": "p4"},
    "like": {"source": {"$like": "%7.txt"}},
    "everything": {"language": "en"},
    "nothing": {"category": "odd", "project": "p4"},
}


@pytest.fixture(scope="module", params=ENGINES)
def large(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Library]:
    """2,000 chunks with clustered vectors; made once for each engine."""
    library = Library(tmp_path_factory.mktemp("large"), ENGINES[request.param])
    chance = np.random.default_rng(11)
    centres = chance.standard_normal((25, DIMENSIONS))
    for number in range(_DOCUMENTS):
        texts = [f"word{number} part{part} {'common' if part % 2 else 'other'}" for part in range(_CHUNKS)]
        near = centres[chance.integers(0, 25, _CHUNKS)] + 0.8 * chance.standard_normal((_CHUNKS, DIMENSIONS))
        vectors = (near / np.linalg.norm(near, axis=1, keepdims=True)).astype(np.float32)
        category = "odd" if number % 2 else "even"
        fields = DocumentFields(project=f"p{number % 10}", category=category)
        library.put(f"{number}.txt", texts, fields=fields, vectors=vectors)
    yield library
    library.close()


def _ask(library: Library, seed: int, filter_json: JsonFilter, **options: object) -> pb.RetrieveResponse:
    request = pb.RetrieveRequest(collection="docs", query=f"word{seed} common")
    request.query_vector.extend(np.random.default_rng(seed).standard_normal(DIMENSIONS).tolist())
    request.options.filter.CopyFrom(to_filter_message(parse_filter(filter_json)))
    request.options.top_k = 10
    for name, value in options.items():
        setattr(request.options, name, value)
    response: pb.RetrieveResponse = library.service.servicer.retrieve(request, 0.0).message()
    return response


def _numbers(response: pb.RetrieveResponse) -> list[int]:
    return [hit.chunk.chunk_number for hit in response.results]


@pytest.mark.requirement("S1-07")
@pytest.mark.parametrize("shape", _SHAPES)
@pytest.mark.parametrize("paths", ["as planned", "asks for more", "names them", "asks the engine"])
def test_filtered_searches_find_what_an_exact_one_finds(
    large: Library, shape: str, paths: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    match paths:
        case "asks for more":
            monkeypatch.setattr(vector_search, "SCANNED", 0)
            monkeypatch.setattr(vector_search, "SCANNED_AT_FIRST", 0)
            monkeypatch.setattr(vector_search, "OVERFETCHED", 1_000_000)
        case "names them":
            for limit in ("SCANNED", "SCANNED_AT_FIRST", "OVERFETCHED", "OVERFETCHED_CHEAPLY"):
                monkeypatch.setattr(vector_search, limit, -1)
    if paths != "asks the engine":
        monkeypatch.setattr(vector_search, "FiltersByIndex", type("Never", (), {}))
    found = expected = 0
    for seed in range(6):
        exact = _ask(large, seed, _SHAPES[shape], mode=_VECTOR, exact=True)
        response = _ask(large, seed, _SHAPES[shape], mode=_VECTOR)
        assert len(response.results) == len(exact.results), "k results whenever there are k"
        expected += len(exact.results)
        found += len(set(_numbers(response)) & set(_numbers(exact)))
    assert found >= 0.99 * expected


@pytest.mark.parametrize("shape", _SHAPES)
def test_both_retrievers_obey_the_filter(large: Library, shape: str) -> None:
    allowed = {hit for seed in range(3) for hit in _numbers(_ask(large, seed, _SHAPES[shape], exact=True, top_k=20))}
    view = large.service.search.views.open("default", "docs")
    matching = set(view.matching(parse_filter(_SHAPES[shape])).tolist())
    assert allowed <= matching
    for seed in range(3):
        response = _ask(large, seed, _SHAPES[shape], mode=_HYBRID)
        assert set(_numbers(response)) <= matching
        assert len(response.results) == min(10, len(matching))


def test_an_exact_search_compares_with_every_vector(large: Library) -> None:
    view = large.service.search.views.open("default", "docs")
    numbers, rows = view.vectors(view.matching(None))
    for seed in range(4):
        vector = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
        order = numbers[np.argsort(-(rows @ vector), kind="stable")][:10]
        response = _ask(large, seed, {"language": "en"}, mode=_VECTOR, exact=True, explain=True)
        assert _numbers(response) == order.tolist()
        (dense,) = [stage for stage in response.explain_plan.stages if stage.path]
        assert dense.path == "exact"


def test_a_collection_that_is_compared_part_by_part_gives_the_same(
    large: Library, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = [_numbers(_ask(large, seed, {"language": "en"}, mode=_VECTOR, exact=True)) for seed in range(2)]
    monkeypatch.setattr(vector_search, "_MATRIX_NUMBERS", 300)
    parts = [_numbers(_ask(large, seed, {"language": "en"}, mode=_VECTOR, exact=True)) for seed in range(2)]
    assert parts == whole


def test_the_plan_says_which_path_was_taken_and_what_the_engine_cannot_do(large: Library) -> None:
    response = _ask(large, 1, _SHAPES["like"], mode=_VECTOR, explain=True)
    (dense,) = [stage for stage in response.explain_plan.stages if stage.path]
    assert dense.path == "filtered exact"
    assert figures(response.explain_plan, "dense")["selectivity"] == pytest.approx(0.1, abs=0.05)
    assert "of 2000 chunks match" in dense.detail
    if isinstance(large.vectors, QdrantEdgeVectorStore):
        assert dense.detail.endswith("; engine cannot evaluate $like")


def test_filters_do_not_go_to_an_engine_whose_indexes_are_not_built_yet(tmp_path: Path) -> None:
    pytest.importorskip("qdrant_edge")
    store = QdrantEdgeVectorStore(tmp_path / "vectors", index_fields_after=100)
    library = Library(tmp_path, engine=store)
    for number in range(4):
        category = "odd" if number % 2 else "even"
        texts = [f"word{part} of {number}" for part in range(30)]
        library.put(f"{number}.txt", texts, fields=DocumentFields(category=category))
    engine_name, searched = library.collection.engine_name, []
    assert store.needs_rebuild(engine_name, Budget())
    for _ in range(2):
        response = _ask(library, 3, {"category": "odd"}, mode=_VECTOR, explain=True)
        (dense,) = [stage for stage in response.explain_plan.stages if stage.path]
        searched.append((dense.path, dense.detail, _numbers(response)))
        store.rebuild(engine_name, tuple, Budget())
    (before, said_before, found), (after, said_after, found_again) = searched
    assert (before, after) == ("filtered exact", "engine filter")
    assert "60 of 120 chunks match" in said_before
    assert said_after == "the engine evaluates the filter"
    assert found == found_again
    library.close()
    store.close()


def test_random_filters_in_random_order_give_the_same_on_first_and_later_use(library: Library) -> None:
    for number in range(30):
        fields = DocumentFields(project=f"p{number % 3}", metadata={"n": number, "flag": number % 2 == 0})
        library.put(f"{number}.txt", [f"alpha beta {number}", f"gamma {number}"], fields=fields)
    filters: list[JsonFilter] = [
        {"n": {"$gte": 10}},
        {"flag": True},
        {"n": 1},
        {"n": True},
        {"n": 1.0},
        {"project": "p1"},
        {"$or": [{"n": 0}, {"flag": False}]},
    ]
    chance = random.Random(5)
    first: dict[str, list[int]] = {}
    for _ in range(60):
        chosen = chance.choice(filters)
        where = to_filter_message(parse_filter(chosen))
        found = _numbers(library.retrieve("alpha gamma", filter=where, top_k=20, min_relevance=0.0))
        assert first.setdefault(repr(chosen), found) == found
    assert first.get(repr({"n": True})) != first.get(repr({"n": 1}))


def test_a_filter_that_was_worked_out_is_worked_out_again_after_a_change(tmp_path: Path) -> None:
    library = Library(tmp_path)
    library.put("a.txt", ["alpha one"], fields=DocumentFields(project="p"))
    where = to_filter_message(parse_filter({"project": "p"}))
    for expected in (1, 1, 1):
        assert len(library.retrieve("alpha", filter=where).results) == expected
    second = library.put("b.txt", ["alpha two"], fields=DocumentFields(project="p"))
    assert len(library.retrieve("alpha", filter=where).results) == 2
    assert len(library.retrieve("alpha!", filter=where).results) == 2
    library.documents.delete("default", "docs", second.document_id)
    assert len(library.retrieve("alpha", filter=where).results) == 1
    library.close()
