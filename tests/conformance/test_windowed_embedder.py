"""The default stack (windows for long texts, the engine chosen by measuring) against the specification."""

import pytest

from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import EmbedderContract, opened


class TestWindowedEmbedder(EmbedderContract):
    reads_all = True

    @pytest.fixture
    def embedder(self) -> Embedder:
        return opened("sentence-transformers:all-MiniLM-L6-v2")
