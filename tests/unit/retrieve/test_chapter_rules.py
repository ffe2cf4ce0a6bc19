"""In a book, chapters back their chunks and share the results."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.retrieve.ranking import add_support, rules_for, select
from groundwire.retrieve.search_types import ChapterRules
from tests.unit.retrieve.ranked_chunks import chunk_facts, scores_of


def test_a_chunk_of_a_well_matching_chapter_overtakes_a_lonely_one() -> None:
    scores = scores_of({1: 0.60, 2: 0.59, 3: 0.58, 4: 0.10})
    facts = [chunk_facts(number, chapter=chapter) for number, chapter in enumerate("ABBC", start=1)]
    raised = add_support(scores, facts, 0.4)
    assert raised.numbers.tolist() == [2, 3, 1, 4]
    assert raised.relevance[0] == pytest.approx(0.6 * 0.59 + 0.4 * (0.59 + 0.58) / 2)
    assert raised.relevance[2] == pytest.approx(0.6 * 0.60 + 0.4 * (0.60 + 0.10) / 2)
    assert raised.similarity.tolist() == [0.59, 0.58, 0.60, 0.10]


def test_the_only_chunk_of_a_document_is_not_punished() -> None:
    facts = [chunk_facts(1, chapter="A", document_chunk_count=1), chunk_facts(2, chapter="B")]
    first = add_support(scores_of({1: 0.6, 2: 0.2}), facts, 0.4).score(0)
    assert (first.number, first.relevance, first.chapter) == (1, 0.6, 0.6)


def test_without_support_nothing_changes() -> None:
    scores = scores_of({2: 0.5, 1: 0.5})
    assert add_support(scores, [chunk_facts(2), chunk_facts(1)], 0.0) is scores
    assert len(add_support(scores_of({}), [], 0.4)) == 0


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("ABC")), min_size=1, max_size=12), st.floats(0, 1))
def test_support_keeps_every_relevance_in_the_range_of_before(items: list[tuple[float, str]], share: float) -> None:
    items.sort(reverse=True)
    scores = scores_of({number: relevance for number, (relevance, _) in enumerate(items)})
    facts = [chunk_facts(number, chapter=chapter) for number, (_, chapter) in enumerate(items)]
    raised = add_support(scores, facts, share).relevance.tolist()
    assert raised == sorted(raised, reverse=True)
    lowest, highest = min(relevance for relevance, _ in items), max(relevance for relevance, _ in items)
    assert lowest - 1e-9 <= min(raised) <= max(raised) <= highest + 1e-9


def test_chapters_share_the_results_and_the_order_stays() -> None:
    assert _selected(3, 0.0) == [0, 1, 2]
    assert _selected(3, 0.3) == [0, 1, 3]
    assert _selected(3, 1.0) == [0, 3, 5]
    assert _selected(6, 1.0) == [0, 1, 2, 3, 4, 5]


def _selected(top_k: int, spread: float) -> list[int]:
    chapters = [("doc_1", chapter) for chapter in "AAABBC"]
    chosen = select([0.9, 0.89, 0.88, 0.7, 0.69, 0.5], chapters, top_k, spread, 0.0, [None] * 6)
    return [each.place for each in chosen]


def test_only_hybrid_searches_of_books_look_at_chapters() -> None:
    assert rules_for(ProfileName.BOOK, SearchMode.HYBRID) != ChapterRules()
    assert rules_for(ProfileName.BOOK, SearchMode.VECTOR) == ChapterRules()
    assert rules_for(ProfileName.DOCUMENTS, SearchMode.HYBRID) == ChapterRules()
