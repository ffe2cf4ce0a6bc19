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
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from zlib import crc32

import numpy as np

from benchmarks.quality_sets.haystack import build
from benchmarks.quality_sets.plain import PlainHybrid
from benchmarks.quality_sets.stack import data_folder, need
from benchmarks.quality_sets.statistics import Scores, report
from benchmarks.served import server
from groundwire.api.common.v1 import record_pb2, retrieval_options_pb2, search_mode_pb2
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.client import GroundwireClient, NewRecord
from groundwire.client.values import filter_message

_QUESTIONS = Path(__file__).with_name("turn_questions.tsv")
_START = datetime(2025, 1, 1, tzinfo=UTC)
_ASKED = datetime(2026, 2, 1, tzinfo=UTC)
_MODES = {
    "dense": search_mode_pb2.SEARCH_MODE_VECTOR,
    "lexical": search_mode_pb2.SEARCH_MODE_LEXICAL,
    "hybrid": search_mode_pb2.SEARCH_MODE_HYBRID,
}
_PLAIN = {"plain BM25": 0.0, "plain dense": 1.0, "plain hybrid": 0.5}
_DEPTH = 10
_EMBEDDED_AT_ONCE = 100
Search = Callable[[str, str], list[str]]
"""From a query and what it goes on from to ids of records, best first."""


@dataclass(frozen=True, slots=True)
class _Served:
    """A server, and how its records are searched."""

    client: GroundwireClient

    def store(self, name: str, records: Iterable[NewRecord]) -> None:
        """Store records in a new collection."""
        self.client.create_collection(collection=name, profile=collection_pb2.PROFILE_CONVERSATIONS)
        self.client.collection(name).put_records(records)

    def searches(self, name: str, record_type: str, texts: Mapping[str, str], entity: str = "") -> dict[str, Search]:
        """Return each way to search the records, whose texts by id are given: ours, and those without rules."""
        ways: dict[str, Search] = {row: self._search(name, record_type, entity, mode) for row, mode in _MODES.items()}
        ids = list(texts)
        plain = PlainHybrid(list(texts.values()), self._vectors(list(texts.values())))

        def plain_search(query: str, weight: float) -> list[str]:
            (vector,) = self._vectors([query], are_queries=True)
            return [ids[place] for place, _ in plain.search(query, vector, _DEPTH, weight)]

        for row, weight in _PLAIN.items():
            ways[row] = lambda query, _, weight=weight: plain_search(query, weight)  # type: ignore[misc]
        return ways

    def memories(self, name: str, entity: str = "") -> Search:
        """Return the search that ranks as memories are ranked."""
        return self._search(name, "memory", entity, _MODES["hybrid"], search_mode_pb2.RANKING_MEMORY)

    def context(self, name: str, record_type: str, query: str, most: int = _DEPTH) -> list[pb.ContextEntry]:
        """Return a section of what `RetrieveContext` says."""
        request = pb.RetrieveContextRequest(
            collection=name,
            query=query,
            sections=[
                pb.SectionLimit(
                    record_type=record_pb2.RecordType.Value(f"RECORD_TYPE_{record_type.upper()}"), top_k=most
                )
            ],
            without_documents=True,
        )
        request.query_time.FromDatetime(_ASKED)
        (section,) = self.client.retrieve_context.send(request).sections
        return list(section.entries)

    def _search(
        self,
        name: str,
        record_type: str,
        entity: str,
        mode: "search_mode_pb2.SearchMode.ValueType",
        ranking: "search_mode_pb2.Ranking.ValueType" = search_mode_pb2.RANKING_RELEVANCE,
    ) -> Search:
        options = retrieval_options_pb2.RetrievalOptions(
            top_k=_DEPTH, mode=mode, ranking=ranking, entity=entity, filter=filter_message({"type": record_type})
        )

        def search(query: str, context: str) -> list[str]:
            request = pb.RetrieveRequest(collection=name, query=query, context=context, options=options)
            request.query_time.FromDatetime(_ASKED)
            response = self.client.retrieve.send(request)
            sources = {each.document_id: each.source_uri for each in response.documents}
            return [sources[hit.chunk.document_id].removeprefix("record:") for hit in response.results]

        return search

    def _vectors(self, texts: Sequence[str], *, are_queries: bool = False) -> np.ndarray:
        vectors: list[list[float]] = []
        while len(vectors) < len(texts):
            some = texts[len(vectors) : len(vectors) + _EMBEDDED_AT_ONCE]
            request = pb.EmbedTextsRequest(queries=some) if are_queries else pb.EmbedTextsRequest(texts=some)
            vectors += [list(each.values) for each in self.client.embed_texts.send(request).vectors]
        return np.array(vectors, dtype=np.float32)


def add_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--ikat", type=Path, default=data_folder() / "ikat" / "2023_train_topics.json")
    parser.add_argument("--tiage", type=Path, default=data_folder() / "tiage" / "anno_dev.json")
    parser.add_argument("--only", choices=sorted(_PARTS))


def run(options: argparse.Namespace) -> None:
    need(options.ikat, options.tiage)
    with ExitStack() as stack:
        scratch = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundwire-quality-")))
        address = stack.enter_context(server(scratch, ["--embedder", options.embedder]))
        served = _Served(stack.enter_context(GroundwireClient(address, timeout_s=120)))
        for name, measure in _PARTS.items():
            if options.only in {None, name}:
                print(f"\n{name}")
                measure(served, options)


def _facts(served: _Served, options: argparse.Namespace) -> None:
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
    served.store("facts", records)
    rows: dict[str, list[tuple[float, float]]] = {}
    for topic in topics:
        texts = {_fact_id(topic, number): fact for number, fact in topic["ptkb"].items()}
        ways = served.searches("facts", "memory", texts, topic["number"])
        ways["memories"] = served.memories("facts", topic["number"])
        for turn in topic["turns"]:
            relevant = {_fact_id(topic, str(number)) for number in turn["ptkb_provenance"]}
            for row, search in ways.items() if relevant else ():
                rows.setdefault(row, []).append(_of_facts(search(turn["utterance"], ""), relevant))
    pairs = [("memories", each) for each in ("plain BM25", "plain dense", "plain hybrid")]
    report(_scores(rows), ["R@3", "MRR@10"], pairs)


def _fact_id(topic: Mapping[str, str], number: str) -> str:
    person, _, talk = topic["number"].partition("-")
    return f"chunk-2025-01-01-{int(person):04x}{int(talk):02x}{int(number):02x}"


def _of_facts(found: Sequence[str], relevant: set[str]) -> tuple[float, float]:
    places = [place for place, each in enumerate(found, start=1) if each in relevant]
    return _recall(found[:3], relevant), 1.0 / places[0] if places else 0.0


def _haystack(served: _Served, _: argparse.Namespace) -> None:
    memories, planted = build()
    ids = {id(each): f"chunk-{each.time:%Y-%m-%d}-{number:08x}" for number, each in enumerate(memories)}
    served.store(
        "haystack",
        [
            NewRecord(
                record_type="memory",
                record_id=ids[id(each)],
                text=each.text,
                importance=each.importance,
                timestamp=each.time,
            )
            for each in memories
        ],
    )
    ways = served.searches("haystack", "memory", {ids[id(each)]: each.text for each in memories})
    ways["memories"] = served.memories("haystack")
    rows: dict[str, list[tuple[float, ...]]] = {row: [] for row in [*ways, "context"]}
    surfaced: list[bool] = []
    for one in planted:
        answer, older = ids[id(one.answer)], ids[id(one.older)] if one.older else None
        for row, search in ways.items():
            rows[row].append(_of_planted(search(one.question, ""), answer, older))
        entries = served.context("haystack", "memory", one.question, 5)
        rows["context"].append(_of_planted([each.record.record_id for each in entries], answer, older))
        if older:
            surfaced.append(any(each.record.record_id == answer and older in each.contradicts for each in entries))
    pairs = [("memories", each) for each in ("hybrid", "plain BM25", "plain dense", "plain hybrid")]
    report(_scores(rows), ["R@5", "newer first, or alone"], pairs)
    for half, first in (("chosen on", 0), ("held out", 1)):
        some = surfaced[first::2]
        print(f"{half}: {sum(some)} of {len(some)} surfaced by `RetrieveContext` with what contradicts them")


def _of_planted(found: Sequence[str], answer: str, older: str | None) -> tuple[float, float]:
    is_first = answer in found and (older not in found or found.index(answer) < found.index(older))
    return float(answer in found[:5]), float(is_first)


def _turns(served: _Served, options: argparse.Namespace) -> None:
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
    served.store("turns", records)
    ways = served.searches("turns", "turn", {each["record_id"]: each["text"] for each in records})
    ways["context"] = lambda query, _: [each.record.record_id for each in served.context("turns", "turn", query)]
    rows: dict[str, list[tuple[float]]] = {}
    for line in _QUESTIONS.read_text(encoding="utf-8").splitlines():
        question, dialogue, places = line.split("\t")
        relevant = {_turn_id(dialogue, int(place)) for place in places.split(",")}
        for row, search in ways.items():
            rows.setdefault(row, []).append((_recall(search(question, ""), relevant),))
    pairs = [(ours, each) for ours in ("hybrid", "context") for each in ("plain BM25", "plain dense", "plain hybrid")]
    report(_scores(rows), [f"R@{_DEPTH}"], pairs)


def _turn_id(dialogue: str, place: int) -> str:
    return f"turn-{dialogue}-{place}"


def _recall(found: Sequence[str], relevant: set[str]) -> float:
    return len(relevant.intersection(found)) / len(relevant)


def _scores(rows: Mapping[str, Sequence[tuple[float, ...]]]) -> dict[str, Scores]:
    return {row: np.array(scores, dtype=np.float64) for row, scores in rows.items()}


_PARTS: Mapping[str, Callable[[_Served, argparse.Namespace], None]] = {
    "facts": _facts,
    "haystack": _haystack,
    "turns": _turns,
}
