"""Fixtures of the end-to-end tests: one server, or one deployment, for each file."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.e2e.server import ServerProcess
from tests.e2e.split import Deployment, start_services


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess | Deployment]:
    running = start_services(tmp_path_factory.mktemp("e2e"))
    yield running
    running.stop()


@pytest.fixture(scope="module")
def notes(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("notes")
    (folder / "tides.md").write_text(
        "# Tides\n\nThe moon causes the tides of the sea. A spring tide happens when sun and moon stand in line.\n",
        encoding="utf-8",
    )
    (folder / "inner").mkdir()
    (folder / "inner" / "bread.txt").write_text(
        "Sourdough bread rises because of wild yeast. It needs flour, water and salt.\n", encoding="utf-8"
    )
    (folder / "picture.png").write_bytes(b"\x89PNG\r\n")
    return folder
