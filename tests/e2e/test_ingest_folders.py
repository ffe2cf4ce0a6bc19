"""`groundwire ingest --plan` and `--delete-missing` as an operator runs them."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from groundwire.client import GroundwireClient
from tests.e2e.server import HASHING, ServerProcess, groundwire
from tests.e2e.split import Deployment, start_services

COLLECTION = "folder"


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess | Deployment]:
    running = start_services(tmp_path_factory.mktemp("folders"))
    yield running
    assert running.stop() == 0


@pytest.fixture
def folder(server: ServerProcess, tmp_path: Path) -> Path:
    with GroundwireClient(server.address) as client:
        client.delete_collection(collection=COLLECTION, force=True) if _exists(client) else None
    (tmp_path / "docs" / "deep").mkdir(parents=True)
    for name in ("a.md", "b.md", "deep/c.md"):
        (tmp_path / "docs" / name).write_text(f"# {name}\n\nThe text of {name} speaks of tides.\n", encoding="utf-8")
    return tmp_path / "docs"


def _exists(client: GroundwireClient) -> bool:
    return any(each.name == COLLECTION for each in client.list_collections(page_size=100).collections)


def run(server: ServerProcess, *arguments: str, code: int = 0) -> Any:
    done = groundwire("ingest", *arguments, "-c", COLLECTION, "--json", address=server.address)
    assert done.returncode == code, done.stderr
    return json.loads(done.stdout) if done.stdout else done.stderr


def sources(server: ServerProcess) -> list[str]:
    with GroundwireClient(server.address) as client:
        return [each.source_uri for each in client.list_documents(collection=COLLECTION, page_size=100).documents]


def test_a_plan_sums_up_and_changes_nothing(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder))
    (folder / "a.md").write_text("# a.md\n\nOther words.\n", encoding="utf-8")
    (folder / "d.md").write_text("# d.md\n\nA new file.\n", encoding="utf-8")
    (folder / "b.md").unlink()
    before = sources(server)
    planned = run(server, str(folder), "--plan", "--delete-missing")
    assert {file["source"]: file["outcome"] for file in planned["files"]} == {
        "a.md": "replaced",
        "d.md": "created",
        "deep/c.md": "unchanged",
    }
    assert [document["source"] for document in planned["deleted"]] == ["b.md"]
    totals = {name: count for name, count in planned["totals"].items() if name != "tokens"}
    assert totals == {"files": 3, "added": 2, "kept": 1, "removed": 1, "embedded": 2, "skipped": 0, "deleted": 1}
    assert sources(server) == before
    done = run(server, str(folder), "--delete-missing", "--yes")
    assert done["totals"]["embedded"] == planned["totals"]["embedded"]
    assert {file["source"]: file["outcome"] for file in done["files"]} == {
        file["source"]: file["outcome"] for file in planned["files"]
    }
    assert done["deleted"] == planned["deleted"]
    table = groundwire("ingest", str(folder), "-c", COLLECTION, "--plan", address=server.address)
    assert table.returncode == 0
    assert "3 as they are" in table.stdout


def test_a_plan_counts_the_answers_that_would_become_stale(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder))
    for name, count in (("a.md", 2), ("b.md", 1), ("c.md", 1)):
        question = f"What does the text of {name} speak of?"
        for _ in range(count):
            given = ("-c", COLLECTION, "-k", "1", "--keep-for", "1h", "--min-relevance", "0", "--strictness", "0")
            answered = groundwire("ask", question, *given, "--json", address=server.address)
            assert name in json.loads(answered.stdout)["answer"]
    assert run(server, str(folder), "--plan")["stale_answers"] == 0
    (folder / "a.md").write_text("# a.md\n\nOther words.\n", encoding="utf-8")
    assert run(server, str(folder), "--plan")["stale_answers"] == 2
    (folder / "b.md").unlink()
    assert run(server, str(folder), "--plan")["stale_answers"] == 2
    assert run(server, str(folder), "--plan", "--delete-missing")["stale_answers"] == 3
    planned = groundwire("ingest", str(folder), "-c", COLLECTION, "--plan", "--delete-missing", address=server.address)
    assert planned.stdout.splitlines()[-1] == "3 stored answers would become stale"

    assert "stale_answers" not in run(server, str(folder), "--delete-missing", "--yes")
    (folder / "a.md").write_text("# a.md\n\nOther words again.\n", encoding="utf-8")
    assert run(server, str(folder), "--plan")["stale_answers"] == 0, "they are stale already"


@pytest.mark.parametrize("profile", ["general", "documents"])
def test_a_plan_without_a_collection_is_one_for_a_new_collection(
    server: ServerProcess, folder: Path, profile: str
) -> None:
    (folder / "a.md").write_text("# Tides\n\n" + "The moon causes the tides of the sea. " * 40, encoding="utf-8")
    given = (str(folder), "--profile", profile, "--delete-missing")
    planned = run(server, *given, "--plan")
    assert "COLLECTION_NOT_FOUND" in groundwire("collections", "get", COLLECTION, address=server.address).stderr
    done = run(server, *given, "--yes")
    assert [(file["source"], file["outcome"], file["added"], file["embedded"]) for file in planned["files"]] == [
        (file["source"], file["outcome"], file["chunks"], file["embedded"]) for file in done["files"]
    ]
    assert planned["totals"]["added"] == {"general": 5, "documents": 3}[profile]


def test_a_plan_compares_the_profile_as_an_ingest_does(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder), "--profile", "book")
    for given in ([], ["--plan"]):
        refused = run(server, str(folder), "--profile", "web", *given, code=1)
        assert "exists with the profile book, not web" in refused
    assert run(server, str(folder), "--profile", "book", "--plan")["totals"]["files"] == 3


def test_collection_and_folder_become_equal(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder))
    (folder / "b.md").unlink()
    (folder / "deep" / "c.md").rename(folder / "renamed.md")
    planned = run(server, str(folder), "--plan", "--delete-missing")
    done = run(server, str(folder), "--delete-missing", "--yes")
    assert [file["outcome"] for file in planned["files"]] == [file["outcome"] for file in done["files"]]
    assert planned["deleted"] == done["deleted"]
    assert sources(server) == ["a.md", "renamed.md"]
    assert sorted(document["source"] for document in done["deleted"]) == ["b.md", "deep/c.md"]
    assert {file["source"]: file["outcome"] for file in done["files"]} == {"a.md": "unchanged", "renamed.md": "created"}
    again = run(server, str(folder), "--delete-missing", "--yes")
    assert (again["deleted"], again["totals"]["unchanged"]) == ([], 2)


def test_what_did_not_come_from_the_folder_stays(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder))
    with GroundwireClient(server.address) as client:
        for source in ("https://example.org/page.html", "/absolute/path.md", "C:\\files\\d.md"):
            client.ingest_document(collection=COLLECTION, source_uri=source, text=f"The text of {source}.")
    (folder / "notes.bin").write_bytes(b"\x00\x01")
    with GroundwireClient(server.address) as client:
        client.ingest_document(
            collection=COLLECTION, source_uri="notes.bin", text="Its file is there, of another kind."
        )
    done = run(server, str(folder), "--delete-missing", "--yes")
    assert done["deleted"] == []
    assert len(sources(server)) == 7


def test_an_empty_or_missing_folder_deletes_nothing(server: ServerProcess, folder: Path, tmp_path: Path) -> None:
    run(server, str(folder))
    before = sources(server)
    (tmp_path / "empty").mkdir()
    cases = [
        ([str(tmp_path / "empty")], "has no files to ingest"),
        ([str(folder), str(tmp_path / "empty")], "has no files to ingest"),
        ([str(folder), str(tmp_path / "gone")], "does not exist"),
        ([str(folder / "a.md")], "needs a folder"),
    ]
    for paths, message in cases:
        assert message in " ".join(run(server, *paths, "--delete-missing", "--yes", code=2).split())
    assert sources(server) == before


def test_a_failed_file_does_not_keep_missing_ones(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder))
    (folder / "b.md").write_text("   ", encoding="utf-8")
    (folder / "a.md").unlink()
    done = run(server, str(folder), "--delete-missing", "--yes", code=1)
    assert [document["source"] for document in done["deleted"]] == ["a.md"]
    assert sources(server) == ["b.md", "deep/c.md"]


def _of_another_project(folder: Path) -> Path:
    other = folder.parent / "other"
    other.mkdir()
    (other / "a.md").write_text("# Another\n\nAnother a.md speaks of oaks.\n", encoding="utf-8")
    (other / "d.md").write_text("# d.md\n\nThe text of d.md speaks of elms.\n", encoding="utf-8")
    return other


def test_a_file_that_replaces_one_of_another_folder_is_named(server: ServerProcess, folder: Path) -> None:
    other = _of_another_project(folder)
    run(server, str(folder))
    for given in (["--plan"], []):
        warnings = {file["source"]: file["warnings"] for file in run(server, str(other), *given)["files"]}
        assert warnings["d.md"] == []
        (warning,) = warnings["a.md"]
        assert "--prefix" in warning
    shown = groundwire("ingest", str(folder), "-c", COLLECTION, "--plan", address=server.address)
    assert shown.stderr == "", "most files of this folder are in the collection"


def test_a_folder_that_grows_or_changes_gives_no_warning(server: ServerProcess, folder: Path) -> None:
    run(server, str(folder), "--include", "a.md")
    (folder / "a.md").write_text("# a.md\n\nOther words.\n", encoding="utf-8")
    grown = run(server, str(folder))
    assert [(file["outcome"], file["warnings"]) for file in grown["files"]] == [
        ("replaced", []),
        ("created", []),
        ("created", []),
    ]


def test_short_chunks_are_told_to_those_who_set_their_size(server: ServerProcess, folder: Path) -> None:
    (folder / "short.md").write_text("# A\n\nShort.\n\n# B\n\nAlso short.\n", encoding="utf-8")
    for given in ([], ["--plan"]):
        assert not any(file["warnings"] for file in run(server, str(folder), *given)["files"])
    sized = run(server, str(folder / "short.md"), "--minimum-size", "25")["files"][0]
    assert "shorter than the minimum" in sized["warnings"][0]


def test_folders_with_prefixes_are_kept_and_mirrored_apart(server: ServerProcess, folder: Path) -> None:
    other = _of_another_project(folder)
    run(server, str(folder), "--prefix", "one")
    run(server, str(other), "--prefix", "two")
    both = ["one/a.md", "one/b.md", "one/deep/c.md", "two/a.md", "two/d.md"]
    assert sources(server) == both
    (other / "d.md").unlink()
    done = run(server, str(other), "--prefix", "two", "--delete-missing", "--yes")
    assert [document["source"] for document in done["deleted"]] == ["two/d.md"]
    assert sources(server) == both[:-1]
    again = run(server, str(folder), "--prefix", "one", "--include", "*/a.md", "--delete-missing", "--yes")
    assert (again["totals"]["unchanged"], again["deleted"]) == (1, []), "files that are only left out are there"


def test_a_folder_that_costs_more_than_the_rate_of_its_key_takes_longer(tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    for number in range(16):
        (tmp_path / "docs" / f"{number}.txt").write_text(f"Note {number} speaks of tides.\n", encoding="utf-8")
    limited = ("--right", "write", "--per-second", "40", "--burst", "8", "--keys", str(tmp_path / "keys.yaml"))
    (tmp_path / "key").write_text(groundwire("keys", "create", "ada", *limited).stdout, encoding="utf-8")
    (tmp_path / "key").chmod(0o600)
    server = ServerProcess(tmp_path / "data", (*HASHING, "--keys", str(tmp_path / "keys.yaml")))
    command = ("ingest", str(tmp_path / "docs"), "-c", COLLECTION, "--token-file", str(tmp_path / "key"))
    done = groundwire(*command, address=server.address)
    server.stop()
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("16 files: 16 created")
