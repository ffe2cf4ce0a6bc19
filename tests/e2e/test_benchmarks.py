"""The benchmarks run: what they measure is built as they expect it. How fast or good it is, no test asserts."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks.quality_sets.data import data_folder
from benchmarks.quality_sets.searches import ROWS, Searches, fill
from benchmarks.served import served_client
from groundwire.kernel.collection import ProfileName
from tests.packages import requires

ROOT = Path(__file__).resolve().parents[2]
EMBEDDER = "hashing:64"


def test_every_row_of_the_quality_tables_finds_what_was_ingested() -> None:
    texts = {"tides.md": b"# Tides\n\nThe moon causes the tides.\n", "bread.md": b"# Bread\n\nYeast lets dough rise.\n"}
    with served_client(["--embedder", EMBEDDER]) as client:
        searches = Searches(client, fill(client, "two", texts, ProfileName.GENERAL))
        for row, search in searches.ways(ROWS, 2).items():
            best, *_ = search("What causes the tides?", "")
            assert best.source_uri == "tides.md", row


def run(command: str, folder: Path) -> "subprocess.CompletedProcess[str]":
    scratch = folder / "scratch"
    scratch.mkdir()
    filled = command.format(docs=folder / "docs", scratch=scratch, embedder=EMBEDDER)
    (folder / "docs").mkdir()
    for name in ("tides", "bread"):
        text = f"# About {name}\n\n" + "".join(f"Sentence {number} is about {name}. " for number in range(200))
        (folder / "docs" / f"{name}.md").write_text(text, encoding="utf-8")
    return subprocess.run(
        [sys.executable, *shlex.split(filled)],
        cwd=ROOT,
        env=os.environ | {"GROUNDWIRE_TEST_DATA": str(data_folder())},
        capture_output=True,
        text=True,
        timeout=600,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "benchmarks/quality.py contradictions",
        "benchmarks/start.py --starts 1 -- --embedder {embedder}",
        "benchmarks/records.py context --stored 50 --times 5",
        "benchmarks/records.py writes --stored 50 --times 10",
        "-m benchmarks.congruence --pairs 5 --engines memory,qdrant-edge",
        "-m benchmarks.converse --streams 2 --questions 2 --embedder {embedder}",
        "-m benchmarks.deployments --calls 2 --clients 2 --embedder {embedder}",
        "-m benchmarks.exactness --docs {docs}",
        "-m benchmarks.lexical --chunks 20 --docs {docs}",
        "-m benchmarks.many_collections --collections 3",
        "-m benchmarks.sizing {docs}",
        "-m benchmarks.stall --docs {docs} --embedder {embedder}",
    ],
)
def test_benchmarks_without_data_run(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout


@pytest.mark.slow
def test_searches_are_compared(tmp_path: Path) -> None:
    """The exit status is 1 when a target is missed, as on a busy machine."""
    small = "--chunks 300 --rounds 1 --queries 5 --mixed-chunks 300 --mixed-seconds 2 --peers --cache {scratch}"
    done = run(f"-m benchmarks.search --parts P7 P8 P11 P12 --docs docs --embedder {EMBEDDER} {small}", tmp_path)
    assert done.returncode == 0 or "MISSED" in done.stdout, done.stderr
    assert all(part in done.stdout for part in ("P7", "P8", "P11", "P12"))


@requires("sentence_transformers")
@pytest.mark.slow
def test_embedding_is_compared_with_the_library(tmp_path: Path) -> None:
    done = run("benchmarks/embed.py {docs} --texts 8 --rounds 1 --cache {scratch}", tmp_path)
    assert done.returncode == 0, done.stderr
    assert "P3 one query" in done.stdout


@pytest.mark.skipif(not data_folder().exists(), reason="needs the corpora in GROUNDWIRE_TEST_DATA")
@pytest.mark.slow
@pytest.mark.parametrize(
    "command",
    [
        "benchmarks/calibrate.py --only northwind --every 10 --plot {scratch}/plot.svg",
        "benchmarks/natural_questions.py --only speech",
        "benchmarks/quality.py answers --only clapnq --every 40 --embedder {embedder}",
        "benchmarks/quality.py book --embedder {embedder}",
        "benchmarks/quality.py chunking --embedder {embedder}",
        "benchmarks/quality.py conversations --embedder {embedder}",
        "benchmarks/quality.py ground --every 40 --embedder {embedder}",
        "benchmarks/quality.py memory --only facts --embedder {embedder}",
        "benchmarks/quality.py topics",
        "benchmarks/quality.py squad --every 400 --embedder {embedder}",
        "-m benchmarks.ingest --files 1 --runs 1 --peers '' --corpora squad --copies 2 --embedder {embedder}",
    ],
)
def test_benchmarks_over_the_corpora_run(command: str, tmp_path: Path) -> None:
    done = run(command, tmp_path)
    assert done.returncode == 0, done.stderr
    assert done.stdout
