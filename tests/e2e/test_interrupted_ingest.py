"""Ctrl-C and a dying server in the middle of `groundwire ingest`: what is said, and what the server does."""

import json
import os
import random
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from groundwire.client import GroundwireClient
from tests.conformance.processes import engine_pids, freeze
from tests.e2e.server import ServerProcess, groundwire

WORDS = "tide moon harbour granite yeast comet lantern orchard compass glacier meadow anvil".split()  # noqa: SIM905 - easier to read
AGAIN = "run again to continue"


@pytest.fixture
def server(tmp_path: Path) -> Iterator[ServerProcess]:
    # The model, because only embedding takes long enough to be interrupted.
    running = ServerProcess(tmp_path / "data", ())
    yield running
    running.kill()


def _text(megabytes: float, seed: int) -> str:
    chance, size = random.Random(seed), 0
    parts: list[str] = []
    while size < megabytes * 1e6:
        parts.append(f"Sentence {len(parts)} of {seed}: " + " ".join(chance.choices(WORDS, k=20)) + ".\n")
        size += len(parts[-1])
    return "".join(parts)


def _start(server: ServerProcess, folder: Path, *arguments: str) -> "subprocess.Popen[str]":
    command = [sys.executable, "-m", "groundwire.cli", "ingest", str(folder), "-c", "cut", *arguments]
    variables = os.environ | {"GROUNDWIRE_ADDRESS": server.address}
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, env=variables)


def _cpu_s(pid: int) -> float:
    """Return the processor time of a process and its children that live, in seconds."""
    pids = [pid, *map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="ascii").split())]
    ticks = 0
    for each in pids:
        fields = Path(f"/proc/{each}/stat").read_text(encoding="ascii").rpartition(")")[2].split()
        ticks += int(fields[11]) + int(fields[12])
    return ticks / os.sysconf("SC_CLK_TCK")


def _is_idle(server: ServerProcess) -> bool:
    """Tell whether the server leaves the processor alone; one that embeds takes all that it gets."""
    before = _cpu_s(server.process.pid)
    time.sleep(1)
    return _cpu_s(server.process.pid) - before < 0.25


def _wait_until(is_so: Callable[[], bool], limit_s: float = 150) -> None:
    end = time.monotonic() + limit_s
    while not is_so():
        assert time.monotonic() < end
        time.sleep(0.05)


def _counts(server: ServerProcess) -> dict[str, int]:
    with GroundwireClient(server.address) as client:
        page = client.list_documents(collection="cut", page_size=200)
        return {document.source_uri: document.chunk_count for document in page.documents}


def test_ctrl_c_stops_the_file_that_is_under_way(server: ServerProcess, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    (folder / "a.md").write_text("# First\n\nGranite is a rock.\n", encoding="utf-8")
    (folder / "big.md").write_text(_text(0.6, 1), encoding="utf-8")
    run = _start(server, folder)
    with GroundwireClient(server.address) as client:
        _wait_until(lambda: any(each.name == "cut" for each in client.list_collections().collections))
    _wait_until(lambda: "a.md" in _counts(server))
    working = _cpu_s(server.process.pid)
    # The large file is being embedded, which takes half a minute.
    _wait_until(lambda: _cpu_s(server.process.pid) - working > 0.5)
    assert run.poll() is None
    run.send_signal(signal.SIGINT)
    began = time.monotonic()
    _, said = run.communicate(timeout=60)
    assert time.monotonic() - began < 30
    assert said.splitlines()[-1] == f"interrupted: 1 of 2 done; {AGAIN}"
    assert run.returncode == 130
    _wait_until(lambda: _is_idle(server))  # one batch more may run
    assert _counts(server) == {"a.md": 1}
    shown = groundwire("search", "granite", "-c", "cut", "--json", address=server.address)
    assert {each["source"] for each in json.loads(shown.stdout)["results"]} == {"a.md"}
    (folder / "big.md").write_text(_text(0.05, 1), encoding="utf-8")
    assert groundwire("ingest", str(folder), "-c", "cut", address=server.address).returncode == 0
    assert set(_counts(server)) == {"a.md", "big.md"}
    assert server.stop() == 0


def test_with_json_an_interrupted_run_reports_what_is_done(server: ServerProcess, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:02}.md").write_text(_text(0.005, number), encoding="utf-8")
    run = _start(server, folder, "--json", "--jobs", "2")
    with GroundwireClient(server.address) as client:
        _wait_until(lambda: any(each.name == "cut" for each in client.list_collections().collections))
    _wait_until(lambda: len(_counts(server)) > 1)
    run.send_signal(signal.SIGINT)
    printed, said = run.communicate(timeout=60)
    assert run.returncode == 130
    report = json.loads(printed)
    error = json.loads(said)["error"]
    done = [file["source"] for file in report["files"]]
    assert 0 < len(done) < 60
    assert error == {"reason": "INTERRUPTED", "message": f"interrupted: {len(done)} of 60 done; {AGAIN}"}
    assert set(done) <= set(_counts(server))
    assert server.stop() == 0


def test_what_was_deleted_until_an_interruption_is_reported(server: ServerProcess, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(150):
        (folder / f"{number:03}.md").write_text(_text(0.0005, number), encoding="utf-8")
    assert groundwire("ingest", str(folder), "-c", "cut", address=server.address).returncode == 0
    for path in sorted(folder.iterdir())[1:]:
        path.unlink()
    run = _start(server, folder, "--delete-missing", "--yes", "--json", "--jobs", "1")
    # The client has not yet heard of the last one.
    _wait_until(lambda: len(_counts(server)) < 149)
    run.send_signal(signal.SIGINT)
    printed, said = run.communicate(timeout=60)
    assert run.returncode == 130
    report, left = json.loads(printed), set(_counts(server))
    deleted = {document["source"] for document in report["deleted"]}
    assert 0 < len(deleted) < 149
    assert json.loads(said)["error"]["message"] == f"interrupted: {len(deleted)} of 149 done; {AGAIN}"
    assert [file["outcome"] for file in report["files"]] == ["unchanged"]
    # One more may have been deleted when the run was interrupted.
    assert len(left) + len(deleted) in {149, 150}
    assert not left & deleted
    again = groundwire("ingest", str(folder), "-c", "cut", "--delete-missing", "--yes", address=server.address)
    assert again.stdout.startswith("1 file: 1 unchanged, ")
    assert set(_counts(server)) == {"000.md"}


def test_a_server_that_dies_is_told_with_the_count(server: ServerProcess, tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for number in range(60):
        (folder / f"{number:02}.md").write_text(_text(0.005, number), encoding="utf-8")
    run = _start(server, folder, "--jobs", "2")
    with GroundwireClient(server.address) as client:
        _wait_until(lambda: any(each.name == "cut" for each in client.list_collections().collections))
    _wait_until(lambda: len(_counts(server)) > 1)
    server.kill()
    _, said = run.communicate(timeout=60)
    assert run.returncode == 1
    (line,) = said.splitlines()
    assert re.fullmatch(
        rf"error UNAVAILABLE: no server answers at {server.address} any more: [1-9]\d* of 60 done; {AGAIN}", line
    )


def test_a_server_whose_engine_does_not_answer_is_told_with_its_reason(tmp_path: Path) -> None:
    (tmp_path / "a.md").write_text("# First\n\nGranite is a rock.\n", encoding="utf-8")
    server = ServerProcess(tmp_path / "data")
    with GroundwireClient(server.address) as client:
        client.create_collection(collection="cut")
        client.ingest_document(collection="cut", source_uri="b.md", text="Yeast makes bread rise.")
    (engine,) = engine_pids(server.process.pid)
    freeze(engine)
    try:
        done = groundwire("ingest", str(tmp_path / "a.md"), "-c", "cut", address=server.address)
    finally:
        os.kill(engine, signal.SIGCONT)
    assert done.returncode == 1
    assert re.fullmatch(rf"error STORE_UNAVAILABLE: .+: 0 of 1 done; {AGAIN}\n", done.stderr)
    assert server.stop() == 0
