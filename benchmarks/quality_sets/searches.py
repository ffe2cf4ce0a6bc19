"""Collections of a server, and each way to search them that is compared."""

import hashlib
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
from google.protobuf.timestamp_pb2 import Timestamp

from benchmarks.quality_sets.plain import PlainHybrid
from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.chunk_pb2 import Chunk
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.api.ingest.v1 import collection_pb2
from groundwire.client import GroundwireClient
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items
from groundwire.client.values import FilterJson, filter_message
from groundwire.kernel.collection import CollectionLimits, ProfileName
from groundwire.kernel.errors import InvalidRequestError

MODES = {
    "dense": search_mode_pb2.SEARCH_MODE_VECTOR,
    "lexical": search_mode_pb2.SEARCH_MODE_LEXICAL,
    "hybrid": search_mode_pb2.SEARCH_MODE_HYBRID,
}
PLAIN = {"plain BM25": 0.0, "plain dense": 1.0, "plain hybrid": 0.5}
"""What ours is held against, with the weight on vectors."""
ROWS = [*MODES, "plain BM25", "plain hybrid"]
"""The rows of every table: each retriever alone, both, and what they are held against."""
AGAINST_EACH = [("hybrid", "dense"), ("hybrid", "lexical"), ("hybrid", "plain hybrid")]
_LONGEST = CollectionLimits().max_query_chars

Search = Callable[[str, str], Sequence[Chunk]]
"""From a query and what it goes on from to chunks, best first."""


def fill(
    client: GroundwireClient,
    name: str,
    texts: Mapping[str, bytes],
    profile: ProfileName,
    settings: collection_pb2.CollectionSettings | None = None,
) -> str:
    """Bring texts by source name into a collection and return its name, which is `name` and a hash of the settings.

    It is made if it is not there; unchanged texts cost little.
    """
    started = time.perf_counter()
    collection = f"{name}-{hashlib.sha256(f'{profile} {settings}'.encode()).hexdigest()[:8]}"
    number = collection_pb2.Profile.Value(f"PROFILE_{profile.name}")
    client.create_collection(collection=collection, profile=number, settings=settings)
    chunks = refused = 0
    for source, content in texts.items():
        try:
            stored = client.ingest_document(collection=collection, source_uri=source, content=content)
            chunks += stored.result.document.chunk_count
        except InvalidRequestError as error:
            refused += 1
            print(f"refused: {source}: {error.message}")
    elapsed = time.perf_counter() - started
    print(f"{collection}: {len(texts)} documents, {chunks} chunks in {elapsed:.1f} s; refused: {refused}")
    return collection


class Searches:
    """The searches of a collection, which cut queries to their limit.

    Args:
        client: of the server.
        collection: what is searched.
        where: which of its chunks, in the JSON form of filters; all if None.
        query_time: when it is asked; now if None.
    """

    def __init__(
        self,
        client: GroundwireClient,
        collection: str,
        where: FilterJson | None = None,
        query_time: Timestamp | None = None,
    ) -> None:
        self._client = client
        self._collection = collection
        self._where = filter_message(where)
        self._query_time = query_time

    def ways(self, rows: Iterable[str], top_k: int) -> dict[str, Search]:
        """Return the searches of rows of tables, which are modes, or plain and ignore what a query goes on from."""
        return {
            row: self._plain(PLAIN[row], top_k) if row in PLAIN else self.ours(top_k, mode=MODES[row]) for row in rows
        }

    def ours(self, top_k: int, **options: Any) -> Search:
        """Return the search by `Retrieve` with further `RetrievalOptions`."""
        how = RetrievalOptions(top_k=top_k, filter=self._where, **options)

        def search(query: str, context: str) -> Sequence[Chunk]:
            found = self._client.retrieve(
                collection=self._collection,
                query=query[:_LONGEST],
                context=context,
                options=how,
                query_time=self._query_time,
            )
            return [hit.chunk for hit in found.results]

        return search

    def _plain(self, weight: float, top_k: int) -> Search:
        chunks, plain = self._indexed

        def search(query: str, _: str) -> Sequence[Chunk]:
            (embedded,) = self._client.embed_texts(queries=[query[:_LONGEST]]).vectors
            vector = np.array(embedded.values, dtype=np.float32)
            best = plain.search(query[:_LONGEST], vector / np.linalg.norm(vector), top_k, weight)
            return [chunks[place] for place, _ in best]

        return search

    @cached_property
    def _indexed(self) -> tuple[list[Chunk], PlainHybrid]:
        where = {"collection": self._collection, "filter": self._where, "include_embedding": True}
        listed = all_items.blocking(self._client, Contract.list_chunks, "chunks", **where)
        # In the order they were stored, which ids need not have; chunks without a vector are not searched.
        chunks = sorted((chunk for chunk in listed if chunk.embedding), key=lambda chunk: chunk.chunk_number)
        vectors = np.array([chunk.embedding for chunk in chunks], dtype=np.float32)
        return chunks, PlainHybrid([chunk.content for chunk in chunks], vectors)
