"""What records cost, on a server of their own.

    python benchmarks/records.py context [--stored N] [--times N] [--embedder URL]
    python benchmarks/records.py writes [--stored N] [--times N] [--embedder URL]

context: `RetrieveContext` and `Retrieve` over the same 50,000 records, alternately. They are turns, memories, FAQs,
summaries and a persona of five parts. Every query is asked for once by each call, so that no response is remembered.
writes: one turn a call, and both sides of an exchange in one call, beside 5,000 turns of other conversations. Every
write is acknowledged as any other: it is on disk in the catalog and in the vector store.

The default model hashes words, which takes microseconds, so that the times are those without an embedding. Prints
medians and 95th percentiles in milliseconds, and the processor time of the server and its engine for each call, which
other work on the machine hardly changes.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Unpack

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.search_processes import wait_until_quiet
from benchmarks.served import cpu_s, server_process
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import GroundwireClient, NewRecord, RecordFields

_START = datetime(2026, 1, 1, tzinfo=UTC)
_NAME, _WARM_UP = "records", 20
_WORDS = [f"{first}{second}" for first in ("bar", "cal", "dor", "fen", "gil") for second in map(str, range(600))]
_RNG = random.Random(1)
Calls = Mapping[str, Callable[[], object]]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("context", "writes"))
    parser.add_argument("--stored", type=int, help="records that are there beforehand")
    parser.add_argument("--times", type=int, help="calls of each kind")
    parser.add_argument("--embedder", default="hashing:384")
    options = parser.parse_args()
    of_contexts = options.what == "context"
    stored, times = options.stored or (50_000 if of_contexts else 5_000), options.times or (200 if of_contexts else 500)
    with (
        tempfile.TemporaryDirectory() as scratch,
        server_process(Path(scratch), ["--embedder", options.embedder]) as (address, process_id),
        GroundwireClient(address, timeout_s=120) as client,
    ):
        client.create_collection(collection=_NAME, profile=collection_pb2.PROFILE_CONVERSATIONS)
        client.collection(_NAME).put_records((_record if of_contexts else _turn)(number) for number in range(stored))
        wait_until_quiet(process_id)  # what was stored makes the engine build its index anew
        if of_contexts:
            _measure(_contexts(client), times, process_id)
        else:
            for name, call in _writes(client).items():
                _measure({name: call}, times, process_id)
                wait_until_quiet(process_id)


def _contexts(client: GroundwireClient) -> Calls:
    return {
        "Retrieve": lambda: client.retrieve(collection=_NAME, query=_text(8)),
        "RetrieveContext": lambda: client.retrieve_context(collection=_NAME, query=_text(8), conversation_id="conv-7"),
    }


def _writes(client: GroundwireClient) -> Calls:
    collection = client.collection(_NAME)
    return {
        "one turn": lambda: collection.put_records([_turn(0) | {"conversation_id": "conv-turns"}]),
        "an exchange": lambda: collection.add_exchange("conv-exchanges", _text(), _text()),
    }


def _measure(calls: Calls, times: int, process_id: int) -> None:
    """Make each call so many times, alternately, and print how long they took."""
    ms: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(_WARM_UP + times):
        if number == _WARM_UP:
            used_s = cpu_s(process_id)
        for name, call in calls.items():
            started = time.perf_counter()
            call()
            ms[name].append(1000 * (time.perf_counter() - started))
    used_ms = 1000 * (cpu_s(process_id) - used_s) / (times * len(calls))
    medians = {}
    for name, all_ms in ms.items():
        each = sorted(all_ms[_WARM_UP:])
        medians[name] = statistics.median(each)
        print(f"{name:16} p50 {medians[name]:7.2f} ms  p95 {each[int(0.95 * len(each))]:7.2f} ms")
    print(f"processor {used_ms:.2f} ms a call")
    if len(calls) > 1:
        print(f"ratio {medians['RetrieveContext'] / medians['Retrieve']:.2f}")


def _record(number: int) -> NewRecord:
    record = _turn(number)
    record["timestamp"] = _START + timedelta(minutes=number)
    kind = number % 10
    if number < 5:
        return _of_type("persona", record, version="1")
    if kind < 5:
        record["turn_index"] = number % 200 + 1
        return record
    if kind < 8:
        return _of_type("memory", record, importance=_RNG.randint(1, 5))
    if kind == 8:
        return _of_type("faq", record)
    return _of_type("summary", record, conversation_id=f"conv-{number // 200}")


def _of_type(record_type: str, turn: NewRecord, **fields: Unpack[RecordFields]) -> NewRecord:
    return {"record_type": record_type, "text": turn["text"], "timestamp": turn["timestamp"], **fields}


def _turn(number: int) -> NewRecord:
    return NewRecord(record_type="turn", text=_text(), conversation_id=f"conv-{number // 200}", role="user")


def _text(words: int = 20) -> str:
    return " ".join(_RNG.choices(_WORDS, k=words))


if __name__ == "__main__":
    main()
