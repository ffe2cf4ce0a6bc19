"""Errors as other processes get them."""

import pickle

import pytest

from groundwire.kernel.errors import CollectionNotFoundError, GroundwireError, InvalidFilterError


@pytest.mark.parametrize(
    "error", [InvalidFilterError.of("filter", "is empty", depth=3), CollectionNotFoundError("notes")]
)
def test_an_error_is_the_same_behind_a_pipe(error: GroundwireError) -> None:
    again = pickle.loads(pickle.dumps(error))  # noqa: S301 - our own
    assert type(again) is type(error)
    assert str(again) == str(error)
    assert vars(again) == vars(error)
    assert vars(again)["metadata"]
