"""`ranking = MEMORY`: importance and recency count beside the relevance, and the reply says how much."""

from collections.abc import AsyncIterator, Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groundwire.api.common.v1 import retrieval_options_pb2, search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.document import DocumentFields
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.serving import refused, serving
from tests.manual_clock import ManualClock

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

_MEMORY = search_mode_pb2.RANKING_MEMORY


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def library(tmp_path: Path, clock: ManualClock) -> Iterator[Library]:
    opened = Library(tmp_path, clock=clock)
    yield opened
    opened.close()


@pytest.fixture
async def stub(library: Library) -> "AsyncIterator[Stub]":
    async with serving(library) as opened:
        yield opened


def remember(library: Library, source: str, text: str, importance: int, age_days: float = 0.0) -> None:
    made = library.service.search.clock.now() - timedelta(days=age_days)
    record = {"type": "memory", "scope": "global", "importance": importance, "timestamp": made.isoformat()}
    library.put(source, [text], fields=DocumentFields(record=record))


async def search(stub: "Stub", query: str, **options: Any) -> pb.RetrieveResponse:
    given = retrieval_options_pb2.RetrievalOptions(ranking=_MEMORY, **options)
    return await stub.Retrieve(pb.RetrieveRequest(collection="docs", query=query, options=given))


def sources(response: pb.RetrieveResponse) -> list[str]:
    return [hit.chunk.source_uri for hit in response.results]


async def test_an_important_memory_comes_first_of_many_that_fit_as_well(library: Library, stub: "Stub") -> None:
    for number in range(40):
        remember(library, f"m{number}", "the deadline is in march", 5 if number == 39 else 3)
    for mode in (None, search_mode_pb2.SEARCH_MODE_VECTOR, search_mode_pb2.SEARCH_MODE_LEXICAL):
        assert sources(await search(stub, "deadline", top_k=1, mode=mode)) == ["m39"]


@pytest.mark.requirement("S0-33")
@pytest.mark.requirement("C10")
async def test_importance_decides_then_recency_and_every_component_is_told(library: Library, stub: "Stub") -> None:
    for source, importance, age in (("low", 1, 0), ("high and old", 5, 60), ("high and new", 5, 30)):
        remember(library, source, "the deadline is in march", importance, age_days=age)
    response = await search(stub, "deadline", collapse_duplicates=False)
    assert sources(response) == ["high and new", "high and old", "low"]
    for hit, (importance, age) in zip(response.results, [(5, 30), (5, 60), (1, 0)], strict=True):
        score = hit.memory_score
        assert (score.importance, score.importance_share, score.influence) == (importance, importance / 5, 1.0)
        assert score.age_days == pytest.approx(age, abs=1e-3)
        assert score.recency_bonus == pytest.approx(0.1 * 0.5 ** (age / 30), abs=1e-5)
        assert score.raw == pytest.approx(0.5 * score.similarity + 0.5 * importance / 5 + score.recency_bonus)
        assert hit.relevance_score == score.relevance == pytest.approx(score.raw / 1.1)


@pytest.mark.requirement("C10")
async def test_of_memories_that_are_too_old_for_a_bonus_the_newer_comes_first(library: Library, stub: "Stub") -> None:
    for source, age in (("older", 2400), ("oldest", 2800), ("newer", 2000)):
        remember(library, source, "the deadline is in march", 3, age_days=age)
    response = await search(stub, "deadline", collapse_duplicates=False)
    assert len({hit.memory_score.raw for hit in response.results}) == 1
    assert sources(response) == ["newer", "older", "oldest"]


@pytest.mark.requirement("S0-33")
async def test_ages_follow_the_clock_also_for_a_repeated_search(
    library: Library, stub: "Stub", clock: ManualClock
) -> None:
    remember(library, "note", "the deadline is in march", 3)
    first = await search(stub, "deadline")
    clock.advance(days=30)
    second = await search(stub, "deadline")
    bonuses = [response.results[0].memory_score.recency_bonus for response in (first, second)]
    assert bonuses == pytest.approx([0.1, 0.05], abs=1e-4)


@pytest.mark.requirement("S0-34")
async def test_a_memory_that_fits_well_is_not_buried_by_important_ones(library: Library, stub: "Stub") -> None:
    remember(library, "fits", "the launch deadline is in march", 1, age_days=900)
    for number in range(12):
        remember(library, f"important {number}", f"launch notes about {' '.join('abcdefgh')} {number}", 5)
    response = await search(stub, "launch deadline march")
    assert sources(response)[0] == "fits"
    assert all(hit.memory_score.influence < 1.0 for hit in response.results[1:])


@pytest.mark.requirement("C10")
async def test_min_relevance_tests_the_similarity(library: Library, stub: "Stub") -> None:
    remember(library, "fits", "deadline", 1, age_days=900)
    remember(library, "does not", "the unrelated price of bread and butter in a deadline shop", 5)
    everything = await search(stub, "deadline", mode=search_mode_pb2.SEARCH_MODE_VECTOR)
    near, far = sorted((hit.memory_score.similarity for hit in everything.results), reverse=True)
    response = await search(stub, "deadline", mode=search_mode_pb2.SEARCH_MODE_VECTOR, min_relevance=(near + far) / 2)
    assert sources(response) == ["fits"]
    # Its public score, which has little of importance and recency, is below what was asked of the similarity.
    assert response.results[0].relevance_score < (near + far) / 2


async def test_the_explain_plan_adds_up_to_the_score(library: Library, stub: "Stub") -> None:
    for number in range(5):
        remember(library, f"note {number}", f"the deadline is number {number}", number + 1, age_days=number)
    response = await search(stub, "deadline number", explain=True)
    trees = [candidate.score for candidate in response.explain_plan.candidates]
    assert len(trees) == len(response.results) == 5
    for tree, hit in zip(trees, response.results, strict=True):
        assert tree.value == hit.relevance_score
        assert sum(child.value * child.weight for child in tree.children) == pytest.approx(tree.value)


async def test_without_the_ranking_nothing_but_relevance_counts(library: Library, stub: "Stub") -> None:
    remember(library, "exact", "deadline", 1, age_days=900)
    remember(library, "longer", "a deadline among words", 5)
    response = await stub.Retrieve(pb.RetrieveRequest(collection="docs", query="deadline"))
    assert sources(response) == ["exact", "longer"]
    assert not any(hit.HasField("memory_score") for hit in response.results)


async def test_an_unknown_ranking_is_refused(stub: "Stub") -> None:
    options = retrieval_options_pb2.RetrievalOptions(ranking=99)  # type: ignore[arg-type]  # on purpose
    call = stub.Retrieve(pb.RetrieveRequest(collection="docs", query="x", options=options))
    _, _, fields = await refused(call)
    assert fields == ["options.ranking"]
