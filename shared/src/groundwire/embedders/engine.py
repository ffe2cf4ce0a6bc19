"""What the batching embedder asks of the engine that runs a model."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from groundwire.embedders.tokenization import TokenIds
from groundwire.kernel.embedder import EmbeddingIdentity, TokenizerDefinition, Vectors


@dataclass(frozen=True, slots=True)
class Frame:
    """Token ids that the model expects before and after those of a text: special tokens and a prompt."""

    prefix: tuple[int, ...]
    suffix: tuple[int, ...]

    def __len__(self) -> int:
        return len(self.prefix) + len(self.suffix)

    def around(self, tokens: TokenIds) -> TokenIds:
        """Return the whole sequence for the model."""
        return np.concatenate([np.array(self.prefix, np.int64), tokens, np.array(self.suffix, np.int64)])


@dataclass(frozen=True, slots=True)
class LanguageModel:
    """All that is known of a model without its weights."""

    identity: EmbeddingIdentity
    tokenizer: TokenizerDefinition
    document_frame: Frame
    query_frame: Frame
    pad_id: int

    @property
    def window(self) -> int:
        """Return the number of tokens of a text that one sequence holds."""
        return self.identity.max_tokens - max(len(self.document_frame), len(self.query_frame))


class Engine(Protocol):
    """Runs a model; `infer` may be called from `parallelism` threads at once."""

    name: str
    """What operators see: library and precision."""

    parallelism: int
    """How many inferences run at once without slowing each other down."""

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        """Return float32 of shape (n, dimensions) for sequences of shape (n, length), padded on the right."""
        ...

    def close(self) -> None:
        """Release threads and memory; idempotent."""
        ...


def pad(sequences: list[TokenIds], pad_id: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return ids and attention mask of shape (n, longest), the shorter sequences padded on the right."""
    longest = max(len(sequence) for sequence in sequences)
    input_ids = np.full((len(sequences), longest), pad_id, np.int64)
    attention_mask = np.zeros_like(input_ids)
    for row, sequence in enumerate(sequences):
        input_ids[row, : len(sequence)] = sequence
        attention_mask[row, : len(sequence)] = 1
    return input_ids, attention_mask


def unit_rows(vectors: Vectors) -> Vectors:
    """Return the rows at length 1; float32. A row without direction stays 0."""
    norms = np.linalg.norm(vectors, axis=1, keepdims=True)
    result: Vectors = (vectors / np.maximum(norms, np.float32(1e-12))).astype(np.float32, copy=False)
    return result


def embed_directly(engine: Engine, model: LanguageModel, sequences: list[TokenIds]) -> Vectors:
    """Return the unit vectors of a few token sequences as one padded batch, without queue and threads."""
    cut = [model.document_frame.around(tokens[: model.window]) for tokens in sequences]
    return unit_rows(engine.infer(*pad(cut, model.pad_id)))
