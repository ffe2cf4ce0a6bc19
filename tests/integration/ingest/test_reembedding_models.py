"""From one real model to another of twice the dimension: random weights, real loading code."""

from collections.abc import Callable
from pathlib import Path
from typing import cast

import numpy as np
import pytest

from groundwire.api.retrieve.v1 import library_service_pb2 as library_pb
from groundwire.embedders.factory import open_embedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.embedder import Embedder
from groundwire.kernel.errors import EmbeddingMismatchError
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.vectorstores.memory import MemoryVectorStore
from tests.integration.ingest.harness import CountingEmbedder, Harness
from tests.integration.ingest.test_ingest_document import long_text
from tests.unit.embedders.tiny_model import save_tiny_model


def open_tiny(folder: Path, dimensions: int, *, seed: int = 0) -> Embedder:
    saved = save_tiny_model(folder / f"saved-{dimensions}-{seed}", dimensions, seed=seed)
    model = saved.rename(saved.with_name(f"tiny-{dimensions}-{seed}"))
    return open_embedder(f"sentence-transformers:{model}?engine=torch&long=truncate", cache_dir=folder / "cache")


def _models(harness: Harness, collection: str) -> set[str]:
    """Return the models that a collection's documents and chunks name."""
    documents = harness.library.list_documents(library_pb.ListDocumentsRequest(collection=collection)).documents
    chunks = harness.library.list_chunks(library_pb.ListChunksRequest(collection=collection)).chunks
    assert documents
    assert chunks
    return {document.embedding_model for document in documents} | {chunk.embedding_model for chunk in chunks}


@pytest.mark.requirement("S1-92")
@pytest.mark.requirement("C01")
@pytest.mark.parametrize(("dimensions", "seed"), [(768, 0), (384, 1)], ids=["384 to 768", "other weights of 384"])
def test_a_collection_moves_from_one_model_to_another(
    process: Callable[..., Harness], tmp_path: Path, dimensions: int, seed: int
) -> None:
    store = MemoryVectorStore()
    old, new = open_tiny(tmp_path, 384), open_tiny(tmp_path, dimensions, seed=seed)
    first = process(store, cast("CountingEmbedder", old))
    first.create("tides")
    for number in range(3):
        first.ingest("tides", f"{number}.md", f"# Tides {number}\n\n" + long_text(number, 10))
    first.create("others")
    first.ingest("others", "other.md", "# Other\n\nMoon.")
    harness = process(store, cast("CountingEmbedder", new))
    with pytest.raises(EmbeddingMismatchError):
        harness.ingest("tides", "new.md", "# New\n\nMoon.")
    count = len(harness.live_numbers("tides"))
    built = harness.service.long_work.builder.rebuild(
        DEFAULT_TENANT, "tides", Budget(60), lambda _: None, reembeds=True
    )
    assert (built.vectors, built.embedded, built.identity) == (count, count, new.identity)
    collection = harness.collection("tides")
    held = store.fetch(collection.engine_name, harness.points("tides"), Budget())
    with harness.library_servicer.catalog.chunks.passages(DEFAULT_TENANT, "tides") as reader:
        chunks = reader.live(held.numbers)
    assert old.identity.model_name != new.identity.model_name
    assert _models(harness, "tides") == {new.identity.model_name}
    assert _models(harness, "others") == {old.identity.model_name}
    made = new.embed_documents([stored.chunk.embedding_text for stored in chunks], Budget())
    expected = made / np.linalg.norm(made, axis=1, keepdims=True)
    assert held.vectors.shape == (count, dimensions)
    assert np.allclose(held.vectors, expected, atol=1e-4)
    assert harness.ingest("tides", "new.md", "# New\n\nMoon.").document.embedding_model == new.identity.model_name
    old.close()
    new.close()
