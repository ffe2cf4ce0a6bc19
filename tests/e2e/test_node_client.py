"""The contract works from another language."""

import shutil
import subprocess
from pathlib import Path

import pytest

from tests.e2e.server import ServerProcess

NODE = Path(__file__).with_name("node")
PROTOS = Path(__file__).resolve().parents[2] / "protos"


@pytest.mark.node
def test_a_node_client_ingests_asks_and_checks_a_citation(server: ServerProcess) -> None:
    assert shutil.which("node"), "Node.js is needed for this test"
    if not (NODE / "node_modules").exists():
        subprocess.run(["npm", "install", "--no-audit", "--no-fund", "--no-package-lock"], cwd=NODE, check=True)
    done = subprocess.run(
        ["node", "client.mjs", server.address, str(PROTOS)], cwd=NODE, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "groundwire.api.answer.v1.AnswerService" in done.stdout
    assert "citation: tides.md" in done.stdout
    assert "verified: true" in done.stdout
