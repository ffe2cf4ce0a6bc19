"""What breaks clients of the last release does not pass `make check`."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "scripts" / "check_breaking.py"
ANSWERS = "protos/groundwire/api/answer/v1/answer_service.proto"
IDENTITY = {f"GIT_{who}_{what}": "nobody@example.com" for who in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}


def git(repository: Path, *arguments: str) -> None:
    subprocess.run(["git", *arguments], cwd=repository, check=True, capture_output=True, env=os.environ | IDENTITY)


def checked(repository: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, CHECK], cwd=repository, capture_output=True, text=True, check=False)


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """A repository with the protos of this one, committed and not released."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "protos", copy / "protos", ignore=shutil.ignore_patterns("gen"))
    git(copy, "init", "--quiet")
    git(copy, "add", ".")
    git(copy, "commit", "--quiet", "--message=The contract")
    return copy


def without_one_call(repository: Path) -> str:
    """Delete the call VerifyCitations and return its name."""
    path = repository / ANSWERS
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (position,) = [number for number, line in enumerate(lines) if line.startswith("  rpc VerifyCitations(")]
    end = position if lines[position].rstrip().endswith(";") else lines.index("  }\n", position)
    path.write_text("".join(lines[:position] + lines[end + 1 :]), encoding="utf-8")
    return "VerifyCitations"


def test_an_unchanged_contract_and_one_with_more_calls_pass(repository: Path) -> None:
    git(repository, "tag", "v0.0.1")
    passed = checked(repository)
    assert (passed.returncode, passed.stdout) == (0, "check_breaking: clients of v0.0.1 go on working\n")

    path = repository / ANSWERS
    more = "// One more.\nmessage OneMore {}\n"
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert checked(repository).returncode == 0


@pytest.mark.parametrize("committed", [False, True])
def test_a_deleted_call_is_named_and_refused(repository: Path, committed: bool) -> None:
    git(repository, "tag", "v0.0.1")
    call = without_one_call(repository)
    if committed:
        git(repository, "commit", "--quiet", "--all", "--message=Delete a call")

    refused = checked(repository)
    assert refused.returncode == 1
    assert f'"{call}"' in refused.stdout
    assert refused.stderr == "check_breaking: clients of v0.0.1 would break\n"


def test_the_last_of_several_releases_counts(repository: Path) -> None:
    git(repository, "tag", "v0.0.1")
    without_one_call(repository)
    git(repository, "commit", "--quiet", "--all", "--message=Delete a call")
    git(repository, "tag", "v0.0.2")
    assert checked(repository).stdout == "check_breaking: clients of v0.0.2 go on working\n"


def test_a_worktree_and_a_clone_know_the_release(repository: Path, tmp_path: Path) -> None:
    git(repository, "tag", "v0.0.1")
    git(repository, "worktree", "add", "--quiet", str(tmp_path / "tree"))
    git(tmp_path, "clone", "--quiet", str(repository), "clone")
    for place in (tmp_path / "tree", tmp_path / "clone"):
        without_one_call(place)
        assert checked(place).returncode == 1


def test_without_a_release_the_check_says_so_and_passes(repository: Path, tmp_path: Path) -> None:
    skipped = "check_breaking: no release to compare the contract with, skipped\n"
    outside = tmp_path / "unpacked"
    outside.mkdir()
    shutil.copytree(repository / "protos", outside / "protos")
    for place in (repository, outside):
        done = checked(place)
        assert (done.returncode, done.stdout) == (0, skipped)


@pytest.mark.skipif(not (ROOT / "protos/gen").exists(), reason="needs the sources")
def test_make_check_compares_with_the_last_release() -> None:
    assert "scripts/check_breaking.py\n" in (ROOT / "Makefile").read_text(encoding="utf-8").partition("check:")[2]
