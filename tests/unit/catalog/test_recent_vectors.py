"""Vectors that were read lately: which are known, and what makes room."""

import numpy as np

from groundwire.catalog.vectors import RecentVectors
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors

_ROW_BYTES = 8


def _model(digit: str) -> EmbeddingIdentity:
    return EmbeddingIdentity("test", "words", digit, 2, 64, normalized=True, probe_digest=digit * 64)


def _rows(*firsts: float) -> Vectors:
    return np.array([[first, 1.0] for first in firsts], dtype=np.float32)


def test_known_vectors_come_in_the_order_asked_for() -> None:
    recent = RecentVectors(4 * _ROW_BYTES)
    recent.put(_model("1"), [7, 9], _rows(0.7, 0.9))

    is_known, rows = recent.get(_model("1"), [9, 8, 7])

    assert is_known.tolist() == [True, False, True]
    assert (rows == _rows(0.9, 0.7)).all()


def test_the_oldest_make_room_and_a_vector_takes_one_place() -> None:
    recent = RecentVectors(3 * _ROW_BYTES)
    recent.put(_model("1"), [1, 2], _rows(0.1, 0.2))
    recent.put(_model("1"), [2, 3, 4], _rows(0.2, 0.3, 0.4))

    is_known, rows = recent.get(_model("1"), [1, 2, 3, 4])

    assert is_known.tolist() == [False, True, True, True]
    assert (rows == _rows(0.2, 0.3, 0.4)).all()


def test_vectors_of_another_model_are_never_mistaken() -> None:
    recent = RecentVectors(4 * _ROW_BYTES)
    recent.put(_model("1"), [1], _rows(0.1))
    assert not recent.get(_model("2"), [1])[0].any()

    recent.put(_model("2"), [1], _rows(0.5))

    assert (recent.get(_model("2"), [1])[1] == _rows(0.5)).all()
    assert not recent.get(_model("1"), [1])[0].any()


def test_without_room_nothing_is_kept() -> None:
    recent = RecentVectors(0)
    recent.put(_model("1"), [1], _rows(0.1))

    assert not recent.get(_model("1"), [1])[0].any()
