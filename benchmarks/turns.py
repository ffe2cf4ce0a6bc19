"""What it costs to write what is said: one turn a call, and both sides of an exchange in one call.

    python benchmarks/turns.py [--writes N] [--stored N] [--embedder URL]

A server of its own holds `--stored` turns of other conversations beforehand. The default model hashes words, which
takes microseconds, so that the times are those of the write without its embedding. Every write is acknowledged as any
other: it is on disk in the catalog and in the vector store. Prints medians and 95th percentiles in milliseconds, and
the processor time of the server and its engine for each write, which other work on the machine hardly changes.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.search_processes import wait_until_quiet
from benchmarks.served import cpu_s, server_process
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import GroundwireClient, NewRecord

_COLLECTION, _BATCH, _WARM_UP = "turns", 100, 20
_WORDS = [f"{first}{second}" for first in ("bar", "cal", "dor", "fen", "gil") for second in map(str, range(600))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--writes", type=int, default=500)
    parser.add_argument("--stored", type=int, default=5_000)
    parser.add_argument("--embedder", default="hashing:384")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        server_process(Path(scratch), ["--embedder", options.embedder]) as (address, process_id),
        GroundwireClient(address, timeout_s=120) as client,
    ):
        client.create_collection(collection=_COLLECTION, profile=collection_pb2.PROFILE_CONVERSATIONS)
        collection, rng = client.collection(_COLLECTION), random.Random(1)
        for begin in range(0, options.stored, _BATCH):
            collection.put_records(
                [_turn(f"conv-{number // 200}", rng) for number in range(begin, min(begin + _BATCH, options.stored))]
            )
        calls: dict[str, Callable[[], object]] = {
            "one turn": lambda: collection.put_records([_turn("conv-turns", rng)]),
            "an exchange": lambda: collection.add_exchange("conv-exchanges", _text(rng), _text(rng)),
        }
        for name, write in calls.items():
            wait_until_quiet(process_id)  # what is stored beforehand makes the engine build its index anew
            for _ in range(_WARM_UP):
                write()
            times, used_s = [], cpu_s(process_id)
            for _ in range(options.writes):
                started = time.perf_counter()
                write()
                times.append(1000 * (time.perf_counter() - started))
            used_ms = 1000 * (cpu_s(process_id) - used_s) / len(times)
            times.sort()
            p50, p95 = statistics.median(times), times[int(0.95 * len(times))]
            print(f"{name:12} p50 {p50:7.2f} ms  p95 {p95:7.2f} ms  processor {used_ms:6.2f} ms")


def _turn(conversation: str, rng: random.Random) -> NewRecord:
    return NewRecord(
        record_type="turn",
        text=_text(rng),
        conversation_id=conversation,
        role="user",
        timestamp=datetime.now(UTC),
    )


def _text(rng: random.Random) -> str:
    return " ".join(rng.choices(_WORDS, k=20))


if __name__ == "__main__":
    main()
