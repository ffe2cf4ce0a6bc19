"""`pip install groundwire` in an environment of its own: the client and the command line, and no more."""

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

INSTALLED = """
import json
from importlib.metadata import distributions
found = {}
for each in distributions():
    files = [file.locate() for file in each.files]
    found[each.name] = sum(path.stat().st_size for path in files if path.is_file())
print(json.dumps(found))
"""
USED = """
import sys
from groundwire.client import GroundwireClient
with GroundwireClient(sys.argv[1]) as client:
    print(len(client.list_collections().collections))
"""


@pytest.mark.slow
def test_an_installation_without_extras_is_small_and_works(server: ServerProcess, tmp_path: Path) -> None:
    venv.create(tmp_path / "venv", with_pip=True)
    programs = tmp_path / "venv" / "bin"
    variables = {name: value for name, value in os.environ.items() if not name.startswith("PYTHON")}

    def run(program: str, *arguments: str) -> str:
        done = subprocess.run(
            [str(programs / program), *arguments],
            cwd=tmp_path,
            env=variables,
            capture_output=True,
            text=True,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        return done.stdout

    run("pip", "install", "--quiet", str(ROOT))
    sizes: dict[str, int] = json.loads(run("python", "-c", INSTALLED))
    came_with_the_environment = {"pip", "setuptools"}
    packages = {name: size for name, size in sizes.items() if name not in came_with_the_environment}
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
