"""`book`: questions about a book in Markdown, each with the file that answers it.

A result counts when its document is the gold file; hit@1 and hit@5 look at the first one and five returned chunks.
Questions whose gold file is not in the folder are left out and counted.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.searches import AGAINST_EACH, ROWS, Search, Searches, fill
from benchmarks.quality_sets.statistics import Scores, report
from benchmarks.served import served_client
from groundwire.kernel.collection import ProfileName

_DEPTH = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    folder = data_folder() / "rust_book"
    parser.add_argument("--docs", type=Path, default=folder / "src")
    parser.add_argument("--questions", type=Path, default=folder / "quiz_dev.json")
    parser.add_argument("--profile", type=ProfileName, default=ProfileName.BOOK)


def run(options: argparse.Namespace) -> None:
    need(options.docs, options.questions)
    texts = {path.name: path.read_bytes() for path in sorted(options.docs.glob("*.md"))}
    items = json.loads(options.questions.read_text(encoding="utf-8"))
    questions = [(item["question"], item["gold_file"]) for item in items if item["gold_file"] in texts]
    print(f"questions: {len(questions)}; left out, gold file not in the folder: {len(items) - len(questions)}")
    with served_client(["--embedder", options.embedder], options.data) as client:
        searches = Searches(client, fill(client, "book", texts, options.profile))
        rows = {row: _ask_all(search, questions) for row, search in searches.ways(ROWS, _DEPTH).items()}
    report(rows, ["hit@1", "hit@5"], AGAINST_EACH)


def _ask_all(search: Search, questions: list[tuple[str, str]]) -> Scores:
    hits = []
    for question, gold in questions:
        sources = [chunk.source_uri for chunk in search(question, "")]
        hits.append((gold in sources[:1], gold in sources))
    return np.array(hits, dtype=np.float64)
