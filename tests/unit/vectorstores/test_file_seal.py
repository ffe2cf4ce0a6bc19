"""Seals: whatever happened to a sealed file is seen, and what only looks different is not taken for damage."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from groundwire.vectorstores import file_seal
from groundwire.vectorstores.file_seal import Seal

SPARSE_BYTES = 32 << 20


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sealed"
    (folder / "inner").mkdir(parents=True)
    (folder / "small").write_bytes(b"vectors")
    with (folder / "inner" / "sparse").open("wb") as file:
        file.truncate(SPARSE_BYTES)
        file.seek(SPARSE_BYTES // 2)
        file.write(b"points")
    return folder


def _overwrite(path: Path, at: int, content: bytes) -> None:
    with path.open("r+b") as file:
        file.seek(at)
        file.write(content)


def _moved(path: Path) -> None:
    """Move the content of a file of holes by a multiple of what is read at a time."""
    _overwrite(path, SPARSE_BYTES // 2, bytes(6))
    _overwrite(path, SPARSE_BYTES // 4, b"points")


@pytest.mark.parametrize(
    ("name", "damage"),
    [
        ("small", Path.unlink),
        ("small", lambda path: path.write_bytes(b"")),
        ("small", lambda path: path.write_bytes(b"vector")),
        ("small", lambda path: path.write_bytes(b"vectorz")),
        ("inner/sparse", lambda path: os.truncate(path, SPARSE_BYTES // 2)),
        ("inner/sparse", lambda path: _overwrite(path, SPARSE_BYTES // 2, b"Points")),
        ("inner/sparse", lambda path: _overwrite(path, SPARSE_BYTES // 4, b"x")),
        ("inner/sparse", _moved),
    ],
)
def test_damage_is_seen(folder: Path, name: str, damage: Callable[[Path], object]) -> None:
    seal = Seal.of(folder)
    damage(folder / name)
    assert seal.broken(folder) == [name]


def test_untouched_and_copied_files_are_whole(folder: Path, tmp_path: Path) -> None:
    seal = Seal.of(folder)
    assert seal.broken(folder) == []
    shutil.copytree(folder, tmp_path / "copy", copy_function=shutil.copyfile)  # other times, and no holes
    assert seal.broken(tmp_path / "copy") == []


def test_a_seal_is_read_as_it_was_written(folder: Path, tmp_path: Path) -> None:
    Seal.of(folder).write(tmp_path / "seal")
    stored = Seal.read(tmp_path / "seal")
    assert stored is not None
    assert stored.broken(folder) == []
    (folder / "small").write_bytes(b"others!")
    assert stored.broken(folder) == ["small"]


@pytest.mark.parametrize("content", [None, "", "{", "[1]", '{"small": {"size": 1}}', '{"small": 1}'])
def test_what_is_no_seal_counts_as_none(tmp_path: Path, content: str | None) -> None:
    if content is not None:
        (tmp_path / "seal").write_text(content)
    assert Seal.read(tmp_path / "seal") is None


def test_only_large_files_that_look_the_same_are_not_read_again(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_seal, "_LARGE_BYTES", SPARSE_BYTES - 1)
    earlier = Seal.of(folder)
    for name, at in (("small", 0), ("inner/sparse", SPARSE_BYTES // 2)):
        _overwrite(folder / name, at, b"V")
        os.utime(folder / name, ns=(0, earlier.files[name].mtime_ns))  # as a change through a map may leave it
    later = Seal.of(folder, earlier)
    assert later.files["small"].checksum != earlier.files["small"].checksum
    assert later.files["inner/sparse"] == earlier.files["inner/sparse"]
    os.utime(folder / "inner/sparse", ns=(0, earlier.files["inner/sparse"].mtime_ns + 1))
    assert Seal.of(folder, earlier).files["inner/sparse"].checksum != earlier.files["inner/sparse"].checksum
