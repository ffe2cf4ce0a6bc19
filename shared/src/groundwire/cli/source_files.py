"""Finds the files that `groundwire ingest` takes, and the source each is stored under."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from groundwire.kernel.errors import FieldViolation, InvalidRequestError

_SUFFIXES = ".csv .docx .htm .html .jsonl .markdown .md .ndjson .pdf .rst .text .tsv .txt .xhtml"
SUFFIXES = frozenset(_SUFFIXES.split())
"""Files that are taken from a folder whatever is in them; a file that is named itself is always taken."""
_SNIFFED_BYTES = 4096
_LONGEST_CHARACTER = 4


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest; `source_uri` is its path below the folder that was named, with forward slashes."""

    path: Path
    source_uri: str


def find_source_files(paths: Iterable[Path]) -> list[SourceFile]:
    """Return the files of all paths, each once, in the order of their sources.

    In folders files with one of `SUFFIXES` are taken, and others that look like something the server reads; hidden
    files and folders are left out.

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
            if not hidden and file.is_file() and (file.suffix.lower() in SUFFIXES or _looks_readable(file)):
                yield SourceFile(file, relative.as_posix())


def _looks_readable(path: Path) -> bool:
    """Tell whether the content begins like PDF, DOCX or text in UTF-8; the server decides."""
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError:
        return True  # so that the failure is named
    if head.startswith(b"%PDF-") or (head.startswith(b"PK\x03\x04") and b"word/" in head):
        return True
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The last character of the head may go on behind it.
        return 0 not in head and error.start > 0 and error.start > len(head) - _LONGEST_CHARACTER
    return 0 not in head
