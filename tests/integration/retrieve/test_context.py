"""A query that goes on from something is searched for twice, with what it goes on from and without."""

from pathlib import Path

import pytest

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import CollectionLimits
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.vectors import unit_vector
from groundwire.retrieve.search import QueryVectors
from tests.integration.retrieve.library import Library, WordBagEmbedder, contents

_TEXTS = ("heron feather colour", "heron nest height", "owl nest height", "granite mountain", "salt harbour", "tide")


@pytest.fixture
def library(tmp_path: Path) -> Library:
    library = Library(tmp_path)
    for number, text in enumerate(_TEXTS):
        library.put(f"{number}.txt", [text])
    return library


def _request(query: str, context: str = "", **options: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection="docs", query=query, context=context)
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


@pytest.mark.parametrize("mode", search_mode_pb2.SearchMode.values())
def test_what_a_query_goes_on_from_decides_between_equals_and_the_query_between_others(
    library: Library, mode: search_mode_pb2.SearchMode.ValueType
) -> None:
    for bird, other in (("heron", "owl"), ("owl", "heron")):
        found = contents(library.service.servicer.retrieve(_request("nest height", bird, mode=mode), 0.0).message())
        assert found[:2] == [f"{bird} nest height", f"{other} nest height"]
    # A query about something else finds it first, whatever it goes on from.
    foreign = contents(
        library.service.servicer.retrieve(_request("granite", "feather colour", mode=mode), 0.0).message()
    )
    assert foreign[0] == "granite mountain"


def test_the_words_of_what_a_query_goes_on_from_are_told_behind_its_own(library: Library) -> None:
    request = _request("nest", '"heron feather" granite nest', explain=True)
    plan = library.service.servicer.retrieve(request, 0.0).message().explain_plan
    (lexical,) = (stage for stage in plan.stages if stage.name == "lexical")
    told = [(figure.name, figure.detail, figure.value) for figure in lexical.figures]
    terms = [("term", "nest", 2.0), ("term", "feather", 1.0), ("term", "granite", 1.0)]
    assert told == [*terms, ("phrase", "heron feather", 1.0)]


def test_a_query_without_a_known_word_is_not_replaced_by_what_it_goes_on_from(library: Library) -> None:
    request = _request("zzz", "heron", mode=search_mode_pb2.SEARCH_MODE_LEXICAL)
    assert contents(library.service.servicer.retrieve(request, 0.0).message()) == []


def test_a_search_of_a_batch_goes_on_from_its_own_context(library: Library) -> None:
    requests = [_request("nest height", bird) for bird in ("heron", "owl")] + [_request("nest height")]
    outcomes = library.service.servicer.batch_retrieve(pb.BatchRetrieveRequest(requests=requests), 0.0).outcomes
    alone = [library.service.servicer.retrieve(request, 0.0).message() for request in requests]
    assert [contents(outcome.response) for outcome in outcomes] == [contents(response) for response in alone]
    assert contents(outcomes[0].response)[0] == "heron nest height"
    assert contents(outcomes[1].response)[0] == "owl nest height"


def test_the_vector_of_a_query_with_a_context_is_a_mean_of_directions() -> None:
    class LongEmbedder(WordBagEmbedder):
        """Its vectors are longer for longer texts."""

        def embed_query(self, text: str, budget: Budget) -> Vectors:
            return len(text) * super().embed_query(text, budget)

    vectors = QueryVectors(LongEmbedder(), entries=8)
    alone, together, mean = (
        vectors.of(query, Budget(), context).vector
        for query, context in (("height", ""), ("heron nest height", ""), ("height", "heron nest"))
    )
    for text in _TEXTS:
        of_text = WordBagEmbedder().embed_query(text, Budget())
        expected = (2 * unit_vector(alone) @ of_text + unit_vector(together) @ of_text) / 3
        assert mean @ of_text == pytest.approx(expected, abs=1e-6)


def test_words_that_are_repeated_count_as_often(library: Library) -> None:
    lexical = search_mode_pb2.SEARCH_MODE_LEXICAL
    once = contents(library.service.servicer.retrieve(_request("owl heron feather", mode=lexical), 0.0).message())
    often = contents(
        library.service.servicer.retrieve(_request("owl owl owl owl heron feather", mode=lexical), 0.0).message()
    )
    assert once[0] == "heron feather colour"
    assert often[0] == "owl nest height"


def test_a_context_keeps_the_rules_of_queries(library: Library) -> None:
    library.create("short", limits=CollectionLimits(max_query_chars=20))
    too_long = _request("nest", "heron " * 10)
    too_long.collection = "short"
    for request in (_request("nest", " "), _request("nest", "a\x00b"), too_long):
        with pytest.raises(InvalidRequestError) as refused:
            library.service.servicer.retrieve(request, 0.0)
        assert [violation.field for violation in refused.value.violations] == ["context"]
