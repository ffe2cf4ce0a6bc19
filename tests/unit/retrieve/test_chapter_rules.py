"""In a book, chapters back their chunks and share the results."""

from collections.abc import Sequence
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import ProfileName, SearchMode
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.hit import StoredChunk
from groundwire.kernel.spans import Span
from groundwire.retrieve.domain.chapter_rules import ChapterRules, add_support, rules_for
from groundwire.retrieve.domain.fusion import FusedScore
from groundwire.retrieve.domain.selecting import select


def _score(number: int, relevance: float) -> FusedScore:
    return FusedScore(number, relevance, relevance, 0.0)


def _stored(number: int, chapter: str, chunk_count: int = 9) -> StoredChunk:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    document = Document(
        document_id="doc_1",
        collection="docs",
        source_uri="book.md",
        format=DocumentFormat.MARKDOWN,
        source_hash="0" * 64,
        fields=DocumentFields(),
        generation=1,
        chunk_count=chunk_count,
        total_chars=100,
        total_bytes=100,
        embedding_model="m",
        ingest_time=now,
        update_time=now,
    )
    chunk = Chunk(number, Span(number, number + 1, number, number + 1), f"t{number}", 1, chapter, None, (chapter,), 2)
    return StoredChunk(number, f"c{number}", 1, chunk, document, now, now)


def test_a_chunk_of_a_well_matching_chapter_overtakes_a_lonely_one() -> None:
    scores = [_score(1, 0.60), _score(2, 0.59), _score(3, 0.58), _score(4, 0.10)]
    live = {1: _stored(1, "A"), 2: _stored(2, "B"), 3: _stored(3, "B"), 4: _stored(4, "C")}
    raised = add_support(scores, live, 0.4)
    assert [score.number for score in raised] == [2, 3, 1, 4]
    assert raised[0].relevance == pytest.approx(0.6 * 0.59 + 0.4 * (0.59 + 0.58) / 2)
    assert raised[2].relevance == pytest.approx(0.6 * 0.60 + 0.4 * (0.60 + 0.10) / 2)
    assert [score.similarity for score in raised] == [0.59, 0.58, 0.60, 0.10]


def test_the_only_chunk_of_a_document_is_not_punished() -> None:
    live = {1: _stored(1, "A", chunk_count=1), 2: _stored(2, "B")}
    first = add_support([_score(1, 0.6), _score(2, 0.2)], live, 0.4)[0]
    assert (first.number, first.relevance, first.chapter) == (1, 0.6, 0.6)


def test_without_support_nothing_changes() -> None:
    scores = [_score(2, 0.5), _score(1, 0.5)]
    assert add_support(scores, {}, 0.0) == scores
    assert add_support([], {}, 0.4) == []


@given(st.lists(st.tuples(st.floats(0, 1), st.sampled_from("ABC")), min_size=1, max_size=12), st.floats(0, 1))
def test_support_keeps_every_relevance_in_the_range_of_before(items: list[tuple[float, str]], share: float) -> None:
    items.sort(reverse=True)
    scores = [_score(number, relevance) for number, (relevance, _) in enumerate(items)]
    live = {number: _stored(number, chapter) for number, (_, chapter) in enumerate(items)}
    raised = [score.relevance for score in add_support(scores, live, share)]
    assert raised == sorted(raised, reverse=True)
    lowest, highest = min(relevance for relevance, _ in items), max(relevance for relevance, _ in items)
    assert all(lowest - 1e-9 <= relevance <= highest + 1e-9 for relevance in raised)


def test_chapters_share_the_results_and_the_order_stays() -> None:
    relevances = [(0.9, "A"), (0.89, "A"), (0.88, "A"), (0.7, "B"), (0.69, "B"), (0.5, "C")]
    candidates = [(_score(n, relevance), _stored(n, chapter)) for n, (relevance, chapter) in enumerate(relevances)]
    assert _selected(candidates, 3, 0.0) == [0, 1, 2]
    assert _selected(candidates, 3, 0.3) == [0, 1, 3]
    assert _selected(candidates, 3, 1.0) == [0, 3, 5]
    assert _selected(candidates, 6, 1.0) == [0, 1, 2, 3, 4, 5]


def _selected(candidates: Sequence[tuple[FusedScore, StoredChunk]], top_k: int, spread: float) -> list[int]:
    return [chosen.score.number for chosen in select(candidates, top_k, spread, 0.0, {})]


def test_only_hybrid_searches_of_books_look_at_chapters() -> None:
    assert rules_for(ProfileName.BOOK, SearchMode.HYBRID) != ChapterRules()
    assert rules_for(ProfileName.BOOK, SearchMode.VECTOR) == ChapterRules()
    assert rules_for(ProfileName.DOCUMENTS, SearchMode.HYBRID) == ChapterRules()
