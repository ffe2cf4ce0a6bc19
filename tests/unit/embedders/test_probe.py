"""Probe digests tell models apart and survive rounding."""

import numpy as np

from groundwire.embedders.model import PROBE_TEXTS, probe_digest
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from tests.conformance.embedder import opened


def random_model(seed: int, dimensions: int = 384) -> Vectors:
    vectors = np.random.default_rng(seed).normal(size=(len(PROBE_TEXTS), dimensions)).astype(np.float32)
    return np.asarray(vectors / np.linalg.norm(vectors, axis=1, keepdims=True))


def test_another_model_of_the_same_dimension_has_another_digest() -> None:
    assert len({probe_digest(random_model(seed)) for seed in range(200)}) == 200


def test_another_dimension_has_another_digest() -> None:
    assert probe_digest(random_model(0, 384)) != probe_digest(random_model(0, 768))


def test_rounding_like_that_of_bfloat16_does_not_change_the_digest_of_the_default_model() -> None:
    embedder = opened("sentence-transformers:all-MiniLM-L6-v2?engine=torch&long=truncate")
    vectors = embedder.embed_documents(PROBE_TEXTS, Budget())
    noise = np.random.default_rng(5).normal(size=(50, *vectors.shape)).astype(np.float32)
    noise *= 0.01 / np.linalg.norm(noise, axis=2, keepdims=True)
    assert {probe_digest(vectors + one) for one in noise} == {embedder.identity.probe_digest}


def test_hashing_of_two_dimensions_has_two_digests() -> None:
    assert opened("hashing:768").identity.probe_digest != opened("hashing:1024").identity.probe_digest
