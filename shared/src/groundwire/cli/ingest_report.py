"""Shows the progress and the outcome of `groundwire ingest`."""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import PurePosixPath
from types import TracebackType
from typing import Any, Self

from groundwire.cli.output import counted, print_line
from groundwire.cli.progress import ProgressBar
from groundwire.cli.source_files import SkippedFile, SkipReason

_LIST_THEM = "--verbose lists them"
_HINTS = {
    SkipReason.UNSUPPORTED: _LIST_THEM,
    SkipReason.OUTSIDE_LINK: "--follow-links takes them, --verbose lists them",
    SkipReason.BROKEN_LINK: _LIST_THEM,
    SkipReason.SPECIAL: _LIST_THEM,
}
_NAMED_ENDINGS = 6


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file: `outcome` is created, replaced, unchanged, reused or failed.

    `chunks` is the size of the live generation and `embedded` the number of texts that were embedded for it.
    `document_id` is empty for a failed one.
    """

    source: str
    outcome: str
    chunks: int = 0
    embedded: int = 0
    warnings: tuple[str, ...] = ()
    error: str | None = None
    document_id: str = ""


class Display:
    """Shows how far a run over files is; used from several threads. `quiet` shows nothing."""

    def __init__(self, file_count: int, *, quiet: bool) -> None:
        self._bar = ProgressBar("files", file_count, quiet=quiet)
        self._chunks = 0

    def __enter__(self) -> Self:
        self._bar.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.__exit__(kind, error, trace)

    def finished(self, outcome: FileOutcome) -> None:
        """Count a file that is done."""
        self._chunks += outcome.chunks
        self._bar.advance(f"{self._chunks} chunks · {outcome.source}")

    def advance(self, source: str) -> None:
        """Count a file that was looked at."""
        self._bar.advance(source)

    def stage(self, source: str, stage: str, done: int, total: int) -> None:
        """Show how far a large file is."""
        self._bar.note(f"{source}: {stage} {done}/{total}")


def as_dict(
    outcomes: Sequence[FileOutcome], skipped: Sequence[SkippedFile], deleted: Sequence[dict[str, Any]] = ()
) -> dict[str, Any]:
    """Return the report as `--json` prints it; `deleted` are the documents whose files were gone."""
    counts = Counter(outcome.outcome for outcome in outcomes)
    files = [
        {
            "source": outcome.source,
            "outcome": outcome.outcome,
            "chunks": outcome.chunks,
            "embedded": outcome.embedded,
            "warnings": list(outcome.warnings),
            "error": outcome.error,
        }
        for outcome in outcomes
    ]
    totals = {name: counts[name] for name in ("created", "replaced", "unchanged", "reused", "failed")}
    sums = {
        "files": len(outcomes),
        "chunks": sum(outcome.chunks for outcome in outcomes),
        "embedded": sum(outcome.embedded for outcome in outcomes),
    }
    return {
        "files": files,
        "skipped": skipped_list(skipped),
        "deleted": list(deleted),
        "totals": sums | totals | {"skipped": len(skipped), "deleted": len(deleted)},
    }


def skipped_list(skipped: Sequence[SkippedFile]) -> list[dict[str, str]]:
    """Return what is left out of a run as `--json` prints it."""
    return [{"source": each.source, "reason": each.reason.value} for each in skipped]


def show(report: dict[str, Any]) -> None:
    """Print the totals, and each failed file with its reason to the error stream."""
    for warning, sources in _by_warning(report).items():
        where = sources[0] if len(sources) == 1 else f"{len(sources)} files, {sources[0]} the first"
        print_line(("warning", "yellow"), f" {warning} ({where})", err=True)
    for file in report["files"]:
        if file["error"] is not None:
            print_line(("failed", "bold red"), f" {file['source']}: {file['error']}", err=True)
    totals = report["totals"]
    outcomes = ", ".join(
        f"{totals[name]} {name}"
        for name in ("created", "replaced", "unchanged", "reused", "failed", "deleted")
        if totals[name]
    )
    chunks = f"{counted(totals['chunks'], 'chunk')}, {totals['embedded']:,} embedded"
    print_line(f"{counted(totals['files'], 'file')}: {outcomes or 'nothing to do'} · {chunks}")


def show_skipped(skipped: Sequence[SkippedFile], *, verbose: bool) -> None:
    """Say on the error stream what of the folders is left out: how many of which endings, or with `verbose` each."""
    if verbose:
        for each in skipped:
            print_line(("skipped", "yellow"), f" {each.source}: {each.reason}", err=True)
        return
    for reason, hint in _HINTS.items():
        sources = [each.source for each in skipped if each.reason is reason]
        if sources and reason is SkipReason.UNSUPPORTED:
            endings = Counter(PurePosixPath(source).suffix.lower() or "without an ending" for source in sources)
            named = ", ".join(f"{count} {ending}" for ending, count in endings.most_common(_NAMED_ENDINGS))
            named += f" and {len(endings) - _NAMED_ENDINGS} other endings" if len(endings) > _NAMED_ENDINGS else ""
            said = f" {counted(len(sources), 'file')} of types that are not read: {named}; {hint}"
            print_line(("skipped", "yellow"), said, err=True)
        elif sources:
            print_line(("skipped", "yellow"), f" {counted(len(sources), reason)}; {hint}", err=True)


def _by_warning(report: dict[str, Any]) -> dict[str, list[str]]:
    """Return the sources of each warning: one line for many files, so that failures stay in sight."""
    found: dict[str, list[str]] = {}
    for file in report["files"]:
        for warning in file["warnings"]:
            found.setdefault(warning, []).append(file["source"])
    return found
