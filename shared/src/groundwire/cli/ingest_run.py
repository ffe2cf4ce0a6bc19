"""One run of `groundwire ingest` over files and folders: for real, or as a plan."""

import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from groundwire.api.ingest.v1.collection_pb2 import ChunkingPolicy
from groundwire.cli import ingest_report
from groundwire.cli.ingest_files import ensure_collection, ingest_files
from groundwire.cli.ingest_report import FileOutcome
from groundwire.cli.missing_files import MissingFile, as_list, delete_missing, find_missing
from groundwire.cli.plan_files import plan_dict, plan_files, rehomed, show_plan
from groundwire.cli.source_files import SourceFile
from groundwire.client import GroundwireClient

_NAMED = 20


@dataclass(frozen=True, slots=True)
class IngestRun:
    """What is to be ingested, and how.

    Documents of `roots` whose files are gone are deleted; without roots nothing is. `chunking` goes over the
    collection's rules. `as_json` keeps the screen clean.
    """

    client: GroundwireClient
    collection: str
    files: Sequence[SourceFile]
    roots: Sequence[Path]
    chunking: ChunkingPolicy | None
    jobs: int
    as_json: bool
    may_delete: bool

    def ingest(self, profile: str | None) -> dict[str, Any]:
        """Ingest, delete what is missing, show what was done and return it as `--json` prints it."""
        ensure_collection(self.client, self.collection, profile)
        outcomes = self._ingested(self.files)
        missing = self._missing() if self.roots else []
        is_allowed = not missing or self._ask(missing)
        if is_allowed and missing:
            delete_missing(self.client, self.collection, missing)
            outcomes = self._with_new_homes(outcomes, {each.document_id for each in missing})
        report = ingest_report.as_dict(outcomes, [] if not is_allowed else as_list(missing))
        if not self.as_json:
            ingest_report.show(report)
        return report | {"refused": not is_allowed}

    def plan(self) -> dict[str, Any]:
        """Show what an ingest would do and return it as `--json` prints it; nothing is changed."""
        with ingest_report.Display(len(self.files), quiet=self.as_json) as display:
            plans = plan_files(self.client, self.collection, self.files, self.chunking, self.jobs, display)
        missing = self._missing() if self.roots else []
        report = plan_dict(rehomed(plans, {each.document_id for each in missing}), as_list(missing))
        if not self.as_json:
            show_plan(report)
        return report | {"refused": False}

    def _ingested(self, files: Sequence[SourceFile]) -> list[FileOutcome]:
        with ingest_report.Display(len(files), quiet=self.as_json) as display:
            return ingest_files(self.client, self.collection, files, self.chunking, self.jobs, display)

    def _missing(self) -> list[MissingFile]:
        return find_missing(self.client, self.collection, self.roots, self.files)

    def _ask(self, missing: Sequence[MissingFile]) -> bool:
        """Return whether the documents may be deleted; only a person at a terminal is asked."""
        if self.may_delete or not sys.stdin.isatty():
            return True
        for each in missing[:_NAMED]:
            typer.echo(f"missing {each.source}", err=True)
        if len(missing) > _NAMED:
            typer.echo(f"and {len(missing) - _NAMED} more", err=True)
        return typer.confirm(f"Delete {len(missing)} documents of {self.collection!r}?", err=True)

    def _with_new_homes(self, outcomes: Sequence[FileOutcome], deleted: set[str]) -> list[FileOutcome]:
        """Ingest once more what was only another name of a deleted document, as after a renaming."""
        homeless = {outcome.source for outcome in outcomes if outcome.document_id in deleted}
        again = self._ingested([file for file in self.files if file.source_uri in homeless]) if homeless else []
        renewed = {outcome.source: outcome for outcome in again}
        return [renewed.get(outcome.source, outcome) for outcome in outcomes]
