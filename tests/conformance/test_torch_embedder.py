"""The default model on torch, batched, against the specification."""

import pytest

from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import EmbedderContract, opened


@pytest.mark.slow  # the contract is that of the batching around it, which the other engines show
class TestTorchEmbedder(EmbedderContract):
    reads_all = False

    @pytest.fixture
    def embedder(self) -> Embedder:
        return opened("sentence-transformers:all-MiniLM-L6-v2?engine=torch&long=truncate")
