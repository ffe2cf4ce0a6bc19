"""Which path a filtered search takes, by how many chunks match and how many are wanted."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.retrieve.vector_search import (
    OVERFETCHED,
    SCANNED,
    SCANNED_AT_FIRST,
    VectorPath,
    choose_path,
    neighbours_for,
)


@pytest.mark.parametrize(
    ("share", "depth", "is_known", "path"),
    [
        (0.0, 16, False, VectorPath.SCAN),
        (0.001, 16, False, VectorPath.SCAN),
        (0.01, 100, False, VectorPath.SCAN),
        (0.05, 16, False, VectorPath.OVERFETCH),
        (0.05, 100, False, VectorPath.OVERFETCH),
        (0.05, 100, True, VectorPath.SCAN),
        (0.02, 100, False, VectorPath.WITHIN),
        (0.5, 16, False, VectorPath.OVERFETCH),
        (0.5, 16, True, VectorPath.OVERFETCH),
        (1.0, 100, True, VectorPath.OVERFETCH),
    ],
)
def test_few_matches_are_compared_many_are_met_on_the_way(
    share: float, depth: int, is_known: bool, path: VectorPath
) -> None:
    plan = choose_path(share, 100_000, depth, is_known=is_known)
    assert (plan.path, plan.share) == (path, share)
    assert f"{round(share * 100_000)} of 100000" in plan.detail


@given(st.floats(0, 1), st.integers(0, 10_000_000), st.integers(1, 400), st.booleans())
def test_no_path_is_taken_beyond_what_it_is_good_for(share: float, count: int, depth: int, is_known: bool) -> None:
    plan = choose_path(share, count, depth, is_known=is_known)
    matching = round(share * count)
    if plan.path is VectorPath.SCAN:
        assert matching <= (SCANNED if is_known else SCANNED_AT_FIRST)
    elif plan.path is VectorPath.OVERFETCH:
        assert depth < neighbours_for(depth, share) <= OVERFETCHED
    else:
        assert plan.path is VectorPath.WITHIN
        assert matching > SCANNED_AT_FIRST
