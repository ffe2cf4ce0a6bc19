"""What a context costs beside one search: `RetrieveContext` and `Retrieve` over the same records, alternately.

    python benchmarks/context.py [--records N] [--queries N] [--embedder URL]

A server of its own holds N records, 50,000 unless told otherwise: turns, memories, FAQs, summaries and a persona of
five parts. Every query is asked for once by each call, so that no response is remembered. Prints medians and 95th
percentiles in milliseconds, and the ratio of the medians.
"""

import argparse
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from benchmarks.search_processes import wait_until_quiet
from benchmarks.served import server_process
from groundwire.api.common.v1 import record_pb2, role_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import GroundwireClient

_START = datetime(2026, 1, 1, tzinfo=UTC)
_COLLECTION, _BATCH = "context", 100
_WORDS = [f"{first}{second}" for first in ("bar", "cal", "dor", "fen", "gil") for second in map(str, range(600))]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000)
    parser.add_argument("--queries", type=int, default=200)
    parser.add_argument("--embedder", default="hashing:384")
    options = parser.parse_args()
    with (
        tempfile.TemporaryDirectory() as scratch,
        server_process(Path(scratch), ["--embedder", options.embedder]) as (address, process_id),
        GroundwireClient(address, timeout_s=120) as client,
    ):
        client.create_collection(collection=_COLLECTION, profile=collection_pb2.PROFILE_CONVERSATIONS)
        rng = random.Random(1)
        for begin in range(0, options.records, _BATCH):
            count = min(_BATCH, options.records - begin)
            records = [_record(begin + number, rng) for number in range(count)]
            client.batch_upsert_records(collection=_COLLECTION, records=records)
        wait_until_quiet(process_id)  # what was stored makes the engine build its index anew
        _measure(client, options.queries, rng)


def _record(number: int, rng: random.Random) -> record_pb2.Record:
    text, moment = " ".join(rng.choices(_WORDS, k=20)), _START + timedelta(minutes=number)
    record, conversation = record_pb2.Record(text=text), f"conv-{number // 200}"
    record.timestamp.FromDatetime(moment)
    kind = number % 10
    if number < 5:
        record.record_type = record_pb2.RECORD_TYPE_PERSONA
        record.persona.version = "1"
    elif kind < 5:
        record.record_type = record_pb2.RECORD_TYPE_TURN
        record.turn.conversation_id, record.turn.role = conversation, role_pb2.ROLE_USER
        record.turn.turn_index = number % 200 + 1
    elif kind < 8:
        record.record_type = record_pb2.RECORD_TYPE_MEMORY
        record.memory.importance = rng.randint(1, 5)
    elif kind == 8:
        record.record_type = record_pb2.RECORD_TYPE_FAQ
    else:
        record.record_type = record_pb2.RECORD_TYPE_SUMMARY
        record.summary.conversation_id = conversation
    return record


def _measure(client: GroundwireClient, queries: int, rng: random.Random) -> None:
    calls: dict[str, Callable[[str], object]] = {
        "Retrieve": lambda query: client.retrieve(collection=_COLLECTION, query=query),
        "RetrieveContext": lambda query: client.retrieve_context(
            collection=_COLLECTION, query=query, conversation_id="conv-7"
        ),
    }
    times: dict[str, list[float]] = {name: [] for name in calls}
    for number in range(queries + 10):
        for name, call in calls.items():
            query = " ".join(rng.choices(_WORDS, k=8))
            started = time.perf_counter()
            call(query)
            if number >= 10:
                times[name].append(1000 * (time.perf_counter() - started))
    for name, each in times.items():
        print(f"{name:16} p50 {statistics.median(each):7.2f} ms  p95 {sorted(each)[int(0.95 * len(each))]:7.2f} ms")
    print(f"ratio {statistics.median(times['RetrieveContext']) / statistics.median(times['Retrieve']):.2f}")


if __name__ == "__main__":
    main()
