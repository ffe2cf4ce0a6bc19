"""What profiles add to fused scores: in a book, chapters share the results; small chunks follow their neighbours."""

import pytest

from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.query_log import QueryType
from groundwire.retrieve.ranking import RankingRules, rules_for, select


def test_chapters_share_the_results_and_the_order_stays() -> None:
    assert _selected(3, 0.0) == [0, 1, 2]
    assert _selected(3, 0.3) == [0, 1, 3]
    assert _selected(3, 1.0) == [0, 3, 5]
    assert _selected(6, 1.0) == [0, 1, 2, 3, 4, 5]


def test_a_further_chunk_of_a_chapter_must_be_better_by_a_share_of_what_lies_between_first_and_last() -> None:
    chapters = [("doc_1", chapter) for chapter in "AABC"]
    chosen = select([0.9, 0.89, 0.88, 0.87], chapters, 2, 0.3, 0.0, [None] * 4)
    assert [each.place for each in chosen] == [0, 1]
    assert [each.penalty for each in chosen] == pytest.approx([0.0, 0.009])


def _selected(top_k: int, spread: float) -> list[int]:
    chapters = [("doc_1", chapter) for chapter in "AAABBC"]
    chosen = select([0.9, 0.89, 0.88, 0.7, 0.69, 0.5], chapters, top_k, spread, 0.0, [None] * 6)
    return [each.place for each in chosen]


def _rules(profile: ProfileName, mode: SearchMode) -> RankingRules:
    """Return those of a query whose type changes nothing."""
    return rules_for(profile, mode, None, QueryType.SECTION_BASED, "no section named here")


def test_only_hybrid_searches_of_books_look_at_chapters() -> None:
    assert _rules(ProfileName.BOOK, SearchMode.HYBRID).spread > 0.0
    assert _rules(ProfileName.BOOK, SearchMode.VECTOR) == RankingRules()
    assert _rules(ProfileName.DOCUMENTS, SearchMode.HYBRID) == RankingRules()


def test_only_hybrid_searches_of_small_chunks_follow_neighbours() -> None:
    assert _rules(ProfileName.GENERAL, SearchMode.HYBRID).neighbours > 0.0
    assert _rules(ProfileName.GENERAL, SearchMode.LEXICAL) == RankingRules()
    assert _rules(ProfileName.BOOK, SearchMode.HYBRID).neighbours == 0.0
