"""The hashing embedder against the specification."""

import pytest

from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import EmbedderContract, opened


@pytest.mark.parametrize("embedder", [256, 768, 1024], indirect=True)
class TestHashingEmbedder(EmbedderContract):
    reads_all = True

    @pytest.fixture
    def embedder(self, request: pytest.FixtureRequest) -> Embedder:
        return opened(f"hashing:{request.param}")
