"""`chunking`: which characters of the references of `chunking_evaluation` come back, for a budget of characters.

All corpora of the folder are in one collection. Results are taken in their order until they hold the budget; the last
one is cut. Recall is the share of a question's reference characters among the characters returned, each counted once;
IoU is the share of the references in what is returned or referred to, a returned character counting as often as it is
returned. Questions about corpora that are not in the folder are left out and counted.
"""

import argparse
import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.searches import AGAINST_EACH, ROWS, Search, Searches, fill
from benchmarks.quality_sets.statistics import Scores, report
from benchmarks.served import served_client
from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.ingest.v1.collection_pb2 import Chunker, ChunkingPolicy, CollectionSettings
from groundwire.client.values import named_value
from groundwire.kernel.collection import DEFAULT_PROFILE, ChunkerKind, ProfileName

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
    with served_client(["--embedder", options.embedder], options.data) as client:
        searches = Searches(client, fill(client, "chunking", texts, options.profile, _settings(options)))
        rows = {row: _ask_all(search, questions) for row, search in searches.ways(ROWS, _TOP_K).items()}
    measures = [f"{name}@{budget}" for budget in _BUDGETS for name in ("recall", "IoU")]
    report(rows, measures, AGAINST_EACH)


def _settings(options: argparse.Namespace) -> CollectionSettings:
    policy = ChunkingPolicy(overlap_ratio=options.overlap)
    if options.target is not None:
        policy.target_size = options.target
        policy.minimum_size, policy.maximum_size = max(1, options.target // 5), 2 * options.target
    if options.chunker is not None:
        policy.chunker = named_value("chunker", Chunker, options.chunker)
    return CollectionSettings(chunking=policy)


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


def _ask_all(search: Search, questions: Sequence[_Question]) -> Scores:
    rows = []
    for question in questions:
        chunks = search(question.text, "")
        rows.append([figure for budget in _BUDGETS for figure in _figures(question, within(chunks, budget))])
    return np.array(rows, dtype=np.float64)


def within(chunks: Iterable[Chunk], budget: int) -> list[tuple[str, int, int]]:
    """Return the ranges of the first results that hold `budget` characters together, the last one cut."""
    ranges = []
    for chunk in chunks:
        span = chunk.span
        length = min(budget, span.end - span.start)
        if length <= 0:
            break
        ranges.append((chunk.source_uri, span.start, span.start + length))
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
