"""Quality of retrieval on real questions, with the whole stack in one process and no network.

    python benchmarks/quality.py book [--docs FOLDER] [--questions FILE] [--profile book] [--vectors memory:]

`book`: ingests the Markdown files of a folder into a temporary data folder and asks every question of a JSON list of
`{"question", "gold_file"}`. A result counts when its document is the gold file; hit@1 and hit@5 look at the first one
and five returned chunks. Questions whose gold file is not in the folder are left out and counted; questions above the
query limit are cut to it. The data are looked for in GROUNDWIRE_TEST_DATA, else in ../shared/data beside the checkout.

Intervals are 95 % percentile bootstrap over questions; differences are paired.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundwire.catalog.database import Database
from groundwire.embedders.factory import open_embedder
from groundwire.ingest import bootstrap as ingest_bootstrap
from groundwire.ingest.domain.changing import NewCollection
from groundwire.ingest.domain.ingesting import DuplicatePolicy, IngestRequest
from groundwire.ingest.ports import Original
from groundwire.ingest.settings import IngestSettings
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import PROFILES, CollectionLimits, ProfileName, SearchMode
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.retrieve import bootstrap as retrieve_bootstrap
from groundwire.retrieve.domain.searching import SearchRequest
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import open_vector_store

COLLECTION = "book"
SEED = 20260101
RESAMPLES = 10_000
Hits = NDArray[np.float64]
"""One row a question: hit@1 and hit@5, each 0 or 1; shape (n, 2)."""


@dataclass(frozen=True)
class Question:
    """A question and the file that answers it."""

    text: str
    gold_file: str


def main() -> None:
    options = _parser().parse_args()
    questions, left_out = read_questions(options.questions, options.docs)
    print(f"questions: {len(questions)}; left out, gold file not in the folder: {left_out}; seed {SEED}")
    with ExitStack() as stack:
        ingest, retrieve = build(options, stack)
        ingest_folder(ingest, options)
        hits = {mode: ask_all(retrieve, questions, mode) for mode in SearchMode}
    report(hits)


def _parser() -> argparse.ArgumentParser:
    data = Path(os.environ.get("GROUNDWIRE_TEST_DATA", Path(__file__).parents[1].parent / "shared" / "data"))
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    book = parser.add_subparsers(required=True).add_parser("book")
    book.add_argument("--docs", type=Path, default=data / "rust_book" / "src")
    book.add_argument("--questions", type=Path, default=data / "rust_book" / "quiz_dev.json")
    book.add_argument("--profile", type=ProfileName, default=ProfileName.BOOK)
    book.add_argument("--vectors", default="memory:")
    book.add_argument("--embedder", default="sentence-transformers:all-MiniLM-L6-v2")
    return parser


def read_questions(path: Path, docs: Path) -> tuple[list[Question], int]:
    """Return the questions that can be answered, and the number of the others."""
    if not path.is_file() or not docs.is_dir():
        sys.exit(f"no data: {path} and {docs} are needed")
    names = {file.name for file in docs.glob("*.md")}
    items = json.loads(path.read_text(encoding="utf-8"))
    found = [Question(item["question"], item["gold_file"]) for item in items if item["gold_file"] in names]
    return found, len(items) - len(found)


def build(options: argparse.Namespace, stack: ExitStack) -> tuple[Any, Any]:
    """Return the ingest and the retrieve service over a temporary data folder."""
    folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundwire-quality-")))
    cache = Path(os.environ.get("GROUNDWIRE_CACHE", Path.home() / ".cache" / "groundwire"))
    catalog = Database.open(f"sqlite:{folder / 'catalog.db'}")
    stack.callback(catalog.close)
    vectors = open_vector_store(options.vectors, data_dir=folder)
    stack.callback(vectors.close)
    embedder = open_embedder(options.embedder, cache_dir=cache)
    stack.callback(embedder.close)
    workers = Workers(2)
    stack.callback(workers.close)
    shared: dict[str, Any] = {"catalog": catalog, "vectors": vectors, "embedder": embedder, "workers": workers}
    ingest = ingest_bootstrap.build(settings=IngestSettings(), **shared)
    ingest.start()
    stack.callback(ingest.close)
    return ingest, retrieve_bootstrap.build(settings=RetrieveSettings(), **shared)


def ingest_folder(ingest: Any, options: argparse.Namespace) -> None:
    started = time.perf_counter()
    profile = PROFILES[options.profile]
    wanted = NewCollection(DEFAULT_TENANT, COLLECTION, profile.name, profile.settings)
    ingest.servicer.collection_calls.use.create(wanted)
    chunks = refused = 0
    for path in sorted(options.docs.glob("*.md")):
        try:
            content = path.read_bytes()
            result = ingest.use_cases.ingest_document(
                _ingest_request(path.name), Original(len(content), content), Budget(), lambda _: None
            )
            chunks += result.document.chunk_count
        except InvalidRequestError as error:
            refused += 1
            print(f"refused: {path.name}: {error.message}")
    print(f"ingested: {chunks} chunks in {time.perf_counter() - started:.1f} s; refused files: {refused}")


def _ingest_request(source: str) -> IngestRequest:
    return IngestRequest(
        tenant=DEFAULT_TENANT,
        collection=COLLECTION,
        source_uri=source,
        format=None,
        document_id=None,
        source_hash=None,
        fields=None,
        duplicate_policy=DuplicatePolicy.ALLOW,
        content_field="content",
    )


def ask_all(retrieve: Any, questions: Sequence[Question], mode: SearchMode) -> Hits:
    return np.array([_ask(retrieve, question, mode) for question in questions], dtype=np.float64)


def _ask(retrieve: Any, question: Question, mode: SearchMode) -> tuple[bool, bool]:
    query = question.text[: CollectionLimits().max_query_chars]
    result = retrieve.search_chunks(SearchRequest(DEFAULT_TENANT, COLLECTION, query, mode=mode, top_k=5), Budget())
    sources = [hit.stored.document.source_uri for hit in result.hits]
    return question.gold_file in sources[:1], question.gold_file in sources


def report(hits: Mapping[SearchMode, Hits]) -> None:
    rng = np.random.default_rng(SEED)
    size = len(hits[SearchMode.HYBRID])
    picks = rng.integers(0, size, (RESAMPLES, size))
    print(f"{'mode':<28}{'hit@1':<24}{'hit@5':<24}")
    for mode, outcome in hits.items():
        print(f"{mode.value:<28}{_interval(outcome[:, 0], picks):<24}{_interval(outcome[:, 1], picks):<24}")
    for mode in (SearchMode.VECTOR, SearchMode.LEXICAL):
        gain = hits[SearchMode.HYBRID] - hits[mode]
        label = f"hybrid - {mode.value}"
        print(f"{label:<28}{_interval(gain[:, 0], picks):<24}{_interval(gain[:, 1], picks):<24}")


def _interval(values: Hits, picks: NDArray[np.int64]) -> str:
    low, high = np.percentile(values[picks].mean(axis=1), (2.5, 97.5))
    return f"{values.mean():.3f} [{low:.3f}, {high:.3f}]"


if __name__ == "__main__":
    main()
