"""Vectors of queries, made once: the same words are asked again and again."""

import time

from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder, EmbeddingIdentity, Vectors


class QueryVectors:
    """Makes vectors of queries and remembers the latest; safe to call from many threads.

    Args:
        embedder: makes them.
        entries: most vectors that are remembered.
    """

    def __init__(self, embedder: Embedder, entries: int) -> None:
        self._embedder = embedder
        self._known: BoundedCache[tuple[str, str], Vectors] = BoundedCache(entries)

    @property
    def identity(self) -> EmbeddingIdentity:
        """Return the identity of the vectors."""
        return self._embedder.identity

    def __call__(self, query: str, budget: Budget) -> tuple[Vectors, float]:
        """Return the vector, not to be changed: float32, shape (dimensions,), and the seconds it took to make.

        Raises:
            UnavailableError: the model does not answer.
        """
        started = time.perf_counter()
        key = (self._embedder.identity.digest, query)
        known = self._known.get(key)
        if known is None:
            known = self._embedder.embed_query(query, budget)
            known.setflags(write=False)
            self._known.put(key, known)
        return known, time.perf_counter() - started
