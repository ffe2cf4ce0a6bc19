"""Get the vectors of chunks: known ones from the catalog, the others from the model."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from groundwire.catalog.vectors import VectorCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.embedder import Embedder, Vectors

_LOOK_UP_BATCH = 1000


@dataclass(frozen=True, slots=True)
class EmbeddedChunks:
    """Vectors in the order of the chunks, float32, shape (n, d), rows L2-normalised; `embedded` of them are new."""

    vectors: Vectors
    embedded: int


@dataclass(frozen=True, slots=True)
class EmbedChunks:
    """Embeds each content that the catalog does not know, once; keeps every vector as soon as it is made.

    `tokens_per_batch` bounds the work between two looks at the budget.
    """

    cache: VectorCache
    embedder: Embedder
    tokens_per_batch: int

    def __call__(self, chunks: Sequence[Chunk], budget: Budget, report: Callable[[int], None]) -> EmbeddedChunks:
        """Return one vector a chunk; `report` gets the number of chunks that have theirs, rising.

        The chunks are in the catalog already, which protects their vectors from the sweep.

        Raises:
            UnavailableError: the model does not answer.
        """
        hashes = [chunk.content_hash for chunk in chunks]
        known = self._known(hashes)
        rows: dict[str, list[int]] = {}
        for row, name in enumerate(hashes):
            if name not in known:
                rows.setdefault(name, []).append(row)
        done = len(hashes) - sum(map(len, rows.values()))
        embedded = len(hashes) - done
        report(done)
        for batch in self._batches(list(rows), [chunks[first[0]].token_count for first in rows.values()]):
            budget.check()
            made = self._embed([chunks[rows[name][0]].content for name in batch])
            self.cache.put(self.embedder.identity.digest, batch, made)
            known.update(zip(batch, made, strict=True))
            done += sum(len(rows[name]) for name in batch)
            report(done)
        return EmbeddedChunks(np.stack([known[name] for name in hashes]), embedded)

    def _known(self, hashes: Sequence[str]) -> dict[str, Vectors]:
        known: dict[str, Vectors] = {}
        for start in range(0, len(hashes), _LOOK_UP_BATCH):
            known |= self.cache.get(self.embedder.identity.digest, hashes[start : start + _LOOK_UP_BATCH])
        return known

    def _batches(self, names: Sequence[str], token_counts: Sequence[int]) -> list[list[str]]:
        batches: list[list[str]] = []
        size = self.tokens_per_batch
        for name, tokens in zip(names, token_counts, strict=True):
            if size >= self.tokens_per_batch:
                batches.append([])
                size = 0
            batches[-1].append(name)
            size += max(1, tokens)
        return batches

    def _embed(self, texts: Sequence[str]) -> Vectors:
        """Return the vectors with length 1, whatever the model does; a vector of zeros stays."""
        made = self.embedder.embed_documents(texts)
        lengths = np.linalg.norm(made, axis=1, keepdims=True)
        return np.asarray(made / np.where(lengths > 0, lengths, 1.0), dtype=np.float32)
