"""An explain plan says why each result stands where it stands; doing its arithmetic again gives the order."""

import random
from collections.abc import Sequence
from pathlib import Path

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ProfileName
from groundwire.kernel.document import DocumentFields
from groundwire.kernel.filter_parsing import parse_filter
from groundwire.rpc.filter_messages import to_filter_message
from tests.integration.retrieve.library import Library
from tests.integration.retrieve.replay import figures, replay

_MODES = [
    search_mode_pb2.SEARCH_MODE_HYBRID,
    search_mode_pb2.SEARCH_MODE_VECTOR,
    search_mode_pb2.SEARCH_MODE_LEXICAL,
]
_WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read
_QUERIES = [
    "tide moon",
    "why does granite follow the comet",
    'orchard "compass glacier"',
    "what is the meadow in chapter 2",
    "anvil-7",
]


def _fill(library: Library, collection_name: str, profile: ProfileName) -> None:
    collection = library.create(collection_name, profile=profile)
    chance = random.Random(7)
    for number in range(12):
        texts = [" ".join(chance.choices(_WORDS, k=12)) for _ in range(10)]
        places = [(f"Chapter {part // 4}", f"Section {part}") for part in range(10)]
        fields = DocumentFields(project=f"p{number % 3}")
        library.put(f"{number}.txt", texts, collection=collection, fields=fields, places=places)


@pytest.mark.parametrize("profile", [ProfileName.GENERAL, ProfileName.DOCUMENTS, ProfileName.BOOK])
@pytest.mark.parametrize("mode", _MODES)
def test_replaying_a_plan_gives_the_returned_order(library: Library, mode: int, profile: ProfileName) -> None:
    _fill(library, "explained", profile)
    for query in _QUERIES:
        for top_k, diversity in ((5, 0.0), (3, 0.4), (20, 0.0)):
            response = library.retrieve(
                query, collection="explained", mode=mode, top_k=top_k, diversity=diversity, explain=True
            )
            plan = response.explain_plan
            assert len(response.results) == top_k or mode == search_mode_pb2.SEARCH_MODE_LEXICAL or profile == "book"
            assert replay(plan) == [hit.chunk.chunk_id for hit in response.results]
            assert [each.rank for each in plan.candidates if each.rank] == list(range(1, len(response.results) + 1))


def test_a_plan_without_explain_and_one_with_it_return_the_same(library: Library) -> None:
    _fill(library, "explained", ProfileName.DOCUMENTS)
    for query in _QUERIES:
        plain = library.retrieve(query, collection="explained")
        explained = library.retrieve(query, collection="explained", explain=True)
        assert not plain.HasField("explain_plan")
        assert [hit.chunk.chunk_id for hit in plain.results] == [hit.chunk.chunk_id for hit in explained.results]
        assert [hit.relevance_score for hit in plain.results] == [hit.relevance_score for hit in explained.results]


def test_near_misses_follow_by_falling_relevance_with_what_became_of_them(library: Library) -> None:
    library.put("a.txt", ["alpha beta gamma", "alpha beta", "alpha", "delta"])
    library.put("b.txt", ["Alpha  beta gamma"])
    response = library.retrieve("alpha beta gamma", top_k=2, min_relevance=0.2, explain=True)
    plan = response.explain_plan
    fates = {each.place.split()[0] + str(each.chunk_number): each.fate for each in plan.candidates}
    assert list(fates.values()).count("returned") == 2
    duplicate = next(each for each in plan.candidates if each.fate == "duplicate")
    assert duplicate.duplicate_of == response.results[0].chunk.chunk_number
    assert "beyond_top_k" in fates.values()
    assert "below_threshold" in fates.values()
    misses = [each.score.value for each in plan.candidates if not each.rank]
    assert misses == sorted(misses, reverse=True)
    assert plan.candidate_count == response.report.quality.candidate_count == 5


def test_stages_terms_and_the_filter_are_told(library: Library) -> None:
    library.put("a.txt", ["alpha beta", "alpha gamma"], fields=DocumentFields(category="x"))
    where = to_filter_message(parse_filter({"category": {"$like": "x%"}}))
    response = library.retrieve('alpha "alpha beta" "beta alpha"', filter=where, explain=True)
    plan = response.explain_plan
    stages = {stage.name: stage for stage in plan.stages}
    assert list(stages) == ["embed", "lexical", "dense", "fusion", "join", "validate"]
    assert response.report.applied_filter == where
    words = [(figure.name, figure.detail, figure.value) for figure in stages["lexical"].figures]
    assert words == [("term", "beta", 1.0), ("term", "alpha", 2.0), ("phrase", "alpha beta", 1.0)]
    assert figures(plan, "dense") == {"selectivity": 1.0}
    assert (stages["lexical"].engine, stages["dense"].engine) == ("catalog", "catalog")
    assert figures(plan, "validate") == {"min_relevance": 0.0, "top_k": 5.0, "diversity": 0.0}


def test_quoted_words_lead_to_the_chunk_that_has_them_in_that_order(engine_library: Library) -> None:
    engine_library.put(
        "a.txt", ["moon full tide moon full", "tides of the full moon and much else beside it", "granite"]
    )
    for mode in _MODES[:1] + _MODES[2:]:
        response = engine_library.retrieve('"full moon"', mode=mode)
        assert response.results[0].chunk.content.startswith("tides of the full moon")


class CountingReranker:
    """Prefers passages that say `chosen`."""

    name = "counting"

    def __init__(self) -> None:
        self.read: list[str] = []

    def score(self, query: str, passages: Sequence[str], budget: Budget) -> Sequence[float]:
        assert query
        budget.check()
        self.read.extend(passages)
        return [10.0 * ("chosen" in passage) - len(passage) / 1000 for passage in passages]


def _with_reranker(library: Library, reranker: CountingReranker, depth: int) -> None:
    search = library.service.search
    object.__setattr__(search, "reranker", reranker)
    settings = library.service.servicer.settings.model_copy(update={"rerank_depth": depth, "rerank_weight": 0.9})
    object.__setattr__(search, "settings", settings)


def test_a_reranker_orders_what_it_reads_and_the_plan_replays(tmp_path: Path) -> None:
    library, reranker = Library(tmp_path), CountingReranker()
    _with_reranker(library, reranker, 4)
    library.put("a.txt", ["alpha beta gamma", "alpha beta", "alpha delta", "alpha chosen epsilon", "zeta", "eta"])
    response = library.retrieve("alpha beta gamma", top_k=5, min_relevance=0.0, explain=True)
    assert response.results[0].chunk.content == "alpha chosen epsilon"
    assert len(reranker.read) == 4
    assert replay(response.explain_plan) == [hit.chunk.chunk_id for hit in response.results]
    assert "rerank" in {stage.name for stage in response.explain_plan.stages}
    scores = [hit.relevance_score for hit in response.results]
    assert scores == sorted(scores, reverse=True)
    plain = library.retrieve("alpha beta gamma", top_k=5, min_relevance=0.0, rerank=False)
    assert plain.results[0].chunk.content == "alpha beta gamma"
    assert len(reranker.read) == 4
    library.close()


@pytest.mark.parametrize("mode", _MODES)
def test_a_reranker_reads_as_many_as_it_is_set_to_however_few_results_are_asked_for(
    library: Library, mode: int
) -> None:
    reranker = CountingReranker()
    _with_reranker(library, reranker, 30)
    library.put("a.txt", [f"alpha {number}" for number in range(40)])
    library.retrieve("alpha", mode=mode, top_k=1)
    assert len(reranker.read) == 30
