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


@pytest.mark.parametrize(
    ("share", "count", "is_known", "path"),
    [
        (0.015, 100_000, False, VectorPath.SCAN),
        (0.01501, 100_000, False, VectorPath.WITHIN),
        (0.1, 100_000, True, VectorPath.SCAN),
        (0.10001, 100_000, True, VectorPath.OVERFETCH),
        (130 / 180.5, 10_000, True, VectorPath.OVERFETCH),
        (130 / 181.5, 10_000, True, VectorPath.SCAN),
        (1.0, 1500, True, VectorPath.SCAN),
        (1.0, 1501, True, VectorPath.OVERFETCH),
        (130 / 2980.5, 100_000, False, VectorPath.OVERFETCH),
        (130 / 2981.5, 100_000, False, VectorPath.WITHIN),
    ],
)
def test_paths_change_at_1500_and_10000_matches_and_at_200_and_3000_neighbours(
    share: float, count: int, is_known: bool, path: VectorPath
) -> None:
    assert choose_path(share, count, 100, is_known=is_known).path is path


def test_what_the_caller_does_not_see_makes_neighbours_rarer_and_their_number_secret() -> None:
    every, some = (choose_path(0.5, 100_000, 16, is_known=False, seen_share=seen) for seen in (1.0, 0.5))
    assert every.detail == "about 50000 of 100000 chunks match: asks for 61 neighbours"
    assert some.detail == "about 50000 of 100000 chunks match: asks for neighbours"
    assert choose_path(0.5, 4000, 16, is_known=True).detail == "2000 of 4000 chunks match: asks for 61 neighbours"
    assert choose_path(0.05, 100_000, 100, is_known=False).path is VectorPath.OVERFETCH
    assert choose_path(0.05, 100_000, 100, is_known=False, seen_share=0.5).path is VectorPath.WITHIN
