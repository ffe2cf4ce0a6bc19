"""What breaks clients of the last release does not pass `make check`."""

import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
CHECK = ROOT / "scripts" / "check_breaking.py"
ANSWERS = "protos/groundwire/api/answer/v1/answer_service.proto"


def checked(repository: Path, *options: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, CHECK, *options], cwd=repository, capture_output=True, text=True, check=False
    )


def released(repository: Path, version: str) -> None:
    """Keep the contract of a copy as that of a version."""
    (repository / "pyproject.toml").write_text(f'[project]\nversion = "{version}"\n', encoding="utf-8")
    kept = checked(repository, "--release")
    expected = f"check_breaking: kept protos/released/v{version}.binpb, commit it with the release\n"
    assert (kept.returncode, kept.stdout) == (0, expected), kept.stderr


@pytest.fixture
def repository(tmp_path: Path) -> Path:
    """The protos as they are, of which nothing was released; a folder without git, as the check needs none."""
    copy = tmp_path / "copy"
    shutil.copytree(ROOT / "protos", copy / "protos", ignore=shutil.ignore_patterns("gen", "released"))
    return copy


def without_one_call(repository: Path) -> str:
    """Delete the call VerifyCitations and return its name."""
    path = repository / ANSWERS
    lines = path.read_text(encoding="utf-8").splitlines(keepends=True)
    (position,) = [number for number, line in enumerate(lines) if line.startswith("  rpc VerifyCitations(")]
    end = position if lines[position].rstrip().endswith(";") else lines.index("  }\n", position)
    path.write_text("".join(lines[:position] + lines[end + 1 :]), encoding="utf-8")
    return "VerifyCitations"


def test_an_unchanged_contract_and_one_with_more_messages_pass(repository: Path) -> None:
    released(repository, "0.0.1")
    passed = checked(repository)
    assert (passed.returncode, passed.stdout) == (0, "check_breaking: clients of v0.0.1 go on working\n")

    path = repository / ANSWERS
    more = "// One more.\nmessage OneMore {}\n"
    path.write_text(path.read_text(encoding="utf-8") + more, encoding="utf-8")
    assert checked(repository).returncode == 0


def test_a_deleted_call_is_named_and_refused(repository: Path) -> None:
    released(repository, "0.0.1")
    call = without_one_call(repository)

    refused = checked(repository)
    assert refused.returncode == 1
    assert f'"{call}"' in refused.stdout
    assert refused.stderr == "check_breaking: clients of v0.0.1 would break\n"


def test_a_field_of_another_type_is_refused(repository: Path) -> None:
    released(repository, "0.0.1")
    path = repository / ANSWERS
    text = path.read_text(encoding="utf-8")
    assert "string session_id = 1" in text
    path.write_text(text.replace("string session_id = 1", "bytes session_id = 1", 1), encoding="utf-8")
    assert checked(repository).returncode == 1


def test_the_last_of_several_releases_counts(repository: Path) -> None:
    released(repository, "0.0.1")
    without_one_call(repository)
    released(repository, "0.0.2")
    assert [path.name for path in (repository / "protos/released").iterdir()] == ["v0.0.2.binpb"]
    assert checked(repository).stdout == "check_breaking: clients of v0.0.2 go on working\n"


def test_before_the_first_release_the_check_says_so_and_passes(repository: Path) -> None:
    (repository / "CHANGELOG.md").write_text("# Changelog\n\n## Unreleased\n", encoding="utf-8")
    done = checked(repository)
    assert (done.returncode, done.stdout) == (
        0,
        "check_breaking: no release to compare the contract with, skipped\n",
    )


@pytest.mark.parametrize("kept", [None, "0.1.0"])
def test_a_release_whose_contract_was_not_kept_is_refused(repository: Path, kept: str | None) -> None:
    if kept:
        released(repository, kept)
    log = "# Changelog\n\n## Unreleased\n\n## 0.2.0 - 2030-01-01\n\n## 0.1.0 - 2029-01-01\n"
    (repository / "CHANGELOG.md").write_text(log, encoding="utf-8")
    refused = checked(repository)
    assert refused.returncode == 1
    assert "the contract of v0.2.0 was not kept, run `make release-contract`" in refused.stderr
    released(repository, "0.2.0")
    assert checked(repository).returncode == 0


def test_make_checks_and_keeps_the_contract() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    for target, command in (("check", "check_breaking.py"), ("release-contract", "check_breaking.py --release")):
        steps = makefile.partition(f"\n{target}:")[2].partition("\n\n")[0].splitlines()
        assert f"\t$(BIN)/python scripts/{command}" in steps
