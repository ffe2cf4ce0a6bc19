"""Every engine gives the same results for the same library, queries and filters."""

import random
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.filter_pb2 import Filter
from groundwire.kernel.chunk import chunk_payload
from groundwire.kernel.collection import Collection, ProfileName
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.filter_parsing import JsonFilter, parse_filter, resolve_filter
from groundwire.kernel.filters import matches
from groundwire.retrieve.ranking import PROFILE_RULES
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.conftest import ENGINES
from tests.integration.retrieve.library import DIMENSIONS, Library, contents

_WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu".split()  # noqa: SIM905 - readable
_FILTERS: list[JsonFilter] = [
    {},
    {"type": "faq"},
    {"type": "memory", "importance": {"$gte": 4}},
    {"importance": {"$gte": 2, "$lt": 5}},
    {"$and": [{"type": "memory"}, {"scope": "entity:project-alpha"}, {"importance": {"$gt": 1}}]},
    {"$or": [{"$and": [{"type": "faq"}, {"importance": {"$lte": 3}}]}, {"scope": "global"}]},
    {"tags": {"$contains": "critical"}},
    {"tags": {"$contains": "crit"}},
    {"tags": {"$not_contains": "critical"}},
    {"tags": {"$in": ["critical", "green"]}},
    {"tags": {"$nin": ["critical", "green"]}},
    {"tags": {"$like": "%rit%"}},
    {"chunk_id": {"$like": "doc_%#chunk_00_"}},
    {"type": {"$ne": "faq"}},
    {"type": {"$exists": False}},
    {"ratio": 1.5},
    {"ratio": {"$in": [0.5, 2]}},
    {"ratio": {"$gte": 1}},
    {"final": True},
    {"final": {"$ne": True}},
    {"final": 1},
    {"date": {"$gte": "2024-07-01T00:00:00Z"}, "author": "Ada"},
    {"source": {"$in": ["3.txt", "4.txt"]}},
    {"source": {"$in": []}},
    {"$not": {"source": {"$like": "%.txt"}}},
    {"title": {"$contains": "eport"}},
    {"sequence_num": {"$lte": 1}},
]


def _fields(number: int, rng: random.Random) -> DocumentFields:
    metadata: dict[str, str | int | float | bool] = {}
    if number % 4:
        metadata |= {"type": ["faq", "memory", "memory"][number % 3], "importance": 1 + number % 5}
    if number % 3:
        metadata["scope"] = ["global", "entity:project-alpha"][number % 2]
    if number % 2:
        metadata |= {"ratio": [0.5, 1.5, 2][number % 3], "final": number % 4 == 1}
    return DocumentFields(
        title=f"Report {number}" if number % 2 else None,
        creators=("Ada",) if number % 3 == 0 else ("Bob", "Ada") if number % 3 == 1 else (),
        tags=tuple(rng.sample(["critical", "green", "crit"], number % 3)),
        metadata=metadata,
    )


def _fill(library: Library, collection: Collection | None = None) -> None:
    rng = random.Random(5)
    for number in range(12):
        texts = [" ".join(rng.choices(_WORDS, k=8)) + f" n{number}c{position}" for position in range(4)]
        library.put(f"{number}.txt", texts, fields=_fields(number, rng), collection=collection)


@pytest.fixture(scope="module")
def libraries(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Library]]:
    pytest.importorskip("qdrant_edge")
    pytest.importorskip("chromadb")
    opened = {name: Library(Path(tmp_path_factory.mktemp(name)), url) for name, url in ENGINES.items()}
    for library in opened.values():
        _fill(library)
        _fill(library, library.create("small", profile=ProfileName.GENERAL))
    yield opened
    for library in opened.values():
        library.close()


@pytest.mark.requirement("S0-56")
@pytest.mark.requirement("S0-57")
@pytest.mark.requirement("S0-58")
@pytest.mark.requirement("S0-59")
@pytest.mark.requirement("S0-60")
@pytest.mark.requirement("S0-61")
@pytest.mark.requirement("S1-29")
@pytest.mark.requirement("S1-31")
@pytest.mark.requirement("S1-33")
@pytest.mark.requirement("S3-40")
@pytest.mark.requirement("C13")
@pytest.mark.requirement("T25")
@pytest.mark.parametrize("document", _FILTERS, ids=str)
def test_engines_give_the_same_results_and_they_all_match_the_filter(
    libraries: dict[str, Library], document: JsonFilter
) -> None:
    where = to_filter_message(parse_filter(document))
    for query in ("alpha beta", "kappa n3c1"):
        for mode in (
            search_mode_pb2.SEARCH_MODE_HYBRID,
            search_mode_pb2.SEARCH_MODE_VECTOR,
            search_mode_pb2.SEARCH_MODE_LEXICAL,
        ):
            found = {
                name: contents(library.retrieve(query, filter=where, mode=mode, top_k=20))
                for name, library in libraries.items()
            }
            assert found["qdrant-edge"] == found["memory"], (query, mode)
            assert found["chroma"] == found["memory"], (query, mode)
    expected = _expected(libraries["memory"], document)
    vector = search_mode_pb2.SEARCH_MODE_VECTOR
    found_by_vector = contents(libraries["memory"].retrieve("alpha", filter=where, mode=vector, top_k=20))
    assert len(found_by_vector) == min(20, len(expected))
    assert set(found_by_vector) <= expected


@pytest.mark.parametrize(
    "document", [{}, {"sequence_num": {"$ne": 1}}, {"importance": {"$gte": 2, "$lt": 5}}, {"source": "3.txt"}], ids=str
)
def test_chunks_follow_the_same_neighbours_on_every_engine_and_only_those_that_match(
    libraries: dict[str, Library], document: JsonFilter
) -> None:
    where = to_filter_message(parse_filter(document))
    for query in ("alpha beta", "kappa n3c1"):
        alone = _relevances(libraries["memory"], query, "docs", where)
        expected = {}
        for content, relevance in alone.items():
            before, _, position = content.rpartition("c")
            # The last word of a text says where it stands, the rest of it what it says.
            source = before.rpartition(" ")[2]
            near = [
                value
                for other, value in alone.items()
                if other.endswith((f" {source}c{int(position) - 1}", f" {source}c{int(position) + 1}"))
            ]
            gain = max(near, default=0.0) - relevance
            expected[content] = relevance + PROFILE_RULES[ProfileName.GENERAL].neighbours * max(0.0, gain)
        assert expected != alone
        for name, library in libraries.items():
            found = _relevances(library, query, "small", where)
            assert found == pytest.approx(expected, abs=1e-5), (name, query)


def _relevances(library: Library, query: str, collection: str, where: Filter) -> dict[str, float]:
    response = library.retrieve(query, collection, filter=where, top_k=50)
    return {hit.chunk.content: hit.relevance_score for hit in response.results}


def _expected(library: Library, document: JsonFilter) -> set[str]:
    view = library.service.search.views.open("default", "docs")
    where = resolve_filter(parse_filter(document), view.fields())
    stored = view.chunks(range(1, 500))
    return {
        chunk.chunk.content
        for number, chunk in stored.items()
        if matches(
            where,
            chunk_payload(
                document_id=chunk.document.document_id,
                chunk_id=chunk.chunk_id,
                chunk_number=number,
                source_uri=chunk.document.source_uri,
                document_format=chunk.document.format,
                fields=chunk.document.fields,
                chunk=chunk.chunk,
                ingested=chunk.ingest_time,
            ),
        )
    }


@pytest.mark.requirement("S1-07")
def test_five_matching_chunks_are_found_behind_a_thousand_nearer_ones(engine_library: Library) -> None:
    rng = np.random.default_rng(3)
    axis = np.eye(DIMENSIONS, dtype=np.float32)[0]
    near = axis + 0.1 * rng.standard_normal((1000, DIMENSIONS)).astype(np.float32)
    far = axis + 2.0 * rng.standard_normal((5, DIMENSIONS)).astype(np.float32)
    near /= np.linalg.norm(near, axis=1, keepdims=True)
    far /= np.linalg.norm(far, axis=1, keepdims=True)
    engine_library.put("near.txt", [f"alpha {number}" for number in range(1000)], vectors=near)
    engine_library.put("far.txt", [f"beta {number}" for number in range(5)], vectors=far)
    where = to_filter_message(parse_filter({"source": "far.txt"}))
    for mode in (search_mode_pb2.SEARCH_MODE_VECTOR, search_mode_pb2.SEARCH_MODE_HYBRID):
        response = engine_library.retrieve("alpha", filter=where, mode=mode)
        assert {hit.chunk.source_uri for hit in response.results} == {"far.txt"}
        assert response.report.retrieval_count == 5
