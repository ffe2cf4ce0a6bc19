"""Run a model of the sentence-transformers library with torch."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from groundwire.kernel.embedder import Vectors


class TorchEngine:
    """Runs the module in fp32 on the CPU; one inference at a time, which uses all cores."""

    name = "torch f32"
    parallelism = 1

    def __init__(self, module: Any) -> None:
        self._module = module

    def infer(self, input_ids: NDArray[np.int64], attention_mask: NDArray[np.int64]) -> Vectors:
        """Return float32 of shape (n, dimensions)."""
        import torch  # noqa: PLC0415 - heavy, only where this engine runs

        features = {"input_ids": torch.from_numpy(input_ids), "attention_mask": torch.from_numpy(attention_mask)}
        with torch.inference_mode():
            vectors: Vectors = self._module(features)["sentence_embedding"].float().numpy()
        return vectors

    def close(self) -> None:
        """Let go of the weights."""
        self._module = None
