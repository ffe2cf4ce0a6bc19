"""Models of other dimensions, really saved and loaded, with random weights."""

from pathlib import Path

import pytest

from groundwire.embedders.factory import open_embedder
from groundwire.embedders.model import cosines
from groundwire.embedders.model_files import find_model
from groundwire.embedders.openvino_engine import find_conversion
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import InvalidRequestError
from tests.unit.embedders.tiny_model import MAX_TOKENS, multilingual_tokenizer, save_in_cache, save_tiny_model

TEXTS = ["alpha beta", "a", "", "words, more words. " * 3, "1 2 3"]


def open_tiny(model: Path, cache: Path, options: str) -> Embedder:
    return open_embedder(f"sentence-transformers:{model}?{options}", cache_dir=cache)


@pytest.mark.parametrize("dimensions", [768, 1024])
def test_a_model_in_a_folder_runs_on_both_engines(dimensions: int, tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "saved", dimensions)
    on_torch = open_tiny(model, tmp_path / "cache", "engine=torch&long=truncate")
    on_openvino = open_tiny(model, tmp_path / "cache", "engine=openvino&long=truncate")
    assert on_torch.identity == on_openvino.identity
    assert on_torch.identity.dimensions == dimensions
    assert on_torch.identity.max_tokens == MAX_TOKENS
    assert on_torch.identity.model_name == "tiny"
    assert (
        cosines(on_torch.embed_documents(TEXTS, Budget()), on_openvino.embed_documents(TEXTS, Budget())).min() >= 0.999
    )
    on_torch.close()
    on_openvino.close()


@pytest.mark.requirement("S1-89")
@pytest.mark.parametrize(
    ("name", "dimensions"),
    [
        ("all-MiniLM-L12-v2", 384),
        ("paraphrase-MiniLM-L3-v2", 384),
        ("sentence-t5-base", 768),
        ("all-mpnet-base-v2", 768),
    ],
)
def test_a_known_model_in_the_cache_of_this_machine_is_chosen_by_its_short_name(
    name: str, dimensions: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    save_in_cache(tmp_path / "hub", name, dimensions)
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    embedder = open_embedder(f"sentence-transformers:{name}?engine=torch", cache_dir=tmp_path / "cache")
    assert embedder.identity.model_name == f"sentence-transformers/{name}"
    assert embedder.identity.dimensions == dimensions
    assert embedder.embed_documents(TEXTS, Budget()).shape == (len(TEXTS), dimensions)
    embedder.close()


def test_a_multilingual_model_in_the_cache_runs_on_both_engines_as_the_library_runs_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy

    name = "paraphrase-multilingual-MiniLM-L12-v2"
    texts = [
        "Die Gezeiten entstehen durch den Mond.",
        "潮汐是由月球引起的。",
        "潮の満ち引きは月によって起こる。",
        "تحدث المد والجزر بسبب القمر.",
        "Приливы вызывает Луна.",
        "조석은 달 때문에 일어난다. " * 30,
        "",
    ]
    save_in_cache(tmp_path / "hub", name, 384, tokenizer=multilingual_tokenizer(texts))
    monkeypatch.setenv("HF_HUB_CACHE", str(tmp_path / "hub"))
    library = SentenceTransformer(str(find_model(name).folder), device="cpu", local_files_only=True).encode(texts)
    for engine in ("torch", "openvino"):
        url = f"sentence-transformers:{name}?engine={engine}&long=truncate"
        embedder = open_embedder(url, cache_dir=tmp_path / "cache")
        vectors = embedder.embed_documents(texts, Budget())
        embedder.close()
        assert cosines(library, vectors).min() >= 0.999
        # The scripts are read, not taken for so many unknown signs.
        assert cosines(vectors[1:2], vectors[2:3])[0] < 0.999


@pytest.mark.requirement("S1-92")
def test_the_same_name_and_dimension_with_other_weights_is_another_identity(tmp_path: Path) -> None:
    one = open_tiny(save_tiny_model(tmp_path / "one", 64, seed=1), tmp_path / "cache", "engine=torch")
    two = open_tiny(save_tiny_model(tmp_path / "two", 64, seed=2), tmp_path / "cache", "engine=torch")
    assert one.identity.model_name == two.identity.model_name
    assert one.identity.dimensions == two.identity.dimensions
    assert one.identity.revision != two.identity.revision
    assert one.identity.probe_digest != two.identity.probe_digest
    one.close()
    two.close()


@pytest.mark.requirement("T32")
@pytest.mark.parametrize("engine", ["torch", "openvino"])
def test_prompts_of_a_model_are_used_as_the_library_uses_them(engine: str, tmp_path: Path) -> None:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy

    model = save_tiny_model(tmp_path / "saved", 64, prompts={"query": "query: ", "document": "passage: "})
    embedder = open_tiny(model, tmp_path / "cache", f"engine={engine}&long=truncate")
    library = SentenceTransformer(str(model), device="cpu", local_files_only=True)
    assert cosines(library.encode_document(TEXTS), embedder.embed_documents(TEXTS, Budget())).min() >= 0.999
    query = library.encode_query(["alpha beta"])
    assert cosines(query, embedder.embed_query("alpha beta", Budget())[None]).min() >= 0.999
    assert (
        float(embedder.embed_query("alpha beta", Budget()) @ embedder.embed_documents(["alpha beta"], Budget())[0])
        < 0.9999
    )
    embedder.close()


def test_a_conversion_is_found_again_under_another_folder_name(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "saved", 64)
    open_tiny(model, tmp_path / "cache", "engine=openvino").close()
    moved = model.rename(tmp_path / "renamed")
    conversion = find_conversion(find_model(str(moved)), tmp_path / "cache")
    assert conversion is not None
    assert conversion.model.identity.model_name == "renamed"
    assert conversion.model.tokenizer.name == "renamed"


def test_a_folder_with_broken_weights_is_refused(tmp_path: Path) -> None:
    model = save_tiny_model(tmp_path / "saved", 64)
    (model / "model.safetensors").write_bytes(b"nonsense")
    with pytest.raises(InvalidRequestError, match="cannot be loaded"):
        open_tiny(model, tmp_path / "cache", "engine=torch")
