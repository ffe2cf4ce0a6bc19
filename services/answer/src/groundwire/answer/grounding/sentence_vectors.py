"""Vectors of sentences, cached for further questions of the same tenant because they are needed again and again."""

import hashlib
from collections.abc import Sequence

from groundwire.answer.grounding.similarity_scale import (
    ANSWERS,
    PARAPHRASES,
    QUESTIONS,
    Scales,
    measure,
)
from groundwire.answer.ports import Embeddings, Vector
from groundwire.kernel.bounded_cache import BoundedCache
from groundwire.kernel.identity import current_identity

REMEMBERED_VECTORS = 20_000
"""Vectors that are remembered, about 30 MB at 384 dimensions."""


class SentenceVectors:
    """Embeds sentences; used from one event loop."""

    def __init__(self, embeddings: Embeddings) -> None:
        self._embeddings = embeddings
        self._remembered: BoundedCache[tuple[str, bytes], Vector] = BoundedCache(REMEMBERED_VECTORS)
        self._scales: Scales | None = None

    async def of(self, texts: Sequence[str], queries: Sequence[str] = ()) -> tuple[list[Vector], list[Vector]]:
        """Return the vectors of the texts and those of the queries, each of length 1, or of zeros alone.

        Raises:
            GroundwireError: as `Embeddings.embed` does.
        """
        tenant = current_identity().tenant
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

    async def scales(self) -> Scales:
        """Return the scales of the model, which are measured once, at the first need.

        Raises:
            GroundwireError: as `Embeddings.embed` does.
        """
        if self._scales is None:
            vectors = await self._embeddings.embed(QUESTIONS, [*ANSWERS, *PARAPHRASES])
            size = len(QUESTIONS)
            self._scales = measure(vectors[:size], vectors[size : 2 * size], vectors[2 * size :])
        return self._scales
