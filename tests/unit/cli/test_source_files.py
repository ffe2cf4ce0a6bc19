import os
import socket
from pathlib import Path
from typing import Any

import pytest

from groundwire.cli.source_files import (
    SkippedFile,
    SkipReason,
    SourceFiles,
    UnusableFile,
    check_sources,
    find_source_files,
)
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


def sources(found: SourceFiles) -> list[str]:
    return [file.source_uri for file in found.files]


def test_a_folder_gives_what_can_be_read_below_itself_in_order(folder: Path) -> None:
    found = sources(find_source_files([folder]))
    assert found == ["NOTES", "a.TXT", "b.md", "code.py", "cut", "deep/er/c.rst", "scan"]


def test_a_file_of_a_known_ending_is_taken_whatever_is_in_it(folder: Path) -> None:
    (folder / "broken.docx").write_bytes(b"\0\1\2")
    assert "broken.docx" in sources(find_source_files([folder]))


def test_a_file_that_is_named_is_taken_whatever_its_ending(folder: Path) -> None:
    assert sources(find_source_files([folder / "image.png"])) == ["image.png"]


def test_a_file_named_twice_is_taken_once(folder: Path) -> None:
    assert find_source_files([folder, folder / "b.md", folder]).files == find_source_files([folder]).files


def test_two_files_with_one_source_are_refused_naming_both(
    folder: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    other = tmp_path_factory.mktemp("other") / "b.md"
    other.write_text("another text")
    advice = r"stored as 'b.md', as .*b.md would: ingest each with a --prefix .* folder of both, /.* --include"
    with pytest.raises(InvalidRequestError, match=advice):
        find_source_files([folder, other])


@pytest.mark.parametrize("prefix", ["alpha", "alpha/"])
def test_a_prefix_stands_before_every_source(folder: Path, prefix: str) -> None:
    found = sources(find_source_files([folder / "deep", folder / "b.md"], prefix))
    assert found == ["alpha/b.md", "alpha/er/c.rst"]


def test_every_missing_path_is_named(folder: Path) -> None:
    with pytest.raises(InvalidRequestError) as caught:
        find_source_files([folder / "no", folder / "nor"])
    assert [Path(violation.field).name for violation in caught.value.violations] == ["no", "nor"]


def test_what_is_not_taken_is_named_with_its_reason(folder: Path) -> None:
    assert find_source_files([folder]).skipped == [
        SkippedFile("image.png", SkipReason.UNSUPPORTED),
        SkippedFile("latin", SkipReason.UNSUPPORTED),
    ]


@pytest.mark.parametrize(
    "name", ["plan.SVG", "letter.rtf", "page.css", "page.xsl", "page.css.map", "page.min.js", "searchindex.js"]
)
def test_what_only_programs_read_is_not_taken_although_it_is_text(folder: Path, name: str) -> None:
    (folder / name).write_text("text")
    assert SkippedFile(name, SkipReason.UNSUPPORTED) in find_source_files([folder]).skipped
    assert [each.path for each in find_source_files([folder / name]).files] == [folder / name]


def test_scripts_are_taken_as_other_code_is(folder: Path) -> None:
    (folder / "owl.js").write_text("wake(owl)")
    assert folder / "owl.js" in [each.path for each in find_source_files([folder]).files]


def test_an_empty_file_fails_only_where_its_name_promises_a_document(tmp_path: Path) -> None:
    for name in ("__init__.py", "notes.md"):
        (tmp_path / name).touch()
    found = find_source_files([tmp_path])
    assert [file.source_uri for file in found.files] == ["notes.md"]
    assert found.skipped == [SkippedFile("__init__.py", SkipReason.EMPTY)]


def test_a_path_that_is_not_utf8_holds_nobody_up(tmp_path: Path) -> None:
    for name in (b"caf\xe9.md", b"tea.md"):
        (tmp_path / os.fsdecode(name)).write_text("text")
    found = find_source_files([tmp_path])
    assert sources(found) == ["tea.md"]
    assert found.unusable == [UnusableFile(r"caf\xe9.md", "its path is not UTF-8; rename it")]
    alone = find_source_files([tmp_path / os.fsdecode(b"caf\xe9.md")])
    assert (alone.files, alone.unusable) == ([], found.unusable)


def test_links_are_taken_inside_a_folder_and_beyond_it_only_on_request(
    tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    outside = tmp_path_factory.mktemp("outside")
    (outside / "secret.md").write_text("secret")
    (tmp_path / "inner").mkdir()
    (tmp_path / "inner" / "a.md").write_text("text")
    (tmp_path / "same.md").symlink_to("inner/a.md")
    (tmp_path / "again").symlink_to("inner")
    (tmp_path / "inner" / "circle").symlink_to("..")
    (tmp_path / "secret.md").symlink_to(outside / "secret.md")
    (tmp_path / "folder").symlink_to(outside)
    (tmp_path / "gone.md").symlink_to("nothing")
    (tmp_path / "itself").symlink_to("itself")
    found = find_source_files([tmp_path])
    assert sources(found) == ["inner/a.md", "same.md"]
    assert found.skipped == [
        SkippedFile("folder", SkipReason.OUTSIDE_LINK),
        SkippedFile("gone.md", SkipReason.BROKEN_LINK),
        SkippedFile("itself", SkipReason.BROKEN_LINK),
        SkippedFile("secret.md", SkipReason.OUTSIDE_LINK),
    ]
    followed = find_source_files([tmp_path], follow_links=True)
    assert sources(followed) == ["again/a.md", "folder/secret.md", "inner/a.md", "same.md", "secret.md"]
    link = tmp_path_factory.mktemp("links") / "named"
    link.symlink_to(outside)
    assert sources(find_source_files([link])) == ["secret.md"]


@pytest.mark.timeout(20)
def test_special_files_hold_nobody_up(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.md")
    listening = socket.socket(socket.AF_UNIX)
    listening.bind(str(tmp_path / "s"))
    (tmp_path / "a.md").write_text("text")
    found = find_source_files([tmp_path])
    listening.close()
    assert sources(found) == ["a.md"]
    assert found.skipped == [SkippedFile("pipe.md", SkipReason.SPECIAL), SkippedFile("s", SkipReason.SPECIAL)]
    with pytest.raises(InvalidRequestError, match="is neither a file nor a folder"):
        find_source_files([tmp_path / "pipe.md"])


def test_a_folder_that_cannot_be_listed_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "closed").mkdir()
    (tmp_path / "a.md").write_text("text")
    (tmp_path / "closed notes").write_text("text")
    listed, opened = Path.iterdir, Path.open

    def iterdir(path: Path) -> object:
        if path.name == "closed":  # the tests may run as root, whom no mode keeps out
            raise PermissionError(13, "Permission denied")
        return listed(path)

    def open_file(path: Path, *arguments: Any, **named: Any) -> object:
        if path.name == "closed notes":
            raise PermissionError(13, "Permission denied")
        return opened(path, *arguments, **named)

    monkeypatch.setattr(Path, "iterdir", iterdir)
    monkeypatch.setattr(Path, "open", open_file)
    found = find_source_files([tmp_path])
    assert sources(found) == ["a.md", "closed notes"]  # which fails when it is read, and is named then
    assert found.unusable == [UnusableFile("closed/", "cannot be read: Permission denied")]


@pytest.mark.parametrize(
    ("include", "exclude", "chosen"),
    [
        ((), (), ["a.md", "drafts/b.md", "drafts/old/c.txt", "notes/a.txt"]),
        (("*.md",), (), ["a.md", "drafts/b.md"]),
        (("*.md", "notes"), (), ["a.md", "drafts/b.md", "notes/a.txt"]),
        ((), ("drafts",), ["a.md", "notes/a.txt"]),
        ((), ("drafts/",), ["a.md", "notes/a.txt"]),
        ((), ("drafts/old",), ["a.md", "drafts/b.md", "notes/a.txt"]),
        ((), ("drafts/old/",), ["a.md", "drafts/b.md", "notes/a.txt"]),
        ((), ("drafts/*.txt",), ["a.md", "drafts/b.md", "notes/a.txt"]),
        (("a.*",), ("*.txt",), ["a.md"]),
    ],
)
def test_patterns_choose_files(
    tmp_path: Path, include: tuple[str, ...], exclude: tuple[str, ...], chosen: list[str]
) -> None:
    for source in ("a.md", "drafts/b.md", "drafts/old/c.txt", "notes/a.txt"):
        (tmp_path / source).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / source).write_text("text")
    assert sources(find_source_files([tmp_path]).selected(include, exclude)) == chosen


def test_what_is_not_selected_is_not_reported_either(folder: Path) -> None:
    found = find_source_files([folder]).selected((), ("latin",))
    assert found.skipped == [SkippedFile("image.png", SkipReason.UNSUPPORTED)]
    with pytest.raises(InvalidRequestError, match="select none of"):
        find_source_files([folder]).selected(("*.nothing",), ())


@pytest.mark.parametrize(
    ("path", "instead"),
    [
        ("-", "cat > notes.md"),
        ("https://example.org/a.html", "curl -o"),
        ("S3://bucket/a.md", "curl -o"),
        ("", "must name a file or folder"),
    ],
)
def test_what_is_no_file_says_what_to_do(path: str, instead: str) -> None:
    with pytest.raises(InvalidRequestError) as refused:
        check_sources(["a.md", path])
    (violation,) = refused.value.violations
    assert violation.field == (path or "PATH")
    assert instead in violation.description
    assert check_sources(["./-", "a:b.md"]) == [Path("-"), Path("a:b.md")]
