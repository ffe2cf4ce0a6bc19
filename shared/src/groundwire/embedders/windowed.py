"""An Embedder that reads long texts to their end: windows of the model's size, averaged."""

from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from groundwire.embedders.batching import BatchingEmbedder
from groundwire.embedders.engine import Frame, unit_rows
from groundwire.embedders.tokenization import ModelTokenizer, TokenIds
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import EmbeddingIdentity, Vectors

PROVIDER_SUFFIX = "+windows"


class WindowedEmbedder:
    """Cuts the tokens of a text into consecutive windows that the model can read.

    The vector of a text is the mean of its windows' vectors, weighted by their numbers of tokens, at
    length 1. Texts that fit into one window get exactly the vector of the inner embedder. The provider
    of the identity ends in `+windows`, so that the two kinds of vectors are never mixed.
    """

    def __init__(self, inner: BatchingEmbedder) -> None:
        self._inner = inner
        self._window = inner.model.window
        self._identity = replace(inner.identity, provider=inner.identity.provider + PROVIDER_SUFFIX)

    @property
    def engine_name(self) -> str:
        """Return what operators see: library and precision."""
        return self._inner.engine_name

    @property
    def identity(self) -> EmbeddingIdentity:
        """Return the identity of the inner embedder with the provider `…+windows`."""
        return self._identity

    @property
    def tokenizer(self) -> ModelTokenizer:
        """Return the tokenizer of the model."""
        return self._inner.tokenizer

    @property
    def is_responsive(self) -> bool:
        """Return whether the engine finishes what it is given; cheap, never waits."""
        return self._inner.is_responsive

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), rows L2-normalised."""
        return self._embed(texts, budget, urgent=urgent)

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        """Return float32 of shape (dimensions,); goes ahead of waiting documents."""
        vector: Vectors = self.embed_queries([text], budget)[0]
        return vector

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), together and ahead of waiting documents."""
        return self._embed(texts, budget, urgent=True, frame=self._inner.model.query_frame)

    def close(self) -> None:
        """Close the inner embedder; idempotent."""
        self._inner.close()

    def _embed(self, texts: Sequence[str], budget: Budget, *, urgent: bool, frame: Frame | None = None) -> Vectors:
        counts: list[list[int]] = []

        def windows() -> Iterator[list[TokenIds]]:
            for tokens in self._inner.tokenized(texts):
                cut = [self._cut(ids) for ids in tokens]
                counts.extend([len(window) for window in text] for text in cut)
                yield [window for text in cut for window in text]

        return _averaged(self._inner.embed_token_slices(windows(), budget, urgent=urgent, frame=frame), counts)

    def _cut(self, ids: TokenIds) -> list[TokenIds]:
        """Return consecutive windows; one, possibly empty, for a text that fits."""
        return [ids[start : start + self._window] for start in range(0, max(len(ids), 1), self._window)]


def _averaged(vectors: Vectors, counts: list[list[int]]) -> Vectors:
    """Return one row for each text from the rows of its windows."""
    if len(vectors) == len(counts):
        return vectors
    result = np.empty((len(counts), vectors.shape[1]), np.float32)
    start = 0
    for row, sizes in enumerate(counts):
        part = vectors[start : start + len(sizes)]
        start += len(sizes)
        result[row] = part[0] if len(sizes) == 1 else unit_rows((np.array(sizes, np.float32) @ part)[None])[0]
    return result
