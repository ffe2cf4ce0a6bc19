"""URLs of embedders: what they open, and what they refuse."""

from contextlib import closing
from pathlib import Path

import pytest

from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import GroundwireError, InvalidRequestError
from tests.conformance.embedder import opened
from tests.embedding_endpoint import embedding_endpoint


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
        ("openai+http://localhost:8080/v1", "must be openai+http(s)://HOST/v1#MODEL"),
        ("openai+https:///v1#model", "must be openai+http(s)://HOST/v1#MODEL"),
        ("openai+https://me:secret@localhost/v1#model", "without user and password"),
        ("openai+http://localhost/v1?dimension=3#model", "unknown option 'dimension'"),
        ("openai+http://localhost/v1?dimensions=0#model", "dimensions must be a number above 0"),
        ("openai+http://localhost/v1?max_tokens=many#model", "max_tokens must be a number above 0"),
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


@pytest.mark.requirement("S4-26")
def test_an_endpoint_is_asked_with_what_the_url_says(tmp_path: Path) -> None:
    with embedding_endpoint(key="s3cret") as endpoint:
        url = f"{endpoint.url}?dimensions=1024&max_tokens=64&query_prompt=q%3A%20#embed-english-v3.0"
        with closing(open_embedder(url, cache_dir=tmp_path, api_key="s3cret")) as embedder:
            identity = embedder.identity
            embedder.embed_query("one", Budget())
    assert (identity.model_name, identity.dimensions, identity.max_tokens) == ("embed-english-v3.0", 1024, 64)
    assert (endpoint.requests[-1]["input"], endpoint.requests[-1]["model"]) == (["q: one"], "embed-english-v3.0")
    assert list(tmp_path.iterdir()) == []


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
