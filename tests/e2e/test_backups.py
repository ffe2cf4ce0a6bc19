"""A backup is taken while a server writes, and restored into a data folder or a database, which is checked."""

import json
import os
import shutil
import signal
import socket
import sqlite3
import threading
import time
import uuid
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from groundwire.catalog.database import Database
from groundwire.catalog.file_copy import copy_file
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import PreconditionError
from tests.catalogs import POSTGRESQL, SQLITE
from tests.credentials import bearer
from tests.e2e.commands import Command
from tests.e2e.server import HASHING, ServerProcess, groundwire
from tests.postgresql import server as postgresql

COLLECTION = "letters"
QUESTION = "What does letter 3 say about the harbour?"


def letter(number: int) -> bytes:
    return f"Letter {number} says that the harbour of town {number} freezes in week {number}.\n".encode()


@contextmanager
def written_to(client: GroundwireClient, first: int) -> Iterator[list[int]]:
    """Ingest one letter after the other, and give the numbers of those that are acknowledged."""
    acknowledged: list[int] = []
    stop = threading.Event()

    def write() -> None:
        number = first
        while not stop.is_set() and number < first + 50:
            client.ingest_document(collection=COLLECTION, source_uri=f"{number}.txt", content=letter(number))
            acknowledged.append(number)
            number += 1

    writer = threading.Thread(target=write)
    writer.start()
    try:
        yield acknowledged
    finally:
        stop.set()
        writer.join()


def taken_while_written_to(folder: Path, kind: str) -> tuple[Path, set[str]]:
    """Return a backup and the sources that were acknowledged before it began."""
    catalog = "sqlite:" if kind == SQLITE else postgresql().new_database()
    server = ServerProcess(folder / "data", ("--embedder", "hashing:256", "--catalog", catalog))
    with GroundwireClient(server.address) as client:
        client.create_collection(collection=COLLECTION)
        for number in range(5):
            client.ingest_document(collection=COLLECTION, source_uri=f"{number}.txt", content=letter(number))
        with written_to(client, 100) as acknowledged:
            while not acknowledged:
                threading.Event().wait(0.01)
            before = {f"{number}.txt" for number in (*range(5), *acknowledged)}
            arguments = ("--data", str(folder / "data"), "--catalog", catalog, "--json")
            done = groundwire("backup", str(folder / "backup"), *arguments)
        assert (done.returncode, done.stderr) == (0, "")
    assert json.loads(done.stdout)["files"]["catalog.db"]["bytes"] > 0
    server.stop()
    return folder / "backup", before


@pytest.fixture(scope="module")
def backups(tmp_path_factory: pytest.TempPathFactory) -> dict[str, tuple[Path, set[str]]]:
    return {kind: taken_while_written_to(tmp_path_factory.mktemp(kind), kind) for kind in (SQLITE, POSTGRESQL)}


@pytest.fixture
def backed_up(backups: dict[str, tuple[Path, set[str]]]) -> tuple[Path, set[str]]:
    return backups[SQLITE]


@pytest.mark.parametrize(("source", "target"), [(SQLITE, SQLITE), (POSTGRESQL, SQLITE), (POSTGRESQL, POSTGRESQL)])
def test_what_was_acknowledged_before_is_restored_and_found(
    backups: dict[str, tuple[Path, set[str]]], tmp_path: Path, source: str, target: str
) -> None:
    backup, before = backups[source]
    catalog = "sqlite:" if target == SQLITE else postgresql().new_database()
    assert {path.name for path in backup.iterdir()} == {"catalog.db", "manifest.json", "page-token.key"}
    assert {path.stat().st_mode & 0o777 for path in backup.iterdir()} == {0o600}
    restore = ("restore", str(backup), "--data", str(tmp_path / "data"), "--catalog", catalog)
    done = groundwire(*restore, GROUNDWIRE_EMBEDDER="hashing:256")
    assert done.returncode == 0, done.stderr
    assert "compared: " in done.stdout
    assert (tmp_path / "data" / "page-token.key").stat().st_mode & 0o777 == 0o600
    assert (tmp_path / "data").stat().st_mode & 0o777 == 0o700
    server = ServerProcess(tmp_path / "data", ("--embedder", "hashing:256", "--catalog", catalog))
    with GroundwireClient(server.address) as client:
        sources = {document.source for document in client.collection(COLLECTION).documents()}
        assert sources >= before
        for number in (0, 100):
            cited = client.collection(COLLECTION).ask(f"What does letter {number} say about the harbour?")
            assert client.collection(COLLECTION).verify(cited).verified
    answer = groundwire("ask", QUESTION, "-c", COLLECTION, address=server.address).stdout
    assert answer.startswith("Letter 3 says that the harbour of town 3 freezes in week 3. [1]")
    checked = groundwire("fsck", address=server.address)
    assert (checked.returncode, "nothing is wrong" in checked.stdout) == (0, True)
    server.stop()


@pytest.mark.parametrize(
    "damage",
    [
        *("changed", "missing", "cut", "no manifest", "half a manifest", "a list of files", "of the future"),
        *("names a path", "names no catalog"),
    ],
)
def test_a_backup_that_is_not_as_it_was_written_is_refused(
    backed_up: tuple[Path, set[str]], tmp_path: Path, damage: str
) -> None:
    copy = tmp_path / "backup"
    shutil.copytree(backed_up[0], copy)
    catalog, manifest = copy / "catalog.db", copy / "manifest.json"
    content, told = bytearray(catalog.read_bytes()), json.loads(manifest.read_text("utf-8"))
    match damage:
        case "changed":
            content[len(content) // 2] ^= 1
            catalog.write_bytes(content)
        case "missing":
            catalog.unlink()
        case "cut":
            catalog.write_bytes(content[:-4096])
        case "no manifest":
            manifest.unlink()
        case "half a manifest":
            del told["create_time"]
            manifest.write_text(json.dumps(told), "utf-8")
        case "a list of files":
            manifest.write_text(json.dumps(told | {"files": ["catalog.db"]}), "utf-8")
        case "of the future":
            manifest.write_text(json.dumps(told | {"format": 2}), "utf-8")
        case "names a path":
            told["files"]["../escaped"] = told["files"]["catalog.db"]
            manifest.write_text(json.dumps(told), "utf-8")
        case "names no catalog":
            del told["files"]["catalog.db"]
            manifest.write_text(json.dumps(told), "utf-8")
    done = groundwire("restore", str(copy), "--data", str(tmp_path / "data"))
    reason = "DATA_LOSS" if damage in {"changed", "missing", "cut"} else "FAILED_PRECONDITION"
    assert (done.returncode, done.stderr.startswith(f"error {reason}: ")) == (1, True), done.stderr
    assert not (tmp_path / "data").exists()
    assert not (tmp_path / "escaped").exists()


def test_a_catalog_of_0_1_0_comes_back_as_it_was_unless_it_is_checked(tmp_path: Path) -> None:
    (tmp_path / "old").mkdir()
    with closing(sqlite3.connect(tmp_path / "old" / "catalog.db")) as connection:
        made_by = Path(__file__).parents[1] / "integration" / "catalog" / "release_0_1_0.sql"
        connection.executescript(made_by.read_text("utf-8"))
    done = groundwire("backup", str(tmp_path / "backup"), "--data", str(tmp_path / "old"))
    assert (done.returncode, done.stderr) == (0, "")
    pending = {}
    for folder, options in {"old": None, "back": ("--no-check",), "checked": ()}.items():
        if options is not None:
            restore = ("restore", str(tmp_path / "backup"), "--data", str(tmp_path / folder), *options)
            groundwire(*restore, GROUNDWIRE_EMBEDDER="hashing:256")
        told = groundwire("migrate", "--data", str(tmp_path / folder), "--check", "--json")
        pending[folder] = json.loads(told.stdout)["pending"]
    assert pending["back"] == pending["old"] != []
    assert pending["checked"] == []


def test_an_empty_folder_takes_a_backup_as_a_new_one_does(backed_up: tuple[Path, set[str]], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    restore = ("restore", str(backed_up[0]), "--data", str(tmp_path / "data"), "--no-check")
    done = groundwire(*restore, "--json")
    assert (done.returncode, json.loads(done.stdout)["folder"]) == (0, str(tmp_path / "data"))
    done = groundwire(*restore)
    assert (done.returncode, "error INVALID_FIELD: data: '" in done.stderr) == (2, True)
    assert "is not empty: name a new folder" in done.stderr


def test_a_file_is_restored_into_the_data_folder_alone(backed_up: tuple[Path, set[str]], tmp_path: Path) -> None:
    restore = ("restore", str(backed_up[0]), "--data", str(tmp_path / "data"))
    done = groundwire(*restore, "--catalog", f"sqlite:{tmp_path / 'elsewhere.db'}")
    assert (done.returncode, done.stderr.startswith("error INVALID_FIELD: catalog: a file is restored into")) == (
        2,
        True,
    )
    assert list(tmp_path.iterdir()) == []


def test_a_folder_into_which_nothing_was_restored_is_not_called_complete(
    backed_up: tuple[Path, set[str]], tmp_path: Path
) -> None:
    # The backup of a database whose server had no key in its data folder.
    copy = Path(shutil.copytree(backed_up[0], tmp_path / "backup"))
    told = json.loads((copy / "manifest.json").read_text("utf-8"))
    del told["files"]["page-token.key"]
    (copy / "manifest.json").write_text(json.dumps(told), "utf-8")
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "theirs").touch()
    restore = ("restore", str(copy), "--data", str(tmp_path / "data"))
    done = groundwire(*restore, "--catalog", "postgresql://nobody@127.0.0.1:1/none")
    assert (done.returncode, done.stderr.endswith("is not empty: name a new folder\n")) == (2, True), done.stderr


@pytest.mark.parametrize("end", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_a_restore_that_is_ended_during_its_check_leaves_no_server_behind_and_a_whole_folder(
    backed_up: tuple[Path, set[str]], tmp_path: Path, end: signal.Signals
) -> None:
    temporary = tmp_path / "temporary"
    temporary.mkdir()
    restore = ("restore", str(backed_up[0]), "--data", str(tmp_path / "data"))
    with TemporaryFile() as said:
        variables = {"TMPDIR": str(temporary), "GROUNDWIRE_EMBEDDER": "hashing:256"}
        command = Command(restore, stdout=said.fileno(), stderr=said.fileno(), variables=variables)
        ends_at = time.monotonic() + 30
        while not any(temporary.glob("groundwire-restore-*/token")):
            assert time.monotonic() < ends_at
            time.sleep(0.01)
        command.send_signal(end)
        assert command.wait(timeout=30) == (-end if end == signal.SIGKILL else 128 + end)
    if end != signal.SIGKILL:  # after which nothing can remove the keys, which are of no other server
        assert list(temporary.iterdir()) == []
    again = groundwire(*restore)
    assert (again.returncode, "it is complete: start a server on it" in again.stderr) == (2, True), again.stderr
    # Its owner would be in the way.
    with (
        ServerProcess(tmp_path / "data", (*HASHING, "--catalog", "sqlite:")) as server,
        GroundwireClient(server.address) as client,
    ):
        assert [each.name for each in client.collections()] == [COLLECTION]


def test_what_a_restore_has_left_incomplete_is_named(backed_up: tuple[Path, set[str]], tmp_path: Path) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "catalog.db.partial").write_bytes(b"the beginning of it")
    done = groundwire("restore", str(backed_up[0]), "--data", str(tmp_path / "data"))
    assert (done.returncode, "has left it incomplete: delete it, and restore again" in done.stderr) == (2, True)


def test_the_check_of_what_is_restored_leaves_the_uploads_and_the_vectors_of_others_alone(
    backed_up: tuple[Path, set[str]], tmp_path: Path
) -> None:
    staging = tmp_path / "staging"
    staging.mkdir()
    (staging / str(uuid.uuid4())).write_bytes(b"half of an upload that another server has acknowledged")
    with socket.create_server(("127.0.0.1", 0)) as collector:
        collector.settimeout(0)
        done = groundwire(
            *("restore", str(backed_up[0]), "--data", str(tmp_path / "data")),
            GROUNDWIRE_INGEST_STAGING=str(staging),
            OTEL_EXPORTER_OTLP_ENDPOINT=f"http://127.0.0.1:{collector.getsockname()[1]}",
            # It would not start with these, which the server has that will serve what is restored.
            GROUNDWIRE_JWKS=str(tmp_path / "missing.json"),
            GROUNDWIRE_JWT_AUDIENCE="groundwire",
            GROUNDWIRE_JWT_ISSUER="https://issuer.example",
            GROUNDWIRE_METRICS="nowhere",
            GROUNDWIRE_PROCESSES="2",
            GROUNDWIRE_TLS_CERTIFICATE=str(tmp_path / "missing.pem"),
            GROUNDWIRE_TLS_KEY=str(tmp_path / "missing.pem"),
            GROUNDWIRE_VECTORS="qdrant://127.0.0.1:1",
        )
        with pytest.raises(BlockingIOError):
            collector.accept()
    assert done.returncode == 0, done.stderr
    assert done.stdout.endswith(" chunks compared: nothing is wrong\n")
    assert len(list(staging.iterdir())) == 1


@pytest.mark.parametrize(("kind", "damaged"), [(POSTGRESQL, ""), (SQLITE, "tenants"), (SQLITE, "file")])
def test_what_is_restored_is_checked_for_all_tenants(tmp_path: Path, kind: str, damaged: str) -> None:
    catalog = "sqlite:" if kind == SQLITE else postgresql().new_database()
    keys = tmp_path / "keys.yaml"
    made = [
        groundwire("keys", "create", "ada", "--right", "admin", "--tenant", each, "--keys", str(keys)).stdout.strip()
        for each in ("acme", "globex")
    ]
    hashing = ("--embedder", "hashing:256", "--catalog", catalog)
    server = ServerProcess(tmp_path / "data", (*hashing, "--keys", str(keys)))
    for number, key in enumerate(made):
        with GroundwireClient(server.address, metadata=dict(bearer(key))) as client:
            client.create_collection(collection=COLLECTION)
            client.ingest_document(collection=COLLECTION, source_uri="a.txt", content=letter(number))
    server.stop()
    if damaged:
        damage(tmp_path / "data" / "catalog.db", damaged)
    done = groundwire("backup", str(tmp_path / "backup"), "--data", str(tmp_path / "data"), "--catalog", catalog)
    assert done.returncode == 0, done.stderr
    # Nothing that limits callers, or asks them for other credentials, concerns the check.
    environment = {"GROUNDWIRE_CALLER_UNITS_PER_SECOND": "0.001", "GROUNDWIRE_KEYS": str(keys)}
    target = "sqlite:" if kind == SQLITE else postgresql().new_database()
    restore = ("restore", str(tmp_path / "backup"), "--data", str(tmp_path / "restored"), "--catalog", target)
    done = groundwire(*restore, "--json", GROUNDWIRE_EMBEDDER="hashing:256", **environment)
    report = json.loads(done.stdout)
    assert report["checked"] == 2
    # A backup has no index, which is nothing to report.
    found = [(each["collection"], each["kind"], each["repaired"]) for each in report["findings"]]
    figures = (done.returncode, report["consistent"], report["left"], report["repaired"])
    match damaged:
        case "tenants":
            assert figures == (1, False, 1, 1)
            assert sorted(found) == [
                (f"acme/{COLLECTION}", "TEXT_DIFFERS", False),
                (f"globex/{COLLECTION}", "FULL_TEXT_DIFFERS", True),
            ]
        case "file":
            assert (figures, found) == ((1, False, 2, 0), 2 * [("", "CATALOG_DAMAGED", False)])
        case _:
            assert (figures, found) == ((0, True, 0, 0), [])


def test_a_backup_of_an_empty_catalog_is_restored_and_a_server_that_does_not_start_on_it_says_why(
    tmp_path: Path,
) -> None:
    Database.open(f"sqlite:{tmp_path / 'catalog.db'}").close()
    done = groundwire("backup", str(tmp_path / "backup"), "--data", str(tmp_path))
    assert done.returncode == 0, done.stderr
    restore = ("restore", str(tmp_path / "backup"), "--data")
    done = groundwire(*restore, str(tmp_path / "one"), GROUNDWIRE_EMBEDDER="hashing:256")
    assert (done.returncode, done.stdout.splitlines()[-1]) == (0, "0 chunks compared: nothing is wrong"), done.stderr
    done = groundwire(*restore, str(tmp_path / "two"), GROUNDWIRE_GENERATOR="nope:")
    assert done.returncode == 1
    assert "no server starts on what was restored: error INVALID_FIELD: generator: " in done.stderr


def damage(catalog: Path, what: str) -> None:
    """Change what the first tenant has stored and lose words of the second, or add some of nobody to the file."""
    statements = {
        "tenants": (
            "UPDATE chunks SET content_hash = replace(content_hash, 'a', 'b') WHERE chunk_number = 1",
            "DELETE FROM lexical_postings WHERE segment_key = 2 AND word > 'm'",
        ),
        "file": ("INSERT INTO lexical_postings SELECT 9, word, postings, positions FROM lexical_postings LIMIT 1",),
    }
    with closing(sqlite3.connect(catalog)) as connection, connection:
        for statement in statements[what]:
            connection.execute(statement)


def test_the_folder_that_one_is_in_can_be_filled(
    backed_up: tuple[Path, set[str]], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    done = groundwire("backup", ".", "--data", os.path.relpath(backed_up[0]))
    assert (done.returncode, done.stderr) == (0, "")
    assert "catalog.db" in {path.name for path in (tmp_path / "here").iterdir()}


def test_neither_writes_over_anything(backed_up: tuple[Path, set[str]], tmp_path: Path) -> None:
    (tmp_path / "kept").mkdir()
    (tmp_path / "kept" / "file").write_text("mine", "utf-8")
    data = ["--data", str(tmp_path / "kept")]
    done = groundwire("restore", str(backed_up[0]), *data)
    assert (done.returncode, "is not empty" in done.stderr) == (2, True)
    again = groundwire("backup", str(tmp_path / "kept"), "--data", str(backed_up[0]))
    assert (again.returncode, "is not empty" in again.stderr) == (2, True)
    over = groundwire("backup", str(tmp_path / "kept" / "file"), "--data", str(backed_up[0]))
    assert (over.returncode, over.stderr.startswith("error INVALID_FIELD: folder: ")) == (2, True)
    assert [path.read_text("utf-8") for path in (tmp_path / "kept").iterdir()] == ["mine"]
    (tmp_path / "kept").rename(tmp_path / "copy.partial")
    beside = groundwire("backup", str(tmp_path / "copy"), "--data", str(backed_up[0]))
    assert (beside.returncode, "no interrupted backup" in beside.stderr) == (2, True)
    assert [path.name for path in (tmp_path / "copy.partial").iterdir()] == ["file"]


def test_what_an_interrupted_backup_has_left_is_replaced(backed_up: tuple[Path, set[str]], tmp_path: Path) -> None:
    left = tmp_path / "copy.partial"
    left.mkdir()
    (left / "catalog.db").write_bytes(b"the beginning of it")
    (tmp_path / "copy").mkdir()
    done = groundwire("backup", str(tmp_path / "copy"), "--data", str(backed_up[0]))
    assert (done.returncode, done.stderr) == (0, "")
    assert [path.name for path in tmp_path.iterdir()] == ["copy"]
    assert (tmp_path / "copy").stat().st_mode & 0o777 == 0o700
    told = json.loads((tmp_path / "copy" / "manifest.json").read_text("utf-8"))
    bytes_ = (tmp_path / "copy" / "catalog.db").stat().st_size
    assert told["files"]["catalog.db"]["bytes"] == bytes_ > 100_000
    assert done.stdout.startswith(f"{tmp_path / 'copy'}: {bytes_ / 1e6:.1f} MB, as of {told['create_time']}")


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"SQLite format 3\0" + bytes(8000), "error DATA_LOSS: "), (b"", "error FAILED_PRECONDITION: ")],
)
def test_what_is_no_catalog_makes_no_backup(tmp_path: Path, content: bytes, said: str) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "catalog.db").write_bytes(content)
    done = groundwire("backup", str(tmp_path / "backup"), "--data", str(tmp_path / "data"))
    assert (done.returncode, done.stderr.startswith(said)) == (1, True)
    assert [path.name for path in tmp_path.iterdir()] == ["data"]


def test_a_folder_without_a_catalog_is_named(tmp_path: Path) -> None:
    done = groundwire("backup", str(tmp_path / "backup"), "--data", str(tmp_path / "nowhere"))
    assert (done.returncode, "there is no catalog.db" in done.stderr) == (1, True)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("command", ["backup", "copy"])
def test_a_folder_that_cannot_be_made_is_one_sentence(
    backed_up: tuple[Path, set[str]], tmp_path: Path, command: str
) -> None:
    (tmp_path / "file").touch()
    target = str(tmp_path / "file" / "new")
    given = (
        [target, "--data", str(backed_up[0])] if command == "backup" else ["--from", str(backed_up[0]), "--to", target]
    )
    done = groundwire(command, *given)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)
    assert done.stderr.startswith(f"error FAILED_PRECONDITION: cannot use '{tmp_path / 'file'}")


def test_a_copy_for_which_there_is_no_room_is_no_damage(backed_up: tuple[Path, set[str]], tmp_path: Path) -> None:
    with pytest.raises(PreconditionError, match="cannot be copied to"):
        copy_file(backed_up[0] / "catalog.db", tmp_path / "missing" / "catalog.db")
