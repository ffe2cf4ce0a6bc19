"""The default model on torch, batched, against the specification."""

import pytest

from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import EmbedderContract, opened


class TestTorchEmbedder(EmbedderContract):
    reads_all = False

    @pytest.fixture
    def embedder(self) -> Embedder:
        return opened("sentence-transformers:all-MiniLM-L6-v2?engine=torch&long=truncate")
