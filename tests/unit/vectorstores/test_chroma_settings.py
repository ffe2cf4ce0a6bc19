"""How embedded Chroma is set up: cosine or nothing, no model, no connection."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest

from groundwire.kernel.errors import StoreMismatchError
from groundwire.kernel.filters import Payload
from groundwire.kernel.vector_store import PointBatch
from groundwire.vectorstores.chroma.client import open_client
from groundwire.vectorstores.chroma.store import ChromaVectorStore

pytest.importorskip("chromadb")


@pytest.fixture
def client(tmp_path: Path) -> Iterator[Any]:
    client = open_client(tmp_path)
    yield client
    client.close()


@pytest.mark.requirement("S1-27")
def test_the_metric_is_cosine_and_is_what_chroma_says(tmp_path: Path) -> None:
    store = ChromaVectorStore(tmp_path)
    store.create_collection("gw-books", 4)
    assert store._collections["gw-books"].configuration_json["hnsw"]["space"] == "cosine"
    store.close()


@pytest.mark.requirement("S1-27")
def test_a_collection_with_another_metric_is_refused_at_the_start(tmp_path: Path, client: Any) -> None:
    client.create_collection("gw-old", embedding_function=None)
    client.close()
    with pytest.raises(StoreMismatchError) as refused:
        ChromaVectorStore(tmp_path)
    assert refused.value.metadata == {"setting": "metric", "expected": "cosine", "got": "l2"}


def test_only_vectors_ids_and_filter_keys_are_stored(tmp_path: Path) -> None:
    store = ChromaVectorStore(tmp_path)
    store.create_collection("gw-books", 4)
    payload: Payload = {"chapter": "One", "tags": ("a",), "size": 5}
    store.upsert("gw-books", PointBatch([7], np.eye(4, dtype=np.float32)[:1], [payload]))
    held = store._collections["gw-books"].get(include=["documents", "metadatas", "uris"])
    store.close()
    assert held["ids"] == ["7"]
    assert held["documents"] == [None]
    assert held["uris"] == [None]
    metadata = held["metadatas"][0]
    assert sorted(metadata) == ["chapter", "tags", "terms"]
    assert (metadata["chapter"], metadata["tags"]) == ("One", ["a"])


@pytest.mark.requirement("R26")
def test_nothing_connects_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **_: object) -> NoReturn:
        raise AssertionError(f"a connection was tried: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    store = ChromaVectorStore(tmp_path)
    store.create_collection("gw-books", 4)
    store.upsert("gw-books", PointBatch([1], np.eye(4, dtype=np.float32)[:1], [{"chapter": "One"}]))
    assert [hit.number for hit in store.search("gw-books", np.ones(4, dtype=np.float32), 1)] == [1]
    store.delete("gw-books", [1])
    store.close()
