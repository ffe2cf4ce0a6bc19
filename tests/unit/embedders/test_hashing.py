"""Hashed words as vectors, for tests of everything else."""

import subprocess
import sys

import numpy as np
import pytest

from groundwire.embedders.hashing import HashingEmbedder
from groundwire.kernel.budget import Budget


def test_shared_words_give_similarity() -> None:
    embedder = HashingEmbedder(512)
    query = embedder.embed_query("how do traits work", Budget())
    same, some, none = embedder.embed_documents(
        ["Traits: how do they work?", "traits and types", "baking bread"], Budget()
    )
    assert same @ query > some @ query > none @ query
    assert same @ query > 0.7
    assert abs(float(none @ query)) < 0.2


def test_case_and_punctuation_do_not_matter() -> None:
    embedder = HashingEmbedder(64)
    assert np.allclose(embedder.embed_query("Hello, World!", Budget()), embedder.embed_query("hello world", Budget()))


@pytest.mark.parametrize("dimensions", [1, 2, 3])
def test_few_dimensions_still_give_unit_vectors(dimensions: int) -> None:
    vectors = HashingEmbedder(dimensions).embed_documents([f"w{number} v{number}" for number in range(500)], Budget())
    assert np.abs(np.linalg.norm(vectors, axis=1) - 1.0).max() < 1e-6


def test_another_process_makes_the_same_vectors() -> None:
    code = (
        "from groundwire.embedders.hashing import HashingEmbedder;"
        "from groundwire.kernel.budget import Budget;"
        "print(HashingEmbedder(16).embed_query('the same words', Budget()).tobytes().hex())"
    )
    path = "import sys; sys.path[:0] = " + repr([entry for entry in sys.path if entry]) + ";"
    done = subprocess.run([sys.executable, "-c", path + code], capture_output=True, text=True, check=True)
    assert bytes.fromhex(done.stdout) == HashingEmbedder(16).embed_query("the same words", Budget()).tobytes()


def test_the_tokenizer_counts_words_and_marks() -> None:
    tokenizer = HashingEmbedder(8).tokenizer
    assert tokenizer.name == "hashing-words"
    text = "Hello, wörld! 東京"
    assert [text[start:end] for start, end in tokenizer.offsets(text)] == ["Hello", ",", "wörld", "!", "東京"]
