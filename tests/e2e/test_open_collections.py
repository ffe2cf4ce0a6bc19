"""How many collections the engine of a server keeps open, as its setting says it."""

from pathlib import Path

import pytest

from groundwire.client import GroundwireClient
from tests.conformance.processes import engine_pids
from tests.e2e.server import HASHING, ServerProcess

pytest.importorskip("qdrant_edge")


def open_collections(engine: int, folder: Path) -> set[str]:
    """Return the folders of collections of which a process has files open."""
    links = (each.readlink() for each in Path(f"/proc/{engine}/fd").iterdir())
    files = [link.relative_to(folder) for link in links if link.is_relative_to(folder)]
    return {file.parts[0] for file in files if len(file.parts) > 1}


def test_the_engine_keeps_as_many_collections_open_as_the_setting_says(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with (
        ServerProcess(data, HASHING, GROUNDWIRE_VECTORS_OPEN_COLLECTIONS="2") as server,
        GroundwireClient(server.address) as client,
    ):
        for name in ("ebb", "flood", "neap", "spring"):
            client.create_collection(collection=name)
            client.ingest_document(collection=name, source_uri="a.md", text="The moon pulls at the sea.")
        (engine,) = engine_pids(server.process.pid)
        assert len(open_collections(engine, data / "vectors")) == 2
