"""The script that counts what one call runs through."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

SCRIPT = Path(__file__).parents[2] / "scripts" / "flow.py"


@pytest.fixture(scope="module")
def flows(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    notes = tmp_path_factory.mktemp("notes")
    (notes / "tides.md").write_text("# Tides\n\nThe moon causes the tides of the sea.\n", encoding="utf-8")
    command = [sys.executable, str(SCRIPT), "--json", "--embedder", "hashing:64", "--docs", str(notes)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=250, check=False)
    assert (done.returncode, done.stderr) == (0, "")
    return {flow["call"]: flow for flow in json.loads(done.stdout)}


@pytest.mark.parametrize(
    ("call", "passes_through"),
    [
        ("Retrieve", {"Search.search", "SearchView.chunks"}),
        ("Ask", {"Search.search", "ExtractiveGenerator.draft"}),
        ("IngestDocument", {"Writer.run", "EngineProcess.write"}),
    ],
)
def test_each_call_is_followed_through_threads_and_layers(
    flows: dict[str, Any], call: str, passes_through: set[str]
) -> None:
    flow = flows[call]
    named = [name for names in flow["names"].values() for name in names]
    assert passes_through <= set(named)
    assert len(flow["names"]) == flow["files"]
    assert len(named) == flow["functions"] > flow["files"] > 1
    assert flow["depth"] > 5
    assert sum(flow["share_of_time"].values()) == pytest.approx(1.0)


def test_what_runs_without_calls_is_left_out(flows: dict[str, Any]) -> None:
    named = {name for flow in flows.values() for names in flow["names"].values() for name in names}
    assert not {name for name in named if name.startswith(("LagGauge.", "ReadinessMonitor.", "CatalogProbe."))}
