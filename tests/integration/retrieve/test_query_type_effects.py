"""What the type of a query changes in the ranking, and how the reply says so."""

from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np
import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.collection import PROFILES, ProfileName
from groundwire.retrieve.ranking import CONCEPTUAL_SHIFT, FACTUAL_SHIFT, PROFILE_RULES, SECTION_SHARE
from tests.integration.retrieve.library import DIMENSIONS, Library, contents
from tests.integration.retrieve.replay import figure, figures
from tests.integration.retrieve.serving import refused

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

_FACTUAL = search_mode_pb2.QUERY_TYPE_FACTUAL
_CONCEPTUAL = search_mode_pb2.QUERY_TYPE_CONCEPTUAL
_SECTION = search_mode_pb2.QUERY_TYPE_SECTION_BASED


def _request(query: str, *types: int, **options: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection="docs", query=query)
    request.options.include_report = True
    request.options.query_types.extend(types)  # type: ignore[arg-type]  # also wrong ones
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


@pytest.mark.requirement("S3-03")
async def test_the_reply_states_the_class_of_each_question(stub: "Stub") -> None:
    expected = {
        "Why does the moon cause tides?": _CONCEPTUAL,
        "How many tides are there in a day?": _FACTUAL,
        "What does chapter 3 say about tides?": _SECTION,
    }
    for query, kind in expected.items():
        response = await stub.Retrieve(_request(query))
        assert response.report.query_type == response.report.applied_query_type == kind, query


@pytest.mark.requirement("S3-17")
@pytest.mark.requirement("C19")
async def test_the_first_preferred_type_applies_when_the_own_one_is_not_listed(stub: "Stub") -> None:
    query = "Why does the moon cause tides?"
    for given, applied in (
        ((), _CONCEPTUAL),
        ((_CONCEPTUAL, _FACTUAL), _CONCEPTUAL),
        ((_FACTUAL, _CONCEPTUAL), _CONCEPTUAL),
        ((_FACTUAL, _SECTION), _FACTUAL),
        ((_SECTION,), _SECTION),
    ):
        response = await stub.Retrieve(_request(query, *given))
        assert (response.report.query_type, response.report.applied_query_type) == (_CONCEPTUAL, applied), given


@pytest.mark.requirement("S3-17")
async def test_a_bad_type_is_named(stub: "Stub") -> None:
    _, _, fields = await refused(stub.Retrieve(_request("alpha", _FACTUAL, 0, 99)))
    assert fields == ["options.query_types[1]", "options.query_types[2]"]


@pytest.mark.requirement("C19")
async def test_words_count_more_for_facts_and_vectors_more_for_concepts(library: Library, stub: "Stub") -> None:
    library.put("a.txt", [f"filler word {number}" for number in range(40)])
    shares = {}
    for kind in (_FACTUAL, _CONCEPTUAL):
        plan = (await stub.Retrieve(_request("filler word", kind, explain=True))).explain_plan
        shares[kind] = figures(plan, "fusion")["dense_weight"]
    default = PROFILES[ProfileName.DOCUMENTS].retrieval.dense_weight
    assert shares[_FACTUAL] == pytest.approx(default + FACTUAL_SHIFT)
    assert shares[_CONCEPTUAL] == pytest.approx(default + CONCEPTUAL_SHIFT)
    assert shares[_FACTUAL] < default < shares[_CONCEPTUAL]


@pytest.mark.requirement("C19")
async def test_the_type_of_a_query_shifts_no_weight_beyond_the_whole(library: Library, stub: "Stub") -> None:
    for name, weight, kind in (("words", 0.0, _FACTUAL), ("vectors", 1.0, _CONCEPTUAL)):
        of_profile = PROFILES[ProfileName.DOCUMENTS].retrieval
        collection = library.create(name, retrieval=replace(of_profile, dense_weight=weight))
        library.put("a.txt", [f"filler word {number}" for number in range(40)], collection=collection)
        request = _request("filler word", kind, explain=True)
        request.collection = name
        plan = (await stub.Retrieve(request)).explain_plan
        assert figures(plan, "fusion")["dense_weight"] == weight


@pytest.mark.requirement("C19")
async def test_a_weight_of_the_request_is_not_shifted(library: Library, stub: "Stub") -> None:
    library.put("a.txt", ["alpha one", "beta two"])
    response = await stub.Retrieve(_request("why alpha and beta", dense_weight=0.5, explain=True))
    assert figures(response.explain_plan, "fusion")["dense_weight"] == 0.5


@pytest.mark.requirement("C19")
async def test_chunks_of_the_named_section_come_first(library: Library, stub: "Stub") -> None:
    library.put(
        "a.md",
        ["tides and the moon and the sea", "tides in short", "bread and salt"],
        places=[("Chapter 1: Tides", None), ("Chapter 2: Coasts", None), ("Chapter 2: Coasts", "Bread")],
    )
    plain = await stub.Retrieve(_request("moon tides"))
    named = await stub.Retrieve(_request("What does chapter 2 say about moon tides?", explain=True))
    assert plain.results[0].chunk.chapter == "Chapter 1: Tides"
    assert named.results[0].chunk.chapter == "Chapter 2: Coasts"
    scores = [hit.relevance_score for hit in named.results]
    assert scores == sorted(scores, reverse=True)
    assert all(0.0 <= score <= 1.0 for score in scores)
    for candidate in named.explain_plan.candidates:
        bonus = figure(candidate, "bonus")
        before = candidate.score.value - bonus
        expected = SECTION_SHARE * (1 - before) if "Coasts" in candidate.place else 0.0
        assert bonus == pytest.approx(expected, abs=1e-6)


@pytest.mark.requirement("C19")
async def test_for_concepts_a_chunk_follows_its_better_neighbour(library: Library, stub: "Stub") -> None:
    axis = np.eye(DIMENSIONS, dtype=np.float32)
    far = [0.20 * axis[0] + axis[2 + number] for number in range(4)]
    texts = ["far before", "the hit", "right behind it", "apart", "more apart"]
    library.put("a.txt", texts, vectors=np.stack([far[0], axis[0], far[1], far[2], 1.1 * far[3]]))
    ranks = {}
    for kind in (_FACTUAL, _CONCEPTUAL):
        request = _request("zzz", kind, mode=search_mode_pb2.SEARCH_MODE_VECTOR)
        request.query_vector.extend(axis[0].tolist())
        ranks[kind] = contents(await stub.Retrieve(request))
    assert ranks[_CONCEPTUAL][0] == ranks[_FACTUAL][0] == "the hit"
    assert set(ranks[_CONCEPTUAL][1:3]) == {"far before", "right behind it"}


async def test_small_chunks_follow_their_better_neighbour_whatever_is_asked(library: Library, stub: "Stub") -> None:
    axis = np.eye(DIMENSIONS, dtype=np.float32)
    vectors = np.stack([axis[0], 0.5 * axis[0] + axis[1], 0.51 * axis[0] + axis[2], axis[3], 0.505 * axis[0] + axis[4]])
    found = {}
    for profile in (ProfileName.GENERAL, ProfileName.DOCUMENTS):
        collection = library.create(profile.value, profile=profile)
        # The hit, what goes on behind it, and what resembles the query a little more elsewhere.
        library.put("a.txt", ["the hit", "right behind"], collection=collection, vectors=vectors[:2])
        library.put("b.txt", ["elsewhere", "far off", "apart"], collection=collection, vectors=vectors[2:])
        request = _request("zzz", _FACTUAL, explain=True)
        request.collection = profile.value
        request.query_vector.extend(axis[0].tolist())
        found[profile] = await stub.Retrieve(request)
    assert contents(found[ProfileName.GENERAL])[:2] == ["the hit", "right behind"]
    assert contents(found[ProfileName.DOCUMENTS])[:2] == ["the hit", "elsewhere"]
    first, second = found[ProfileName.GENERAL].explain_plan.candidates[:2]
    share = figures(found[ProfileName.GENERAL].explain_plan, "fusion")["neighbour_share"]
    assert share == PROFILE_RULES[ProfileName.GENERAL].neighbours
    fused = figure(second, "fused")
    assert figure(second, "bonus") == pytest.approx(share * (figure(first, "fused") - fused), abs=1e-6)
