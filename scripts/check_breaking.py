"""Compare the contract with that of the last release, and refuse what breaks clients of it.

usage: python scripts/check_breaking.py

The last release is the nearest tag `v*` in the history. The rules are those of `breaking` in protos/buf.yaml. Before
the first release, in a clone without tags and outside a repository there is nothing to compare with: that is said, and
the exit status is 0. It is 1 when something breaks; buf prints what.
"""

import io
import subprocess
import sys
import sysconfig
import tarfile
import tempfile
from pathlib import Path

BUF = Path(sysconfig.get_path("scripts")) / "buf"


def last_release(repository: Path) -> str | None:
    """Return the nearest tag `v*` that the current commit descends from, or None without any."""
    described = subprocess.run(
        ["git", "describe", "--tags", "--abbrev=0", "--match=v*"],  # noqa: S607 - the git of the developer
        cwd=repository,
        capture_output=True,
        text=True,
        check=False,
    )
    return described.stdout.strip() if described.returncode == 0 else None


def breaks(repository: Path, release: str) -> bool:
    """Compare the protos of the working tree with those of a tag; buf prints every finding.

    Raises:
        subprocess.CalledProcessError: the tag has no protos, or buf could not compare.
    """
    # Not `--against .git#tag=…`: buf cannot clone from a worktree, whose .git is a file.
    archive = subprocess.run(  # noqa: S603 - the tag is one of git's own
        ["git", "archive", "--format=tar", release, "protos"],  # noqa: S607 - the git of the developer
        cwd=repository,
        capture_output=True,
        check=True,
    )
    with tempfile.TemporaryDirectory() as folder:
        with tarfile.open(fileobj=io.BytesIO(archive.stdout)) as tar:
            tar.extractall(folder, filter="data")
        command = [str(BUF), "breaking", "protos", "--against", str(Path(folder) / "protos")]
        compared = subprocess.run(command, cwd=repository, check=False)  # noqa: S603 - our own command
    found_breaking = 100
    if compared.returncode not in {0, found_breaking}:
        compared.check_returncode()
    return compared.returncode == found_breaking


def main() -> int:
    """Compare the repository of the working directory, and return the exit status."""
    repository = Path.cwd()
    release = last_release(repository)
    if release is None:
        print("check_breaking: no release to compare the contract with, skipped")
        return 0
    if breaks(repository, release):
        print(f"check_breaking: clients of {release} would break", file=sys.stderr)
        return 1
    print(f"check_breaking: clients of {release} go on working")
    return 0


if __name__ == "__main__":
    sys.exit(main())
