"""What `groundwire ingest` shows: its progress, what became of each file or would, and what was left out."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import Any, TypeAlias

from groundwire.cli.output import ProgressBar, counted, print_line, print_table
from groundwire.cli.source_files import SkippedFile, SkipReason

INGEST_COUNTS = ("chunks", "embedded")
"""What an ingest counts for each file: the chunks of its live generation, and the texts embedded for it."""
PLAN_COUNTS = ("added", "kept", "removed", "embedded", "tokens")
"""What a plan counts for each file: chunks, and the tokens that would be embedded."""
UNCHANGED = frozenset({"unchanged", "reused"})
_OUTCOMES = ("created", "replaced", "unchanged", "reused", "failed")
_LIST_THEM = "--verbose lists them"
_HINTS = {
    SkipReason.UNSUPPORTED: _LIST_THEM,
    SkipReason.OUTSIDE_LINK: "--follow-links takes them, --verbose lists them",
    SkipReason.BROKEN_LINK: _LIST_THEM,
    SkipReason.SPECIAL: _LIST_THEM,
}
_NAMED_ENDINGS = 6

MissingDocument: TypeAlias = dict[str, Any]
"""A document whose file is gone, as `--json` prints it: `source`, `document_id` and `chunks`."""


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file, or would: `outcome` is created, replaced, unchanged, reused, or failed with the `error`.

    `counts` has a number for each name of INGEST_COUNTS or PLAN_COUNTS and is empty for a failed file, as is
    `document_id`.
    """

    source: str
    outcome: str
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str | None = None
    document_id: str = ""


class FileProgress(ProgressBar):
    """How many files of a run are done, and how many chunks they have; used from several threads."""

    def __init__(self, file_count: int, *, quiet: bool) -> None:
        super().__init__("files", file_count, quiet=quiet)
        self._chunks = 0

    def finished(self, outcome: FileOutcome) -> None:
        # Without a lock: a race of two threads shows a wrong number for a moment.
        self._chunks += outcome.counts.get("chunks", 0)
        self.advance(f"{self._chunks} chunks · {outcome.source}" if self._chunks else outcome.source)


def ingest_json(
    outcomes: Sequence[FileOutcome], skipped: Sequence[SkippedFile], deleted: Sequence[MissingDocument] = ()
) -> dict[str, Any]:
    """Return what an ingest did as `--json` prints it; `deleted` are the documents whose files were gone."""
    counts = Counter(outcome.outcome for outcome in outcomes)
    by_outcome = {name: counts[name] for name in _OUTCOMES}
    return _report(outcomes, INGEST_COUNTS, by_outcome, skipped, deleted)


def plan_json(
    outcomes: Sequence[FileOutcome], skipped: Sequence[SkippedFile], missing: Sequence[MissingDocument] = ()
) -> dict[str, Any]:
    """Return what an ingest would do as `--json` prints it; `missing` are the documents that would be deleted."""
    return _report(outcomes, PLAN_COUNTS, {}, skipped, missing)


def _report(
    outcomes: Sequence[FileOutcome],
    count_names: Sequence[str],
    by_outcome: dict[str, int],
    skipped: Sequence[SkippedFile],
    deleted: Sequence[MissingDocument],
) -> dict[str, Any]:
    files: list[dict[str, Any]] = [
        {
            "source": outcome.source,
            "outcome": outcome.outcome,
            **{name: outcome.counts.get(name, 0) for name in count_names},
            "warnings": list(outcome.warnings),
            "error": outcome.error,
        }
        for outcome in outcomes
    ]
    totals = {"files": len(files)} | {name: sum(file[name] for file in files) for name in count_names}
    return {
        "files": files,
        "skipped": [{"source": each.source, "reason": each.reason.value} for each in skipped],
        "deleted": list(deleted),
        "totals": totals | by_outcome | {"skipped": len(skipped), "deleted": len(deleted)},
    }


def show_ingest(report: dict[str, Any]) -> None:
    """Print the totals, and each failed file with its reason to the error stream."""
    # One line for a warning of many files, so that failures stay in sight.
    sources_of: dict[str, list[str]] = {}
    for file in report["files"]:
        for warning in file["warnings"]:
            sources_of.setdefault(warning, []).append(file["source"])
    for warning, sources in sources_of.items():
        where = sources[0] if len(sources) == 1 else f"{len(sources)} files, {sources[0]} the first"
        print_line(("warning", "yellow"), f" {warning} ({where})", err=True)
    for file in report["files"]:
        if file["error"] is not None:
            print_line(("failed", "bold red"), f" {file['source']}: {file['error']}", err=True)
    totals = report["totals"]
    outcomes = ", ".join(f"{totals[name]} {name}" for name in (*_OUTCOMES, "deleted") if totals[name])
    chunks = f"{counted(totals['chunks'], 'chunk')}, {totals['embedded']:,} embedded"
    print_line(f"{counted(totals['files'], 'file')}: {outcomes or 'nothing to do'} · {chunks}")


def show_plan(report: dict[str, Any]) -> None:
    """Print a table with a line for each file that would change, and the sums."""
    rows: list[tuple[str | int, ...]] = [
        (file["source"], *(file[name] for name in PLAN_COUNTS), file["error"] or file["outcome"])
        for file in report["files"]
        if file["outcome"] not in UNCHANGED
    ]
    rows += [(document["source"], 0, 0, document["chunks"], 0, 0, "deleted") for document in report["deleted"]]
    totals = dict(report["totals"])
    totals["removed"] += sum(document["chunks"] for document in report["deleted"])
    unchanged = sum(file["outcome"] in UNCHANGED for file in report["files"])
    rows.append((counted(totals["files"], "file"), *(totals[name] for name in PLAN_COUNTS), f"{unchanged} as they are"))
    print_table(("file", *PLAN_COUNTS, "outcome"), rows, "no files")


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
            summary = f" {counted(len(sources), 'file')} of types that are not read: {named}; {hint}"
            print_line(("skipped", "yellow"), summary, err=True)
        elif sources:
            print_line(("skipped", "yellow"), f" {counted(len(sources), reason)}; {hint}", err=True)
