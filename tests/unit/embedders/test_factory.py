"""URLs of embedders: what they open, and what they refuse."""

from pathlib import Path

import pytest

from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import GroundwireError, InvalidRequestError, NotAvailableError
from tests.conformance.embedder import opened


def refusal(url: str, tmp_path: Path) -> GroundwireError:
    with pytest.raises(GroundwireError) as caught:
        open_embedder(url, cache_dir=tmp_path)
    assert list(tmp_path.iterdir()) == []
    return caught.value


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("", "unknown kind"),
        ("all-MiniLM-L6-v2", "unknown kind"),
        ("word2vec:x", "unknown kind of embedder 'word2vec'"),
        ("Hashing:64", "unknown kind"),
        ("hashing:", "dimensions from 1"),
        ("hashing:0", "dimensions from 1"),
        ("hashing:-1", "dimensions from 1"),
        ("hashing:6.4", "dimensions from 1"),
        ("hashing:²", "dimensions from 1"),
        ("hashing:65537", "dimensions from 1"),
        ("sentence-transformers:", "names no model"),
        ("sentence-transformers:all-MiniLM-L6-v2?engine=onnx", "must be one of auto, torch, openvino"),
        ("sentence-transformers:all-MiniLM-L6-v2?engine=", "must be one of"),
        ("sentence-transformers:all-MiniLM-L6-v2?engin=torch", "unknown option 'engin'"),
        ("sentence-transformers:all-MiniLM-L6-v2?long=cut", "must be one of windows, truncate"),
        ("sentence-transformers:all-MiniLM-L6-v2?torch", "malformed options"),
    ],
)
def test_a_wrong_url_is_refused_by_its_field(url: str, message: str, tmp_path: Path) -> None:
    error = refusal(url, tmp_path)
    assert isinstance(error, InvalidRequestError)
    assert [violation.field for violation in error.violations] == ["embedder"]
    assert message in error.message


def test_an_unknown_model_is_refused_with_the_places_looked_at(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_HUB_CACHE", "/nowhere/hub")
    error = refusal("sentence-transformers:no-such-model", tmp_path)
    assert isinstance(error, InvalidRequestError)
    for part in ("'no-such-model'", "/nowhere/hub", "never downloaded", "all-mpnet-base-v2"):
        assert part in error.message


@pytest.mark.parametrize("scheme", ["openai+http", "openai+https"])
def test_embedding_over_http_is_not_available_yet(scheme: str, tmp_path: Path) -> None:
    assert isinstance(refusal(f"{scheme}://localhost:8080/v1#model", tmp_path), NotAvailableError)


def test_hashing_takes_any_dimension(tmp_path: Path) -> None:
    for dimensions in (1, 2, 3, 384, 768, 1024):
        embedder = open_embedder(f"hashing:{dimensions}", cache_dir=tmp_path)
        assert embedder.identity.dimensions == dimensions
        assert embedder.embed_documents(["a b c"], Budget()).shape == (1, dimensions)


@pytest.mark.parametrize("name", ["all-MiniLM-L6-v2", "sentence-transformers/all-MiniLM-L6-v2"])
def test_the_default_model_opens_under_both_its_names(name: str) -> None:
    identity = opened(f"sentence-transformers:{name}").identity
    assert identity.model_name == "sentence-transformers/all-MiniLM-L6-v2"
    assert identity.dimensions == 384
    assert identity.max_tokens == 256


@pytest.mark.requirement("T32")
def test_long_texts_are_read_whole_unless_truncation_is_asked_for() -> None:
    default = opened("sentence-transformers:all-MiniLM-L6-v2").identity
    truncating = opened("sentence-transformers:all-MiniLM-L6-v2?engine=openvino&long=truncate").identity
    assert default.provider == "sentence-transformers+windows"
    assert truncating.provider == "sentence-transformers"
