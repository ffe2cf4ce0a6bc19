"""Long texts as windows, averaged."""

from collections.abc import Iterator

import numpy as np
import pytest

from groundwire.embedders.batching import SLICE_TEXTS, BatchingEmbedder
from groundwire.kernel.budget import Budget
from tests.unit.embedders.word_engine import END, START, WordEngine, word_model


@pytest.fixture
def engine() -> WordEngine:
    return WordEngine()


@pytest.fixture
def plain(engine: WordEngine) -> Iterator[BatchingEmbedder]:
    embedder = BatchingEmbedder(engine, word_model())
    yield embedder
    embedder.close()


@pytest.fixture
def windowed(engine: WordEngine) -> Iterator[BatchingEmbedder]:
    embedder = BatchingEmbedder(engine, word_model(), windows=True)
    yield embedder
    embedder.close()


@pytest.mark.requirement("T32")
def test_a_long_text_is_read_in_consecutive_windows(engine: WordEngine, windowed: BatchingEmbedder) -> None:
    windowed.embed_documents([" ".join(f"w{number}" for number in range(19))], Budget())
    read = sorted((row for batch in engine.batches for row in batch), key=lambda row: row[1])
    assert read == [
        [START, *range(8), END],
        [START, *range(8, 16), END],
        [START, *range(16, 19), END],
    ]


def test_the_vector_is_the_mean_by_tokens_at_length_one(windowed: BatchingEmbedder) -> None:
    (vector,) = windowed.embed_documents([" ".join(["w1"] * 8 + ["w2"] * 4)], Budget())
    expected = np.array([8.0, 4.0]) / np.linalg.norm([8.0, 4.0])
    assert np.allclose(vector[[1, 2]], expected, atol=1e-3)
    assert abs(float(np.linalg.norm(vector)) - 1.0) < 1e-6


def test_texts_that_fit_are_exactly_as_without_windows(plain: BatchingEmbedder, windowed: BatchingEmbedder) -> None:
    texts = ["w1 w2 w3", "", "w4 " * 8, "w5 w6"]
    assert (windowed.embed_documents(texts, Budget()) == plain.embed_documents(texts, Budget())).all()
    beside_a_long_one = windowed.embed_documents([*texts, "w7 " * 100], Budget())[:4]
    assert (beside_a_long_one == plain.embed_documents(texts, Budget())).all()
    assert (windowed.embed_query("w1 w2", Budget()) == plain.embed_query("w1 w2", Budget())).all()


def test_rows_stay_in_order_over_many_slices(windowed: BatchingEmbedder) -> None:
    words = [number % 40 for number in range(3 * SLICE_TEXTS)]
    texts = [f"w{word} " * (1 + number % 30) for number, word in enumerate(words)]
    assert windowed.embed_documents(texts, Budget()).argmax(axis=1).tolist() == words


def test_a_long_query_is_read_to_its_end(windowed: BatchingEmbedder) -> None:
    vector = windowed.embed_query("w1 " * 8 + "w2 " * 16, Budget())
    assert int(vector.argmax()) == 2
    assert vector.shape == (windowed.identity.dimensions,)


def test_no_texts_give_no_rows(windowed: BatchingEmbedder) -> None:
    assert windowed.embed_documents([], Budget()).shape == (0, windowed.identity.dimensions)


def test_the_identity_tells_the_two_kinds_of_vectors_apart(plain: BatchingEmbedder, windowed: BatchingEmbedder) -> None:
    assert windowed.identity.provider == "test+windows"
    assert windowed.identity != plain.identity
    assert windowed.identity.probe_digest == plain.identity.probe_digest
