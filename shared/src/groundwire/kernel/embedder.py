"""The Embedder and Tokenizer ports, and the identity that ties vectors to the model that made them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from typing import Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Vectors: TypeAlias = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """What makes vectors comparable: two collections may be searched with one vector only if these are equal.

    `probe_digest` is the SHA-256 (hex) of the rounded vectors of fixed probe texts, so that another
    model under the same name and dimension is recognised. Engines of the same weights (torch,
    OpenVINO) share one identity: their vectors agree to a cosine of 0.999 or better.
    """

    provider: str
    model_name: str
    revision: str
    dimensions: int
    max_tokens: int
    normalized: bool
    probe_digest: str

    @property
    def digest(self) -> str:
        """Return the SHA-256 (hex) of all fields: the key of cached vectors and a part of engine names."""
        return hashlib.sha256(json.dumps(astuple(self)).encode()).hexdigest()


class Tokenizer(Protocol):
    """Counts and locates the tokens of the embedding model; thread-safe, releases the interpreter lock."""

    name: str

    def count(self, text: str) -> int:
        """Return the number of tokens without special tokens, not truncated."""
        ...


class Embedder(Protocol):
    """Turns texts into vectors; safe to call from many threads at once, blocking.

    Promise (checked by tests/conformance/embedder.py): float32, rows in the order of the texts, rows
    L2-normalised when `identity.normalized`, deterministic to a cosine of 0.9999 whatever the batch.
    """

    @property
    def identity(self) -> EmbeddingIdentity:
        """Return the identity of the vectors it makes."""
        ...

    @property
    def tokenizer(self) -> Tokenizer:
        """Return the tokenizer of the model."""
        ...

    def embed_documents(self, texts: Sequence[str]) -> Vectors:
        """Return float32 of shape (len(texts), dimensions); the caller may change it.

        Text beyond `identity.max_tokens` does not influence the vector.

        Raises:
            UnavailableError: the model or endpoint does not answer.
        """
        ...

    def embed_query(self, text: str) -> Vectors:
        """Return float32 of shape (dimensions,); goes ahead of waiting documents.

        Raises:
            UnavailableError: the model or endpoint does not answer.
        """
        ...

    def close(self) -> None:
        """Release threads and memory; idempotent."""
        ...
