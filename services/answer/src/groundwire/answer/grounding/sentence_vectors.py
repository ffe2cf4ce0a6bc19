"""Vectors of sentences, which are asked for again and again: kept for further questions of the same tenant."""

import hashlib
from collections.abc import Sequence

import numpy as np

from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder, Vectors
from groundwire.rpc import request_context

REMEMBERED_VECTORS = 20_000
"""Vectors that are kept, about 30 MB at 384 dimensions."""


class SentenceVectors:
    """Embeds sentences; safe for many threads."""

    def __init__(self, embedder: Embedder) -> None:
        self._embedder = embedder
        self._remembered: BoundedCache[tuple[str, bytes], Vectors] = BoundedCache(REMEMBERED_VECTORS)

    def of_query(self, text: str, budget: Budget) -> Vectors:
        """Return the vector of a question, float32 of shape (dimensions,) and length 1; zeros stay."""
        return _normalized(self._embedder.embed_query(text, budget))

    def of(self, texts: Sequence[str], budget: Budget) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), rows of length 1; rows of zeros stay.

        Raises:
            GroundwireError: as the embedder does.
        """
        tenant = request_context.current().tenant
        # By tenant, so that the time of an answer does not tell what others store; by digest, so that no text stays.
        keys = {text: (tenant, hashlib.sha256(text.encode()).digest()) for text in texts}
        known = self._remembered.get_all(keys[text] for text in texts)
        missing = list(dict.fromkeys(text for text, vector in zip(texts, known, strict=True) if vector is None))
        made: dict[str, Vectors] = {}
        if missing:
            # Urgent: somebody waits for the answer, and the queue of an ingest may be minutes long.
            rows = _normalized(self._embedder.embed_documents(missing, budget, urgent=True))
            made = dict(zip(missing, rows, strict=True))
            for text, row in made.items():
                self._remembered.put(keys[text], row.copy())  # a view would hold the vectors of all its neighbours
        return np.stack([made[text] if row is None else row for text, row in zip(texts, known, strict=True)])


def _normalized(vectors: Vectors) -> Vectors:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalized: Vectors = (vectors / np.maximum(lengths, np.finfo(np.float32).tiny)).astype(np.float32)
    return normalized
