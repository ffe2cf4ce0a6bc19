"""Mistakes at the start of a server are one sentence each, told before anything is loaded."""

import json
import os
import pty
import re
import select
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from tempfile import TemporaryFile

import pytest

from groundwire.client import GroundwireClient
from tests.e2e.commands import Command
from tests.e2e.server import ServerProcess, groundwire

SERVE = [sys.executable, "-m", "groundwire.cli", "serve", "--listen", "127.0.0.1:0"]


def refused(*arguments: str) -> tuple[int, str]:
    """Start a server that cannot start and return its exit code and the one line it prints."""
    done = groundwire("serve", *arguments)
    assert done.stdout == ""
    (line,) = done.stderr.splitlines()
    return done.returncode, line


def started_and_stopped(data: Path) -> tuple[int, str]:
    """Start a server, stop it when it serves, and return its exit code and what it says on the way."""
    read_end, write_end = os.pipe()
    with os.fdopen(read_end) as printed, TemporaryFile("w+", encoding="utf-8") as said:
        arguments = ["serve", "--listen", "127.0.0.1:0", "--data", str(data), "--embedder", "hashing:256"]
        server = Command(arguments, stdout=write_end, stderr=said.fileno())
        os.close(write_end)
        if printed.readline().startswith("listening on "):
            server.terminate()
        code = server.wait(timeout=60)
        said.seek(0)
        return code, said.read()


@contextmanager
def mounted(folder: Path, *options: str) -> Iterator[Path]:
    """Mount a file system in memory; only root may."""
    folder.mkdir()
    if subprocess.run(["mount", "-t", "tmpfs", *options, "none", str(folder)], check=False).returncode:
        pytest.skip("file systems cannot be mounted here")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "-l", str(folder)], check=True)


@pytest.mark.parametrize(
    "generator",
    [
        "gpt",
        "extractive:no",
        "openai+ftp://host/v1",
        "openai+http://host/v1?key=s3cret",
        "openai+http://u:s3cret@host/v1",
    ],
)
def test_a_generator_of_another_form_is_refused_and_not_repeated(tmp_path: Path, generator: str) -> None:
    # This embedder does not exist: whoever looks for it first has loaded too early.
    code, line = refused("--generator", generator, "--data", str(tmp_path / "data"), "--embedder", "nope:")
    assert (code, line.startswith("error INVALID_FIELD: generator: must be 'extractive:' or 'openai+http(s)")) == (
        2,
        True,
    )
    assert "s3cret" not in line
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    "listen", ["50172", ":50172", "127.0.0.1", "127.0.0.1:", "127.0.0.1:99999", "127.0.0.1:-1", "127.0.0.1:x"]
)
def test_an_address_of_another_form_is_a_usage_error(tmp_path: Path, listen: str) -> None:
    code, line = refused("--listen", listen, "--data", str(tmp_path / "data"))
    assert code == 2
    assert line == (f"error INVALID_FIELD: listen: {listen!r} is not of the form HOST:PORT, such as 127.0.0.1:50051")
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize(
    ("variable", "needs"),
    [
        ("TLS_CERTIFICATE", "must be set together with GROUNDWIRE_TLS_KEY"),
        ("TLS_KEY", "GROUNDWIRE_TLS_CERTIFICATE: must be set together with GROUNDWIRE_TLS_KEY"),
        ("TLS_CLIENT_CA", "needs GROUNDWIRE_TLS_CERTIFICATE and GROUNDWIRE_TLS_KEY"),
        ("JWKS", "needs GROUNDWIRE_JWT_ISSUER and GROUNDWIRE_JWT_AUDIENCE, or tokens meant for others"),
    ],
)
def test_settings_that_need_others_are_named_as_they_are_set(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str, needs: str
) -> None:
    monkeypatch.setenv(f"GROUNDWIRE_{variable}", str(tmp_path / "any.pem"))
    code, line = refused("--data", str(tmp_path / "data"))
    assert (code, line.startswith("error INVALID_FIELD: GROUNDWIRE_"), needs in line) == (2, True, True)


def test_metrics_are_not_served_where_the_calls_are(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        place = f"127.0.0.1:{free.getsockname()[1]}"
    code, line = refused("--listen", place, "--metrics", place, "--data", str(tmp_path / "data"))
    assert (code, line) == (2, "error INVALID_FIELD: metrics: must be another address than that of the calls")


def test_an_unknown_host_is_named(tmp_path: Path) -> None:
    code, line = refused("--listen", "nowhere.invalid:1", "--data", str(tmp_path / "data"))
    assert (code, "'nowhere.invalid' is neither an address nor a known name" in line) == (2, True)


def test_a_port_in_use_is_told_before_anything_is_loaded(tmp_path: Path) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        listen = f"127.0.0.1:{other.getsockname()[1]}"
        # This embedder does not exist: whoever looks for it first has loaded too early.
        code, line = refused("--listen", listen, "--data", str(tmp_path / "data"), "--embedder", "nope:")
    assert code == 1
    assert line.startswith(f"error FAILED_PRECONDITION: cannot listen on {listen}: the port is in use")


def test_an_address_of_another_machine_is_told(tmp_path: Path) -> None:
    code, line = refused("--listen", "192.0.2.1:50051", "--data", str(tmp_path / "data"))
    assert (code, line.endswith("cannot listen on 192.0.2.1:50051: this machine has no such address")) == (1, True)


@pytest.mark.parametrize("below", ["", "deeper"])
def test_a_file_is_no_data_folder(tmp_path: Path, below: str) -> None:
    (tmp_path / "file").write_text("text", encoding="utf-8")
    code, line = refused("--data", str(tmp_path / "file" / below), "--embedder", "nope:")
    assert (code, line.endswith("is a file, or below one, and must be a folder")) == (2, True)


@pytest.mark.parametrize(
    ("given", "variable", "named"),
    [
        (["--data", ""], {}, "data"),
        ([], {"GROUNDWIRE_DATA": ""}, "GROUNDWIRE_DATA"),
        (["--data", "d"], {"GROUNDWIRE_CACHE": ""}, "GROUNDWIRE_CACHE"),
        (["--data", "d"], {"GROUNDWIRE_INGEST_STAGING": ""}, "GROUNDWIRE_INGEST_STAGING"),
    ],
)
def test_an_empty_folder_name_is_not_the_current_folder(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, given: list[str], variable: dict[str, str], named: str
) -> None:
    monkeypatch.chdir(tmp_path)
    done = groundwire("serve", "--listen", "127.0.0.1:0", *given, "--embedder", "hashing:256", **variable)
    said = f"error INVALID_FIELD: {named}: is empty; name a folder, or leave it out for the default\n"
    assert (done.returncode, done.stdout, done.stderr) == (2, "", said)
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    with mounted(tmp_path / "sealed") as folder:
        (folder / "data").mkdir()
        subprocess.run(["mount", "-o", "remount,ro", str(folder)], check=True)
        code, line = refused("--data", str(folder / "data"), "--embedder", "nope:")
        assert (code, f"cannot use the data folder '{folder}/data': Read-only file system" in line) == (1, True)
        beside = os.path.relpath(folder / "data")  # as the default is
        code, line = refused("--data", beside, "--embedder", "nope:")
        assert (code, f"cannot use the data folder '{beside}': Read-only file system" in line) == (1, True)
        code, line = refused("--data", str(folder / "new"), "--embedder", "nope:")
        assert (code, "Read-only file system" in line, str(folder / "new") in line) == (1, True, True)


def test_a_full_disk_is_told(tmp_path: Path) -> None:
    with mounted(tmp_path / "small", "-o", "size=64k") as folder:
        (folder / "filler").write_bytes(b"x" * 65536)
        code, line = refused("--data", str(folder / "data"), "--embedder", "nope:")
        assert (code, line.endswith("is full")) == (1, True)


@pytest.mark.parametrize("kib", [64, 90, 200])
def test_a_full_disk_is_told_by_the_folder_that_is_on_it(tmp_path: Path, kib: int) -> None:
    data = ("--data", str(tmp_path / "data"))
    given = {
        "catalog": (*data, "--embedder", "hashing:256", "--catalog"),
        "sessions": ("answer", "--retrieve", "127.0.0.1:1", *data, "--sessions"),
    }
    for kind, arguments in given.items():
        with mounted(tmp_path / kind, "-o", f"size={kib}k") as folder:
            (folder / "filler").write_bytes(b"x" * 65536)
            code, line = refused(*arguments, f"sqlite:{folder}/its.db")
        assert (code, f"the disk of the folder of the {kind} '{folder}' is full" in line) == (1, True), line


@pytest.mark.parametrize("kib", [32, 256, 2048])
def test_a_disk_that_fills_up_during_the_start_is_one_sentence(tmp_path: Path, kib: int) -> None:
    with mounted(tmp_path / "small", "-o", f"size={kib}k") as folder:
        code, said = started_and_stopped(folder / "data")  # it may need no more than this
    assert "Traceback" not in said
    assert code == 0 or (code == 1 and "full" in said.splitlines()[-1]), said


def test_vectors_whose_catalog_is_gone_are_told(tmp_path: Path) -> None:
    data = tmp_path / "data"
    with ServerProcess(data) as server, GroundwireClient(server.address) as client:
        client.collection("notes").create()
    assert "the catalog is empty" not in started_and_stopped(data)[1]
    for file in data.glob("catalog.db*"):
        file.unlink()
    _, said = started_and_stopped(data)
    (line,) = [json.loads(each) for each in said.splitlines() if "the catalog is empty" in each]
    assert (line["level"], line["collections"]) == ("warning", 1)
    assert line["catalog"].endswith(str(data / "catalog.db"))
    assert line["vectors"] == str(data / "vectors")


def test_what_a_start_waits_for_is_shown_on_a_terminal(tmp_path: Path) -> None:
    parent, child = pty.openpty()
    command = [*SERVE, "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=child, text=True) as server:
        os.close(child)
        assert server.stdout is not None
        line = server.stdout.readline()
        shown = b""
        while select.select([parent], [], [], 0.5)[0]:
            shown += os.read(parent, 4096)
        server.terminate()
        server.stdout.read()
    os.close(parent)
    assert line.startswith("listening on ")
    said = re.sub(r"\x1b\[[0-9;]*m", "", shown.decode()).splitlines()
    assert said[0] == "loading the libraries …"
    assert {"opening the catalog …", "starting the services …"} <= set(said)


@pytest.mark.parametrize(
    ("library", "pause_s"),
    [("_pydantic_core", 0.0), ("_multiarray_umath", 0.0), ("cygrpc", 0.0), ("cygrpc", 0.006), ("cygrpc", 0.012)],
)
def test_ctrl_c_during_a_start_ends_it_without_a_traceback(tmp_path: Path, library: str, pause_s: float) -> None:
    """Early, in the middle and late: the libraries are loaded in this order, the last of them for a while."""
    command = [*SERVE, "--data", str(tmp_path / "data")]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as server:
        while library not in Path(f"/proc/{server.pid}/maps").read_text(encoding="utf-8"):
            assert server.poll() is None
            time.sleep(0.01)
        time.sleep(pause_s)
        server.send_signal(signal.SIGINT)
        _, said = server.communicate(timeout=60)
    assert "Traceback" not in said
    assert server.returncode in {0, 130, -signal.SIGINT}


def test_ctrl_c_at_a_terminal_stops_every_process_quietly(tmp_path: Path) -> None:
    command = [*SERVE, "--data", str(tmp_path / "data"), "--embedder", "hashing:64"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, start_new_session=True
    ) as server:
        assert server.stdout is not None
        assert server.stdout.readline().startswith("listening on ")
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        ends_at = time.monotonic() + 60
        while not children.read_text(encoding="ascii"):
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        child = int(children.read_text(encoding="ascii").split()[0])
        while os.getpgid(child) == server.pid:  # between fork and exec
            assert time.monotonic() < ends_at
            time.sleep(0.05)
        os.killpg(server.pid, signal.SIGINT)
        _, said = server.communicate(timeout=60)
    assert "Traceback" not in said
    assert server.returncode == 0


def test_processes_of_which_one_cannot_start_end_together_and_say_why(tmp_path: Path) -> None:
    stores = ("--retrieve", "127.0.0.1:1", "--sessions", "postgresql://nobody@127.0.0.1:1/none")
    command = [*SERVE, "answer", *stores, "--processes", "2", "--data", str(tmp_path / "data")]
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert (done.returncode, done.stdout) == (1, "")
    assert any(line.startswith("STORE_UNAVAILABLE: ") for line in done.stderr.splitlines()), done.stderr
    assert done.stderr.endswith("error FAILED_PRECONDITION: one of the processes could not start\n")


def test_ctrl_c_at_a_terminal_ends_processes_that_are_starting_quietly(tmp_path: Path) -> None:
    stores = ("--retrieve", "127.0.0.1:1", "--sessions", "postgresql://nobody@127.0.0.1:1/none")
    with subprocess.Popen(
        [*SERVE, "answer", *stores, "--processes", "2", "--data", str(tmp_path / "data")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as server:
        children = Path(f"/proc/{server.pid}/task/{server.pid}/children")
        while not any("_pydantic_core" in maps for maps in _maps(children)):
            assert server.poll() is None
            time.sleep(0.01)
        os.killpg(server.pid, signal.SIGINT)
        _, said = server.communicate(timeout=60)
    assert "Traceback" not in said
    assert server.returncode == 0


def _maps(children: Path) -> Iterator[str]:
    """Iterate over what the children of a process have mapped since they are programs of their own."""
    for child in children.read_text(encoding="ascii").split():
        with suppress(OSError):  # it has ended
            if "spawn_main" in Path(f"/proc/{child}/cmdline").read_text(encoding="utf-8"):
                yield Path(f"/proc/{child}/maps").read_text(encoding="utf-8")


def test_the_settings_are_read_before_anything_heavy_is_imported() -> None:
    """The model begins to load as soon as they are, and all that is imported before holds it up."""
    code = (
        "import sys, groundwire.standalone.settings; print(*sorted({name.partition('.')[0] for name in sys.modules}))"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, sys.path))}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    imported = set(done.stdout.split())
    assert "pydantic_settings" in imported
    assert imported.isdisjoint({"google", "grpc", "numpy", "openvino", "sqlalchemy", "tokenizers", "alembic"})


def test_serving_imports_neither_torch_nor_transformers(tmp_path: Path) -> None:
    server = ServerProcess(tmp_path / "data", ())
    maps = Path(f"/proc/{server.process.pid}/maps").read_text(encoding="utf-8")
    assert server.stop() == 0
    assert "openvino" in maps
    assert "libtorch" not in maps


@pytest.fixture(scope="module")
def started_once(tmp_path_factory: pytest.TempPathFactory) -> Path:
    data = tmp_path_factory.mktemp("once") / "data"
    assert ServerProcess(data).stop() == 0
    return data


@pytest.mark.parametrize("content", [b"", b"garbage\n" * 512])
@pytest.mark.parametrize("name", ["catalog.db", "catalog.db-wal", "catalog.db.lock", "page-token.key", "staging"])
def test_a_damaged_file_at_start_is_one_sentence_or_none(
    started_once: Path, tmp_path: Path, name: str, content: bytes
) -> None:
    data = Path(shutil.copytree(started_once, tmp_path / "data"))
    if (data / name).is_dir():
        (data / name).rmdir()
    (data / name).write_bytes(content)
    code, said = started_and_stopped(data)
    assert "Traceback" not in said
    assert code in {0, 1, 2}
    if code:
        assert said.splitlines()[-1].startswith("error ")
    if (name, bool(content)) == ("catalog.db", True):
        assert f"error DATA_LOSS: {data / name} is damaged, or no catalog: restore a backup\n" in said
