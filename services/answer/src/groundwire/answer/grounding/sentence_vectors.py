"""Vectors of sentences, cached for further questions of the same tenant because they are needed again and again."""

import hashlib
from collections.abc import Sequence
from operator import mul

from groundwire.answer.ports import Embeddings, Vector
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.rpc import request_context

REMEMBERED_VECTORS = 20_000
"""Vectors that are remembered, about 30 MB at 384 dimensions."""


class SentenceVectors:
    """Embeds sentences; used from one event loop."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._remembered: BoundedCache[tuple[str, bytes], Vector] = BoundedCache(REMEMBERED_VECTORS)

    async def of(self, texts: Sequence[str], queries: Sequence[str] = ()) -> tuple[list[Vector], list[Vector]]:
        """Return the vectors of the texts and those of the queries, each of length 1, or of zeros alone.

        Raises:
            GroundwireError: as `Embeddings.embed` does.
        """
        tenant = request_context.current().tenant
        # By tenant, so that response times do not reveal what others store; by digest, so that no text is kept.
        keys = {text: (tenant, hashlib.sha256(text.encode()).digest()) for text in texts}
        known = dict(zip(keys, self._remembered.get_all(keys.values()), strict=True))
        missing = [text for text, vector in known.items() if vector is None]
        asked: list[Vector] = []
        made: dict[str, Vector] = {}
        if missing or queries:
            vectors = await self._embeddings.embed(queries, missing)
            asked, made = vectors[: len(queries)], dict(zip(missing, vectors[len(queries) :], strict=True))
            for text, vector in made.items():
                self._remembered.put(keys[text], vector)
        return [known[text] or made[text] for text in texts], asked


def cosine(one: Vector, other: Vector) -> float:
    """Return the cosine of two vectors of length 1, negative ones as 0."""
    product: float = sum(map(mul, one, other))
    return min(1.0, max(0.0, product))
