"""SIGKILL in the middle of an ingest: nothing lost that was acknowledged, nothing doubled, nothing left over."""

import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groundwire.catalog.database import Database
from groundwire.catalog.lexical_search import live_numbers
from groundwire.client import GroundwireClient
from groundwire.kernel.budget import Budget
from groundwire.vectorstores.factory import open_vector_store
from tests.e2e.server import ServerProcess, groundwire

FILES = 60
KILLS = 3
WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read


@pytest.fixture
def corpus(tmp_path: Path) -> Path:
    chance = random.Random(7)
    folder = tmp_path / "corpus"
    folder.mkdir()
    for number in range(FILES):
        sections = [
            f"## Part {part}\n\n" + " ".join(chance.choices(WORDS, k=chance.randint(50, 800))) + ".\n"
            for part in range(chance.randint(1, 8))
        ]
        (folder / f"file{number:03d}.md").write_text(f"# File {number}\n\n" + "\n".join(sections), encoding="utf-8")
    return folder


def _chunk_ids(address: str) -> dict[str, int]:
    with GroundwireClient(address) as client:
        documents = client.list_documents(collection="killed", page_size=1000).documents
        return {document.source_uri: document.chunk_count for document in documents}


@pytest.mark.faults
def test_a_killed_ingest_ends_like_an_uninterrupted_one(corpus: Path, tmp_path: Path) -> None:
    whole = ServerProcess(tmp_path / "whole")
    assert groundwire("ingest", str(corpus), "-c", "killed", address=whole.address).returncode == 0
    expected = _chunk_ids(whole.address)
    assert whole.stop() == 0
    assert len(expected) == FILES

    chance = random.Random(11)
    for _ in range(KILLS):
        server = ServerProcess(tmp_path / "killed")
        client = subprocess.Popen(
            [
                sys.executable,
                "-m",
                "groundwire.cli",
                "ingest",
                str(corpus),
                "-c",
                "killed",
                "--address",
                server.address,
            ],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        time.sleep(chance.uniform(0.6, 1.4))
        server.kill()
        client.wait(timeout=60)

    server = ServerProcess(tmp_path / "killed")
    assert groundwire("ingest", str(corpus), "-c", "killed", address=server.address).returncode == 0
    assert _chunk_ids(server.address) == expected
    assert server.stop() == 0
    _assert_stores_agree(tmp_path / "killed", sum(expected.values()))


def _assert_stores_agree(data: Path, chunks: int) -> None:
    """Every live chunk has its point and its full-text row, and there is nothing else."""
    catalog = Database.open(f"sqlite:{data / 'catalog.db'}")
    vectors = open_vector_store("qdrant-edge:", data_dir=data)
    try:
        with catalog.read() as connection:
            numbers = set(connection.exec_driver_sql("SELECT chunk_number FROM chunks").scalars())
            key = connection.exec_driver_sql("SELECT collection_key FROM collections").scalar_one()
            full_text = set(live_numbers(connection, key).tolist())
            pending = connection.exec_driver_sql("SELECT count(*) FROM generations WHERE state = 'PENDING'").scalar()
        (engine_name,) = vectors.collections(Budget())
        assert len(numbers) == chunks
        assert set(vectors.numbers(engine_name, Budget())) == numbers
        assert full_text == numbers
        assert pending == 0
    finally:
        vectors.close()
        catalog.close()
