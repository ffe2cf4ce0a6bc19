"""A small library to search in: a real catalog, a real engine, and an embedder whose vectors are easy to foresee."""

import hashlib
import re
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.api.retrieve.v1 import retrieve_service_pb2 as pb
from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft, PendingGeneration
from groundwire.catalog.vectors import VectorCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import PROFILES, Collection, ProfileName
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, TokenizerFormat, Vectors
from groundwire.kernel.errors import CollectionNotFoundError
from groundwire.kernel.identifiers import DEFAULT_TENANT, engine_collection_name
from groundwire.kernel.spans import OffsetMap
from groundwire.kernel.vector_store import PointBatch, VectorStore
from groundwire.retrieve.bootstrap import RetrieveService, build
from groundwire.retrieve.search_types import SearchRequest, SearchResult
from groundwire.retrieve.settings import RetrieveSettings
from groundwire.rpc.workers import Workers
from groundwire.vectorstores.factory import open_vector_store
from tests.catalogs import open_database

BY_ENGINE = RetrieveSettings(exact_chunks=0)
"""Small collections are searched by the engine too, since it is what most tests are about."""

DIMENSIONS = 64
IDENTITY = EmbeddingIdentity("test", "word-bag", "1", DIMENSIONS, 512, normalized=True, probe_digest="0" * 64)


class WordTokenizer:
    """Counts words."""

    name = "words"
    definition = TokenizerDefinition("words", TokenizerFormat.HASHING_WORDS, "")

    def count(self, text: str) -> int:
        return len(text.split())

    def offsets(self, text: str) -> list[tuple[int, int]]:
        return [match.span() for match in re.finditer(r"\S+", text)]


class WordBagEmbedder:
    """Adds up one fixed random direction for each word; texts with more words in common are nearer."""

    identity = IDENTITY
    tokenizer = WordTokenizer()

    is_responsive = True

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        return np.stack([self.embed_query(text, budget) for text in texts])

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        budget.check()
        total = sum((_direction(word) for word in text.casefold().split()), start=np.zeros(DIMENSIONS))
        return (total / max(float(np.linalg.norm(total)), 1e-9)).astype(np.float32)

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        return self.embed_documents(texts, budget)

    def close(self) -> None:
        return None


_numbers = count()


class Library:
    """One collection `docs` that can be filled and searched.

    On an engine that is given, others have collections too; it stays open when this library is closed.
    """

    def __init__(
        self,
        folder: Path,
        vectors_url: str = "memory:",
        settings: RetrieveSettings | None = None,
        clock: Clock | None = None,
        ages: Clock | None = None,
        engine: VectorStore | None = None,
    ) -> None:
        self.database = open_database(folder / "catalog.db", ages or clock)
        self._uids = "uid" if engine is None else f"uid{next(_numbers)}"
        self._shared_names = None if engine is None else list[str]()
        self.vectors: VectorStore = engine or open_vector_store(vectors_url, data_dir=folder)
        self.embedder = WordBagEmbedder()
        self.documents = Documents(self.database)
        self.workers, self.lookups = Workers(2), Workers(2)
        self.service: RetrieveService = build(
            database=self.database,
            vectors=self.vectors,
            embedder=self.embedder,
            settings=settings or BY_ENGINE,
            workers=self.workers,
            lookups=self.lookups,
            clock=clock,
        )
        self.collection = self._docs()

    def _docs(self) -> Collection:
        """Return the collection of an earlier process on the same folder, or create it."""
        try:
            return Collections(self.database).get(DEFAULT_TENANT, "docs")
        except CollectionNotFoundError:
            return self.create("docs")

    def create(
        self,
        name: str,
        identity: EmbeddingIdentity = IDENTITY,
        profile: ProfileName = ProfileName.DOCUMENTS,
        **settings: Any,
    ) -> Collection:
        """Create a collection; `settings` replace those of the profile."""
        uid = f"{self._uids}-{name}"
        collection = Collection(
            uid=uid,
            tenant=DEFAULT_TENANT,
            name=name,
            engine_name=engine_collection_name(DEFAULT_TENANT, uid, identity.digest),
            profile=profile,
            identity=identity,
            settings=replace(PROFILES[profile], **settings),
            create_time=datetime(2026, 1, 1, tzinfo=UTC),
            update_time=datetime(2026, 1, 1, tzinfo=UTC),
        )
        self.vectors.create_collection(collection.engine_name, identity.dimensions, Budget())
        if self._shared_names is not None:
            self._shared_names.append(collection.engine_name)
        return Collections(self.database).create(collection)

    def put(
        self,
        source: str,
        texts: Sequence[str],
        *,
        collection: Collection | None = None,
        fields: DocumentFields | None = None,
        vectors: Vectors | None = None,
        headings: Sequence[str] | None = None,
        pages: Sequence[tuple[int, ...]] | None = None,
        places: Sequence[tuple[str, str | None]] | None = None,
        replaces: Document | None = None,
    ) -> Document:
        """Store a document with one chunk for each text, through the catalog's own two steps."""
        pending = self.begin(
            source,
            texts,
            collection=collection,
            fields=fields,
            headings=headings,
            pages=pages,
            places=places,
            replaces=replaces,
        )
        made = self.embedder.embed_documents(texts, Budget()) if vectors is None else vectors
        batch = PointBatch(pending.numbers, made, pending.payloads)
        self.vectors.upsert(pending.collection.engine_name, batch, Budget())
        self._keep_vectors(pending, made)
        return self.documents.publish(pending)

    def _keep_vectors(self, pending: PendingGeneration, made: Vectors) -> None:
        """Store the vectors in the catalog too, as an ingest does."""
        with self.database.read() as connection:
            found = connection.exec_driver_sql("SELECT chunk_number, embedding_hash FROM chunks").all()
        hashes = {row.chunk_number: row.embedding_hash for row in found}
        identity = pending.collection.identity.digest
        VectorCache(self.database).put(identity, [hashes[number] for number in pending.numbers], made)

    def begin(
        self,
        source: str,
        texts: Sequence[str],
        *,
        collection: Collection | None = None,
        fields: DocumentFields | None = None,
        headings: Sequence[str] | None = None,
        pages: Sequence[tuple[int, ...]] | None = None,
        places: Sequence[tuple[str, str | None]] | None = None,
        replaces: Document | None = None,
    ) -> PendingGeneration:
        text = "\n".join(texts)
        chunks = _cut(text, texts, headings or ["Start"] * len(texts), pages or [()] * len(texts))
        if places:
            chunks = [_placed(chunk, *place) for chunk, place in zip(chunks, places, strict=True)]
        draft = GenerationDraft(
            document_id=replaces.document_id if replaces else None,
            source_uri=source,
            format=DocumentFormat.TEXT,
            source_hash=hashlib.sha256(f"{source}{text}".encode()).hexdigest(),
            fields=fields or DocumentFields(),
            text=text,
            chunks=chunks,
            expected_generation=replaces.generation if replaces else 0,
        )
        return self.documents.begin(collection or self.collection, [draft])[0]

    def search(self, request: SearchRequest) -> SearchResult:
        return self.service.search.search(request, Budget())

    def retrieve(self, query: str, collection: str = "docs", **options: object) -> pb.RetrieveResponse:
        """Make one call as the servicer's worker thread does; asks for the report."""
        options_message = pb.RetrieveRequest(collection=collection, query=query)
        options_message.options.include_report = True
        for name, value in options.items():
            if hasattr(value, "DESCRIPTOR"):
                getattr(options_message.options, name).CopyFrom(value)
            else:
                setattr(options_message.options, name, value)
        response: pb.RetrieveResponse = self.service.servicer.retrieve(options_message, time.perf_counter()).message()
        return response

    def close(self) -> None:
        self.service.close()
        self.workers.close()
        self.lookups.close()
        if self._shared_names is None:
            self.vectors.close()
        else:
            for engine_name in self._shared_names:
                self.vectors.drop_collection(engine_name, Budget())
        self.database.close()


def contents(response: pb.RetrieveResponse) -> list[str]:
    return [hit.chunk.content for hit in response.results]


def metadata(values: Mapping[str, str | int | float | bool]) -> DocumentFields:
    return DocumentFields(metadata=dict(values))


def _cut(text: str, texts: Sequence[str], headings: Sequence[str], pages: Sequence[tuple[int, ...]]) -> list[Chunk]:
    offsets, start, chunks = OffsetMap(text), 0, []
    for number, (content, heading, on) in enumerate(zip(texts, headings, pages, strict=True)):
        chunks.append(
            Chunk(
                sequence_num=number,
                span=offsets.span(start, start + len(content)),
                content=content,
                token_count=len(content.split()),
                chapter="Chapter 1",
                section=None,
                hierarchy_path=("Chapter 1", heading),
                level=3,
                page_numbers=on,
            )
        )
        start += len(content) + 1
    return chunks


def _placed(chunk: Chunk, chapter: str, section: str | None) -> Chunk:
    path = (chapter, section) if section else (chapter,)
    return replace(chunk, chapter=chapter, section=section, hierarchy_path=path, level=3 if section else 2)


@cache
def _direction(word: str) -> Vectors:
    seed = int.from_bytes(hashlib.sha256(word.encode()).digest()[:8], "big")
    return np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
