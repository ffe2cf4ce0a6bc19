"""The services that are measured, in one process and without network, over a data folder that may be kept."""

import argparse
import hashlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from benchmarks.quality_sets.plain import PlainHybrid
from groundwire.catalog.database import Database
from groundwire.embedders.factory import open_embedder
from groundwire.ingest.bootstrap import IngestService
from groundwire.ingest.bootstrap import build as build_ingest
from groundwire.ingest.collections import NewCollection
from groundwire.ingest.ingesting import DuplicatePolicy, IngestRequest
from groundwire.ingest.parsing.parsed_document import Original
from groundwire.ingest.settings import IngestSettings
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.collection import CollectionLimits, CollectionSettings, ProfileName, SearchMode
from groundwire.kernel.errors import CollectionNotFoundError, InvalidRequestError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.retrieve.bootstrap import RetrieveService
from groundwire.retrieve.bootstrap import build as build_retrieve
from groundwire.retrieve.fusion import Score
from groundwire.retrieve.search_types import SearchHit, SearchRequest
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import open_vector_store

MODES = {"dense": SearchMode.VECTOR, "lexical": SearchMode.LEXICAL, "hybrid": SearchMode.HYBRID}
PLAIN = {"plain BM25": 0.0, "plain hybrid": 0.5}
"""What ours is held against, with the weight on vectors."""
ROWS = [*MODES, *PLAIN]
"""The rows of every table: each retriever alone, both, and what they are held against."""
AGAINST_EACH = [("hybrid", "dense"), ("hybrid", "lexical"), ("hybrid", "plain hybrid")]
_LONGEST = CollectionLimits().max_query_chars


class Searcher(Protocol):
    """Searches a collection for a query, which may go on from a context."""

    def __call__(self, query: str, context: str = "") -> Sequence[SearchHit]: ...


@dataclass(frozen=True, slots=True)
class Stack:
    """Both services."""

    ingest: IngestService
    retrieve: RetrieveService

    def fill(self, name: str, texts: Mapping[str, bytes], settings: CollectionSettings, profile: ProfileName) -> str:
        """Bring texts by source name into a collection and return its name, which is `name` and a hash of the settings.

        It is made if it is not there; unchanged texts cost little.
        """
        started = time.perf_counter()
        collection = self._make(name, settings, profile)
        chunks = embedded = refused = 0
        for source, content in texts.items():
            try:
                result = self.ingest.long_work.documents.ingest(
                    _request(collection, source), Original(len(content), content), Budget(), lambda _: None
                )
                chunks += result.document.chunk_count
                embedded += result.embedded
            except InvalidRequestError as error:
                refused += 1
                print(f"refused: {source}: {error.message}")
        elapsed = time.perf_counter() - started
        print(f"{collection}: {len(texts)} documents, {chunks} chunks, {embedded} embedded in {elapsed:.1f} s", end="")
        print(f"; refused: {refused}")
        return collection

    def searcher(self, collection: str, row: str, top_k: int) -> Searcher:
        """Return the search of a row of `ROWS`, which cuts queries to their limit; a plain one ignores the context."""
        if row not in PLAIN:

            def search(query: str, context: str = "") -> Sequence[SearchHit]:
                request = SearchRequest(
                    DEFAULT_TENANT, collection, query[:_LONGEST], context=context, mode=MODES[row], top_k=top_k
                )
                return self.retrieve.search.search(request, Budget()).hits

            return search
        chunks, vectors = self.chunks(collection)
        plain = PlainHybrid([each.chunk.content for each in chunks], vectors)

        def search_plain(query: str, context: str = "") -> Sequence[SearchHit]:
            del context
            query = query[:_LONGEST]
            best = plain.search(query, self.embed(query), top_k, PLAIN[row])
            return [
                SearchHit(rank, Score(place, relevance, 0.0, 0.0, 0.0), chunks[place])
                for rank, (place, relevance) in enumerate(best, start=1)
            ]

        return search_plain

    def embed(self, query: str) -> NDArray[np.float32]:
        vector = self.retrieve.search.query_vectors.of(query, Budget()).vector
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    def chunks(self, collection: str) -> tuple[list[StoredChunk], NDArray[np.float32]]:
        """Return all chunks of a collection and their vectors, row by row."""
        view = self.retrieve.search.views.open(DEFAULT_TENANT, collection)
        numbers, vectors = view.vectors(view.matching(None))
        stored = view.chunks(numbers.tolist())
        return [stored[number] for number in numbers.tolist()], vectors

    def _make(self, name: str, settings: CollectionSettings, profile: ProfileName) -> str:
        collection = f"{name}-{hashlib.sha256(repr((profile, settings)).encode()).hexdigest()[:8]}"
        collections = self.ingest.collections.collections
        try:
            collections.get(DEFAULT_TENANT, collection)
        except CollectionNotFoundError:
            collections.create(NewCollection(DEFAULT_TENANT, collection, profile, settings), Budget())
        return collection


def data_folder() -> Path:
    """Return the folder of the test data: GROUNDWIRE_TEST_DATA, else `shared/data` beside the checkout."""
    beside = Path(__file__).resolve().parents[2].parent / "shared" / "data"
    return Path(os.environ.get("GROUNDWIRE_TEST_DATA", beside))


def need(*paths: Path) -> None:
    """Stop unless all paths are there."""
    missing = [str(path) for path in paths if not path.exists()]
    if missing:
        sys.exit(f"no data: {', '.join(missing)}")


@contextmanager
def opened(options: argparse.Namespace) -> Iterator[Stack]:
    """Give the services over `options.data`, or over a folder that is removed afterwards."""
    with ExitStack() as stack:
        folder = options.data or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="groundwire-quality-")))
        folder.mkdir(parents=True, exist_ok=True)
        vectors = f"qdrant-edge:{folder / 'vectors'}" if options.data else "memory:"
        cache = Path(os.environ.get("GROUNDWIRE_CACHE", Path.home() / ".cache" / "groundwire"))
        database = stack.enter_context(closing(Database.open(f"sqlite:{folder / 'catalog.db'}")))
        store = stack.enter_context(closing(open_vector_store(vectors, data_dir=folder)))
        embedder = stack.enter_context(closing(open_embedder(options.embedder, cache_dir=cache)))
        workers, lookups = stack.enter_context(closing(Workers(2))), stack.enter_context(closing(Workers(2)))
        ingest = build_ingest(
            database=database, vectors=store, embedder=embedder, settings=IngestSettings(), workers=workers
        )
        ingest.start()
        stack.callback(ingest.close)
        retrieve = build_retrieve(
            database=database,
            vectors=store,
            embedder=embedder,
            settings=RetrieveSettings(),
            workers=workers,
            lookups=lookups,
        )
        stack.callback(retrieve.close)
        yield Stack(ingest, retrieve)


def _request(collection: str, source: str) -> IngestRequest:
    return IngestRequest(
        tenant=DEFAULT_TENANT,
        collection=collection,
        source_uri=source,
        format=None,
        document_id=None,
        source_hash=None,
        fields=None,
        duplicate_policy=DuplicatePolicy.ALLOW,
        content_field="content",
    )
