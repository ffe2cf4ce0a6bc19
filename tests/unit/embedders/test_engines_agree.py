"""Torch and OpenVINO are two ways to run the same weights."""

import numpy as np
import pytest

from groundwire.embedders.batching import BatchingEmbedder
from groundwire.embedders.factory import EngineName, open_model
from groundwire.embedders.model import PROBE_TEXTS, cosines, embed_directly, probe_digest, projections
from groundwire.embedders.model_files import find_model
from groundwire.embedders.openvino_engine import OpenVinoEngine, find_conversion
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import TEXTS, model_cache, opened

VARIED = (
    *TEXTS,
    ".",
    "a",
    "\u200b",
    "日本語のとても長い文章です。" * 40,
    "🦊" * 300,
    "x" * 5_000,
    "Ordinary prose of many words, and then some more of it. " * 100,
    "SELECT * FROM chunks WHERE live = 1 -- comment\n" * 9,
    "مرحبا بالعالم שלום עולם नमस्ते दुनिया",
    "1 2 3 4 5 6 7 8 9 10 " * 30,
)


@pytest.fixture
def torch_stack() -> Embedder:
    return opened("sentence-transformers:all-MiniLM-L6-v2?engine=torch&long=truncate")


@pytest.fixture
def openvino_stack() -> Embedder:
    return opened("sentence-transformers:all-MiniLM-L6-v2?engine=openvino&long=truncate")


def test_their_vectors_agree(torch_stack: Embedder, openvino_stack: Embedder) -> None:
    agreement = cosines(torch_stack.embed_documents(VARIED, Budget()), openvino_stack.embed_documents(VARIED, Budget()))
    assert agreement.min() >= 0.999
    query = "How do I borrow a value mutably?"
    assert float(torch_stack.embed_query(query, Budget()) @ openvino_stack.embed_query(query, Budget())) >= 0.999


@pytest.mark.parametrize("precision", ["f32", "bf16"])
def test_both_precisions_agree_wherever_the_processor_can(
    torch_stack: BatchingEmbedder, openvino_stack: Embedder, precision: str
) -> None:
    conversion = find_conversion(find_model("all-MiniLM-L6-v2"), model_cache())
    assert conversion is not None
    engine = OpenVinoEngine(conversion.model_xml, precision)
    tokens = torch_stack.tokenizer.encode(VARIED)
    vectors = embed_directly(engine, conversion.model, tokens)
    engine.close()
    assert cosines(torch_stack.embed_documents(VARIED, Budget()), vectors).min() >= 0.999


def test_they_have_one_identity(torch_stack: Embedder, openvino_stack: Embedder) -> None:
    assert torch_stack.identity == openvino_stack.identity
    assert torch_stack.tokenizer.definition == openvino_stack.tokenizer.definition


def test_either_engine_computes_the_same_probe_digest(torch_stack: Embedder, openvino_stack: Embedder) -> None:
    by_torch = torch_stack.embed_documents(PROBE_TEXTS, Budget())
    by_openvino = openvino_stack.embed_documents(PROBE_TEXTS, Budget())
    assert probe_digest(by_torch) == probe_digest(by_openvino) == torch_stack.identity.probe_digest
    # Not by luck: no bit is nearer to its boundary than many times the difference of the engines.
    difference = np.abs(projections(by_torch) - projections(by_openvino)).max()
    assert np.abs(projections(by_torch)).min() > 5 * difference


def test_the_vectors_are_those_of_the_library(torch_stack: Embedder) -> None:
    from sentence_transformers import SentenceTransformer  # noqa: PLC0415 - heavy

    library = SentenceTransformer(str(find_model("all-MiniLM-L6-v2").folder), device="cpu", local_files_only=True)
    assert cosines(library.encode(list(VARIED)), torch_stack.embed_documents(VARIED, Budget())).min() > 0.99999


def test_auto_serves_with_openvino_where_it_can(openvino_stack: Embedder) -> None:
    embedder = open_model(find_model("all-MiniLM-L6-v2"), EngineName.AUTO, model_cache())
    assert embedder.engine_name.startswith("openvino ")
    embedder.close()
