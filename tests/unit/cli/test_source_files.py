from pathlib import Path

import pytest

from groundwire.cli.source_files import find_source_files
from groundwire.kernel.errors import InvalidRequestError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.md", "a.TXT", "deep/er/c.rst", ".hidden.md", ".git/d.md", "image.png", "code.py"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    return tmp_path


def test_a_folder_gives_its_texts_below_itself_in_order(folder: Path) -> None:
    assert [file.source_uri for file in find_source_files([folder])] == ["a.TXT", "b.md", "deep/er/c.rst"]


def test_a_file_that_is_named_is_taken_whatever_its_ending(folder: Path) -> None:
    assert [file.source_uri for file in find_source_files([folder / "code.py"])] == ["code.py"]


def test_a_file_named_twice_is_taken_once(folder: Path) -> None:
    assert len(find_source_files([folder, folder / "b.md", folder])) == 3


def test_two_files_with_one_source_are_refused_naming_both(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "b.md"
    other.write_text("another text")
    with pytest.raises(InvalidRequestError, match="has the same source as"):
        find_source_files([folder, other])


def test_every_missing_path_is_named(folder: Path) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        find_source_files([folder / "no", folder / "nor"])
    assert [Path(violation.field).name for violation in caught.value.violations] == ["no", "nor"]
