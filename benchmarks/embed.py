"""Embedding speed against `SentenceTransformer.encode` of the same weights, in one run (targets P1 and P3).

    python benchmarks/embed.py [FOLDER] [--texts 400] [--rounds 3] [--suffix .md] [--cache DIR]

FOLDER (default: the project's docs) is searched for files of the suffix; they are cut at blank lines into texts of
natural length, at most 900 characters. Both sides take turns in every round, because other work may share the cores:
read the ratios, not the times. Also measures how long another Python thread stands still while a bulk embed runs,
beside the same while the interpreter idles and two other processes keep the cores busy.
"""

import argparse
import random
import statistics
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.embedders.batching import BatchingEmbedder
from groundwire.embedders.factory import EngineName, open_model
from groundwire.embedders.model import cosines
from groundwire.embedders.model_files import find_model
from groundwire.embedders.openvino_engine import processor
from groundwire.embedders.sentence_transformer import load_module
from groundwire.kernel.budget import Budget

MODEL = "all-MiniLM-L6-v2"
MAX_CHARS = 900
BUDGET = Budget()
CLIENTS = 32
CALLS_PER_CLIENT = 10
SINGLE_QUERIES = 60
QUERIES = [
    "What is ownership?",
    "How do I return an error from main?",
    "difference between String and &str",
    "When is a value dropped?",
    "async closures",
]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, nargs="?", default=Path(__file__).parents[1] / "docs")
    parser.add_argument("--texts", type=int, default=400)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--suffix", default=".md")
    parser.add_argument("--cache", type=Path)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="groundwire-embed-") as scratch:
        measure(options, options.cache or Path(scratch))


def measure(options: argparse.Namespace, cache: Path) -> None:
    texts = natural_texts(options.folder, options.suffix, options.texts)
    files = find_model(MODEL)
    library = load_module(files)
    ours = open_model(files, EngineName.AUTO, cache, windows=True)
    lengths = [ours.tokenizer.count(text) for text in texts]
    print(f"processor   {processor()}")
    print(f"engine      {ours.engine_name}")
    print(f"texts       {len(texts)} of {statistics.mean(lengths):.0f} tokens on average, {max(lengths)} at most")
    agreement = cosines(library.encode(texts, normalize_embeddings=True), ours.embed_documents(texts, Budget()))
    fits = np.array(lengths) <= ours.identity.max_tokens - 2
    print(
        f"cosine      mean {agreement[fits].mean():.6f}, min {agreement[fits].min():.6f} ({fits.sum()} texts that fit)"
    )
    print(f"\n{'':34}{'encode':>10}{'ours':>10}{'ratio':>8}  range over rounds")
    bulk(library, ours, texts, options.rounds)
    single(library, ours, options.rounds)
    concurrent(library, ours, options.rounds)
    print()
    stalls(ours, texts)
    ours.close()


def natural_texts(folder: Path, suffix: str, limit: int) -> list[str]:
    """Return paragraphs joined up to MAX_CHARS, a seeded sample of all files."""
    texts = [text for path in sorted(folder.rglob(f"*{suffix}")) for text in _cut(path.read_text(errors="replace"))]
    if not texts:
        raise SystemExit(f"no {suffix} files with text below {folder}")
    random.Random(1).shuffle(texts)
    return (texts * (limit // len(texts) + 1))[:limit]


def _cut(text: str) -> Iterator[str]:
    part = ""
    for paragraph in text.split("\n\n"):
        if part and len(part) + len(paragraph) > MAX_CHARS:
            yield part
            part = ""
        part = f"{part}\n\n{paragraph}".strip()[:MAX_CHARS]
    if part:
        yield part


def seconds(work: Callable[[], object]) -> float:
    started = time.perf_counter()
    work()
    return time.perf_counter() - started


def bulk(library: Any, ours: BatchingEmbedder, texts: list[str], rounds: int) -> None:
    pairs = [
        (seconds(lambda: library.encode(texts)), seconds(lambda: ours.embed_documents(texts, Budget())))
        for _ in range(rounds)
    ]
    report("P1 bulk, texts/s", [(len(texts) / a, len(texts) / b) for a, b in pairs], "ours / encode")


def single(library: Any, ours: BatchingEmbedder, rounds: int) -> None:
    """Median of single queries, one after the other; the two sides alternate query by query."""
    pairs = []
    for _ in range(rounds):
        times: tuple[list[float], list[float]] = ([], [])
        for number in range(SINGLE_QUERIES):
            query = QUERIES[number % len(QUERIES)]
            times[0].append(seconds(lambda query=query: library.encode(query)))  # type: ignore[misc]  # bound now
            times[1].append(seconds(lambda query=query: ours.embed_query(query, BUDGET)))  # type: ignore[misc]  # the same
        pairs.append((1e3 * statistics.median(times[0]), 1e3 * statistics.median(times[1])))
    report("P3 one query, p50 ms", pairs, "ours / encode, lower is better")


def concurrent(library: Any, ours: BatchingEmbedder, rounds: int) -> None:
    """Calls per second of 32 threads, each with one query at a time."""
    pairs = [
        (calls_per_s(library.encode), calls_per_s(partial(ours.embed_query, budget=BUDGET))) for _ in range(rounds)
    ]
    report(f"P3 {CLIENTS} clients, calls/s", pairs, "ours / encode")


def calls_per_s(embed: Callable[[str], object]) -> float:
    def client(number: int) -> None:
        for call in range(CALLS_PER_CLIENT):
            embed(QUERIES[(number + call) % len(QUERIES)])

    with ThreadPoolExecutor(CLIENTS) as pool:
        return CLIENTS * CALLS_PER_CLIENT / seconds(lambda: list(pool.map(client, range(CLIENTS))))


def report(name: str, pairs: list[tuple[float, float]], meaning: str) -> None:
    ratios = sorted(ours / theirs for theirs, ours in pairs)
    theirs, ours = (statistics.median(side) for side in zip(*pairs, strict=True))
    ratio = statistics.median(ratios)
    print(f"{name:34}{theirs:10.1f}{ours:10.1f}{ratio:8.2f}  {ratios[0]:.2f} … {ratios[-1]:.2f} ({meaning})")


def stalls_ms(is_over: Callable[[], bool]) -> tuple[float, float]:
    """Return how much later than asked for a sleeping thread wakes: 99th percentile and worst."""
    late = []
    while not is_over():
        late.append(1e3 * (seconds(lambda: time.sleep(0.001)) - 0.001))
    return float(np.percentile(late, 99)), max(late)


def stalls(ours: BatchingEmbedder, texts: list[str]) -> None:
    worker = threading.Thread(target=ours.embed_documents, args=(texts, Budget()))
    started = time.monotonic()
    worker.start()
    embedding = stalls_ms(lambda: not worker.is_alive())
    ends = 2 * time.monotonic() - started
    spinners = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    idle = stalls_ms(lambda: time.monotonic() > ends)
    for spinner in spinners:
        spinner.kill()
        spinner.wait()
    for name, (high, worst) in (("bulk embed", embedding), ("two busy processes", idle)):
        print(f"stall of another thread beside {name:20} p99 {high:6.1f} ms, worst {worst:6.1f} ms")


if __name__ == "__main__":
    main()
