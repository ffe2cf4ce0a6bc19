"""What every peer is told and tells: a job as JSON on standard input, figures as JSON on the last line it prints.

Runs in the peer's environment, so it imports nothing of groundwire.
"""

import json
import resource
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tokenizers

EQUAL_TOKENS = 240
"""Tokens of a chunk in a comparison with equal chunks: what the model reads, less its special tokens and headings."""
READ_TOKENS = 254


@dataclass(frozen=True)
class Job:
    """Files to ingest into a store; `equal_chunks` instead of the framework's own sizes."""

    files: list[Path]
    store: str
    model: str
    equal_chunks: bool

    def texts(self) -> list[tuple[str, str]]:
        """Return (source, text) of every file."""
        return [(str(path), path.read_text(encoding="utf-8")) for path in self.files]

    def count_tokens(self, text: str) -> list[int]:
        """Return the token ids of a text, without special tokens."""
        ids: list[int] = _tokenizer(self.model).encode(text, add_special_tokens=False).ids
        return ids


def read_job() -> Job:
    given: dict[str, Any] = json.load(sys.stdin)
    return Job([Path(name) for name in given["files"]], given["store"], given["model"], given["equal_chunks"])


def tell(job: Job, started: float, chunks: Sequence[str]) -> None:
    """Print the figures of work that began at `started` (time.perf_counter) and ended now."""
    seconds = time.perf_counter() - started
    rss_kib = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    encoded = _tokenizer(job.model).encode_batch(list(chunks), add_special_tokens=False)
    read = sum(min(len(each.ids), READ_TOKENS) for each in encoded)
    figures = {"seconds": seconds, "chunks": len(chunks), "tokens": sum(len(each.ids) for each in encoded)}
    print(json.dumps(figures | {"tokens_read": read, "peak_rss_mib": rss_kib / 1024}))


def _tokenizer(model: str) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer.from_file(str(Path(model) / "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    return tokenizer
