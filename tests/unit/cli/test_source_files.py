from pathlib import Path

import pytest

from groundwire.cli.source_files import find_source_files
from groundwire.kernel.errors import InvalidRequestError


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    for name in ("b.md", "a.TXT", "deep/er/c.rst", ".hidden.md", ".git/d.md", "code.py", "NOTES"):
        path = tmp_path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("text")
    (tmp_path / "image.png").write_bytes(b"\x89PNG\r\n\x1a\n\0\0\0\rIHDR")
    (tmp_path / "latin").write_bytes("tr\xe8s bien".encode("latin-1"))
    (tmp_path / "scan").write_bytes(b"%PDF-1.7\n\0")
    (tmp_path / "cut").write_bytes(b"a" * 4095 + "\u20ac".encode())
    return tmp_path


def test_a_folder_gives_what_can_be_read_below_itself_in_order(folder: Path) -> None:
    found = [file.source_uri for file in find_source_files([folder])]
    assert found == ["NOTES", "a.TXT", "b.md", "code.py", "cut", "deep/er/c.rst", "scan"]


def test_a_file_of_a_known_ending_is_taken_whatever_is_in_it(folder: Path) -> None:
    (folder / "broken.docx").write_bytes(b"\0\1\2")
    assert "broken.docx" in [file.source_uri for file in find_source_files([folder])]


def test_a_file_that_is_named_is_taken_whatever_its_ending(folder: Path) -> None:
    assert [file.source_uri for file in find_source_files([folder / "image.png"])] == ["image.png"]


def test_a_file_named_twice_is_taken_once(folder: Path) -> None:
    assert len(find_source_files([folder, folder / "b.md", folder])) == len(find_source_files([folder]))


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
