"""Answer services to ask."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import pytest

from tests.integration.answer.rig import FOXES, Rig


class MakeRig(Protocol):
    """Makes rigs that are closed after the test; the first one has the foxes in it."""

    def __call__(self, **options: Any) -> Rig: ...


@pytest.fixture
def make_rig(tmp_path: Path) -> Iterator[MakeRig]:
    rigs: list[Rig] = []

    def make(**options: Any) -> Rig:
        folder = tmp_path / str(len(rigs))
        folder.mkdir()
        rigs.append(Rig(folder, **options))
        rigs[-1].library.put("foxes.txt", FOXES)
        return rigs[-1]

    yield make
    for rig in rigs:
        rig.close()


@pytest.fixture
def rig(make_rig: MakeRig) -> Rig:
    """A rig with three chunks about foxes, bread and compilers."""
    return make_rig()
