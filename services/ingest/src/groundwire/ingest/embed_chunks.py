"""Get the vectors of chunks: known ones from the catalog, the others from the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from groundwire.catalog.vectors import NewVectors, VectorCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import LEAD_CHARS, Chunk, embedding_text
from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Embedder, Vectors

_LOOK_UP_BATCH = 1000


@dataclass(frozen=True, slots=True)
class EmbeddedChunks:
    """Vectors in the order of the chunks, float32, shape (n, d), rows L2-normalised.

    `embedded` texts went through the model; `beyond_model` chunks are longer than what it reads. `unstored` are the
    vectors among them that the catalog does not have yet, if any.
    """

    vectors: Vectors
    embedded: int
    beyond_model: int
    unstored: NewVectors | None = None


@dataclass(frozen=True, slots=True)
class EmbeddingNeeds:
    """What chunks need: `known` vectors by embedding hash, and the texts that have none, each once.

    `missing` maps an embedding hash to the indexes of its chunks; `tokens` counts those of the embedded text of each
    chunk.
    """

    hashes: Sequence[str]
    known: dict[str, Vectors]
    missing: dict[str, list[int]]
    tokens: Sequence[int]


@dataclass(frozen=True, slots=True)
class EmbedChunks:
    """Embeds each text that the catalog does not know, once; keeps the vectors of every batch as soon as it is made.

    `tokens_per_batch` bounds the work between two looks at the budget, and what is embedded again after a crash.
    """

    cache: VectorCache
    embedder: Embedder
    tokens_per_batch: int

    def __call__(self, chunks: Sequence[Chunk], budget: Budget, report: Callable[[int], None]) -> EmbeddedChunks:
        """Return one vector a chunk, all of them in the catalog; `report` gets the number that have theirs, rising.

        The chunks are in the catalog already, which protects their vectors from the sweep.

        Raises:
            UnavailableError: the model does not answer.
        """
        embedded = self.all_but_last(chunks, budget, report)
        if embedded.unstored is not None:
            self._store(embedded.unstored)
        return replace(embedded, unstored=None)

    def all_but_last(self, chunks: Sequence[Chunk], budget: Budget, report: Callable[[int], None]) -> EmbeddedChunks:
        """Do the same, but leave the vectors of the last batch to a transaction that the caller makes anyway.

        Of a small document that is all there is, and one transaction less is a third of its flushes to disk.

        Raises:
            UnavailableError: the model does not answer.
        """
        needs = self.needs(chunks)
        done = len(chunks) - sum(map(len, needs.missing.values()))
        report(done)
        unstored: NewVectors | None = None
        batches = self._batches(needs)
        for batch in batches:
            budget.check()
            made = self._embed([chunks[needs.missing[name][0]].embedding_text for name in batch], budget)
            unstored = NewVectors(self.embedder.identity.digest, batch, made)
            if batch is not batches[-1]:
                self._store(unstored)
            needs.known.update(zip(batch, made, strict=True))
            done += sum(len(needs.missing[name]) for name in batch)
            report(done)
        vectors = np.stack([needs.known[name] for name in needs.hashes])
        return EmbeddedChunks(vectors, len(needs.missing), self.beyond_model(chunks), unstored)

    def needs(self, chunks: Sequence[Chunk]) -> EmbeddingNeeds:
        """Return what has to be embedded for the chunks; embeds nothing."""
        hashes = [chunk.embedding_hash for chunk in chunks]
        known = self._known(hashes)
        missing: dict[str, list[int]] = {}
        for row, name in enumerate(hashes):
            if name not in known:
                missing.setdefault(name, []).append(row)
        return EmbeddingNeeds(hashes, known, missing, self._tokens(chunks))

    def new_texts(self, collection: Collection, chunks: Sequence[Chunk]) -> dict[str, int]:
        """Return the texts that the collection does not have: the tokens of each by its embedding hash.

        That is what callers are told of embedding. How many texts the model really reads depends on what other
        collections hold, which is nobody's business. Texts with a vector of the caller are left out.
        """
        hashes = [chunk.embedding_hash for chunk in chunks]
        known: set[str] = set()
        for start in range(0, len(hashes), _LOOK_UP_BATCH):
            known |= self.cache.used_by(collection, hashes[start : start + _LOOK_UP_BATCH])
        rows = zip(chunks, hashes, self._tokens(chunks), strict=True)
        return {
            name: tokens for chunk, name, tokens in rows if name not in known and chunk.given_embedding_hash is None
        }

    def beyond_model(self, chunks: Sequence[Chunk]) -> int:
        """Return how many chunks are longer than what the model reads."""
        identity = self.embedder.identity
        if identity.provider.endswith("+windows"):
            return 0  # such a model reads a long text in windows
        return sum(tokens > identity.max_tokens for tokens in self._tokens(chunks))

    def _tokens(self, chunks: Sequence[Chunk]) -> list[int]:
        """Count the tokens of each embedded text; the headings of a section are counted once."""
        headings = {chunk.headings: 0 for chunk in chunks}
        for path in headings:
            headings[path] = self.embedder.tokenizer.count(embedding_text(path, ""))
        return [headings[chunk.headings] + _own_tokens(chunk) for chunk in chunks]

    def _known(self, hashes: Sequence[str]) -> dict[str, Vectors]:
        known: dict[str, Vectors] = {}
        for start in range(0, len(hashes), _LOOK_UP_BATCH):
            known |= self.cache.get(self.embedder.identity.digest, hashes[start : start + _LOOK_UP_BATCH])
        return known

    def _store(self, new: NewVectors) -> None:
        self.cache.put(new.identity_digest, new.embedding_hashes, new.vectors)

    def _batches(self, needs: EmbeddingNeeds) -> list[list[str]]:
        batches: list[list[str]] = []
        size = self.tokens_per_batch
        for name, rows in needs.missing.items():
            if size >= self.tokens_per_batch:
                batches.append([])
                size = 0
            batches[-1].append(name)
            size += max(1, needs.tokens[rows[0]])
        return batches

    def _embed(self, texts: Sequence[str], budget: Budget) -> Vectors:
        """Return the vectors with length 1, whatever the model does; a vector of zeros stays."""
        made = self.embedder.embed_documents(texts, budget)
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        return np.asarray(made / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)


def _own_tokens(chunk: Chunk) -> int:
    """Return the tokens of what is embedded of a chunk's content; estimated for an upper chunk."""
    return chunk.token_count * LEAD_CHARS // max(LEAD_CHARS, len(chunk.content)) if chunk.upper else chunk.token_count
