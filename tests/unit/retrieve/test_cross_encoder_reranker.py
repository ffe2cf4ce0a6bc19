"""The reranker on a real cross-encoder, small and with random weights."""

import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from groundwire.embedders.token_vectors import TokenVectors
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import CallCancelledError, DeadlineError, InvalidRequestError, UnavailableError
from groundwire.retrieve.reranker import ModelReranker, open_reranker
from tests.unit.embedders.tiny_model import save_tiny_model

PASSAGES = ["alpha beta", "gamma", "words, more words. " * 50]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> ModelReranker:
    opened = open_reranker(f"cross-encoder:{save_tiny_model(tmp_path_factory.mktemp('model'), 32)}", TokenVectors)
    assert opened is not None
    return opened


def test_each_passage_is_judged_with_the_query_for_itself(reranker: ModelReranker) -> None:
    assert reranker.name == "tiny"
    scores = reranker.score("what is alpha", PASSAGES, Budget())
    assert len(set(scores)) == len(PASSAGES)
    alone = [reranker.score("what is alpha", [passage], Budget())[0] for passage in PASSAGES]
    assert alone == pytest.approx(list(scores), abs=1e-5)
    assert reranker.score("gamma, then", PASSAGES, Budget()) != pytest.approx(list(scores), abs=1e-5)


def test_no_passages_need_no_model(reranker: ModelReranker) -> None:
    assert reranker.score("what is alpha", [], Budget()) == []


def test_callers_leave_a_model_that_hangs_and_it_serves_the_next_when_it_goes_on(
    reranker: ModelReranker, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole, goes_on, read = reranker._judge, threading.Event(), list[str]()

    def hangs(query: str, passages: Sequence[str]) -> Any:
        read.extend(passages)
        goes_on.wait(60)
        return whole(query, passages)

    monkeypatch.setattr(reranker, "_judge", hangs)
    started = time.monotonic()
    with pytest.raises(DeadlineError):  # the model has begun with it
        reranker.score("what is alpha", ["first"], Budget(0.3))
    with pytest.raises(DeadlineError):  # waits behind it
        reranker.score("what is alpha", ["second"], Budget(0.3))
    cancelled = Budget()
    threading.Timer(0.3, cancelled.cancel).start()
    with pytest.raises(CallCancelledError):
        reranker.score("what is alpha", ["third"], cancelled)
    assert time.monotonic() - started < 10

    goes_on.set()
    assert len(reranker.score("what is alpha", ["fourth"], Budget(60))) == 1
    assert read == ["first", "fourth"], "the model reads nothing for those who left"


def test_a_model_that_fails_fails_one_caller(reranker: ModelReranker, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patched:
        patched.setattr(reranker, "_judge", lambda: None)
        with pytest.raises(UnavailableError, match=r"the reranker failed: .* positional argument"):
            reranker.score("what is alpha", PASSAGES, Budget(60))
    assert len(reranker.score("what is alpha", PASSAGES, Budget(60))) == len(PASSAGES)


def test_no_url_is_no_reranker() -> None:
    assert open_reranker("", TokenVectors) is None


@pytest.mark.parametrize("url", ["cross-encoder:", "max-sim:", "bi-encoder:/models/tiny", "/models/tiny"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="cross-encoder:FOLDER"):
        open_reranker(url, TokenVectors)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"config\.json is missing"):
        open_reranker(f"cross-encoder:{tmp_path}", TokenVectors)
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InvalidRequestError, match="holds no cross-encoder"):
        open_reranker(f"cross-encoder:{tmp_path}", TokenVectors)


def test_tokens_of_another_model_cannot_be_compared(tmp_path: Path) -> None:
    for model in (save_tiny_model(tmp_path, 32), tmp_path / "missing"):
        with pytest.raises(InvalidRequestError, match=r"reranker: .* is no packaged model"):
            open_reranker(f"max-sim:{model}", TokenVectors)
