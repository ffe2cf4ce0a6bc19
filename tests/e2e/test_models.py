"""Servers with the default model, and with models of the operator's choice."""

from collections.abc import Sequence
from pathlib import Path

import numpy as np
import pytest

from groundwire.api.answer.v1.answer_pb2 import Answer
from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.common.v1.retrieval_options_pb2 import RetrievalOptions
from groundwire.client import GroundwireClient
from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import PreconditionError
from tests.conformance.embedder import opened
from tests.e2e.server import ServerProcess, groundwire
from tests.embedding_endpoint import embedding_endpoint
from tests.unit.embedders.tiny_model import save_in_cache

TEXTS = ["moss and fern", "iron, rust, salt", "a clock ticks 12 times", "x", "quick brown foxes", "zzz 999"]


@pytest.mark.requirement("S1-88")
@pytest.mark.requirement("S1-90")
def test_the_default_model_is_minilm_with_384_dimensions(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", ())
    try:
        with GroundwireClient(server.address) as client:
            client.create_collection(collection="docs")
            client.ingest_document(collection="docs", source_uri="a.txt", text="The moon causes the tides of the sea.")
            [stats] = client.list_stats(collection="docs").stats
            [chunk] = client.list_chunks(collection="docs", include_embedding=True).chunks
    finally:
        assert server.stop() == 0
    embedding = stats.embedding
    assert embedding.model_name == chunk.embedding_model == "sentence-transformers/all-MiniLM-L6-v2"
    assert (embedding.dimensions, embedding.max_sequence_tokens) == (384, 256)
    assert len(chunk.embedding) == 384


@pytest.mark.requirement("S0-03")
@pytest.mark.requirement("S4-26")
def test_vectors_come_from_an_endpoint_or_the_reason_why_not(tmp_path: Path) -> None:
    """Without a key that the endpoint takes, calls and the next start say so; what needs no vector goes on."""
    lexical = RetrievalOptions(mode=search_mode_pb2.SEARCH_MODE_LEXICAL)
    with embedding_endpoint(dimensions=768, key="s3cret") as endpoint:
        arguments = ("--embedder", f"{endpoint.url}#nomic-embed-text", "--vectors", "memory:")
        server = ServerProcess(tmp_path / "data", arguments, GROUNDWIRE_EMBEDDER_API_KEY="s3cret")
        try:
            with GroundwireClient(server.address) as client:
                client.create_collection(collection="docs")
                client.ingest_document(collection="docs", source_uri="a.txt", text="The moon causes the tides.")
                client.ingest_document(collection="docs", source_uri="b.txt", text="Bread is baked for an hour.")
                [stats] = client.list_stats(collection="docs").stats
                [chunk, _] = client.list_chunks(collection="docs", include_embedding=True).chunks
                hits = client.retrieve(collection="docs", query="the tides of the moon").results
                endpoint.key = "another"
                with pytest.raises(PreconditionError, match="refuses the key"):
                    client.ingest_document(collection="docs", source_uri="c.txt", text="Another text.")
                vector = RetrievalOptions(mode=search_mode_pb2.SEARCH_MODE_VECTOR)
                with pytest.raises(PreconditionError, match="refuses the key"):
                    client.retrieve(collection="docs", query="who bakes it", options=vector)
                found = client.retrieve(collection="docs", query="bread", options=lexical).results
        finally:
            assert server.stop() == 0
        with pytest.raises(AssertionError, match="refuses the key") as refused:
            ServerProcess(tmp_path / "data", arguments)
    assert (stats.embedding.dimensions, stats.embedding.model_name) == (768, "nomic-embed-text")
    assert len(chunk.embedding) == 768
    assert [hit.chunk.source_uri for hit in hits][:1] == ["a.txt"]
    assert [hit.chunk.source_uri for hit in found] == ["b.txt"]
    said = str(refused.value)
    assert "error FAILED_PRECONDITION" in said
    assert "Traceback" not in said
    assert "s3cret" not in (tmp_path / "data.log").read_text(encoding="utf-8")


_TIDES = "The moon causes the tides of the sea. Every 12 hours and 25 minutes the water rises again."
_BREAD = "Bread is baked for an hour at 220 degrees. Knead the dough for ten minutes first."
_ASKED = (
    "What causes the tides?",
    "How long is bread baked?",
    "How often does the water rise?",
    "Who painted the Mona Lisa?",
    "What is the price of a train ticket to Vienna?",
    "How do I install a printer driver?",
)


@pytest.mark.requirement("C22")
def test_a_model_that_gives_unrelated_texts_a_high_cosine_answers_and_refuses_alike(tmp_path: Path) -> None:
    """Cosines of 0.7 and more, as the models of the E5 family give them, say no more than those of 0.05 and more."""
    default = opened("sentence-transformers:all-MiniLM-L6-v2")

    def in_a_cone(texts: Sequence[str]) -> Vectors:
        rows = default.embed_documents(texts, Budget())
        return np.hstack([rows * np.sqrt(0.3), np.full((len(rows), 1), np.sqrt(0.7))]).astype(np.float32)

    with embedding_endpoint(model=in_a_cone) as endpoint:
        usual = _answers(tmp_path / "usual")
        narrow = _answers(tmp_path / "narrow", "--embedder", f"{endpoint.url}#cone")
    assert [answer.grounded for answer in usual] == [True] * 3 + [False] * 3
    assert [answer.content for answer in narrow] == [answer.content for answer in usual]
    assert [answer.confidence for answer in narrow] == pytest.approx([each.confidence for each in usual], abs=0.05)


def _answers(data: Path, *arguments: str) -> list[Answer]:
    server = ServerProcess(data, (*arguments, "--vectors", "memory:"))
    try:
        with GroundwireClient(server.address) as client:
            client.create_collection(collection="docs")
            client.ingest_document(collection="docs", source_uri="tides.txt", text=_TIDES)
            client.ingest_document(collection="docs", source_uri="bread.txt", text=_BREAD)
            return [client.ask(collection="docs", question=question).answer for question in _ASKED]
    finally:
        assert server.stop() == 0


@pytest.mark.requirement("S1-89")
@pytest.mark.requirement("S1-93")
def test_results_follow_the_model_that_was_chosen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    name, dimensions, hub = "all-mpnet-base-v2", 768, tmp_path / "hub"
    save_in_cache(hub, name, dimensions, seed=dimensions)
    url = f"sentence-transformers:{name}?engine=torch"
    monkeypatch.setenv("HF_HUB_CACHE", str(hub))
    model = open_embedder(url, cache_dir=tmp_path / "cache")
    server = ServerProcess(tmp_path / "data", ("--embedder", url))
    try:
        with GroundwireClient(server.address) as client:
            client.create_collection(collection="docs")
            for number, text in enumerate(TEXTS):
                client.ingest_document(collection="docs", source_uri=f"{number}.txt", text=text)
            options = RetrievalOptions(top_k=20, mode=search_mode_pb2.SEARCH_MODE_VECTOR)
            found = client.retrieve(collection="docs", query="a brown clock", options=options).results
            chunks = client.list_chunks(collection="docs", include_embedding=True).chunks
            [stats] = client.list_stats(collection="docs").stats
    finally:
        assert server.stop() == 0
    assert (stats.embedding.model_name, stats.embedding.dimensions) == (f"sentence-transformers/{name}", dimensions)
    # The vectors of the server are those that the model makes of the stored texts, all of them in one call.
    query = model.embed_query("a brown clock", Budget())
    similarities = {chunk.chunk_id: float(np.array(chunk.embedding) @ query) for chunk in chunks}
    assert len(similarities) == len(TEXTS)
    assert [hit.chunk.chunk_id for hit in found] == sorted(similarities, key=lambda chunk_id: -similarities[chunk_id])
    scores = [hit.relevance_score for hit in found]
    assert scores == pytest.approx(sorted(similarities.values(), reverse=True), abs=1e-4)
    model.close()


@pytest.mark.requirement("S1-89")
def test_a_model_that_is_not_there_is_refused_with_those_that_are_known_and_their_sizes(tmp_path: Path) -> None:
    refused = groundwire("serve", "--data", str(tmp_path / "data"), "--embedder", "sentence-transformers:nonesuch")
    assert refused.returncode != 0
    message = " ".join((refused.stdout + refused.stderr).split())
    for known in (
        "sentence-transformers/all-MiniLM-L6-v2 (384 dimensions, 256 tokens)",
        "sentence-transformers/all-MiniLM-L12-v2 (384 dimensions, 128 tokens)",
        "sentence-transformers/paraphrase-MiniLM-L3-v2 (384 dimensions, 128 tokens)",
        "sentence-transformers/sentence-t5-base (768 dimensions, 256 tokens)",
        "sentence-transformers/all-mpnet-base-v2 (768 dimensions, 384 tokens)",
    ):
        assert known in message
