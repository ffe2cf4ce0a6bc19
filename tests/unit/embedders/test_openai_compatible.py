"""An embedding endpoint that refuses, fails, hangs, lies, or is away for a while."""

import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from typing import Any

import numpy as np
import pytest

from groundwire.embedders import openai_compatible
from groundwire.embedders.openai_compatible import EndpointModel, OpenAiCompatibleEmbedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import DeadlineError, PreconditionError, UnavailableError
from tests.embedding_endpoint import EmbeddingEndpoint, embedding_endpoint


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "_FIRST_PAUSE_S", 0.01)


@pytest.fixture
def endpoint() -> Iterator[EmbeddingEndpoint]:
    with embedding_endpoint(dimensions=64) as running:
        yield running


def wait_until(condition: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + 30
    while not condition():
        assert time.monotonic() < ends_at
        time.sleep(0.02)


def opened(endpoint: EmbeddingEndpoint, **options: Any) -> OpenAiCompatibleEmbedder:
    url = f"http://127.0.0.1:{endpoint.port}/v1"
    return OpenAiCompatibleEmbedder(EndpointModel(url, "words", **options), patience_s=0)


@pytest.fixture
def embedder(endpoint: EmbeddingEndpoint) -> Iterator[OpenAiCompatibleEmbedder]:
    with closing(opened(endpoint)) as made:
        yield made


@pytest.mark.parametrize(
    ("status", "message"), [(401, "refuses the key"), (403, "refuses the key"), (404, "its URL and model")]
)
def test_what_the_endpoint_refuses_is_a_precondition(
    embedder: OpenAiCompatibleEmbedder, endpoint: EmbeddingEndpoint, status: int, message: str
) -> None:
    endpoint.statuses = [status]
    with pytest.raises(PreconditionError, match=message):
        embedder.embed_query("one", Budget(10))
    assert endpoint.statuses == []
    assert embedder.is_responsive
    assert embedder.embed_query("one", Budget(10)).shape == (64,)


@pytest.mark.parametrize("status", [429, 500, 503])
def test_what_may_pass_is_asked_again(
    embedder: OpenAiCompatibleEmbedder, endpoint: EmbeddingEndpoint, status: int
) -> None:
    endpoint.statuses = [status]
    assert embedder.embed_query("one", Budget(10)).shape == (64,)
    endpoint.statuses = [status, status]
    assert embedder.embed_documents(["one"], Budget(10)).shape == (1, 64)
    endpoint.statuses = [status, status]
    with pytest.raises(UnavailableError, match=str(status)):
        embedder.embed_query("one", Budget(10))


@pytest.mark.parametrize(
    "spoil",
    [
        lambda _: [],
        lambda _: {"data": None},
        lambda reply: reply | {"data": reply["data"][:-1]},
        lambda reply: reply | {"data": [*reply["data"], reply["data"][0]]},
        lambda reply: reply | {"data": [row | {"embedding": row["embedding"][:-1]} for row in reply["data"]]},
        lambda reply: reply | {"data": [row | {"embedding": [0.0] * 64} for row in reply["data"]]},
        lambda reply: reply | {"data": [row | {"embedding": [float("nan")] * 64} for row in reply["data"]]},
        lambda reply: reply | {"data": [row | {"embedding": "text"} for row in reply["data"]]},
        lambda reply: reply | {"data": [row | {"embedding": []} for row in reply["data"]]},
    ],
)
def test_a_reply_of_another_form_is_no_vector(
    embedder: OpenAiCompatibleEmbedder, endpoint: EmbeddingEndpoint, spoil: Callable[[dict[str, Any]], Any]
) -> None:
    endpoint.spoil = spoil
    with pytest.raises(UnavailableError, match="one vector for each text"):
        embedder.embed_queries(["one", "two"], Budget(10))
    endpoint.spoil = lambda reply: reply
    assert embedder.embed_queries(["one", "two"], Budget(10)).shape == (2, 64)


def test_a_call_of_an_endpoint_that_hangs_ends_with_its_budget(
    embedder: OpenAiCompatibleEmbedder, endpoint: EmbeddingEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "_OVERDUE_AFTER_S", {True: 0.1, False: 0.1})
    monkeypatch.setattr(openai_compatible, "_LOOK_EVERY_S", 0.05)
    endpoint.hangs.set()
    for _ in range(3 * openai_compatible._PARALLEL):  # more than have room at once
        with pytest.raises(DeadlineError):
            embedder.embed_documents(["one"], Budget(0.1))
    endpoint.hangs.clear()
    assert embedder.embed_documents(["one"], Budget(10)).shape == (1, 64)
    assert embedder.is_responsive


def test_an_endpoint_that_is_lost_is_found_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(openai_compatible, "_LOOK_EVERY_S", 0.05)
    with embedding_endpoint(dimensions=64) as first:
        embedder = opened(first)
    with closing(embedder):
        with pytest.raises(UnavailableError, match="does not answer"):
            embedder.embed_query("one", Budget(10))
        assert not embedder.is_responsive
        with embedding_endpoint(first.port, dimensions=64):
            wait_until(lambda: embedder.is_responsive)  # though nobody embeds meanwhile
            assert embedder.embed_query("one", Budget(10)).shape == (64,)


def test_a_call_that_waits_ends_when_the_embedder_is_closed(
    embedder: OpenAiCompatibleEmbedder, endpoint: EmbeddingEndpoint
) -> None:
    endpoint.requests.clear()
    endpoint.hangs.set()
    with ThreadPoolExecutor(1) as pool:
        call = pool.submit(embedder.embed_query, "one", Budget())  # without a deadline of its own
        wait_until(lambda: len(endpoint.requests) == 1)
        embedder.close()
        with pytest.raises(UnavailableError, match="was closed"):
            call.result(30)


def test_an_endpoint_that_hangs_at_the_start_is_unavailable(
    endpoint: EmbeddingEndpoint, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(openai_compatible, "_CONNECT_S", 0.3)
    endpoint.hangs.set()
    with pytest.raises(UnavailableError, match="does not answer"):
        opened(endpoint)


def test_an_endpoint_that_starts_later_is_waited_for(endpoint: EmbeddingEndpoint) -> None:
    endpoint.statuses = [503] * 4
    url = f"http://127.0.0.1:{endpoint.port}/v1"
    with closing(OpenAiCompatibleEmbedder(EndpointModel(url, "words"), patience_s=20)) as embedder:
        assert embedder.identity.dimensions == 64
    endpoint.statuses = [503] * 4
    with pytest.raises(UnavailableError):
        opened(endpoint)


def test_prompts_dimensions_and_model_are_sent(endpoint: EmbeddingEndpoint) -> None:
    prompts = {"query_prompt": "search_query: ", "document_prompt": "search_document: "}
    with closing(opened(endpoint, dimensions=32, **prompts)) as embedder, closing(opened(endpoint)) as plain:
        endpoint.requests.clear()
        assert embedder.embed_query("one", Budget(10)).shape == (32,)
        assert embedder.embed_documents(["two", " "], Budget(10)).shape == (2, 32)
        asked, stored = endpoint.requests
        assert asked["input"] == ["search_query: one"]
        assert stored["input"] == ["search_document: two", "search_document: ."]
        assert (asked["model"], asked["dimensions"], asked["encoding_format"]) == ("words", 32, "float")
        # Other prompts make other vectors, so that a collection takes only those it was made with.
        assert embedder.identity.revision != plain.identity.revision


def test_a_long_text_is_read_in_windows_that_cut_no_character(endpoint: EmbeddingEndpoint) -> None:
    with closing(opened(endpoint, max_tokens=100)) as embedder:
        endpoint.requests.clear()
        texts = ["word " * 200, "東京タワー" * 100]
        vectors = embedder.embed_documents(texts, Budget(10))
        sent = [text for request in endpoint.requests for text in request["input"]]
    assert "".join(sent) == "".join(texts)
    assert max(len(text.encode()) for text in sent) <= 300
    assert len(sent) > 6
    assert vectors.shape == (2, 64)
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1.0).max() < 1e-5


def test_a_start_that_waits_says_for_what(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    monkeypatch.setattr(openai_compatible, "_SAY_AFTER_S", 0.05)
    with pytest.raises(UnavailableError):
        OpenAiCompatibleEmbedder(EndpointModel("http://127.0.0.1:1/v1", "words"), patience_s=1)
    assert [each.message for each in caplog.records if each.levelname == "WARNING"] == [
        "waiting for the embedding endpoint http://127.0.0.1:1/v1, for up to 1 s"
    ]
