"""The sections that are searched: by similarity and by the words of their titles, from the best three chapters."""

import numpy as np
import pytest

from groundwire.kernel.chunk import Section
from groundwire.retrieve.queries import choose_sections

_TOWARD = np.array([2.0, 0.0], dtype=np.float32)


def _scores(query: str, similarities: dict[str, float]) -> dict[str, float]:
    """Choose among chapters and sections, such as `A` and `A/x`, of one chunk each."""
    sections = [
        Section("doc_1", "a.md", tuple(path.split("/")), number, number, number)
        for number, path in enumerate(similarities)
    ]
    cosines = np.array([*similarities.values()], dtype=np.float32)
    leads = np.stack([cosines, np.sqrt(1.0 - np.square(cosines))], axis=1)
    chosen = choose_sections(query, _TOWARD, sections, leads)
    return {"/".join(each.section.path): each.score for each in chosen}


@pytest.mark.parametrize(
    ("query", "title", "share"),
    [
        ("zzz", "Moving values", 0.0),
        ("how do values move", "Moving values", 1 / 2),
        ("to be or not to be", "To be", 2 / 4),
        ("C++ templates", "C++", 2 / 3),
        ("C++ templates", "C", 1 / 3),
        ("?", "Moving values", 0.0),
    ],
)
def test_titles_count_by_the_share_of_the_telling_words_in_them(query: str, title: str, share: float) -> None:
    assert _scores(query, {title: 0.5})[title] == pytest.approx(0.7 * 0.5 + 0.3 * share)


def test_the_title_of_a_section_includes_that_of_its_chapter() -> None:
    assert _scores("owned values", {"Owned": 0.0, "Owned/Values": 0.0})["Owned/Values"] == pytest.approx(0.3)


@pytest.mark.parametrize(("query", "similarity", "score"), [("zzz", -1.0, 0.0), ("values", 1.0, 1.0)])
def test_scores_are_between_zero_and_one(query: str, similarity: float, score: float) -> None:
    assert _scores(query, {"Values": similarity}) == {"Values": score}


def test_a_chapter_without_sections_counts_as_much_as_its_own_text() -> None:
    with_sections = dict.fromkeys(["A", "A/x", "B", "B/x", "C", "C/x"], 0.5)
    assert [*_scores("zzz", {**with_sections, "D": 0.6})] == ["D", "A", "A/x", "B", "B/x"]


def test_of_chapters_that_are_as_good_the_first_are_searched() -> None:
    assert [*_scores("zzz", dict.fromkeys("ABCD", 0.5))] == ["A", "B", "C"]
