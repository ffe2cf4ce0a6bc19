"""The files that `groundwire ingest` takes from this machine, the source each is stored under, and which are gone."""

import os
import re
import stat
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from fnmatch import fnmatchcase
from pathlib import Path

from groundwire.kernel.errors import FieldViolation, InvalidRequestError, refuse

_SUFFIXES = ".csv .docx .eml .epub .htm .html .ipynb .jsonl .markdown .md .ndjson .pdf .rst .text .tsv .txt .xhtml"
SUFFIXES = frozenset(_SUFFIXES.split())
"""Files that are taken from a folder whatever is in them; a file that is named itself is always taken."""
# What a saved page brings with it to be shown and searched by, a drawing, and a document of a word processor: text as
# it is written by programs, and not as people read it.
_OF_PROGRAMS = (".css", ".map", ".min.js", "searchindex.js", ".rtf", ".svg", ".xsl", ".xslt")
# Enough to tell texts from other files, however large the files of a folder are.
_SNIFFED_BYTES = 4096
# In bytes of UTF-8: the last character of the sniffed bytes may be incomplete.
_LONGEST_CHARACTER = 4
_URL = re.compile(r"[a-z][a-z0-9+.-]+://", re.IGNORECASE)
# What to name instead of nothing, which `Path` takes for the current folder, of standard input and of a URL.
_INSTEAD = {
    "": "must name a file or folder",
    "-": "standard input has no source that citations could name: save it first, as in `cat > notes.md`, and ingest "
    "the file",
}
_INSTEAD_OF_URL = "the server opens no URLs: save the page first, as in `curl -o page.html URL`, and ingest the file"


@dataclass(frozen=True, slots=True)
class SourceFile:
    """A file to ingest; `source_uri` is the prefix of the run and its path below the named folder, with slashes."""

    path: Path
    source_uri: str


class SkipReason(StrEnum):
    """Why something in a folder is not taken."""

    UNSUPPORTED = "unsupported type"
    EMPTY = "empty file"
    OUTSIDE_LINK = "outside link"
    BROKEN_LINK = "broken link"
    SPECIAL = "special file"


@dataclass(frozen=True, slots=True)
class SkippedFile:
    """Something in a folder that is not taken, and why."""

    source: str
    reason: SkipReason


@dataclass(frozen=True, slots=True)
class UnusableFile:
    """A file or folder that should be taken and cannot be."""

    source: str
    error: str


@dataclass(frozen=True, slots=True)
class SourceFiles:
    """What is at the paths of a run: each file once, in the order of their sources, and what is left out."""

    files: list[SourceFile] = field(default_factory=list)
    skipped: list[SkippedFile] = field(default_factory=list)
    unusable: list[UnusableFile] = field(default_factory=list)

    def selected(self, include: Sequence[str], exclude: Sequence[str]) -> "SourceFiles":
        """Return what matches one of `include`, if there are any, and none of `exclude`.

        A pattern of the shell without a slash is compared with the name of the file and of each folder above it, one
        with a slash with the whole source, of which `*` may stand for several parts.

        Raises:
            InvalidRequestError: there are files, and none of them is selected.
        """

        def takes(source: str) -> bool:
            is_included = not include or any(_matches(source, pattern) for pattern in include)
            return is_included and not any(_matches(source, pattern) for pattern in exclude)

        selected = SourceFiles(
            [each for each in self.files if takes(each.source_uri)],
            [each for each in self.skipped if takes(each.source)],
            [each for each in self.unusable if takes(each.source)],
        )
        if self.files and not selected.files:
            description = f"select none of {len(self.files)} files, such as {self.files[0].source_uri}"
            raise InvalidRequestError.of("--include and --exclude", description)
        return selected


def _matches(source: str, pattern: str) -> bool:
    if "/" in pattern.rstrip("/"):
        return fnmatchcase(source, pattern) or fnmatchcase(source, f"{pattern.rstrip('/')}/*")
    return any(fnmatchcase(part, pattern.rstrip("/")) for part in source.split("/"))


def check_sources(paths: Sequence[str]) -> list[Path]:
    """Return the paths of files and folders.

    Raises:
        InvalidRequestError: one is empty, standard input or a URL, which cannot be ingested; says what to do instead.
    """
    refuse(
        FieldViolation(path or "PATH", _INSTEAD.get(path, _INSTEAD_OF_URL))
        for path in paths
        if path in _INSTEAD or _URL.match(path)
    )
    return [Path(path) for path in paths]


def source_start(prefix: str) -> str:
    """Return what the sources of a run with a prefix start with."""
    return f"{prefix.rstrip('/')}/" if prefix else ""


def find_source_files(paths: Iterable[Path], prefix: str = "", *, follow_links: bool = False) -> SourceFiles:
    """Return what is at all paths, each source with `prefix` before it.

    In folders files with one of `SUFFIXES` are taken, and others that look like something the server reads; hidden
    files and folders are left out without mention. A link in a folder is taken where its target is a file of the same
    folder, with `follow_links` wherever it leads; a path that is named may be a link. Nothing but regular files is
    opened, so that a pipe holds nobody up.

    Raises:
        InvalidRequestError: a path is no file and no folder, or two files would be stored under one source.
    """
    path_of: dict[str, Path] = {}
    result = SourceFiles()
    violations: list[FieldViolation] = []
    for path in paths:
        try:
            mode = path.stat().st_mode
        except OSError as error:
            is_absent = isinstance(error, FileNotFoundError)
            reason = "does not exist" if is_absent else f"cannot be read: {error.strerror}"
            violations.append(FieldViolation(shown_path(path), reason))
            continue
        if not stat.S_ISDIR(mode) and not stat.S_ISREG(mode):
            violations.append(FieldViolation(shown_path(path), "is neither a file nor a folder"))
            continue
        start = source_start(prefix)
        if stat.S_ISDIR(mode):
            items = _walk(path, start, follow_links=follow_links)
        else:
            items = iter([_usable(path, start + path.name)])
        for item in items:
            match item:
                case SkippedFile():
                    result.skipped.append(item)
                case UnusableFile():
                    result.unusable.append(item)
                case SourceFile(file, source):
                    # The same file named twice is fine; two files under one source would replace each other.
                    known = path_of.setdefault(source, file)
                    if known.resolve() != file.resolve():
                        both = os.path.commonpath([known.resolve(), file.resolve()])
                        clash = (
                            f"would be stored as {source!r}, as {shown_path(known)} would: ingest each with a --prefix "
                            f"of its own, or the folder of both, {shown_path(both)}, and select files with --include"
                        )
                        violations.append(FieldViolation(shown_path(file), clash))
    refuse(violations)
    result.files.extend(SourceFile(path, source) for source, path in sorted(path_of.items()))
    return result


def shown_path(path: str | Path) -> str:
    r"""Return a path as text; bytes in it that are not UTF-8 are shown as `\xe9`."""
    return os.fsencode(path).decode("utf-8", "backslashreplace")


def _walk(root: Path, start: str, *, follow_links: bool) -> Iterator[SourceFile | SkippedFile | UnusableFile]:
    # Each folder with the real paths of itself and those above it, so that links which lead in a circle end.
    folders = [(root, start, frozenset([root.resolve()]))]
    inside = None if follow_links else root.resolve()
    while folders:
        folder, parent, above = folders.pop()
        try:
            paths = sorted(path for path in folder.iterdir() if not path.name.startswith("."))
        except OSError as error:
            yield UnusableFile(shown_path(parent or folder), f"cannot be read: {error.strerror}")
            continue
        for path in paths:
            source = parent + path.name
            reason: SkipReason | None = None
            try:
                if path.is_symlink() and not path.exists():
                    reason = SkipReason.BROKEN_LINK
                elif inside and path.is_symlink() and not path.resolve().is_relative_to(inside):
                    reason = SkipReason.OUTSIDE_LINK
                elif path.is_file():
                    reason = _why_not_taken(path)
                elif not path.is_dir():
                    reason = SkipReason.SPECIAL
            except OSError as error:
                yield UnusableFile(shown_path(source), f"cannot be read: {error.strerror}")
                continue
            if reason is not None:
                yield SkippedFile(shown_path(source), reason)
            elif path.is_file():
                yield _usable(path, source)
            elif not path.is_symlink() or follow_links:  # else it is reached under its own name
                real = path.resolve()
                if real not in above:
                    folders.append((path, f"{source}/", above | {real}))


def _usable(path: Path, source: str) -> SourceFile | UnusableFile:
    """Return the file, unless no message of the contract can hold its source."""
    try:
        source.encode("utf-8")
    except UnicodeEncodeError:
        return UnusableFile(shown_path(source), "its path is not UTF-8; rename it")
    return SourceFile(path, source)


def _why_not_taken(path: Path) -> SkipReason | None:
    """Return why a file in a folder is not taken, None if it is."""
    if path.suffix.lower() in SUFFIXES:
        return None
    if path.stat().st_size == 0:  # as an `__init__.py` is on purpose
        return SkipReason.EMPTY
    return None if _looks_readable(path) else SkipReason.UNSUPPORTED


def _looks_readable(path: Path) -> bool:
    """Tell whether the content begins like PDF, DOCX, EPUB or text in UTF-8; the server decides."""
    if path.name.lower().endswith(_OF_PROGRAMS):
        return False
    try:
        with path.open("rb") as file:
            head = file.read(_SNIFFED_BYTES)
    except OSError:
        return True  # so that the failure is named
    if head.startswith(b"%PDF-") or (
        head.startswith(b"PK\x03\x04") and (b"word/" in head or b"application/epub+zip" in head)
    ):
        return True
    try:
        head.decode("utf-8")
    except UnicodeDecodeError as error:
        # The last character may continue beyond the head.
        return 0 not in head and error.start > 0 and error.start > len(head) - _LONGEST_CHARACTER
    return 0 not in head


def check_roots(paths: Sequence[Path]) -> list[Path]:
    """Return the folders among the paths, below which files may be missing.

    Raises:
        InvalidRequestError: there is none, or one of them has no file: more likely a wrong path or an empty mount than
            the wish to delete everything.
    """
    roots = [path for path in paths if path.is_dir()]
    if not roots:
        raise InvalidRequestError.of("--delete-missing", "needs a folder to compare the collection with")
    refuse(
        FieldViolation(shown_path(root), "has no files to ingest")
        for root in roots
        if not find_source_files([root]).files
    )
    return roots


def is_missing(source: str, roots: Sequence[Path]) -> bool:
    """Tell whether a source looks like the path of a file below one of the folders, and no folder has such a file.

    Sources are paths below a folder, so that any relative path may be one of them. What has a scheme or is absolute
    came from somewhere else.
    """
    first = source.split("/", 1)[0]
    is_relative = first not in {"", "~"} and ":" not in first and "\\" not in source
    if not is_relative:
        return False
    for root in roots:
        try:
            (root / source).lstat()
        except (FileNotFoundError, NotADirectoryError):
            continue
        except (OSError, ValueError):
            return False  # a folder that cannot be read may hold anything
        return False
    return True
