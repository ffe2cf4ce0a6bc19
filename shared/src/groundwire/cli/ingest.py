"""`groundwire ingest`: put files and folders into a collection, or say what that would do."""

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path, PurePosixPath
from threading import Event
from typing import Any, TypeVar

import click

from groundwire.api.answer.v1.answer_pb2 import Answer
from groundwire.api.common.v1.document_pb2 import Document, DocumentFields, DocumentReference
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.api.ingest.v1.collection_pb2 import Chunker, ChunkingPolicy, Profile
from groundwire.api.ingest.v1.ingest_result_pb2 import INGEST_WARNING_KIND_CHUNK_UNDERSIZED, IngestWarning
from groundwire.cli.connection import connect, unreachable
from groundwire.cli.fields import assign, merged_fields, read_metadata_file
from groundwire.cli.messages import shown_name
from groundwire.cli.options import (
    COUNT,
    INT64,
    PROFILES,
    Interrupted,
    check_consent,
    collection_option,
    is_json,
    server_options,
    set_option,
    text_option,
    yes_option,
)
from groundwire.cli.output import ProgressBar, confirm, counted, print_line, print_table, printed_as_json
from groundwire.cli.source_files import (
    SkippedFile,
    SkipReason,
    SourceFile,
    SourceFiles,
    check_roots,
    check_sources,
    find_source_files,
    is_missing,
    source_start,
)
from groundwire.client import GroundwireClient
from groundwire.client.contract import Contract
from groundwire.client.transport import all_items
from groundwire.client.uploads import UNARY_BYTES
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    DocumentNotFoundError,
    EmbeddingMismatchError,
    ExhaustedError,
    GroundwireError,
    InvalidRequestError,
    PermissionDeniedError,
    QuotaExceededError,
    UnauthenticatedError,
    UnavailableError,
)
from groundwire.kernel.filters import ALIASES

INGEST_COUNTS = ("chunks", "embedded")
"""What an ingest counts for each file: the chunks of its live generation, and the texts embedded for it."""
PLAN_COUNTS = ("added", "kept", "removed", "embedded", "tokens")
"""What a plan counts for each file: chunks, and the tokens that would be embedded."""
UNCHANGED = frozenset({"unchanged", "reused"})
_OUTCOMES = ("created", "replaced", "unchanged", "reused", "failed")
_LIST_THEM = "--verbose lists them"
_HINTS = {
    SkipReason.UNSUPPORTED: _LIST_THEM,
    SkipReason.EMPTY: _LIST_THEM,
    SkipReason.OUTSIDE_LINK: "--follow-links takes them, --verbose lists them",
    SkipReason.BROKEN_LINK: _LIST_THEM,
    SkipReason.SPECIAL: _LIST_THEM,
}
_NAMED_ENDINGS = 6

_CLASH = (
    "has the source of a document with other content, while most files of this run are new; if that document comes "
    "from another folder, ingest each folder with a --prefix of its own"
)


WorkT = TypeVar("WorkT", SourceFile, Document)


@dataclass(frozen=True, slots=True)
class FileOutcome:
    """What became of one file, or would: `outcome` is created, replaced, unchanged, reused, or failed with the `error`.

    That of a document whose file is gone is deleted, or failed. `counts` has a number for each name of INGEST_COUNTS or
    PLAN_COUNTS and is empty for a failed file, as is `document_id`.
    """

    source: str
    outcome: str
    counts: Mapping[str, int] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()
    error: str | None = None
    document_id: str = ""


class FileProgress(ProgressBar):
    """How many files of a run are done, and how many chunks they have; used from several threads."""

    def __init__(self, what: str, count: int, *, quiet: bool) -> None:
        super().__init__(what, count, quiet=quiet)
        self._chunks = 0

    def finished(self, outcome: FileOutcome) -> None:
        # Without a lock: a race of two threads shows a wrong number for a moment.
        self._chunks += outcome.counts.get("chunks", 0)
        self.advance(f"{counted(self._chunks, 'chunk')} · {outcome.source}" if self._chunks else outcome.source)


def run_json(
    outcomes: Sequence[FileOutcome],
    skipped: Sequence[SkippedFile],
    deleted: Sequence[Document] = (),
    count_names: Sequence[str] = INGEST_COUNTS,
) -> dict[str, Any]:
    """Return what an ingest did, or with PLAN_COUNTS would do, as `--json` prints it.

    `deleted` are the documents whose files are gone.
    """
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
    if count_names is INGEST_COUNTS:
        totals |= {name: sum(outcome.outcome == name for outcome in outcomes) for name in _OUTCOMES}
    return {
        "files": files,
        "skipped": [{"source": each.source, "reason": each.reason.value} for each in skipped],
        "deleted": [
            {"source": each.source_uri, "document_id": each.document_id, "chunks": each.chunk_count} for each in deleted
        ],
        "totals": totals | {"skipped": len(skipped), "deleted": len(deleted)},
    }


def warned_of_clashes(outcomes: Sequence[FileOutcome], stored: int) -> list[FileOutcome]:
    """Return the outcomes of a run, with a warning where a file seems to have replaced one of another folder.

    Nothing says which folder a document came from, and the same folder may lie elsewhere on another machine. But a
    folder that was ingested before has most of its files in the collection. `stored` is the number of documents that
    were there before the run: if all of them are of this folder, it has just grown.
    """
    new = sum(outcome.outcome == "created" for outcome in outcomes)
    known = len(outcomes) - new
    if new < known or stored <= known:
        return list(outcomes)
    return [
        replace(outcome, warnings=(*outcome.warnings, _CLASH)) if outcome.outcome == "replaced" else outcome
        for outcome in outcomes
    ]


def show_warnings(report: dict[str, Any]) -> None:
    """Print the warnings to the error stream, one line for a warning of many files, so that failures stay in sight."""
    sources_of: dict[str, list[str]] = {}
    for file in report["files"]:
        for warning in file["warnings"]:
            sources_of.setdefault(warning, []).append(file["source"])
    for warning, sources in sources_of.items():
        where = sources[0] if len(sources) == 1 else f"{len(sources):,} files, {sources[0]} the first"
        print_line(("warning", "yellow"), f" {warning} ({where})", err=True)


def show_ingest(report: dict[str, Any]) -> None:
    """Print the totals, and each failed file with its reason to the error stream."""
    for file in report["files"]:
        if file["error"] is not None:
            print_line(("failed", "bold red"), f" {file['source']}: {file['error']}", err=True)
    totals = report["totals"]
    outcomes = ", ".join(f"{totals[name]:,} {name}" for name in (*_OUTCOMES, "deleted") if totals[name])
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
    rows.append(
        (counted(totals["files"], "file"), *(totals[name] for name in PLAN_COUNTS), f"{unchanged:,} as they are")
    )
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
            named = ", ".join(f"{count:,} {ending}" for ending, count in endings.most_common(_NAMED_ENDINGS))
            others = len(endings) - _NAMED_ENDINGS
            named += f" and {counted(others, 'other ending')}" if others > 0 else ""
            summary = f" {counted(len(sources), 'file')} of types that are not read: {named}; {hint}"
            print_line(("skipped", "yellow"), summary, err=True)
        elif sources:
            print_line(("skipped", "yellow"), f" {counted(len(sources), reason)}; {hint}", err=True)


DEFAULT_JOBS = 8
PLANNED_BYTES = 4 * 1024 * 1024
"""Larger files do not fit into one message and cannot be planned."""
# Where the requests that carry a file have what the user knows by shorter names.
_HEADER = "header."
_CONTENT_FIELDS = frozenset({"content", "part.data", f"{_HEADER}total_bytes"})
# Documents that are named before they are deleted.
_NAMED = 20


def size_option(name: str) -> Callable[[Any], Any]:
    """Return the option for a size of chunks."""
    of_what = f"{name.capitalize()} size of a chunk in the collection's unit, tokens by default"
    return click.option(f"--{name}-size", type=COUNT, help=f"{of_what}, instead of its setting.")


@click.command()
@click.argument("sources", type=click.Path(), nargs=-1, required=True, metavar="PATH...", help="Files and folders.")
@collection_option
@click.option("--profile", type=click.Choice(PROFILES), help="Profile of a new collection; `general` if not given.")
@click.option(
    "--chunker",
    type=click.Choice(["structure", "sentence", "hierarchy", "fixed"]),
    help="How to split these files into chunks, instead of the collection's setting.",
)
@size_option("target")
@size_option("minimum")
@size_option("maximum")
@click.option(
    "--overlap",
    type=click.FloatRange(min=0.0, max=0.5, max_open=True),
    help="Share of a chunk that overlaps its neighbour, below 0.5.",
)
@set_option
@click.option(
    "--metadata",
    type=click.Path(path_type=Path),
    help="JSON or YAML file with fields for all files and for single ones.",
)
@click.option(
    "--include",
    metavar="GLOB",
    multiple=True,
    help="Only files or folders whose name matches; may be given several times.",
)
@click.option(
    "--exclude",
    metavar="GLOB",
    multiple=True,
    help="Skip files or folders whose name matches; may be given several times.",
)
@text_option(
    "--prefix",
    metavar="NAME",
    help="Put NAME/ before every source, so that files of several folders do not replace each other.",
)
@click.option(
    "--source-version", type=INT64, help="Version of all these files; one below that of the stored document is refused."
)
@click.option("--jobs", type=click.IntRange(min=1, max=32), default=DEFAULT_JOBS, help="Files to ingest at a time.")
@click.option("--plan", is_flag=True, help="Show what would be done without doing it.")
@click.option("--delete-missing", is_flag=True, help="Delete documents of these folders whose files are gone.")
@yes_option
@click.option("--follow-links", is_flag=True, help="Follow links that point outside the folders.")
@click.option("--verbose", "-v", is_flag=True, help="List everything that is skipped.")
@server_options
def ingest(
    sources: tuple[str, ...],
    collection: str,
    profile: str | None,
    chunker: str | None,
    target_size: int | None,
    minimum_size: int | None,
    maximum_size: int | None,
    overlap: float | None,
    assignments: tuple[str, ...],
    metadata: Path | None,
    include: tuple[str, ...],
    exclude: tuple[str, ...],
    prefix: str,
    source_version: int | None,
    jobs: int,
    plan: bool,
    delete_missing: bool,
    yes: bool,
    follow_links: bool,
    verbose: bool,
) -> None:
    """Ingest files and folders; unchanged files cost nothing, so an interrupted run can simply be repeated.

    Exits with 1 if any file failed, naming each, and when the deletion was not confirmed; with 130 if interrupted.
    """
    # Before anything is sent, so that a script without --yes does not ingest everything and fail at the end.
    if delete_missing and not plan:
        check_consent("--delete-missing", given=yes)
    paths = check_sources(sources)
    selected = find_source_files(paths, prefix, follow_links=follow_links).selected(include, exclude)
    roots = check_roots(paths) if delete_missing else []
    chunking = chunking_policy(chunker, target_size, minimum_size, maximum_size, overlap)
    options = replace(read_file_options(chunking, metadata, assignments), source_version=source_version)
    for source in options.unused({file.source_uri for file in selected.files}):
        print_line(("warning", "yellow"), f" {metadata} names {source}, which is not among the files", err=True)
    try:
        with connect() as client:
            run = IngestRun(client, collection, selected, roots, prefix, options, jobs, yes, verbose)
            is_complete = run.plan(profile) if plan else run.ingest(profile)
    except StoppedRun as stopped:
        cause = stopped.__cause__
        if isinstance(cause, KeyboardInterrupt):
            raise Interrupted(f"interrupted: {stopped}") from stopped
        if isinstance(cause, UnavailableError | ExhaustedError):
            if silent := ", ".join(unreachable()):
                raise UnavailableError(f"no server answers at {silent} any more: {stopped}") from stopped
            raise type(cause)(f"{cause.message}: {stopped}", **cause.metadata) from stopped
        raise (cause or stopped) from None
    if not is_complete:
        raise click.exceptions.Exit(1)


# What the requests say of the files beside their content


def chunking_policy(
    chunker: str | None = None,
    target_size: int | None = None,
    minimum_size: int | None = None,
    maximum_size: int | None = None,
    overlap_ratio: float | None = None,
) -> ChunkingPolicy | None:
    """Return what is given instead of the collection's rules, None when nothing is; sizes are in its unit."""
    if all(given is None for given in (chunker, target_size, minimum_size, maximum_size, overlap_ratio)):
        return None
    return ChunkingPolicy(
        chunker=Chunker.Value(f"CHUNKER_{(chunker or 'unspecified').upper()}"),
        target_size=target_size,
        minimum_size=minimum_size,
        maximum_size=maximum_size,
        overlap_ratio=overlap_ratio,
    )


@dataclass(frozen=True, slots=True)
class FileOptions:
    """What the requests for the files of a run say beside their content.

    `of_all` are the fields of every file, `by_source` those of single ones, which go over them, and `assigned` those of
    the command line, which go over both.
    """

    chunking: ChunkingPolicy | None = None
    of_all: DocumentFields = field(default_factory=DocumentFields)
    by_source: Mapping[str, DocumentFields] = field(default_factory=dict)
    assigned: DocumentFields = field(default_factory=DocumentFields)
    source_version: int | None = None

    def request_fields(self, source: str) -> dict[str, Any]:
        """Return the fields of a request for a source; what is left out leaves what the server has."""
        request: dict[str, Any] = {"source_uri": source, "chunking": self.chunking}
        if self.source_version is not None:
            request["source_version"] = self.source_version
        fields = merged_fields(self.of_all, self.by_source.get(source, DocumentFields()), self.assigned)
        return request | {"fields": fields} if fields.ListFields() else request

    def unused(self, sources: AbstractSet[str]) -> list[str]:
        """Return the sources that have fields of their own and are not among those of the run."""
        return sorted(self.by_source.keys() - sources)


def read_file_options(chunking: ChunkingPolicy | None, path: Path | None, assignments: Sequence[str]) -> FileOptions:
    """Return the options of a run from a metadata file and from what `--set` was given.

    Raises:
        InvalidRequestError: naming the file, or each name whose value its field cannot have.
    """
    assigned = DocumentFields()
    if assignments:
        assign(assigned, assignments, (), ALIASES)
    if path is None:
        return FileOptions(chunking, assigned=assigned)
    of_all, by_source = read_metadata_file(path)
    return FileOptions(chunking, of_all, by_source, assigned)


# The run


class StoppedRun(Exception):  # noqa: N818 - not always an error
    """A run over files that ended before its end: interrupted, or left by the server, as `__cause__` says.

    `done` are the outcomes of the files that were finished, in their order.
    """

    def __init__(self, done: Sequence[FileOutcome], total: int) -> None:
        super().__init__(f"{len(done):,} of {total:,} done; run again to continue")
        self.done = done


@dataclass(frozen=True, slots=True)
class IngestRun:
    """What is to be ingested, and how.

    Documents of `roots` whose files are gone are deleted; without roots nothing is. Sources have `prefix` before them.
    `verbose` names all that is left out.
    """

    client: GroundwireClient
    collection: str
    sources: SourceFiles
    roots: Sequence[Path]
    prefix: str
    options: FileOptions
    jobs: int
    may_delete: bool
    verbose: bool

    def ingest(self, profile: str | None) -> bool:
        """Ingest, delete what is missing, and print what was done; return whether all of it was.

        A refused file does not stop the others. A collection that does not exist is created; a profile that is given
        must be the one it has.

        Raises:
            AlreadyExistsError: the collection exists with another profile.
            StoppedRun: it ended before its end; what was done until then is printed.
        """
        before = self.client.collection(self.collection).create(profile=profile)
        try:
            outcomes = self._for_each(self.sources.files, self._ingest_file)
        except StoppedRun as stopped:
            if stopped.done:
                self._report(stopped.done, [])
            raise
        if not self.prefix:
            outcomes = warned_of_clashes(outcomes, before.document_count - before.record_count)
        # After the ingest, so that an interrupted run deletes nothing.
        missing = self._missing()
        if not missing:
            return self._report(outcomes, [])
        if not self._may_delete(missing):
            self._report(outcomes, [])
            return False
        try:
            deletions = self._for_each(missing, self._delete, "deletions")
        except StoppedRun as stopped:
            done = {outcome.source for outcome in stopped.done if outcome.outcome == "deleted"}
            self._report(outcomes, [document for document in missing if document.source_uri in done])
            raise
        outcomes = [*outcomes, *(outcome for outcome in deletions if outcome.error is not None)]
        missing = [document for document, outcome in zip(missing, deletions, strict=True) if outcome.error is None]
        # A renamed file was ingested as another source of the document that has just been deleted; ingest it again.
        gone = {document.document_id for document in missing}
        homeless = {outcome.source for outcome in outcomes if outcome.document_id in gone}
        files = [file for file in self.sources.files if file.source_uri in homeless]
        renewed = {outcome.source: outcome for outcome in (self._for_each(files, self._ingest_file) if files else [])}
        return self._report([renewed.get(outcome.source, outcome) for outcome in outcomes], missing)

    def plan(self, profile: str | None) -> bool:
        """Print what an ingest would do, and change nothing; return whether all of it could be done.

        Raises:
            AlreadyExistsError: the collection exists with another profile.
            StoppedRun: it ended before its end; nothing is printed.
        """
        plan_file = partial(self._plan_file, Profile.Value(f"PROFILE_{(profile or 'general').upper()}"))
        missing: list[Document] = []
        try:
            info = self.client.collection(self.collection).info()
        except CollectionNotFoundError:  # an ingest would create it
            plans = self._for_each(self.sources.files, plan_file)
        else:
            info.check_profile(profile)
            plans = self._for_each(self.sources.files, plan_file)
            if not self.prefix:
                plans = warned_of_clashes(plans, info.document_count - info.record_count)
            missing = self._missing()
        gone = {document.document_id for document in missing}
        # A file that is another name of a document to be deleted, as after a renaming, is made anew: vectors go with
        # their document. How many tokens would be embedded for it is not known here.
        plans = [
            replace(
                plan,
                outcome="created",
                counts={**plan.counts, "added": plan.counts["kept"], "kept": 0, "embedded": plan.counts["kept"]},
            )
            if plan.document_id in gone and plan.outcome in UNCHANGED
            else plan
            for plan in plans
        ]
        changed = gone | {plan.document_id for plan in plans if plan.outcome == "replaced"}
        return self._report(plans, missing, PLAN_COUNTS, self._stale_answers(changed))

    def _report(
        self,
        outcomes: Sequence[FileOutcome],
        deleted: Sequence[Document],
        count_names: Sequence[str] = INGEST_COUNTS,
        stale_answers: int | None = None,
    ) -> bool:
        """Print what was done, or would be; return whether no file failed.

        `stale_answers` is how many stored answers would become stale, None where that is not known.
        """
        failed = [FileOutcome(each.source, "failed", error=each.error) for each in self.sources.unusable]
        report = run_json([*outcomes, *failed], self.sources.skipped, deleted, count_names)
        if count_names is PLAN_COUNTS:
            report["stale_answers"] = stale_answers
        if not printed_as_json(report):
            show_skipped(self.sources.skipped, verbose=self.verbose)
            show_warnings(report)
            (show_ingest if count_names is INGEST_COUNTS else show_plan)(report)
            if stale_answers:
                print_line(f"{counted(stale_answers, 'stored answer')} would become stale")
        return not any(file["error"] for file in report["files"])

    def _for_each(
        self, files: Sequence[WorkT], work: Callable[[WorkT, FileProgress], FileOutcome], what: str = "files"
    ) -> list[FileOutcome]:
        """Return what becomes of each file, in the order of the files; `jobs` are worked on at a time.

        Raises:
            StoppedRun: the run was interrupted, the server is gone, or it would refuse every file. The calls under way
                are cancelled, for which the client is closed; the server stops working on them.
        """
        stopped, progress = Event(), FileProgress(what, len(files), quiet=is_json())

        def work_within_rate(file: WorkT) -> FileOutcome:
            # The library repeats a call a few times, and less often the more calls are refused: too little for a folder
            # that costs more than the rate of the credential.
            while True:
                try:
                    return work(file, progress)
                except QuotaExceededError as error:
                    if error.retry_after_s is None or stopped.wait(error.retry_after_s):
                        raise

        def work_on(file: WorkT) -> FileOutcome:
            try:
                outcome = work_within_rate(file)
            except GroundwireError as error:
                if _concerns_all(error):
                    raise
                outcome = FileOutcome(file.source_uri, "failed", error=f"{error.reason}: {reason_of(error)}")
            except OSError as error:
                outcome = FileOutcome(file.source_uri, "failed", error=f"cannot be read: {error.strerror}")
            progress.finished(outcome)
            return outcome

        with progress:
            # Threads, because each file waits for the server; the calls share one connection.
            pool = ThreadPoolExecutor(self.jobs)
            futures = [pool.submit(work_on, file) for file in files]
            try:
                for future in as_completed(futures):
                    future.result()
            except (KeyboardInterrupt, GroundwireError) as cause:
                # Before the pool is shut down, which waits for running calls.
                stopped.set()
                self.client.close()
                pool.shutdown(cancel_futures=True)
                ended = [future for future in futures if not future.cancelled() and future.exception() is None]
                raise StoppedRun([future.result() for future in ended], len(files)) from cause
            finally:
                pool.shutdown(cancel_futures=True)
            return [future.result() for future in futures]

    def _ingest_file(self, file: SourceFile, progress: FileProgress) -> FileOutcome:
        def on_progress(report: pb.UploadProgress) -> None:
            state = report.progress
            stage = shown_name(state, "stage")
            progress.note(f"{file.source_uri}: {stage} {state.done_count}/{state.total_count}")

        fields = self.options.request_fields(file.source_uri)
        if file.path.stat().st_size <= UNARY_BYTES:
            content = file.path.read_bytes()
            result = self.client.ingest_document(collection=self.collection, content=content, **fields).result
        else:
            header = pb.UploadHeader(collection=self.collection, **fields)
            result = self.client.upload_document(file.path, header, on_progress)
        return FileOutcome(
            file.source_uri,
            shown_name(result, "outcome"),
            {"chunks": result.counts.chunk_count, "embedded": result.counts.embedded_count},
            warnings=self._useful(result.warnings),
            document_id=result.document.document_id,
        )

    def _delete(self, document: Document, _: FileProgress) -> FileOutcome:
        # By source, so that a document with other sources stays with those. It can be restored.
        reference = DocumentReference(source_uri=document.source_uri)
        with suppress(DocumentNotFoundError):
            self.client.delete_document(collection=self.collection, reference=reference)
        return FileOutcome(document.source_uri, "deleted")

    def _plan_file(self, new_profile: Profile.ValueType, file: SourceFile, _: FileProgress) -> FileOutcome:
        fields = self.options.request_fields(file.source_uri)
        if file.path.stat().st_size > PLANNED_BYTES:
            return FileOutcome(file.source_uri, "failed", error="too large to be planned; it can be ingested")
        plan = self.client.plan_ingest(
            collection=self.collection,
            content=file.path.read_bytes(),
            new_collection_profile=new_profile,
            **fields,
        )
        return FileOutcome(
            file.source_uri,
            shown_name(plan, "outcome"),
            {
                "added": plan.added_count,
                "kept": plan.kept_count,
                "removed": plan.removed_count,
                "embedded": plan.embedded_count,
                "tokens": plan.embedded_token_count,
            },
            warnings=self._useful(plan.warnings),
            document_id=plan.current.document_id,
        )

    def _useful(self, warnings: Iterable[IngestWarning]) -> tuple[str, ...]:
        """Return the warnings of a file, of short chunks only where the run sets the rules that make them."""
        is_own = self.options.chunking is not None
        return tuple(each.message for each in warnings if is_own or each.kind != INGEST_WARNING_KIND_CHUNK_UNDERSIZED)

    def _missing(self) -> list[Document]:
        """Return the documents that came from below the roots and have no file there any more, by source."""
        if not self.roots:
            return []
        known = {file.source_uri for file in self.sources.files}
        start = source_start(self.prefix)
        return [
            document.message
            for document in self.client.collection(self.collection).documents(source_prefix=start)
            if document.source not in known and is_missing(document.source.removeprefix(start), self.roots)
        ]

    def _stale_answers(self, changed: set[str]) -> int | None:
        """Return how many stored answers quote any of these documents and are not stale yet; None if not to be read."""
        if not changed:
            return 0
        # One pass over all answers: asked document by document, the server would look at all of them each time.
        answers = all_items.blocking(self.client, Contract.list_answers, "answers", collection=self.collection)
        try:
            return sum(not each.stale and not changed.isdisjoint(_quoted_documents(each.answer)) for each in answers)
        except GroundwireError:  # who ingests need not reach the answer service, nor be allowed to read
            return None

    def _may_delete(self, missing: Sequence[Document]) -> bool:
        """Return whether the documents may be deleted, asking at the terminal."""
        if self.may_delete:
            return True
        for document in missing[:_NAMED]:
            print_line(f"missing {document.source_uri}", err=True)
        if len(missing) > _NAMED:
            print_line(f"and {len(missing) - _NAMED} more", err=True)
        return confirm(f"Delete {counted(len(missing), 'document')} of {self.collection!r}?")


def _quoted_documents(answer: Answer) -> set[str]:
    return {citation.document_id for citation in (*answer.citations, *answer.opposing_citations)}


def _concerns_all(error: GroundwireError) -> bool:
    """Tell whether all other files would fail, too: for the server, its disk or model, the credential or options."""
    if isinstance(error, InvalidRequestError):
        return bool(error.violations) and all(
            each.field.removeprefix(_HEADER).startswith("chunking.") for each in error.violations
        )
    if isinstance(error, ExhaustedError):
        return error.metadata.get("what") == "disk"
    of_all = UnavailableError | CallCancelledError | EmbeddingMismatchError
    return isinstance(error, of_all | PermissionDeniedError | UnauthenticatedError)


def reason_of(error: GroundwireError) -> str:
    """Return what is wrong with a file; which field of the request its content went into is left out."""
    if not isinstance(error, InvalidRequestError):
        return error.message
    return "; ".join(
        each.description if each.field in _CONTENT_FIELDS else f"{each.field.removeprefix(_HEADER)}: {each.description}"
        for each in error.violations
    )
