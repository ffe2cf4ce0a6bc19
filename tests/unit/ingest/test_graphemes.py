"""Cuts between the characters that readers see."""

import pytest

from groundwire.ingest.chunking.cuts import cut_before, is_cluster_boundary

CLUSTERS = [
    "e\u0301",
    "\r\n",
    "👩\u200d👩\u200d👧",
    "👍🏽",
    "🇩🇪",
    "각",
    "\u1112\u1161\u11ab",
    "नि",
    "☁\ufe0f",
    "1\u20e3",
    "a",
    " ",
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_no_boundary_is_inside_a_cluster(cluster: str) -> None:
    text = f"x{cluster}x"
    assert [index for index in range(1, len(text)) if is_cluster_boundary(text, index)] == [1, len(text) - 1]


def test_flags_are_cut_in_pairs() -> None:
    text = "🇩🇪🇫🇷"
    assert [index for index in range(5) if is_cluster_boundary(text, index)] == [0, 2, 4]


def test_a_cut_moves_back_to_a_boundary() -> None:
    text = "ab" + CLUSTERS[2]
    assert cut_before(text, 4) == 2
    assert cut_before(text, 2) == 2


def test_a_cluster_without_end_is_cut_inside() -> None:
    text = "a" + "\u0301" * 1000
    assert cut_before(text, 500) == 500
