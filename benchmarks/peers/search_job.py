"""What peers do beside their framework when searches are compared: read passages, ask by threads, tell figures.

Runs in the peer's environment, so it imports nothing of groundwire.
"""

import json
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

BATCH = 1000


@dataclass(frozen=True)
class Passages:
    """Some passages: texts, their fields and vectors."""

    texts: list[str]
    fields: list[dict[str, Any]]
    vectors: list[list[float]]


@dataclass(frozen=True)
class SearchJob:
    """Where the passages are and the model that embeds questions."""

    folder: Path
    model: str

    @property
    def store(self) -> str:
        return str(self.folder / "store")

    def batches(self) -> Iterator[Passages]:
        vectors = np.load(self.folder / "vectors.npy")
        with (self.folder / "passages.jsonl").open() as lines:
            rows = [json.loads(line) for line in lines]
        for start in range(0, len(rows), BATCH):
            part = rows[start : start + BATCH]
            texts, fields = [row["text"] for row in part], [row["fields"] for row in part]
            yield Passages(texts, fields, vectors[start : start + BATCH].tolist())


def read_search_job() -> SearchJob:
    given = json.loads(sys.stdin.readline())
    return SearchJob(Path(given["folder"]), given["model"])


def answer_questions(ask: Callable[[str, int], Any]) -> None:
    """Say that the store is filled, then time what is asked until nothing more is."""
    ask("warm up", 5)
    print(json.dumps({"ready": True}), flush=True)
    for line in sys.stdin:
        given = json.loads(line)

        def timed(query: str, limit: int = given["limit"]) -> float:
            started = time.perf_counter()
            ask(query, limit)
            return (time.perf_counter() - started) * 1000

        started = time.perf_counter()
        with ThreadPoolExecutor(given["clients"]) as threads:
            ms = list(threads.map(timed, given["queries"]))
        print(json.dumps({"ms": ms, "seconds": time.perf_counter() - started}), flush=True)
