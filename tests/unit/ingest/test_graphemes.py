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
    "a\u200db",
    "x\u0488",
    "\U0001f44d\U0001f3fb",
    "\U0001f44d\U0001f3ff",
    "\U0001f3f4\U000e0020",
    "\U0001f3f4\U000e0067\U000e007f",
    "\U0001f1e6\U0001f1ff",
    "\u1100\u1160",
    "\u115f\u1161",
    "\u1100\u115f\u1161",
    "\u1100\u11ff",
    "\u1160\u11a8",
    "\u11ff\u11ff",
    "\uac00\u11a8",
    "\ud7a3\u11a8",
    "\u1100\uac00",
    "\u1100\ud7a3",
]


@pytest.mark.parametrize("cluster", CLUSTERS)
def test_no_boundary_is_inside_a_cluster(cluster: str) -> None:
    text = f"x{cluster}x"
    assert [index for index in range(1, len(text)) if is_cluster_boundary(text, index)] == [1, len(text) - 1]


@pytest.mark.parametrize(
    "two", ["\U0001f44d\U0001f400", "\uac00\uac00", "\u11a8\u1100", "\u1161\uac00", "\u4eba\u4eba", "\n\r", "\n\n"]
)
def test_what_readers_see_as_two_characters_may_be_parted(two: str) -> None:
    assert is_cluster_boundary(two, 1)


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
