"""The default model on openvino, batched, against the specification."""

import pytest

from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import EmbedderContract, opened


class TestOpenVinoEmbedder(EmbedderContract):
    reads_all = False

    @pytest.fixture
    def embedder(self) -> Embedder:
        return opened("sentence-transformers:all-MiniLM-L6-v2?engine=openvino&long=truncate")
