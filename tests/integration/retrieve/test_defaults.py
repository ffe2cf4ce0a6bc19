"""What a request leaves open: the defaults of each profile, and the limits over gRPC."""

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import ProfileName, RetrievalDefaults, SearchMode
from groundwire.retrieve.settings import RetrieveSettings
from tests.integration.retrieve.library import DIMENSIONS, Library, contents
from tests.integration.retrieve.serving import refused, serving

_AXIS = np.eye(DIMENSIONS, dtype=np.float32)[0]
SIMILARITIES = [0.9, 0.7, 0.5, 0.4, 0.32, 0.28, 0.2, 0.1]


@pytest.fixture
def profiles(engine_library: Library) -> Library:
    """Collections of all profiles with the same eight chunks, whose similarities to the query are known."""
    opened = engine_library
    for profile in ProfileName:
        collection = opened.create(profile.value, profile=profile)
        across = np.sqrt(1.0 - np.square(SIMILARITIES, dtype=np.float32))
        vectors = np.outer(SIMILARITIES, _AXIS) + np.outer(across, np.roll(_AXIS, 1))
        texts = [f"chunk {similarity}" for similarity in SIMILARITIES]
        source = "https://example.org/a"
        opened.put(source, texts, collection=collection, vectors=vectors.astype(np.float32))
    return opened


def _request(collection: str, **options: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection=collection, query="zzz", query_vector=_AXIS.tolist())
    request.options.include_report = True
    request.options.mode = search_mode_pb2.SEARCH_MODE_VECTOR
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


def _scores(response: pb.RetrieveResponse) -> list[float]:
    return [round(hit.relevance_score, 3) for hit in response.results]


@pytest.mark.requirement("S3-16")
@pytest.mark.requirement("S3-40")
async def test_a_web_page_needs_a_relevance_of_three_tenths_unless_the_request_says_otherwise(
    profiles: Library,
) -> None:
    async with serving(profiles) as stub:
        unset = await stub.Retrieve(_request("web", top_k=20))
        assert _scores(unset) == SIMILARITIES[:5]
        assert unset.report.quality.below_threshold_count == 3
        assert _scores(await stub.Retrieve(_request("web", top_k=20, min_relevance=0.0))) == SIMILARITIES
        assert _scores(await stub.Retrieve(_request("web", min_relevance=0.45))) == SIMILARITIES[:3]
        for wrong in (-0.1, 1.1):
            _, info, fields = await refused(stub.Retrieve(_request("web", min_relevance=wrong)))
            assert (info.reason, fields) == ("INVALID_FIELD", ["options.min_relevance"])


@pytest.mark.requirement("C27")
@pytest.mark.requirement("S3-15")
@pytest.mark.requirement("T19")
async def test_five_results_unless_one_to_a_hundred_are_asked_for(profiles: Library) -> None:
    async with serving(profiles) as stub:
        for collection in ("web", "book", "documents"):
            assert (await stub.Retrieve(_request(collection))).report.retrieval_count == 5
        assert (await stub.Retrieve(_request("documents", top_k=1))).report.retrieval_count == 1
        assert (await stub.Retrieve(_request("documents", top_k=100))).report.retrieval_count == len(SIMILARITIES)
        for wrong in (0, 101, -1):
            _, _, fields = await refused(stub.Retrieve(_request("documents", top_k=wrong)))
            assert fields == ["options.top_k"]


@pytest.mark.requirement("T44")
@pytest.mark.requirement("C28")
async def test_web_and_book_have_a_threshold_and_the_others_have_none(profiles: Library) -> None:
    async with serving(profiles) as stub:
        found = {name.value: _scores(await stub.Retrieve(_request(name.value, top_k=20))) for name in ProfileName}
    limited, everything = SIMILARITIES[:5], SIMILARITIES
    assert found == {
        "web": limited,
        "book": limited,
        "general": everything,
        "documents": everything,
        "conversations": everything,
        "memory": everything,
    }


async def test_a_collection_has_defaults_of_its_own(profiles: Library) -> None:
    retrieval = RetrievalDefaults(SearchMode.VECTOR, top_k=3, min_relevance=0.6, dense_weight=0.5)
    collection = profiles.create("own", retrieval=retrieval)
    profiles.put("a.txt", ["same", "far"], collection=collection, vectors=np.stack([_AXIS, -_AXIS]))
    profiles.put("b.txt", [f"near {n}" for n in range(4)], collection=collection, vectors=np.stack([_AXIS] * 4))
    async with serving(profiles) as stub:
        request = pb.RetrieveRequest(collection="own", query="zzz", query_vector=_AXIS.tolist())
        assert _scores(await stub.Retrieve(request)) == [1.0, 1.0, 1.0]
        request.options.top_k = 20
        assert _scores(await stub.Retrieve(request)) == [1.0] * 5
        request.options.min_relevance = 0.0
        assert _scores(await stub.Retrieve(request)) == [1.0] * 5 + [0.0]


async def test_the_server_sets_how_many_results_can_be_asked_for(tmp_path: Path) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(max_top_k=30))
    try:
        library.put("a.txt", [f"alpha {number}" for number in range(40)])
        async with serving(library) as stub:
            request = pb.RetrieveRequest(collection="docs", query="alpha")
            request.options.include_report = True
            request.options.top_k = 30
            assert (await stub.Retrieve(request)).report.retrieval_count == 30
            request.options.top_k = 31
            _, _, fields = await refused(stub.Retrieve(request))
    finally:
        library.close()
    assert fields == ["options.top_k"]


@pytest.mark.parametrize(
    ("settings", "found"),
    [
        ({}, ["odd", "rare"]),
        ({"max_term_share": 1.0}, ["common", "odd", "rare"]),
        ({"max_terms": 1}, ["rare"]),
    ],
    ids=str,
)
def test_the_server_sets_which_words_are_looked_up(tmp_path: Path, settings: dict[str, Any], found: list[str]) -> None:
    library = Library(tmp_path, settings=RetrieveSettings(**settings))
    try:
        library.put("a.txt", ["rare", "odd", "odd"] + ["common"] * 9)
        response = library.retrieve("common odd rare", mode=search_mode_pb2.SEARCH_MODE_LEXICAL, top_k=20)
    finally:
        library.close()
    assert sorted(set(contents(response))) == found
