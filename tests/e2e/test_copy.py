"""A catalog moves from a file to PostgreSQL and back with one command, online, and goes on where it is."""

import hashlib
import json
import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from groundwire.api.ingest.v1 import collection_pb2 as settings_pb
from groundwire.client import GroundwireClient
from tests.catalogs import POSTGRESQL, SQLITE
from tests.e2e.server import ServerProcess, groundwire
from tests.postgresql import server as postgresql

COLLECTION = "moved"
QUESTION = "What causes the tides of the sea?"
TIDES = "The moon causes the tides of the sea."
LONG_WORD = "".join(f"{number:x}" for number in range(400))
"""PostgreSQL has only its digest in the index, SQLite all of it."""


def fill(address: str) -> None:
    with GroundwireClient(address) as client:
        limits = settings_pb.CollectionLimits(max_query_chars=2000)
        client.create_collection(collection=COLLECTION, settings=settings_pb.CollectionSettings(limits=limits))
        collection = client.collection(COLLECTION)
        for name in ("gone", "kept"):
            text = f"{TIDES} This is the document that is {name}. {LONG_WORD}"
            collection.ingest_text(text, source=f"{name}.txt", tags=["sea"])
        # Its chunks had the highest numbers, which are never given again.
        collection.ingest_text("What is deleted last leaves no row.", source="last.txt")
        for source in ("gone.txt", "last.txt"):
            collection.delete_document(source, purge=True)
        session = collection.start_session()
        collection.ask(QUESTION, session=session)


@pytest.fixture(scope="module")
def filled(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """Return where copies are made from: the data folder of a server, and a database; both servers have stopped."""
    folder = tmp_path_factory.mktemp("filled")
    places = {SQLITE: str(folder / "data"), POSTGRESQL: postgresql().new_database()}
    for kind, place in places.items():
        running = served(place, folder / kind)
        fill(running.address)
        assert running.stop() == 0
    return places


def served(place: str, data: Path) -> ServerProcess:
    """Start a server on a data folder, or on a database with an empty data folder."""
    model = ("--embedder", "hashing:256")
    if place.startswith("postgresql:"):
        return ServerProcess(data, (*model, "--catalog", place))
    return ServerProcess(Path(place), (*model, "--catalog", "sqlite:"))


def copied(source: str, target: str) -> dict[str, int]:
    done = groundwire("copy", "--from", source, "--to", target, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    tables: dict[str, int] = json.loads(done.stdout)["tables"]
    return tables


@pytest.mark.parametrize("target", [SQLITE, POSTGRESQL])
@pytest.mark.parametrize("source", [SQLITE, POSTGRESQL])
def test_everything_is_there_and_more_can_be_added(
    filled: dict[str, str], tmp_path: Path, source: str, target: str
) -> None:
    place = str(tmp_path / "target") if target == SQLITE else postgresql().new_database()
    tables = copied(filled[source], place)
    assert (tables["collections"], tables["documents"], tables["sessions"]) == (1, 1, 1)
    running = served(place, tmp_path / "data")
    checked = groundwire("fsck", "--repair", address=running.address)
    assert checked.returncode == 0, checked.stdout
    with GroundwireClient(running.address) as client:
        collection = client.collection(COLLECTION)
        assert [(each.source, each.tags) for each in collection.documents()] == [("kept.txt", ("sea",))]
        answer = collection.ask(QUESTION)
        assert answer.text.startswith(TIDES)
        assert collection.verify(answer).verified
        # Keys that the database makes go on behind those that were copied, and behind those of rows that are gone.
        (kept,) = collection.search(QUESTION, k=5)
        collection.ingest_text("The sun warms the sea.", source="sun.txt")
        (session,) = client.list_sessions().sessions
        collection.ask(QUESTION, session=session.session_id)
        collection.ask(QUESTION, session=collection.start_session())
        assert {each.source for each in collection.documents()} == {"kept.txt", "sun.txt"}
        (sun,) = [hit for hit in collection.search("sun warms", k=5) if hit.source == "sun.txt"]
        assert sun.message.chunk.chunk_number > kept.message.chunk.chunk_number + 1
        assert [hit.source for hit in collection.search(LONG_WORD, mode="lexical")] == ["kept.txt"]
    assert "nothing is wrong" in groundwire("fsck", address=running.address).stdout
    running.stop()
    log = Path(place if target == SQLITE else tmp_path / "data").with_suffix(".log")
    assert "housekeeping failed" not in log.read_text(encoding="utf-8")


def test_a_backup_is_as_it_was_after_it_was_copied(filled: dict[str, str], tmp_path: Path) -> None:
    made = groundwire("backup", str(tmp_path / "backup"), "--data", filled[SQLITE])
    assert made.returncode == 0, made.stderr
    before = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in (tmp_path / "backup").iterdir()}
    copied(str(tmp_path / "backup"), postgresql().new_database())
    after = {path.name: hashlib.sha256(path.read_bytes()).digest() for path in (tmp_path / "backup").iterdir()}
    assert after == before != {}


def test_time_of_service_goes_on(filled: dict[str, str], tmp_path: Path) -> None:
    data = tmp_path / "data"
    copied(filled[SQLITE], str(data))
    # A catalog that was last open long ago has not aged since.
    with closing(sqlite3.connect(data / "catalog.db")) as connection, connection:
        connection.execute("UPDATE counters SET value = value - 864e5 WHERE name IN ('steady_ms', 'wall_ms')")
    copied(str(data), str(tmp_path / "copy"))
    figures = []
    for folder in (data, tmp_path / "copy"):
        with closing(sqlite3.connect(folder / "catalog.db")) as connection:
            figures += connection.execute("SELECT value FROM counters WHERE name = 'steady_ms'").fetchall()
    ((source,), (target,)) = figures
    assert 0 <= target - source < 60_000


def test_what_is_in_use_is_left_as_it_is(filled: dict[str, str], tmp_path: Path) -> None:
    target = postgresql().new_database()
    done = groundwire("copy", "--from", filled[SQLITE], "--to", target)
    assert (done.returncode, done.stdout.endswith(" rows: 1 document, 1 chunk\n")) == (0, True), done.stdout
    done = groundwire("copy", "--from", filled[SQLITE], "--to", target)
    assert (done.returncode, done.stderr.startswith("error FAILED_PRECONDITION: ")) == (1, True)
    assert "collections" in done.stderr
    (tmp_path / "theirs").touch()
    done = groundwire("copy", "--from", target, "--to", str(tmp_path))
    assert (done.returncode, "is not empty" in done.stderr) == (2, True)
    assert [path.name for path in tmp_path.iterdir()] == ["theirs"]


def test_a_folder_without_a_catalog_and_a_server_that_is_not_there_are_named(
    filled: dict[str, str], tmp_path: Path
) -> None:
    nowhere = "postgresql://nobody@127.0.0.1:1/none"
    done = groundwire("copy", "--from", str(tmp_path), "--to", nowhere)
    assert (done.returncode, "there is no catalog.db" in done.stderr) == (1, True)
    for source, target in ((filled[SQLITE], nowhere), (nowhere, str(tmp_path / "copy"))):
        done = groundwire("copy", "--from", source, "--to", target)
        assert (done.returncode, done.stderr.startswith("error STORE_UNAVAILABLE: ")) == (1, True)
    assert not (tmp_path / "copy").exists()


def test_only_what_is_pending_is_migrated(tmp_path: Path) -> None:
    empty = postgresql().new_database()

    def migrated(*arguments: str) -> tuple[int, dict[str, list[str]]]:
        done = groundwire("migrate", *arguments, "--json")
        assert done.stderr == ""
        return done.returncode, json.loads(done.stdout)

    code, told = migrated("--catalog", empty, "--check")
    assert (code, told["migrated"]) == (1, [])
    assert told["pending"][0] == "0001_first_schema"
    assert migrated("--catalog", empty) == (0, {"migrated": told["pending"], "pending": []})
    assert migrated("--catalog", empty, "--check") == (0, {"migrated": [], "pending": []})
    assert groundwire("migrate", "--catalog", empty).stdout == "nothing is pending\n"
    postgresql().execute("UPDATE alembic_version SET version_num = '9999_of_the_future'", empty.rpartition("/")[2])
    for arguments in (("migrate", "--check"), ("migrate",), ("backup", str(tmp_path / "backup"))):
        done = groundwire(*arguments, "--catalog", empty)
        assert (done.returncode, done.stderr.startswith("error STORE_MISMATCH: ")) == (1, True), done.stderr
        assert "9999_of_the_future" in done.stderr
