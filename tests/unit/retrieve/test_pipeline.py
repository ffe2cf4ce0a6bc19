"""Figures of searches: each is counted once, and found in every sum that it belongs to."""

import pytest

from groundwire.retrieve.query_log import SLICE_S, Pipeline, PipelineFigures, SearchSample

SERVED = SearchSample(failed=False, total_s=0.01, results=2, relevance=0.5)
FAILED = SearchSample(failed=True, total_s=0.02)


def test_sums_are_over_all_slices_or_over_the_latest_of_them() -> None:
    now = [0.0]
    pipeline = Pipeline(lambda: now[0])
    for collection in ("a", "b", None):
        pipeline.add("t", collection, FAILED if collection is None else SERVED)
        now[0] += SLICE_S
    pipeline.add("t", "a", SERVED)
    pipeline.add("other", "a", SERVED)
    every, of_a = pipeline.read("t", None, None), pipeline.read("t", "a", None)
    assert (every.requests, every.errors, every.total.count, every.average_relevance) == (4, 1, 4, 0.5)
    assert (of_a.requests, of_a.errors) == (2, 0)
    assert [pipeline.read("t", "a", window).requests for window in (1.0, 4 * SLICE_S)] == [1, 2]
    assert [pipeline.read("t", None, window).requests for window in (1.0, 2 * SLICE_S, 4 * SLICE_S)] == [2, 3, 4]
    assert pipeline.read("t", "c", None).requests == 0
    pipeline.add("t", "a", SearchSample(failed=False, total_s=0.01))
    assert pipeline.outcomes == {"results": 4, "failed": 1, "empty": 1}


def test_collections_beyond_a_thousand_are_counted_over_all() -> None:
    pipeline = Pipeline(lambda: 0.0)
    for number in (*range(1003), 0):
        pipeline.add("t", f"c{number}", SERVED)
    assert pipeline.read("t", None, None).requests == 1004
    assert [pipeline.read("t", f"c{number}", None).requests for number in (0, 999, 1002)] == [2, 1, 0]


def test_searches_wait_for_the_sum_of_the_slice_that_changes_and_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    pipeline = Pipeline(lambda: now[0])
    for _ in range(10):
        now[0] += SLICE_S
        pipeline.add("t", "a", SERVED)
    is_locked = list[bool]()
    merge = PipelineFigures.merge

    def watched(figures: PipelineFigures, other: PipelineFigures) -> None:
        is_locked.append(pipeline._lock.locked())
        merge(figures, other)

    monkeypatch.setattr(PipelineFigures, "merge", watched)
    assert pipeline.read("t", None, 3600.0).requests == 10
    assert sorted(is_locked) == [False] * 9 + [True]
