"""How embedded Chroma is set up: cosine or nothing, no model, no connection."""

import socket
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

import numpy as np
import pytest

from groundwire.kernel.errors import StoreMismatchError
from groundwire.vectorstores.chroma.engine import Engine
from groundwire.vectorstores.chroma.records import Facts, open_client
from groundwire.vectorstores.chroma.store import ChromaVectorStore
from tests.packages import requires

pytestmark = requires("chromadb")

VECTORS = np.eye(4, dtype=np.float32)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[Engine]:
    """The engine in this process, where it can be looked at."""
    engine = Engine()
    assert engine.open(str(tmp_path)) == ({}, False)
    yield engine
    engine.close_all()


@pytest.mark.requirement("S1-110")
@pytest.mark.requirement("S1-27")
def test_the_metric_is_cosine_and_is_what_chroma_says(engine: Engine, tmp_path: Path) -> None:
    assert engine.create("gw-books", 4) == Facts("cosine", 4)
    assert engine.open(str(tmp_path)) == ({"gw-books": Facts("cosine", 4)}, False)


@pytest.mark.requirement("S1-27")
@pytest.mark.requirement("T08")
def test_a_collection_with_another_metric_is_refused_at_the_start(tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    client = open_client(str(tmp_path / "data"))
    client.create_collection("gw-old", embedding_function=None)
    client.close()
    with pytest.raises(StoreMismatchError) as refused:
        ChromaVectorStore(tmp_path)
    assert refused.value.metadata == {"setting": "metric", "expected": "cosine", "got": "l2"}


@pytest.mark.requirement("T31")
def test_only_vectors_ids_and_filter_keys_are_stored(engine: Engine) -> None:
    engine.create("gw-books", 4)
    engine.upsert("gw-books", [7], VECTORS[:1], [{"chapter": "One", "tags": ["a"]}])
    held = engine._collections["gw-books"].get(include=["documents", "metadatas", "uris"])
    assert held["ids"] == ["7"]
    assert held["documents"] == [None]
    assert held["uris"] == [None]
    assert held["metadatas"] == [{"chapter": "One", "tags": ["a"]}]


@pytest.mark.requirement("R26")
@pytest.mark.requirement("T31")
def test_nothing_connects_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*arguments: object, **_: object) -> NoReturn:
        raise AssertionError(f"a connection was tried: {arguments}")

    monkeypatch.setattr(socket.socket, "connect", refuse)
    monkeypatch.setattr(socket.socket, "connect_ex", refuse)
    monkeypatch.setattr(socket, "getaddrinfo", refuse)
    engine = Engine()
    engine.open(str(tmp_path))
    engine.create("gw-books", 4)
    engine.upsert("gw-books", [1], VECTORS[:1], [{"chapter": "One"}])
    assert [number for number, _ in engine.search("gw-books", VECTORS[0], 1, None, None)] == [1]
    engine.delete("gw-books", [1])
    assert engine.count("gw-books") == 0
    engine.close_all()


@pytest.mark.parametrize("moment", ["copying", "dropped"])
def test_a_collection_that_was_being_written_anew_when_its_process_died_is_there_once(
    engine: Engine, tmp_path: Path, moment: str
) -> None:
    engine.create("gw-books", 4)
    engine.upsert("gw-books", [7, 8], VECTORS[:2], [{"chapter": "One"}, {}])
    engine.create("gw-books.new", 4)
    engine.upsert("gw-books.new", [7], VECTORS[:1], [{"chapter": "One"}])
    if moment == "dropped":
        engine.upsert("gw-books.new", [8], VECTORS[1:2], [{}])
        engine._client.delete_collection("gw-books")  # where `end_rewrite` may be cut off
    facts, _ = engine.open(str(tmp_path))
    assert facts == {"gw-books": Facts("cosine", 4)}
    assert engine.numbers("gw-books") == [7, 8]
    assert engine.search("gw-books", VECTORS[0], 1, None, None)[0][0] == 7
