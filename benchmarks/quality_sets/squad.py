"""`squad`: the paragraphs of SQuAD v1.1 in one collection, each a document, and its questions.

A paragraph counts once, at its best chunk. MRR@10 is the mean of 1 / rank among the first ten paragraphs, 0 beyond;
hit@5 looks at the first five.
"""

import argparse
import json
from pathlib import Path

import numpy as np

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.ranked import documents_of
from benchmarks.quality_sets.searches import AGAINST_EACH, ROWS, Search, Searches, fill
from benchmarks.quality_sets.statistics import Scores, report
from benchmarks.served import served_client
from groundwire.kernel.collection import DEFAULT_PROFILE, ProfileName

_DEPTH = 10
_SHALLOW = 5


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--questions", type=Path, default=data_folder() / "squad" / "dev-v1.1.json")
    parser.add_argument("--profile", type=ProfileName, default=DEFAULT_PROFILE)
    parser.add_argument("--every", type=int, default=1, help="ask only every n-th question")


def run(options: argparse.Namespace) -> None:
    need(options.questions)
    paragraphs, questions = _read(options.questions)
    asked = questions[:: options.every]
    print(f"paragraphs: {len(paragraphs)}; questions: {len(asked)}")
    with served_client(["--embedder", options.embedder], options.data) as client:
        searches = Searches(client, fill(client, "squad", paragraphs, options.profile))
        rows = {row: _ask_all(search, asked) for row, search in searches.ways(ROWS, 2 * _DEPTH).items()}
    report(rows, ["MRR@10", "hit@5"], AGAINST_EACH)


def _read(path: Path) -> tuple[dict[str, bytes], list[tuple[str, str]]]:
    """Return the paragraphs by made-up file names that say nothing, and the questions with theirs."""
    articles = json.loads(path.read_text(encoding="utf-8"))["data"]
    texts, questions = {}, []
    for number, paragraph in enumerate(each for article in articles for each in article["paragraphs"]):
        source = f"{number:05}.txt"
        texts[source] = paragraph["context"].encode()
        questions += [(item["question"], source) for item in paragraph["qas"]]
    return texts, questions


def _ask_all(search: Search, questions: list[tuple[str, str]]) -> Scores:
    scores = []
    for question, gold in questions:
        found = documents_of(search(question, ""))[:_DEPTH]
        rank = found.index(gold) + 1 if gold in found else 0
        scores.append((1.0 / rank if rank else 0.0, 0 < rank <= _SHALLOW))
    return np.array(scores, dtype=np.float64)
