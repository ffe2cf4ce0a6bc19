"""`memory`: what is remembered of people and conversations, found through the calls of a server.

facts: ikat, statements of eleven people about themselves: which of them does a request need? R@3 and MRR@10.
haystack: 2,000 memories made of templates (`haystack.py`); 100 are asked for, some of which were updated or are
contradicted. R@5, whether the newer of two values comes before the older one among the first ten, and whether
`RetrieveContext` returns both and names them as contradicting.
turns: the dialogues of tiage, each a conversation, and questions about what was said in 40 of them
(`turn_questions.tsv`: a question, the number of a dialogue and of the turns that answer it, from 0). R@10.

`memories` ranks as memories are ranked, `context` is what `RetrieveContext` returns.
"""

import argparse
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from benchmarks.quality_sets.data import data_folder, need
from benchmarks.quality_sets.haystack import build
from benchmarks.quality_sets.searches import MODES, PLAIN, Search, Searches
from benchmarks.quality_sets.statistics import Scores, report
from benchmarks.served import served_client
from groundwire.api.common.v1 import record_pb2, search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.client import GroundwireClient, NewRecord

_QUESTIONS = Path(__file__).with_name("turn_questions.tsv")
_START = datetime(2025, 1, 1, tzinfo=UTC)
_ASKED = Timestamp()
_ASKED.FromDatetime(datetime(2026, 2, 1, tzinfo=UTC))
_DEPTH = 10
Find = Callable[[str], list[str]]
"""From a query to ids of records, best first."""


@dataclass(frozen=True, slots=True)
class _Records:
    """The records of a type in a collection of a server, and each way to find them."""

    client: GroundwireClient
    record_type: str
    collection: str

    def store(self, records: Iterable[NewRecord]) -> None:
        """Store records in the collection, which is new."""
        self.client.create_collection(collection=self.collection, profile=collection_pb2.PROFILE_CONVERSATIONS)
        self.client.collection(self.collection).put_records(records)

    def ways(self, entity: str = "", *, as_memories: bool = False) -> dict[str, Find]:
        """Return each way: ours, also as memories are ranked, and those without rules."""
        where = {"type": self.record_type} | ({"entity": entity} if entity else {})
        searches = Searches(self.client, self.collection, where, _ASKED)
        ways = searches.ways([*MODES, *PLAIN], _DEPTH)
        if as_memories:
            ways["memories"] = searches.ours(_DEPTH, ranking=search_mode_pb2.RANKING_MEMORY)
        return {row: _ids_found(search) for row, search in ways.items()}

    def context(self, query: str, most: int = _DEPTH) -> list[pb.ContextEntry]:
        """Return a section of what `RetrieveContext` says."""
        record_type = record_pb2.RecordType.Value(f"RECORD_TYPE_{self.record_type.upper()}")
        response = self.client.retrieve_context(
            collection=self.collection,
            query=query,
            sections=[pb.SectionLimit(record_type=record_type, top_k=most)],
            without_documents=True,
            query_time=_ASKED,
        )
        (section,) = response.sections
        return list(section.entries)


def _ids_found(search: Search) -> Find:
    return lambda query: [chunk.source_uri.removeprefix("record:") for chunk in search(query, "")]


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ikat", type=Path, default=data_folder() / "ikat" / "2023_train_topics.json")
    parser.add_argument("--tiage", type=Path, default=data_folder() / "tiage" / "anno_dev.json")
    parser.add_argument("--only", choices=sorted(_PARTS))


def run(options: argparse.Namespace) -> None:
    need(options.ikat, options.tiage)
    with served_client(["--embedder", options.embedder]) as client:
        for name, measure in _PARTS.items():
            if options.only in {None, name}:
                print(f"\n{name}")
                measure(client, options)


def _facts(client: GroundwireClient, options: argparse.Namespace) -> None:
    topics = json.loads(options.ikat.read_text(encoding="utf-8"))
    records: list[NewRecord] = []
    for topic in topics:
        # As they stand the first ones are needed most, which would favour what breaks ties by place.
        topic["ptkb"] = dict(sorted(topic["ptkb"].items(), key=lambda item: crc32(item[1].encode())))
        for number, fact in topic["ptkb"].items():
            records.append(
                NewRecord(
                    record_type="memory",
                    record_id=_fact_id(topic, number),
                    text=fact,
                    entity=topic["number"],
                    timestamp=_START,
                )
            )
    stored = _Records(client, "memory", "facts")
    stored.store(records)
    rows: dict[str, list[tuple[float, float]]] = {}
    for topic in topics:
        ways = stored.ways(topic["number"], as_memories=True)
        for turn in topic["turns"]:
            relevant = {_fact_id(topic, str(number)) for number in turn["ptkb_provenance"]}
            for row, find in ways.items() if relevant else ():
                rows.setdefault(row, []).append(_of_facts(find(turn["utterance"]), relevant))
    pairs = [("memories", each) for each in PLAIN]
    report(_scores(rows), ["R@3", "MRR@10"], pairs)


def _fact_id(topic: Mapping[str, str], number: str) -> str:
    person, _, talk = topic["number"].partition("-")
    return f"chunk-2025-01-01-{int(person):04x}{int(talk):02x}{int(number):02x}"


def _of_facts(found: Sequence[str], relevant: set[str]) -> tuple[float, float]:
    places = [place for place, each in enumerate(found, start=1) if each in relevant]
    return _recall(found[:3], relevant), 1.0 / places[0] if places else 0.0


def _haystack(client: GroundwireClient, _: argparse.Namespace) -> None:
    memories, planted = build()
    ids = {id(each): f"chunk-{each.time:%Y-%m-%d}-{number:08x}" for number, each in enumerate(memories)}
    stored = _Records(client, "memory", "haystack")
    stored.store(
        [
            NewRecord(
                record_type="memory",
                record_id=ids[id(each)],
                text=each.text,
                importance=each.importance,
                timestamp=each.time,
            )
            for each in memories
        ]
    )
    ways = stored.ways(as_memories=True)
    rows: dict[str, list[tuple[float, ...]]] = {row: [] for row in [*ways, "context"]}
    surfaced: list[bool] = []
    for one in planted:
        answer, older = ids[id(one.answer)], ids[id(one.older)] if one.older else None
        for row, find in ways.items():
            rows[row].append(_of_planted(find(one.question), answer, older))
        entries = stored.context(one.question, 5)
        rows["context"].append(_of_planted([each.record.record_id for each in entries], answer, older))
        if older:
            surfaced.append(any(each.record.record_id == answer and older in each.contradicts for each in entries))
    pairs = [("memories", each) for each in ("hybrid", *PLAIN)]
    report(_scores(rows), ["R@5", "newer first, or alone"], pairs)
    for half, first in (("chosen on", 0), ("held out", 1)):
        some = surfaced[first::2]
        print(f"{half}: {sum(some)} of {len(some)} surfaced by `RetrieveContext` with what contradicts them")


def _of_planted(found: Sequence[str], answer: str, older: str | None) -> tuple[float, float]:
    is_first = answer in found and (older not in found or found.index(answer) < found.index(older))
    return float(answer in found[:5]), float(is_first)


def _turns(client: GroundwireClient, options: argparse.Namespace) -> None:
    dialogues = json.loads(options.tiage.read_text(encoding="utf-8"))
    records: list[NewRecord] = []
    for name, turns in dialogues.items():
        for place, (text, _) in enumerate(turns):
            records.append(
                NewRecord(
                    record_type="turn",
                    record_id=_turn_id(name, place),
                    text=text,
                    conversation_id=f"conv-{name}",
                    role="assistant" if place % 2 else "user",
                    turn_index=place // 2 + 1,
                    timestamp=_START + timedelta(days=int(name), minutes=place),
                )
            )
    stored = _Records(client, "turn", "turns")
    stored.store(records)
    ways = stored.ways()
    ways["context"] = lambda query: [each.record.record_id for each in stored.context(query)]
    rows: dict[str, list[tuple[float]]] = {}
    for line in _QUESTIONS.read_text(encoding="utf-8").splitlines():
        question, dialogue, places = line.split("\t")
        relevant = {_turn_id(dialogue, int(place)) for place in places.split(",")}
        for row, find in ways.items():
            rows.setdefault(row, []).append((_recall(find(question), relevant),))
    pairs = [(ours, each) for ours in ("hybrid", "context") for each in PLAIN]
    report(_scores(rows), [f"R@{_DEPTH}"], pairs)


def _turn_id(dialogue: str, place: int) -> str:
    return f"turn-{dialogue}-{place}"


def _recall(found: Sequence[str], relevant: set[str]) -> float:
    return len(relevant.intersection(found)) / len(relevant)


def _scores(rows: Mapping[str, Sequence[tuple[float, ...]]]) -> dict[str, Scores]:
    return {row: np.array(scores, dtype=np.float64) for row, scores in rows.items()}


_PARTS: Mapping[str, Callable[[GroundwireClient, argparse.Namespace], None]] = {
    "facts": _facts,
    "haystack": _haystack,
    "turns": _turns,
}
