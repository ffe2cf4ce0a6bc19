"""SIGKILL at any moment: what was acknowledged is there, what was not is invisible and can be swept."""

import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from groundwire.kernel.document import Document
from tests.integration.catalog import crashing_writer
from tests.integration.catalog.drafts import TENANT, Catalog, open_catalog

pytestmark = pytest.mark.sqlite


KILLS = 5
MOST_KILLS = 20
PARTS_OF_GENERATION = {1: 5, 2: 4}


def _run_and_kill(path: Path, first: int, seconds: float) -> list[tuple[str, str, int]]:
    """Let the writer work for a while, kill it, and return what it said was done."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(["."] + [entry for entry in sys.path if entry])}
    process = subprocess.Popen(
        [sys.executable, crashing_writer.__file__, str(path), str(first)],
        stdout=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "ready\n"
    first_said = process.stdout.readline()
    time.sleep(seconds)
    process.kill()
    said, _ = process.communicate()
    lines = [line.split() for line in (first_said + said).splitlines()]
    return [(line[0], line[1], int(line[2])) for line in lines if len(line) == 3]


def test_nothing_acknowledged_is_lost_and_nothing_else_is_seen(tmp_path: Path) -> None:
    path, chance = tmp_path / "catalog.db", random.Random(4)
    acknowledged: dict[str, int] = {}
    kill = leftovers = 0
    # A kill hits a pending generation about every second time; the test goes on until one did.
    while kill < KILLS or (leftovers == 0 and kill < MOST_KILLS):
        kill += 1
        done = _run_and_kill(path, kill * 10_000, chance.uniform(0.15, 0.5))
        acknowledged |= {source: generation for _, source, generation in done}
        catalog = open_catalog(path)
        left = catalog.recovery.leftovers()
        leftovers += len(left)
        _assert_as_acknowledged(catalog, acknowledged, last=done[-1][1])
        for pending in left:
            catalog.documents.abandon(pending)
        assert catalog.recovery.leftovers() == []
        assert catalog.integrity.problems() == []
        # What the killed process did without being able to say so counts from now on.
        acknowledged = {document.source_uri: document.generation for document in _documents(catalog)}
        catalog.database.close()
    assert leftovers > 0


def _documents(catalog: Catalog) -> list[Document]:
    return catalog.documents.page(TENANT, "docs", None, 100_000)


def _assert_as_acknowledged(catalog: Catalog, acknowledged: dict[str, int], last: str) -> None:
    """Compare with what was said; only the document at work, `last` or the next, may be one step further."""
    following = f"{int(last.removesuffix('.md')) + 1}.md"
    seen = {document.source_uri: document for document in _documents(catalog)}
    for source, generation in acknowledged.items():
        if source != last:
            assert (seen[source].generation if source in seen else 0) == generation, source
    assert set(seen) - set(acknowledged) <= {following}
    for source, document in seen.items():
        word, parts = f"word{source.removesuffix('.md')}", PARTS_OF_GENERATION[document.generation]
        chunks = catalog.chunks.page(TENANT, "docs", document.document_id, -1, 10)
        assert [stored.chunk.sequence_num for stored in chunks] == list(range(parts))
        matches = catalog.full_text.search(TENANT, "docs", [word], [], 10)
        assert sorted(match.number for match in matches) == [stored.chunk_number for stored in chunks]
        spans = [(stored.chunk.span.start, stored.chunk.span.end) for stored in chunks]
        texts = catalog.slice(TENANT, "docs", document.document_id, document.generation, spans)
        assert texts == [stored.chunk.content for stored in chunks]
