"""Collections of any size for the other scripts: texts of real words, vectors in clusters, documents with filter keys.

Everything follows from a seed. `fill` writes through the catalog's own steps, so that what is searched is what an
ingest would have left.
"""

import hashlib
import random
import re
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np

from groundwire.catalog.collections import Collections
from groundwire.catalog.database import Database
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.vectors import VectorCache
from groundwire.embedders.hashing import HashingEmbedder
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import PROFILES, Collection, ProfileName
from groundwire.kernel.document import DocumentFields, DocumentFormat
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors
from groundwire.kernel.identifiers import DEFAULT_TENANT, engine_collection_name
from groundwire.kernel.spans import OffsetMap
from groundwire.kernel.vector_store import PointBatch, VectorStore

DIMENSIONS = 384
CLUSTERS = 1000
CHUNKS_PER_DOCUMENT = 50
COLLECTION = "bench"
SHAPES: dict[str, dict[str, Any]] = {
    "0.1 %": {"source": {"$in": ["document-000007.txt", "document-000011.txt"]}},
    "1 %": {"title": "title 7"},
    "10 %": {"project": "project 3"},
    "50 %": {"category": "category 1"},
    "AND 5 %": {"category": "category 1", "project": "project 3"},
    "chunk 10 %": {"sequence_num": {"$lt": 5}},
}
"""Filters by the share of chunks they keep; the first is 0.1 % of 100,000 chunks and as many chunks of fewer."""


class ClusteredEmbedder:
    """Gives every text a fixed vector near one of a thousand centres; texts with equal first words share a centre."""

    identity = EmbeddingIdentity("benchmark", "clustered", "1", DIMENSIONS, 512, normalized=True, probe_digest="c" * 64)
    tokenizer = HashingEmbedder(DIMENSIONS).tokenizer

    def __init__(self) -> None:
        self._centres = np.random.default_rng(5).standard_normal((CLUSTERS, DIMENSIONS)).astype(np.float32)

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text."""
        return np.stack([self.embed_query(text) for text in texts])

    def embed_query(self, text: str) -> Vectors:
        """Return the vector of a text."""
        seed = int.from_bytes(hashlib.blake2b(text.encode(), digest_size=8).digest(), "big")
        noise = np.random.default_rng(seed).standard_normal(DIMENSIONS).astype(np.float32)
        vector = self._centres[seed % CLUSTERS] + 0.7 * noise
        return np.asarray(vector / np.linalg.norm(vector), dtype=np.float32)

    def embed_queries(self, texts: Sequence[str]) -> Vectors:
        """Return one vector for each text."""
        return self.embed_documents(texts)

    def close(self) -> None:
        """Release nothing."""


class Words:
    """Passages and questions cut from the text files of a folder, joined at random."""

    def __init__(self, folder: Path, seed: int) -> None:
        files = sorted(path for path in folder.rglob("*") if path.suffix in {".md", ".txt"})
        self._words = [word for path in files for word in path.read_text(errors="ignore").split()]
        self._chance = random.Random(seed)
        if len(self._words) < 1000:
            raise SystemExit(f"no texts in {folder}")

    def passage(self, length: int = 130) -> str:
        """Return about `length` words."""
        parts: list[str] = []
        while len(parts) < length:
            start = self._chance.randrange(len(self._words) - 30)
            parts += self._words[start : start + self._chance.randrange(8, 25)]
        return " ".join(parts)

    def question(self) -> str:
        """Return about a dozen words in a row."""
        start = self._chance.randrange(len(self._words) - 30)
        return " ".join(re.findall(r"[A-Za-z0-9]+", " ".join(self._words[start : start + 12]))) or "anything"


def fill(catalog: Database, vectors: VectorStore, embedder: Any, words: Words, chunk_count: int) -> Collection:
    """Make the collection with as many chunks, unless it is there already."""
    found = Collections(catalog).page(DEFAULT_TENANT, "", 1)
    if found and Collections(catalog).counts(DEFAULT_TENANT, COLLECTION).chunks >= chunk_count:
        return found[0]
    collection = _collection(embedder.identity)
    vectors.create_collection(collection.engine_name, embedder.identity.dimensions)
    collection = Collections(catalog).create(collection)
    documents, cache = Documents(catalog), VectorCache(catalog)
    for draft in _drafts(words, chunk_count):
        pending = documents.begin(DEFAULT_TENANT, collection, draft)
        made = embedder.embed_documents([chunk.embedding_text for chunk in draft.chunks])
        cache.put(collection.identity.digest, [chunk.embedding_hash for chunk in draft.chunks], made)
        vectors.upsert(collection.engine_name, PointBatch(pending.numbers, made, pending.payloads))
        documents.publish(pending)
    return collection


def _drafts(words: Words, chunk_count: int) -> Iterator[GenerationDraft]:
    for number in range(-(-chunk_count // CHUNKS_PER_DOCUMENT)):
        texts = [words.passage() for _ in range(CHUNKS_PER_DOCUMENT)]
        text = "\n".join(texts)
        yield GenerationDraft(
            document_id=None,
            source_uri=f"document-{number:06}.txt",
            format=DocumentFormat.TEXT,
            source_hash=hashlib.sha256(text.encode()).hexdigest(),
            fields=DocumentFields(
                title=f"title {number % 100}",
                project=f"project {number % 10}",
                category=f"category {number // 10 % 2}",
                metadata={"half": number % 2, "year": 2000 + number % 20},
            ),
            text=text,
            chunks=_chunks(text, texts),
            expected_generation=0,
        )


def _chunks(text: str, texts: Sequence[str]) -> list[Chunk]:
    offsets, start, chunks = OffsetMap(text), 0, []
    for number, content in enumerate(texts):
        span = offsets.span(start, start + len(content))
        chunks.append(Chunk(number, span, content, len(content.split()), "Chapter 1", None, (), 3))
        start += len(content) + 1
    return chunks


def _collection(identity: EmbeddingIdentity) -> Collection:
    settings = PROFILES[ProfileName.DOCUMENTS].settings
    now = datetime(2026, 1, 1, tzinfo=UTC)
    return Collection(
        uid="uid-bench",
        tenant=DEFAULT_TENANT,
        name=COLLECTION,
        engine_name=engine_collection_name(DEFAULT_TENANT, "uid-bench", identity.digest),
        profile=ProfileName.DOCUMENTS,
        identity=identity,
        settings=settings,
        created_time=now,
        updated_time=now,
    )
