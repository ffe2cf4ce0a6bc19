"""`chunking`: which characters of the references of `chunking_evaluation` come back, for a budget of characters.

All corpora of the folder are in one collection. Results are taken in their order until they hold the budget; the last
one is cut. Recall is the share of a question's reference characters among the characters returned, each counted once;
IoU is the share of the references in what is returned or referred to, a returned character counting as often as it is
returned. Questions about corpora that are not in the folder are left out and counted.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np

from benchmarks.quality_sets.stack import AGAINST_EACH, ROWS, Searcher, data_folder, need, opened
from benchmarks.quality_sets.statistics import Scores, report
from groundwire.kernel.collection import DEFAULT_PROFILE, PROFILES, ChunkerKind, CollectionSettings, ProfileName
from groundwire.retrieve.search_types import SearchHit

_BUDGETS = (1600, 3400, 6800)
_TOP_K = 20


@dataclass(frozen=True, slots=True)
class _Question:
    text: str
    source: str
    spans: tuple[tuple[int, int], ...]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--folder", type=Path, default=data_folder() / "chunking_evaluation")
    parser.add_argument("--profile", type=ProfileName, default=DEFAULT_PROFILE)
    parser.add_argument("--target", type=int, help="tokens of a chunk; the minimum a fifth, the maximum twice of it")
    parser.add_argument("--overlap", type=float, help="share of the target that chunks repeat")
    parser.add_argument("--chunker", type=ChunkerKind)


def run(options: argparse.Namespace) -> None:
    need(options.folder / "questions.json")
    texts = {path.name: path.read_bytes() for path in sorted((options.folder / "corpora").glob("*.md"))}
    questions, left_out = _read(options.folder / "questions.json", set(texts))
    print(f"corpora: {len(texts)}; questions: {len(questions)}; left out, corpus not in the folder: {left_out}")
    with opened(options) as stack:
        collection = stack.fill("chunking", texts, _settings(options), options.profile)
        rows = {row: _ask_all(stack.searcher(collection, row, _TOP_K), questions) for row in ROWS}
    measures = [f"{name}@{budget}" for budget in _BUDGETS for name in ("recall", "IoU")]
    report(rows, measures, AGAINST_EACH)


def _settings(options: argparse.Namespace) -> CollectionSettings:
    settings = PROFILES[options.profile].settings
    chunking = settings.chunking
    if options.target is not None:
        target = options.target
        chunking = replace(chunking, target=target, minimum=max(1, target // 5), maximum=2 * target)
    if options.overlap is not None:
        chunking = replace(chunking, overlap_ratio=options.overlap)
    if options.chunker is not None:
        chunking = replace(chunking, chunker=options.chunker)
    return replace(settings, chunking=chunking)


def _read(path: Path, sources: set[str]) -> tuple[list[_Question], int]:
    items = json.loads(path.read_text(encoding="utf-8"))
    found = [
        _Question(
            item["question"],
            f"{item['corpus']}.md",
            tuple((each["start_index"], each["end_index"]) for each in item["references"]),
        )
        for item in items
        if f"{item['corpus']}.md" in sources
    ]
    return found, len(items) - len(found)


def _ask_all(search: Searcher, questions: Sequence[_Question]) -> Scores:
    rows = []
    for question in questions:
        hits = search(question.text)
        rows.append([figure for budget in _BUDGETS for figure in _figures(question, within(hits, budget))])
    return np.array(rows, dtype=np.float64)


def within(hits: Iterable[SearchHit], budget: int) -> list[tuple[str, int, int]]:
    """Return the ranges of the first results that hold `budget` characters together, the last one cut."""
    ranges = []
    for hit in hits:
        span = hit.stored.chunk.span
        length = min(budget, span.end - span.start)
        if length <= 0:
            break
        ranges.append((hit.stored.document.source_uri, span.start, span.start + length))
        budget -= length
    return ranges


def _figures(question: _Question, ranges: Sequence[tuple[str, int, int]]) -> tuple[float, float]:
    wanted = _characters(question.spans)
    own = [(start, end) for source, start, end in ranges if source == question.source]
    found = wanted & _characters(own)
    returned = sum(end - start for _, start, end in ranges)
    return len(found) / len(wanted), len(found) / (returned + len(wanted) - len(found))


def _characters(spans: Iterable[tuple[int, int]]) -> set[int]:
    return {place for start, end in spans for place in range(start, end)}
