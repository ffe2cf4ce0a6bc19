"""Shows the progress and the outcome of `groundwire ingest`."""

import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Self

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from groundwire.cli.output import console, counted


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
    """Progress bars on a terminal, nothing elsewhere; used from several threads."""

    def __init__(self, file_count: int, *, quiet: bool) -> None:
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TextColumn("{task.fields[note]}"),
            TimeElapsedColumn(),
            console=Console(stderr=True),
            disable=quiet or not sys.stderr.isatty(),
            transient=True,
        )
        self._files = self._progress.add_task("files", total=file_count, note="")
        self._chunks = 0

    def __enter__(self) -> Self:
        """Start drawing."""
        self._progress.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop drawing and remove the bars."""
        self._progress.stop()

    def finished(self, outcome: FileOutcome) -> None:
        """Count a file that is done."""
        self._chunks += outcome.chunks
        self._progress.update(self._files, advance=1, note=f"{self._chunks} chunks · {outcome.source}")

    def advance(self, source: str) -> None:
        """Count a file that was looked at."""
        self._progress.update(self._files, advance=1, note=source)

    def stage(self, source: str, stage: str, done: int, total: int) -> None:
        """Show how far a large file is."""
        self._progress.update(self._files, note=f"{source}: {stage} {done}/{total}")


def as_dict(outcomes: Sequence[FileOutcome], deleted: Sequence[dict[str, Any]] = ()) -> dict[str, Any]:
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
    return {"files": files, "deleted": list(deleted), "totals": sums | totals | {"deleted": len(deleted)}}


def show(report: dict[str, Any]) -> None:
    """Print the totals, and each failed file with its reason to the error stream."""
    errors = console(stderr=True)
    for warning, sources in _by_warning(report).items():
        where = sources[0] if len(sources) == 1 else f"{len(sources)} files, {sources[0]} the first"
        errors.print("[yellow]warning[/] ", end="")
        errors.print(f"{warning} ({where})", markup=False)
    for file in report["files"]:
        if file["error"] is not None:
            errors.print("[bold red]failed[/] ", end="")
            errors.print(f"{file['source']}: {file['error']}", markup=False)
    totals = report["totals"]
    outcomes = ", ".join(
        f"{totals[name]} {name}"
        for name in ("created", "replaced", "unchanged", "reused", "failed", "deleted")
        if totals[name]
    )
    chunks = f"{counted(totals['chunks'], 'chunk')}, {totals['embedded']:,} embedded"
    console().print(f"{counted(totals['files'], 'file')}: {outcomes or 'nothing to do'} · {chunks}")


def _by_warning(report: dict[str, Any]) -> dict[str, list[str]]:
    """Return the sources of each warning: one line for many files, so that failures stay in sight."""
    found: dict[str, list[str]] = {}
    for file in report["files"]:
        for warning in file["warnings"]:
            found.setdefault(warning, []).append(file["source"])
    return found
