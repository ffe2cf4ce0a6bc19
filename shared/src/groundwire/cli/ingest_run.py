"""One run of `groundwire ingest` over files and folders: for real, or as a plan."""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from groundwire.cli import ingest_report
from groundwire.cli.file_options import FileOptions
from groundwire.cli.ingest_files import StoppedRun, ensure_collection, ingest_files
from groundwire.cli.ingest_report import FileOutcome
from groundwire.cli.missing_files import MissingFile, as_list, delete_missing, find_missing
from groundwire.cli.output import confirm, print_json, print_line
from groundwire.cli.plan_files import FilePlan, plan_dict, plan_files, rehomed, show_plan
from groundwire.cli.source_files import SourceFile, SourceFiles
from groundwire.client import GroundwireClient

_NAMED = 20


@dataclass(frozen=True, slots=True)
class IngestRun:
    """What is to be ingested, and how.

    Documents of `roots` whose files are gone are deleted; without roots nothing is. `as_json` prints the report as JSON
    and nothing else; `verbose` names all that is left out.
    """

    client: GroundwireClient
    collection: str
    found: SourceFiles
    roots: Sequence[Path]
    options: FileOptions
    jobs: int
    as_json: bool
    may_delete: bool
    verbose: bool

    def ingest(self, profile: str | None) -> bool:
        """Ingest, delete what is missing, and print what was done; return whether all of it was.

        Raises:
            StoppedRun: it ended before its end; what was done until then is printed.
        """
        ensure_collection(self.client, self.collection, profile)
        try:
            outcomes = self._ingested(self.found.files)
        except StoppedRun as stopped:
            self._report(stopped.done, [])
            raise
        missing = self._missing() if self.roots else []
        is_allowed = not missing or self._ask(missing)
        if is_allowed and missing:
            delete_missing(self.client, self.collection, missing)
            outcomes = self._with_new_homes(outcomes, {each.document_id for each in missing})
        return self._report(outcomes, missing if is_allowed else []) and is_allowed

    def plan(self) -> bool:
        """Print what an ingest would do, and change nothing; return whether all of it could be done.

        Raises:
            StoppedRun: it ended before its end; nothing is printed.
        """
        with ingest_report.Display(len(self.found.files), quiet=self.as_json) as display:
            plans = plan_files(self.client, self.collection, self.found.files, self.options, self.jobs, display)
        missing = self._missing() if self.roots else []
        plans = rehomed(plans, {each.document_id for each in missing})
        plans += [FilePlan(each.source, "failed", error=each.error) for each in self.found.unusable]
        report = plan_dict(plans, self.found.skipped, as_list(missing))
        if self.as_json:
            print_json(report)
        else:
            ingest_report.show_skipped(self.found.skipped, verbose=self.verbose)
            show_plan(report)
        return not any(file["error"] for file in report["files"])

    def _report(self, outcomes: Sequence[FileOutcome], deleted: Sequence[MissingFile]) -> bool:
        """Print what was done; return whether no file failed."""
        failed = [FileOutcome(each.source, "failed", error=each.error) for each in self.found.unusable]
        report = ingest_report.as_dict([*outcomes, *failed], self.found.skipped, as_list(deleted))
        if self.as_json:
            print_json(report)
        else:
            ingest_report.show_skipped(self.found.skipped, verbose=self.verbose)
            ingest_report.show(report)
        return not any(file["error"] for file in report["files"])

    def _ingested(self, files: Sequence[SourceFile]) -> list[FileOutcome]:
        with ingest_report.Display(len(files), quiet=self.as_json) as display:
            return ingest_files(self.client, self.collection, files, self.options, self.jobs, display)

    def _missing(self) -> list[MissingFile]:
        return find_missing(self.client, self.collection, self.roots, self.found.files)

    def _ask(self, missing: Sequence[MissingFile]) -> bool:
        """Return whether the documents may be deleted, which somebody at the terminal has to say."""
        if self.may_delete:
            return True
        for each in missing[:_NAMED]:
            print_line(f"missing {each.source}", err=True)
        if len(missing) > _NAMED:
            print_line(f"and {len(missing) - _NAMED} more", err=True)
        return confirm(f"Delete {len(missing)} documents of {self.collection!r}?")

    def _with_new_homes(self, outcomes: Sequence[FileOutcome], deleted: set[str]) -> list[FileOutcome]:
        """Ingest once more what was only another name of a deleted document, as after a renaming."""
        homeless = {outcome.source for outcome in outcomes if outcome.document_id in deleted}
        again = [file for file in self.found.files if file.source_uri in homeless]
        renewed = {outcome.source: outcome for outcome in (self._ingested(again) if again else [])}
        return [renewed.get(outcome.source, outcome) for outcome in outcomes]
