"""An installation moves from a file to PostgreSQL with one command, and goes on there."""

import json
from pathlib import Path

import pytest

from groundwire.client import GroundwireClient
from tests.e2e.server import ServerProcess, groundwire
from tests.postgresql import server as postgresql

COLLECTION = "moved"
QUESTION = "What causes the tides of the sea?"
TIDES = "The moon causes the tides of the sea."


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return the data folder of a stopped server with documents, a deleted one, and a session."""
    data = tmp_path_factory.mktemp("filled") / "data"
    running = ServerProcess(data)
    with GroundwireClient(running.address) as client:
        collection = client.collection(COLLECTION)
        collection.create()
        for name in ("gone", "kept"):
            collection.ingest_text(f"{TIDES} This is the document that is {name}.", source=f"{name}.txt", tags=["sea"])
        collection.delete_document("gone.txt", purge=True)
        session = collection.start_session()
        collection.ask(QUESTION, session=session)
    assert running.stop() == 0
    return data


def moved(source: Path, target: str) -> dict[str, int]:
    done = groundwire("copy", "--from", str(source), "--to", target, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    tables: dict[str, int] = json.loads(done.stdout)["tables"]
    return tables


def test_everything_is_there_and_more_can_be_added(filled: Path, tmp_path: Path) -> None:
    target = postgresql().new_database()
    tables = moved(filled, target)
    assert (tables["collections"], tables["sessions"]) == (1, 1)
    running = ServerProcess(tmp_path / "data", ("--embedder", "hashing:256", "--catalog", target))
    checked = groundwire("fsck", "--repair", address=running.address)
    assert checked.returncode == 0, checked.stdout
    with GroundwireClient(running.address) as client:
        collection = client.collection(COLLECTION)
        assert [(each.source, each.tags) for each in collection.documents()] == [("kept.txt", ("sea",))]
        answer = collection.ask(QUESTION)
        assert answer.text.startswith(TIDES)
        assert collection.verify(answer).verified
        # Keys that the database makes go on behind those that were copied.
        collection.ingest_text("The sun warms the sea.", source="sun.txt")
        collection.ask(QUESTION, session=collection.start_session())
        assert {each.source for each in collection.documents()} == {"kept.txt", "sun.txt"}
    assert "nothing is wrong" in groundwire("fsck", address=running.address).stdout
    running.stop()
    assert "housekeeping failed" not in (tmp_path / "data.log").read_text(encoding="utf-8")


def test_a_database_that_is_in_use_is_left_as_it_is(filled: Path) -> None:
    target = postgresql().new_database()
    moved(filled, target)
    done = groundwire("copy", "--from", str(filled), "--to", target)
    assert (done.returncode, done.stderr.startswith("error FAILED_PRECONDITION: ")) == (1, True)
    assert "collections" in done.stderr


def test_a_folder_without_a_catalog_and_a_server_that_is_not_there_are_named(filled: Path, tmp_path: Path) -> None:
    done = groundwire("copy", "--from", str(tmp_path), "--to", "postgresql://nobody@127.0.0.1:1/none")
    assert (done.returncode, "there is no catalog.db" in done.stderr) == (1, True)
    done = groundwire("copy", "--from", str(filled), "--to", "postgresql://nobody@127.0.0.1:1/none")
    assert (done.returncode, done.stderr.startswith("error STORE_UNAVAILABLE: ")) == (1, True)
