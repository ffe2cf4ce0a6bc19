"""Asks the server what ingesting files would do."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1.ingest_service_pb2 import PlanIngestRequest
from groundwire.cli.file_options import FileOptions
from groundwire.cli.ingest_files import for_each_file, reason_of
from groundwire.cli.ingest_report import Display, skipped_list
from groundwire.cli.output import counted, print_table
from groundwire.cli.source_files import SkippedFile, SourceFile
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import CallCancelledError, GroundwireError, UnavailableError

if TYPE_CHECKING:
    from groundwire.api.ingest.v1 import ingest_service_pb2 as pb

PLANNED_BYTES = 4 * 1024 * 1024
"""Larger files do not fit into one message and cannot be planned."""
_AS_THEY_ARE = frozenset({"unchanged", "reused"})
COUNTS = ("added", "kept", "removed", "embedded", "tokens")


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What would become of one file; `outcome` as of an ingest, or `failed` with the `error`.

    `added`, `kept`, `removed` and `embedded` count chunks, `tokens` those that would be embedded.
    """

    source: str
    outcome: str
    document_id: str = ""
    added: int = 0
    kept: int = 0
    removed: int = 0
    embedded: int = 0
    tokens: int = 0
    warnings: tuple[str, ...] = ()
    error: str | None = None


def plan_files(
    client: GroundwireClient,
    collection: str,
    files: Sequence[SourceFile],
    options: FileOptions,
    jobs: int,
    display: Display,
) -> list[FilePlan]:
    """Plan files, `jobs` at a time, and return the plans in the order of the files; changes nothing.

    Raises:
        CollectionNotFoundError: no such collection; there is nothing to compare with.
        StoppedRun: it was interrupted, or the server cannot be reached; the rest is not tried.
    """
    client.get_collection(collection=collection)

    def plan_one(file: SourceFile) -> FilePlan:
        request = PlanIngestRequest(collection=collection, **options.said_of(file.source_uri))
        plan = _plan(client, request, file)
        display.advance(file.source_uri)
        return plan

    return for_each_file(client, files, jobs, plan_one)


def _plan(client: GroundwireClient, request: PlanIngestRequest, file: SourceFile) -> FilePlan:
    try:
        if file.path.stat().st_size > PLANNED_BYTES:
            return FilePlan(file.source_uri, "failed", error="too large to be planned; it can be ingested")
        said = {field.name: value for field, value in request.ListFields()}
        return _to_plan(file, client.plan_ingest(content=file.path.read_bytes(), **said))
    except (UnavailableError, CallCancelledError):
        raise
    except GroundwireError as error:
        return FilePlan(file.source_uri, "failed", error=f"{error.reason}: {reason_of(error)}")
    except OSError as error:
        return FilePlan(file.source_uri, "failed", error=f"cannot read: {error.strerror}")


def _to_plan(file: SourceFile, response: "pb.PlanIngestResponse") -> FilePlan:
    return FilePlan(
        source=file.source_uri,
        outcome=ingest_result_pb2.IngestOutcome.Name(response.outcome).removeprefix("INGEST_OUTCOME_").lower(),
        document_id=response.current.document_id,
        added=response.added_count,
        kept=response.kept_count,
        removed=response.removed_count,
        embedded=response.embedded_count,
        tokens=response.embedded_token_count,
        warnings=tuple(warning.message for warning in response.warnings),
    )


def rehomed(plans: Sequence[FilePlan], deleted: AbstractSet[str]) -> list[FilePlan]:
    """Return the plans with what is only another name of a deleted document, as after a renaming, made anew.

    Its vectors go with the document, so all of its chunks are embedded; how many tokens they have is not known here.
    """
    return [
        replace(plan, outcome="created", added=plan.kept, kept=0, embedded=plan.kept)
        if plan.document_id in deleted and plan.outcome in _AS_THEY_ARE
        else plan
        for plan in plans
    ]


def plan_dict(
    plans: Sequence[FilePlan], skipped: Sequence[SkippedFile], missing: Sequence[dict[str, Any]]
) -> dict[str, Any]:
    """Return the plan as `--json` prints it; `missing` are the documents that would be deleted."""
    files = [
        {
            "source": plan.source,
            "outcome": plan.outcome,
            **{name: getattr(plan, name) for name in COUNTS},
            "warnings": list(plan.warnings),
            "error": plan.error,
        }
        for plan in plans
    ]
    sums = {name: sum(file[name] for file in files) for name in COUNTS}
    totals = {"files": len(files)} | sums | {"skipped": len(skipped), "deleted": len(missing)}
    return {"files": files, "skipped": skipped_list(skipped), "deleted": list(missing), "totals": totals}


def show_plan(report: dict[str, Any]) -> None:
    """Print a table with a line for each file that would change, and the sums."""
    rows: list[tuple[str | int, ...]] = [
        (file["source"], *(file[name] for name in COUNTS), file["error"] or file["outcome"])
        for file in report["files"]
        if file["outcome"] not in _AS_THEY_ARE
    ]
    rows += [(document["source"], 0, 0, document["chunks"], 0, 0, "deleted") for document in report["deleted"]]
    totals = dict(report["totals"])
    totals["removed"] += sum(document["chunks"] for document in report["deleted"])
    left_out = sum(file["outcome"] in _AS_THEY_ARE for file in report["files"])
    rows.append((counted(totals["files"], "file"), *(totals[name] for name in COUNTS), f"{left_out} as they are"))
    print_table(("file", *COUNTS, "outcome"), rows, "no files")
