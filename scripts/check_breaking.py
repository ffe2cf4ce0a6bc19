"""Check that the contract breaks no clients of the last release, or keep the contract of a release.

usage: python scripts/check_breaking.py [--release]

`--release` writes what the contract is now to protos/released/vX.Y.Z.binpb, X.Y.Z being the version in pyproject.toml,
in place of that of the release before. The file is committed, so that every clone compares with it, with or without
tags. The rules stand under `breaking` in protos/buf.yaml. The exit status is 1 when something breaks, which buf prints;
and when CHANGELOG.md names a release that has no file. Before the first release there is nothing to compare with: that
is said, and the exit status is 0.
"""

import argparse
import re
import subprocess
import sys
import sysconfig
import tomllib
from pathlib import Path

BUF = Path(sysconfig.get_path("scripts")) / "buf"
# What buf exits with when it has found something; 1 means that it could not look.
FOUND_BREAKING = 100


def released_contract(repository: Path) -> Path | None:
    """Return the file of the last release, or None before the first one.

    Raises:
        ValueError: there are several.
    """
    files = sorted((repository / "protos" / "released").glob("v*.binpb"))
    if len(files) > 1:
        raise ValueError(f"{', '.join(file.name for file in files)}: only the last release is kept")
    return files[0] if files else None


def last_release(repository: Path) -> str | None:
    """Return the newest release of the changelog, such as `v1.2.3`, or None before the first one."""
    changelog = repository / "CHANGELOG.md"
    text = changelog.read_text(encoding="utf-8") if changelog.exists() else ""
    heading = re.search(r"^## \[?v?(\d+\.\d+\.\d+)", text, re.MULTILINE)
    return f"v{heading[1]}" if heading else None


def write_contract(repository: Path) -> Path:
    """Keep the current contract as that of the version being released; return its file."""
    project = tomllib.loads((repository / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    before = released_contract(repository)
    released = repository / "protos" / "released" / f"v{project['version']}.binpb"
    released.parent.mkdir(exist_ok=True)
    command = [str(BUF), "build", "protos", "--exclude-source-info", "--output", str(released)]
    subprocess.run(command, cwd=repository, check=True)  # noqa: S603 - our own command
    if before is not None and before != released:
        before.unlink()
    return released


def breaks(repository: Path, released: Path) -> bool:
    """Compare the protos of the working tree with those of a release; buf prints every finding.

    Raises:
        subprocess.CalledProcessError: buf could not compare.
    """
    command = [str(BUF), "breaking", "protos", "--against", str(released)]
    compared = subprocess.run(command, cwd=repository, check=False)  # noqa: S603 - our own command
    if compared.returncode not in {0, FOUND_BREAKING}:
        compared.check_returncode()
    return compared.returncode == FOUND_BREAKING


def main(arguments: list[str] | None = None) -> int:
    """Compare or keep the contract of the repository of the working directory, and return the exit status."""
    parser = argparse.ArgumentParser(description="Check that the contract breaks no clients of the last release.")
    parser.add_argument("--release", action="store_true", help="keep the contract as that of the version released now")
    repository = Path.cwd()
    if parser.parse_args(arguments).release:
        print(f"check_breaking: kept {write_contract(repository).relative_to(repository)}, commit it with the release")
        return 0
    released, release = released_contract(repository), last_release(repository)
    if released is None and release is None:
        print("check_breaking: no release to compare the contract with, skipped")
        return 0
    if released is None or release not in {None, released.stem}:
        print(f"check_breaking: the contract of {release} was not kept, run `make release-contract`", file=sys.stderr)
        return 1
    if breaks(repository, released):
        print(f"check_breaking: clients of {released.stem} would break", file=sys.stderr)
        return 1
    print(f"check_breaking: clients of {released.stem} go on working")
    return 0


if __name__ == "__main__":
    sys.exit(main())
