"""The default model without torch: the same vectors as the library's, built from the packaged files alone."""

import json
import logging
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from groundwire.embedders import factory
from groundwire.embedders.bert import bert_graph, describe_bert
from groundwire.embedders.factory import PACKAGED_PROBE_DIGEST, EngineName, open_embedder, open_model
from groundwire.embedders.model import CHECK_TEXTS, ModelTokenizer, cosines, embed_directly
from groundwire.embedders.model_files import find_model
from groundwire.embedders.openvino_engine import OpenVinoEngine, find_conversion, keep_conversion
from groundwire.embedders.sentence_transformer import describe, encoded, load_module, traced
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import PreconditionError
from tests.conformance.embedder import opened
from tests.unit.embedders.test_engines_agree import VARIED
from tests.unit.embedders.tiny_model import save_tiny_model

MANY = (*(" ".join(VARIED[0].split()[: 1 + each % 13]) * (1 + each // 13) for each in range(0, 120, 7)), *VARIED)
"""One word to far beyond the limit of the model, in many lengths, some of them odd."""

SERVE = """
import json, sys
from pathlib import Path
without = ("torch", "transformers", "sentence_transformers", "sklearn", "scipy")
for name in without:
    sys.modules[name] = None
events = []
watched = {"socket.connect", "subprocess.Popen", "os.fork"}
sys.addaudithook(lambda name, _: events.append(name) if name in watched else None)
from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.errors import GroundwireError
try:
    embedder = open_embedder(sys.argv[1], cache_dir=Path(sys.argv[2]))
except GroundwireError as error:
    print(json.dumps({"reason": error.reason, "message": error.message, "extra": error.metadata.get("extra")}))
    sys.exit()
vector = embedder.embed_query("What does a citation point at?", Budget())
print(json.dumps({
    "engine": embedder.engine_name, "identity": embedder.identity.digest, "vector": vector.tolist(), "events": events,
}))
"""


def without_the_library(url: str, cache: Path) -> dict[str, object]:
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    command = [sys.executable, "-c", SERVE, url, str(cache)]
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=250, check=True)
    result: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return result


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def served(cache: Path) -> dict[str, object]:
    """What the default model serves from an empty cache, which is filled with it, without the library."""
    return without_the_library("sentence-transformers:all-MiniLM-L6-v2", cache)


@pytest.fixture(scope="module")
def library() -> Vectors:
    """Return the vectors of `MANY` as the library makes them."""
    embedder = opened("sentence-transformers:all-MiniLM-L6-v2?engine=torch&long=truncate")
    return embedder.embed_documents(MANY, Budget())


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_the_graph_gives_the_vectors_of_the_library(precision: str, library: Vectors) -> None:
    files = find_model("all-MiniLM-L6-v2")
    model = describe_bert(files)
    engine = OpenVinoEngine(bert_graph(files.folder), precision)
    tokens = ModelTokenizer(model.tokenizer).encode(MANY)
    alone = np.concatenate([embed_directly(engine, model, [each]) for each in tokens])
    # In one batch nearly all of them are padded, most of them by a lot.
    together = embed_directly(engine, model, tokens)
    engine.close()
    bound = 0.999999 if precision == "f32" else 0.999
    assert cosines(library, alone).min() >= bound
    assert cosines(library, together).min() >= bound
    assert np.allclose(np.linalg.norm(together, axis=1), 1.0, atol=1e-3)


@pytest.mark.parametrize(("dimensions", "layers"), [(64, 1), (128, 3)])
def test_a_graph_of_another_size_gives_the_vectors_of_the_library_too(
    dimensions: int, layers: int, tmp_path: Path
) -> None:
    files = find_model(str(save_tiny_model(tmp_path, dimensions, layers=layers)))
    module = load_module(files)
    texts = ("alpha beta", "a", "", "words, more words. " * 9, "1 2 3")
    model = describe(module, files)
    engine = OpenVinoEngine(bert_graph(files.folder), "f32")
    vectors = embed_directly(engine, model, ModelTokenizer(model.tokenizer).encode(texts))
    engine.close()
    assert cosines(encoded(module, texts), vectors).min() >= 0.999999


def test_what_the_files_say_of_the_model_is_what_the_library_says(served: dict[str, object], cache: Path) -> None:
    by_library = opened("sentence-transformers:all-MiniLM-L6-v2?engine=torch&long=truncate")
    assert served["engine"]
    embedder = open_embedder("sentence-transformers:all-MiniLM-L6-v2?long=truncate", cache_dir=cache)
    embedder.close()
    assert embedder.identity == by_library.identity
    assert embedder.identity.probe_digest == PACKAGED_PROBE_DIGEST
    assert embedder.tokenizer.definition == by_library.tokenizer.definition
    files = find_model("all-MiniLM-L6-v2")
    model, theirs = describe_bert(files), describe(load_module(files), files)
    assert (model.document_frame, model.query_frame, model.pad_id) == (
        theirs.document_frame,
        theirs.query_frame,
        theirs.pad_id,
    )


def test_the_default_model_serves_where_the_library_is_not_installed(served: dict[str, object]) -> None:
    assert str(served["engine"]).startswith("openvino ")
    assert served["events"] == []
    with_library = opened("sentence-transformers:all-MiniLM-L6-v2")
    assert served["identity"] == with_library.identity.digest
    vector: Vectors = np.array(served["vector"], np.float32)
    assert float(vector @ with_library.embed_query("What does a citation point at?", Budget())) >= 0.999


def test_another_model_where_the_library_is_not_installed_names_the_extra(tmp_path: Path) -> None:
    saved = save_tiny_model(tmp_path / "saved", 64)
    for engine in ("auto", "openvino", "torch"):
        result = without_the_library(f"sentence-transformers:{saved}?engine={engine}", tmp_path / "cache")
        assert (result["reason"], result["extra"]) == ("MISSING_EXTRA", "models")
        assert "groundwire[models]" in str(result["message"])
    result = without_the_library("sentence-transformers:all-MiniLM-L6-v2?engine=torch", tmp_path / "cache")
    assert (result["reason"], result["extra"]) == ("MISSING_EXTRA", "models")


def test_a_note_that_torch_is_faster_does_not_keep_a_model_from_serving_without_torch(tmp_path: Path) -> None:
    saved = save_tiny_model(tmp_path / "saved", 64)
    files = find_model(str(saved))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(factory, "_WORTH_TORCH", 0.0)
        open_model(files, EngineName.AUTO, tmp_path / "cache").close()
    result = without_the_library(f"sentence-transformers:{saved}", tmp_path / "cache")
    assert str(result["engine"]).startswith("openvino ")


@pytest.mark.slow
def test_a_model_that_was_converted_by_the_library_keeps_serving(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    files = find_model("all-MiniLM-L6-v2")
    module = load_module(files)
    model = describe(module, files)
    graph = traced(module, files.model_name)
    old = keep_conversion(graph, model, encoded(module, CHECK_TEXTS), files, tmp_path / "old")
    written = (old.folder / "model.xml").stat()
    before = open_model(files, EngineName.AUTO, tmp_path / "old")
    after = open_model(files, EngineName.AUTO, tmp_path / "new")
    assert before.identity == after.identity
    assert cosines(before.embed_documents(VARIED, Budget()), after.embed_documents(VARIED, Budget())).min() >= 0.9999
    before.close()
    after.close()
    assert (old.folder / "model.xml").stat().st_mtime_ns == written.st_mtime_ns
    assert "converting again" not in caplog.text
    found = find_conversion(files, tmp_path / "new")
    assert found is not None
    assert found.folder.name == old.folder.name, "one entry, whoever converted it"


@pytest.mark.slow
def test_a_processor_that_computes_other_vectors_falls_back_to_the_library_or_says_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(factory, "PACKAGED_PROBE_DIGEST", "0" * 64)
    files = find_model("all-MiniLM-L6-v2")
    with caplog.at_level(logging.WARNING):
        embedder = open_model(files, EngineName.AUTO, tmp_path)
    embedder.close()
    assert embedder.engine_name == "torch f32"
    assert "does not give the vectors" in caplog.text
    with pytest.raises(PreconditionError, match="does not give the vectors"):
        open_model(files, EngineName.OPENVINO, tmp_path)
