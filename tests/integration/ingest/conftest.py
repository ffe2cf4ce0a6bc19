"""A service for each module, and an empty collection for each test."""

from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path
from typing import Any

import pytest

from groundwire.ingest.housekeeping import Housekeeping
from tests.integration.ingest.harness import Harness

_numbers = count()


@pytest.fixture(scope="module")
def harness(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Harness]:
    running = Harness(tmp_path_factory.mktemp("ingest"), max_document_bytes=3_000_000).start()
    yield running
    running.close()


@pytest.fixture
def collection(harness: Harness) -> str:
    name = f"c{next(_numbers)}"
    harness.create(name)
    harness.embedder.texts.clear()
    return name


@pytest.fixture
def process(tmp_path: Path) -> Iterator[Callable[..., Harness]]:
    """Start one process after the other on the same folder; what runs at the end is closed."""
    running: list[Harness] = []

    def start(*args: Any, **settings: Any) -> Harness:
        while running:
            running.pop().close()
        running.append(Harness(tmp_path, *args, **settings).start_without_parser_process())
        return running[-1]

    yield start
    for harness in running:
        harness.close()


@pytest.fixture
def woken(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Return what gets an element whenever somebody wakes housekeeping, which sleeps on."""
    times: list[bool] = []
    monkeypatch.setattr(Housekeeping, "nudge", lambda _: times.append(True))
    return times
