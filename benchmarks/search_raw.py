"""The engines as they are, without anything of ours around them: a store in a process of its own, asked directly.

They hold what they would hold without us: vectors, texts and fields, with payload indexes where the engine has them.
Chroma's graph has the settings that ours has, so that recall can be compared.
"""

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

from benchmarks.synthetic import VALUES, Corpus, Where
from groundwire.kernel.embedder import Vectors

_EF_EDGE = 128
_EF_CHROMA = 200
_BATCH = 1000


@dataclass(frozen=True)
class Query:
    """What is asked: a text, its vector, and a filter."""

    text: str
    vector: Vectors
    where: Where | None = None


def question(corpus: Corpus, number: int, where: Where | None = None) -> Query:
    """Return the question of a number; it has the vector of one of those that have vectors."""
    vectors = corpus.question_vectors
    return Query(corpus.questions[number % len(corpus.questions)], vectors[number % len(vectors)], where)


@dataclass(frozen=True)
class Run:
    """What became of some queries: milliseconds and numbers of passages of each, and seconds of all together.

    `cpu_s` are the processor seconds of our server and its children, 0 of anything else.
    """

    seconds: float
    ms: list[float] = field(default_factory=list)
    found: list[list[int]] = field(default_factory=list)
    cpu_s: float = 0.0


class RawEngine(Protocol):
    """An engine that is filled once and then asked."""

    def fill(self, folder: Path, corpus: Corpus, fields: Sequence[Where]) -> None:
        """Store the corpus in a folder."""
        ...

    def query(self, query: Query, limit: int) -> list[int]:
        """Return the numbers of the nearest passages."""
        ...


class RawEdge:
    """qdrant-edge, optimised, with indexes for the fields."""

    def fill(self, folder: Path, corpus: Corpus, fields: Sequence[Where]) -> None:
        import qdrant_edge as edge  # noqa: PLC0415 - only the engine's process loads it

        self._edge = edge
        folder.mkdir(parents=True)
        vectors = edge.EdgeVectorParams(size=corpus.vectors.shape[1], distance=edge.Distance.Cosine)
        hnsw = edge.HnswIndexConfig(m=16, ef_construct=100, full_scan_threshold=10_000)
        optimizers = edge.EdgeOptimizersConfig(indexing_threshold=1)
        config = edge.EdgeConfig(vectors=vectors, hnsw_config=hnsw, optimizers=optimizers)
        self._shard = edge.EdgeShard.create(str(folder), config)
        for name in VALUES:
            kind = edge.PayloadSchemaType.Integer if name == "batch" else edge.PayloadSchemaType.Keyword
            self._shard.update(edge.UpdateOperation.create_field_index(name, kind))
        for start in range(0, len(corpus.texts), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.texts)))
            points = [edge.Point(row, corpus.vectors[row].tolist(), _payload(corpus, fields, row)) for row in rows]
            self._shard.update(edge.UpdateOperation.upsert_points(points))
        self._shard.optimize()

    def query(self, query: Query, limit: int) -> list[int]:
        edge, where = self._edge, query.where or {}
        conditions = [edge.FieldCondition(name, match=edge.MatchAny([value])) for name, value in where.items()]
        request = edge.QueryRequest(
            limit=limit,
            query=edge.Query.Nearest(query.vector.tolist()),
            filter=edge.Filter(must=conditions) if conditions else None,
            params=edge.SearchParams(hnsw_ef=_EF_EDGE),
            with_payload=True,
        )
        found: list[Any] = self._shard.query(request)
        return [point.id for point in found]


class RawChroma:
    """Embedded Chroma with documents and metadata, as its guide uses it."""

    def fill(self, folder: Path, corpus: Corpus, fields: Sequence[Where]) -> None:
        import chromadb  # noqa: PLC0415 - only the engine's process loads it
        from chromadb.config import Settings  # noqa: PLC0415 - the same

        client = chromadb.PersistentClient(path=str(folder), settings=Settings(anonymized_telemetry=False))
        graph: Any = {"hnsw": {"space": "cosine", "ef_construction": _EF_CHROMA, "ef_search": _EF_CHROMA}}
        self._collection: Any = client.create_collection("bench", embedding_function=None, configuration=graph)
        for start in range(0, len(corpus.texts), _BATCH):
            rows = range(start, min(start + _BATCH, len(corpus.texts)))
            self._collection.add(
                ids=[str(row) for row in rows],
                embeddings=corpus.vectors[rows.start : rows.stop],
                documents=list(corpus.texts[rows.start : rows.stop]),
                metadatas=[dict(fields[row]) for row in rows],
            )

    def query(self, query: Query, limit: int) -> list[int]:
        parts: list[dict[str, Any]] = [{name: value} for name, value in (query.where or {}).items()]
        where = {"$and": parts} if len(parts) > 1 else parts[0] if parts else None
        reply = self._collection.query(query_embeddings=[query.vector], n_results=limit, where=where)
        return [int(number) for number in reply["ids"][0]]


RAW: dict[str, Callable[[], RawEngine]] = {"qdrant-edge": RawEdge, "chroma": RawChroma}
_open: dict[str, RawEngine] = {}
"""The engine of this process."""


def fill_raw(engine: str, folder: Path, corpus: Corpus) -> None:
    """Fill an engine; runs in its process, before `ask_raw`."""
    _open["raw"] = RAW[engine]()
    _open["raw"].fill(folder, corpus, corpus.fields)


def ask_raw(queries: Sequence[Query], limit: int, clients: int) -> Run:
    """Ask by as many threads; runs in the engine's process."""
    started = time.perf_counter()
    with ThreadPoolExecutor(clients) as threads:
        answers = list(threads.map(lambda query: _timed(query, limit), queries))
    seconds = time.perf_counter() - started
    return Run(seconds, [ms for ms, _ in answers], [found for _, found in answers])


def _timed(query: Query, limit: int) -> tuple[float, list[int]]:
    started = time.perf_counter()
    found = _open["raw"].query(query, limit)
    return (time.perf_counter() - started) * 1000, found


def _payload(corpus: Corpus, fields: Sequence[Where], row: int) -> dict[str, str | int]:
    return {**fields[row], "text": corpus.texts[row]}
