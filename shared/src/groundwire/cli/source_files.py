"""Finds the files that `groundwire ingest` takes, and the source each is stored under."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from groundwire.kernel.errors import FieldViolation, InvalidRequestError

SUFFIXES = frozenset({".md", ".markdown", ".txt", ".text", ".rst"})
"""Files that are taken from a folder; a file that is named itself is always taken."""


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest; `source_uri` is its path below the folder that was named, with forward slashes."""

    path: Path
    source_uri: str


def find_source_files(paths: Iterable[Path]) -> list[SourceFile]:
    """Return the files of all paths, each once, in the order of their sources.

    In folders only files with one of `SUFFIXES` are taken; hidden files and folders are left out.

    Raises:
        InvalidRequestError: a path does not exist, or two files would be stored under one source.
    """
    found: dict[str, Path] = {}
    violations: list[FieldViolation] = []
    for path in paths:
        if not path.exists():
            violations.append(FieldViolation(str(path), "does not exist"))
        for file in _files_of(path):
            known = found.setdefault(file.source_uri, file.path)
            if known.resolve() != file.path.resolve():
                violations.append(FieldViolation(str(file.path), f"has the same source as {known}"))
    if violations:
        raise InvalidRequestError(violations)
    return [SourceFile(path, source) for source, path in sorted(found.items())]


def _files_of(path: Path) -> Iterator[SourceFile]:
    if path.is_file():
        yield SourceFile(path, path.name)
    elif path.is_dir():
        for file in sorted(path.rglob("*")):
            relative = file.relative_to(path)
            hidden = any(part.startswith(".") for part in relative.parts)
            if file.is_file() and file.suffix.lower() in SUFFIXES and not hidden:
                yield SourceFile(file, relative.as_posix())
