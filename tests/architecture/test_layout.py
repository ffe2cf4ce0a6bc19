"""The layout rules that keep every import path unique (ADR 0001)."""

import sys
import tomllib
from importlib import import_module
from pathlib import Path

import pytest

from tests.packages import in_checkout

ROOT = Path(__file__).resolve().parents[2]
CONFIG = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
SOURCE_ROOTS = [
    "protos/gen",
    "shared/src",
    "services/ingest/src",
    "services/retrieve/src",
    "services/answer/src",
    "services/standalone/src",
]


def test_the_build_names_every_source_root() -> None:
    hatch = CONFIG["tool"]["hatch"]["build"]
    assert hatch["dev-mode-dirs"] == SOURCE_ROOTS
    assert hatch["targets"]["wheel"]["packages"] == [f"{root}/groundwire" for root in SOURCE_ROOTS]


def test_mypy_names_every_source_root() -> None:
    assert CONFIG["tool"]["mypy"]["mypy_path"] == [f"$MYPY_CONFIG_FILE_DIR/{root}" for root in SOURCE_ROOTS]


@in_checkout
def test_pytest_names_every_source_root() -> None:
    assert CONFIG["tool"]["pytest"]["ini_options"]["pythonpath"] == [".", *SOURCE_ROOTS]


@in_checkout
@pytest.mark.parametrize("root", SOURCE_ROOTS)
def test_a_source_root_holds_only_a_slice_of_the_namespace(root: str) -> None:
    folder = ROOT / root
    assert [entry.name for entry in folder.iterdir() if entry.name != "__pycache__"] == ["groundwire"]
    assert not (folder / "groundwire" / "__init__.py").exists(), "it would hide the other slices"


@in_checkout
def test_every_slice_is_typed_and_checked() -> None:
    slices = {
        f"groundwire.{path.name}"
        for root in SOURCE_ROOTS
        for path in (ROOT / root / "groundwire").iterdir()
        if path.is_dir() and path.name != "__pycache__"
    }
    assert slices == set(CONFIG["tool"]["importlinter"]["root_packages"])
    assert slices - {"groundwire.api"} == set(CONFIG["tool"]["coverage"]["run"]["source_pkgs"])
    for name in slices:
        (location,) = import_module(name).__path__
        assert (Path(location) / "py.typed").exists(), name


def test_the_package_comes_from_one_place() -> None:
    namespace = import_module("groundwire")
    found = {Path(entry).resolve() for entry in namespace.__path__}
    if (ROOT / "shared" / "src").exists():
        assert found == {(ROOT / root / "groundwire").resolve() for root in SOURCE_ROOTS}
    else:
        (only,) = found
        assert only.is_relative_to(Path(sys.prefix).resolve())


@in_checkout
def test_names_say_a_meaning_not_a_place() -> None:
    vague = {"base.py", "common.py", "helpers.py", "manager.py", "misc.py", "utils.py"}
    files = [path for root in SOURCE_ROOTS for path in (ROOT / root).rglob("*.py")]
    assert len(files) > 100
    assert [str(path) for path in files if path.name in vague] == []
