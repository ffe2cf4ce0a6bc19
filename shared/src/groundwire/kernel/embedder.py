"""The Embedder and Tokenizer ports, and the identity that ties vectors to the model that made them."""

import hashlib
import json
from collections.abc import Sequence
from dataclasses import astuple, dataclass
from enum import StrEnum
from functools import cache
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

from groundwire.kernel.budget import Budget

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Vectors: TypeAlias = NDArray[np.float32]
else:
    # Processes that only read the contract, such as the answer service, do without numpy.
    Vectors = Any


@dataclass(frozen=True, slots=True)
class EmbeddingIdentity:
    """What makes vectors comparable: two collections may be searched with one vector only if these are equal.

    `probe_digest` is the SHA-256 (hex) of the coarsely rounded vectors of fixed probe texts, so that
    another model under the same name and dimension is recognised. Engines of the same weights (torch,
    OpenVINO) share one identity: their vectors agree to a cosine of 0.999 or better. `max_tokens`
    counts special tokens. A provider that ends in `+windows` reads texts beyond `max_tokens` as
    windows; without the suffix the rest of the text is not read.
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
        return _digest_of(self)

    @property
    def label(self) -> str:
        """Return what tells it from others for people, who may know several of one name: `NAME@PROBE`."""
        return f"{self.model_name}@{self.probe_digest[:12]}"


@cache
def _digest_of(identity: EmbeddingIdentity) -> str:
    """Compute a digest once: a process has one or two identities, and every search needs theirs several times."""
    return hashlib.sha256(json.dumps(astuple(identity)).encode()).hexdigest()


class TokenizerFormat(StrEnum):
    """How `TokenizerDefinition.content` is to be read."""

    HUGGINGFACE_JSON = "huggingface-json"
    HASHING_WORDS = "hashing-words"


@dataclass(frozen=True, slots=True)
class TokenizerDefinition:
    """All that is needed to build the same tokenizer in another process; can be pickled.

    `content` is the JSON of the tokenizers library for `HUGGINGFACE_JSON` and empty for `HASHING_WORDS`.
    `groundwire.embedders.model.ModelTokenizer` reads it without loading the model.
    """

    name: str
    format: TokenizerFormat
    content: str


class Tokenizer(Protocol):
    """Counts and locates the tokens of the embedding model; thread-safe, releases the interpreter lock."""

    @property
    def name(self) -> str:
        """Return the name to store beside token counts."""

    @property
    def definition(self) -> TokenizerDefinition:
        """Return what another process needs to build this tokenizer."""

    def count(self, text: str) -> int:
        """Return the number of tokens without special tokens, not truncated."""

    def offsets(self, text: str) -> list[tuple[int, int]]:
        """Return (start, end) of each token in code points of `text`, in order, without special tokens.

        The list is built under the interpreter lock: give it pages of a long text, not megabytes.
        """


class Embedder(Protocol):
    """Turns texts into vectors; safe to call from many threads at once, blocking.

    Promise (checked by tests/conformance/embedder.py): float32, rows in the order of the texts, rows
    L2-normalised when `identity.normalized`, deterministic to a cosine of 0.9999 whatever the batch.

    Every method that embeds ends when its budget does, also while the model hangs, and leaves nothing in a queue then.

    Raises, all of them:
        InvalidRequestError: a text is not valid Unicode (lone surrogates).
        UnavailableError: the model or endpoint does not answer.
        DeadlineError: the deadline of the budget passed.
        CallCancelledError: the budget was cancelled.
    """

    @property
    def identity(self) -> EmbeddingIdentity:
        """Return the identity of the vectors it makes."""

    @property
    def tokenizer(self) -> Tokenizer: ...

    @property
    def is_responsive(self) -> bool:
        """Return whether the model makes progress; cheap, never waits.

        False while everything it runs has been running for much longer than any batch takes; true again as soon as
        it finishes something.
        """

    def embed_documents(self, texts: Sequence[str], budget: Budget, *, urgent: bool = False) -> Vectors:
        """Return float32 of shape (len(texts), dimensions); the caller may change it.

        Text beyond `identity.max_tokens` is averaged in (provider `…+windows`) or does not influence the vector.
        `urgent` texts go ahead of waiting documents as queries do: somebody waits for an answer.
        """

    def embed_query(self, text: str, budget: Budget) -> Vectors:
        """Return float32 of shape (dimensions,); goes ahead of waiting documents."""

    def embed_queries(self, texts: Sequence[str], budget: Budget) -> Vectors:
        """Return float32 of shape (len(texts), dimensions), together and ahead of waiting documents.

        Row i is the vector that `embed_query(texts[i])` makes, to a cosine of 0.9999.
        """

    def close(self) -> None:
        """Release threads and memory; idempotent. Does not wait for a model that hangs."""
