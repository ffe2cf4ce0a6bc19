"""A search while the reranker fails or hangs: the results keep the order of before, and the response says so."""

import threading
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from groundwire.api.common.v1 import degraded_stage_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.retrieve import reranker as rerankers
from groundwire.retrieve.reranker import ModelReranker
from tests.integration.retrieve.library import Library, contents
from tests.integration.retrieve.replay import replay

if TYPE_CHECKING:
    from tests.integration.retrieve.serving import Stub

DEADLINE_S = 4.0
LACKS_RERANK = [degraded_stage_pb2.DEGRADED_STAGE_RERANK]
BY_FUSION = ["alpha beta gamma", "alpha beta", "alpha chosen delta"]


class Model:
    """Prefers passages that say `chosen`; hangs until it `goes_on`, and raises its `error` instead if it has one."""

    def __init__(self) -> None:
        self.goes_on = threading.Event()
        self.goes_on.set()
        self.error: Exception | None = None
        self.calls = 0

    def __call__(self, query: str, passages: Sequence[str]) -> Any:
        self.calls += 1
        self.goes_on.wait(60)
        if self.error is not None:
            raise self.error
        return [float("chosen" in passage) for passage in passages]


@pytest.fixture
def model() -> Iterator[Model]:
    model = Model()
    yield model
    model.goes_on.set()


@pytest.fixture
def library(tmp_path: Path, model: Model) -> Iterator[Library]:
    library = Library(tmp_path)
    object.__setattr__(library.service.search, "reranker", ModelReranker("scripted", model))
    library.put("a.txt", BY_FUSION)
    yield library
    library.close()


def _search(**options: object) -> pb.RetrieveRequest:
    request = pb.RetrieveRequest(collection="docs", query="alpha beta gamma")
    request.options.min_relevance = 0.0
    request.options.include_report = True
    for name, value in options.items():
        setattr(request.options, name, value)
    return request


async def test_a_reranker_that_raises_costs_the_search_its_order_only(stub: "Stub", model: Model) -> None:
    model.error = RuntimeError("out of memory")
    response = await stub.Retrieve(_search(rerank=True))
    plain = await stub.Retrieve(_search(rerank=False))
    assert (list(response.degraded_stages), list(plain.degraded_stages)) == (LACKS_RERANK, [])
    assert contents(response) == contents(plain) == BY_FUSION
    assert [hit.relevance_score for hit in response.results] == [hit.relevance_score for hit in plain.results]

    model.error = None
    again = await stub.Retrieve(_search(rerank=True))
    assert (contents(again)[0], list(again.degraded_stages)) == (BY_FUSION[2], [])
    assert not again.report.from_cache, "what lacks something is not remembered"


async def test_scores_that_do_not_fit_the_passages_are_a_failure_too(stub: "Stub", library: Library) -> None:
    object.__setattr__(library.service.search, "reranker", ModelReranker("scripted", lambda *_: [1.0, 2.0]))
    response = await stub.Retrieve(_search())
    assert (contents(response), list(response.degraded_stages)) == (BY_FUSION, LACKS_RERANK)


async def test_a_reranker_that_hangs_costs_a_part_of_the_deadline(stub: "Stub", model: Model) -> None:
    model.goes_on.clear()
    began_at = time.monotonic()
    response = await stub.Retrieve(_search(explain=True), timeout=DEADLINE_S)
    assert time.monotonic() - began_at < DEADLINE_S
    assert (contents(response), list(response.degraded_stages)) == (BY_FUSION, LACKS_RERANK)
    assert replay(response.explain_plan) == [hit.chunk.chunk_id for hit in response.results]
    assert "rerank" not in {stage.name for stage in response.explain_plan.stages}
    model.goes_on.set()
    assert contents(await stub.Retrieve(_search(), timeout=DEADLINE_S))[0] == BY_FUSION[2]


async def test_nobody_waits_for_a_reranker_that_hangs_already(
    stub: "Stub", model: Model, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rerankers, "HUNG_AFTER_S", 0.2)
    model.goes_on.clear()
    await stub.Retrieve(_search(), timeout=1.0)
    began_at = time.monotonic()
    batch = pb.BatchRetrieveRequest(requests=[_search(), _search(top_k=2)])
    responses = [outcome.response for outcome in (await stub.BatchRetrieve(batch, timeout=60.0)).outcomes]
    assert time.monotonic() - began_at < 15.0  # half of the deadline would be 30 s
    assert [list(each.degraded_stages) for each in responses] == [LACKS_RERANK, LACKS_RERANK]
    assert model.calls == 1


async def test_a_context_waits_once_for_all_its_types(stub: "Stub", library: Library, model: Model) -> None:
    model.goes_on.clear()
    request = pb.RetrieveContextRequest(collection="docs", query="alpha beta gamma")
    request.options.min_relevance = 0.0
    library.put("b.txt", ["alpha beta gamma zeta"])
    response = await stub.RetrieveContext(request, timeout=DEADLINE_S)
    assert list(response.degraded_stages) == LACKS_RERANK
    assert len(response.document_results) == 4
