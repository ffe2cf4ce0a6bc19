"""The reranker on a real cross-encoder, small and with random weights."""

from pathlib import Path

import pytest

from groundwire.kernel.errors import InvalidRequestError
from groundwire.retrieve.adapters.cross_encoder_reranker import CrossEncoderReranker, open_reranker
from tests.unit.embedders.tiny_model import save_tiny_model

PASSAGES = ["alpha beta", "gamma", "words, more words. " * 50]


@pytest.fixture(scope="module")
def reranker(tmp_path_factory: pytest.TempPathFactory) -> CrossEncoderReranker:
    opened = open_reranker(f"cross-encoder:{save_tiny_model(tmp_path_factory.mktemp('model'), 32)}")
    assert opened is not None
    return opened


def test_each_passage_is_judged_with_the_query_for_itself(reranker: CrossEncoderReranker) -> None:
    assert reranker.name == "tiny"
    scores = reranker.score("what is alpha", PASSAGES)
    assert len(set(scores)) == len(PASSAGES)
    alone = [reranker.score("what is alpha", [passage])[0] for passage in PASSAGES]
    assert alone == pytest.approx(list(scores), abs=1e-5)
    assert reranker.score("gamma, then", PASSAGES) != pytest.approx(list(scores), abs=1e-5)


def test_no_passages_need_no_model(reranker: CrossEncoderReranker) -> None:
    assert reranker.score("what is alpha", []) == []


def test_no_url_is_no_reranker() -> None:
    assert open_reranker("") is None


@pytest.mark.parametrize("url", ["cross-encoder:", "bi-encoder:/models/tiny", "/models/tiny"])
def test_other_urls_are_refused(url: str) -> None:
    with pytest.raises(InvalidRequestError, match="cross-encoder:FOLDER"):
        open_reranker(url)


def test_a_folder_without_a_model_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidRequestError, match=r"config\.json is missing"):
        open_reranker(f"cross-encoder:{tmp_path}")
    (tmp_path / "config.json").write_text("{}")
    with pytest.raises(InvalidRequestError, match="holds no cross-encoder"):
        open_reranker(f"cross-encoder:{tmp_path}")
