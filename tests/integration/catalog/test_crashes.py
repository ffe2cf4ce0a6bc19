"""SIGKILL at any moment: what was acknowledged is there, what was not is invisible and can be swept."""

import random
import time
from contextlib import suppress
from multiprocessing import Pipe
from pathlib import Path

import pytest

from groundwire.kernel.document import Document
from tests import forked
from tests.catalogs import problems_of
from tests.integration.catalog.crashing_writer import write
from tests.integration.catalog.drafts import TENANT, Catalog, open_catalog

pytestmark = pytest.mark.sqlite


KILLS = 5
MOST_KILLS = 20
PARTS_OF_GENERATION = {1: 5, 2: 4}


def _run_and_kill(path: Path, first: int, seconds: float) -> list[tuple[str, int]]:
    """Let the writer work for a while, kill it, and return what it said was done."""
    ours, theirs = Pipe(duplex=False)
    process = forked.start(write, path, first, theirs)
    theirs.close()  # so that it has one end, and is closed with the writer
    done = [ours.recv()]
    time.sleep(seconds)
    process.kill()
    with suppress(EOFError, OSError):  # the last message may be cut
        while True:
            done.append(ours.recv())
    process.join()
    return done


def test_nothing_acknowledged_is_lost_and_nothing_else_is_seen(tmp_path: Path) -> None:
    path, chance = tmp_path / "catalog.db", random.Random(4)
    acknowledged: dict[str, int] = {}
    kill = leftovers = 0
    # A kill hits a pending generation about every second time; the test goes on until one did.
    while kill < KILLS or (leftovers == 0 and kill < MOST_KILLS):
        kill += 1
        done = _run_and_kill(path, kill * 10_000, chance.uniform(0.15, 0.5))
        acknowledged |= dict(done)
        catalog = open_catalog(path)
        left = catalog.recovery.leftovers()
        leftovers += len(left)
        _assert_as_acknowledged(catalog, acknowledged, last=done[-1][0])
        for pending in left:
            catalog.documents.abandon(pending)
        assert catalog.recovery.leftovers() == []
        assert problems_of(catalog.database) == []
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
