"""Sends files to the server, several at a time, and collects what became of each."""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import Generic, TypeVar

from groundwire.api.ingest.v1 import collection_pb2, ingest_result_pb2, progress_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.cli.file_options import FileOptions
from groundwire.cli.ingest_report import Display, FileOutcome
from groundwire.cli.source_files import SourceFile
from groundwire.client import GroundwireClient
from groundwire.kernel.errors import (
    CallCancelledError,
    CollectionNotFoundError,
    GroundwireError,
    InvalidRequestError,
    UnavailableError,
)

OutcomeT = TypeVar("OutcomeT")
_CONTENT_FIELDS = frozenset({"content", "part.data"})
UNARY_BYTES = 1024 * 1024
"""Larger files are uploaded as a stream, which shows how far they are."""


class StoppedRun(Exception, Generic[OutcomeT]):  # noqa: N818 - not always an error
    """A run over files that ended before its end: interrupted, or left by the server, as `__cause__` says.

    `done` are the outcomes of the files that were finished, in their order.
    """

    def __init__(self, done: Sequence[OutcomeT], total: int) -> None:
        super().__init__(f"{len(done)} of {total} done; run again to continue")
        self.done = done


def for_each_file(
    client: GroundwireClient, files: Sequence[SourceFile], jobs: int, work: Callable[[SourceFile], OutcomeT]
) -> list[OutcomeT]:
    """Return what `work` returns for each file, in the order of the files; `jobs` run at a time.

    Raises:
        StoppedRun: the run was interrupted or the server is gone. The calls under way are cancelled, for which the
            client is closed; the server stops working on them.
    """
    pool = ThreadPoolExecutor(jobs)
    futures = [pool.submit(work, file) for file in files]
    try:
        for future in as_completed(futures):
            future.result()
    except (KeyboardInterrupt, UnavailableError) as cause:
        client.close()
        pool.shutdown(cancel_futures=True)
        ended = [future for future in futures if not future.cancelled() and future.exception() is None]
        raise StoppedRun([future.result() for future in ended], len(files)) from cause
    finally:
        pool.shutdown(cancel_futures=True)
    return [future.result() for future in futures]


def ensure_collection(client: GroundwireClient, name: str, profile: str | None) -> None:
    """Create the collection unless it exists; a profile that is given must be the one it has.

    Raises:
        AlreadyExistsError: it exists with another profile.
    """
    if profile is None:
        try:
            client.get_collection(collection=name)
        except CollectionNotFoundError:
            profile = "documents"
    if profile is not None:
        wanted = collection_pb2.Profile.Value(f"PROFILE_{profile.upper()}")
        client.create_collection(collection=name, profile=wanted)


def ingest_files(
    client: GroundwireClient,
    collection: str,
    files: Sequence[SourceFile],
    options: FileOptions,
    jobs: int,
    display: Display,
) -> list[FileOutcome]:
    """Ingest files, `jobs` at a time, and return their outcomes in the order of the files.

    A refused file does not stop the others.

    Raises:
        StoppedRun: it was interrupted, or the server cannot be reached; the rest is not tried.
    """

    def ingest_one(file: SourceFile) -> FileOutcome:
        header = pb.UploadHeader(collection=collection, **options.said_of(file.source_uri))
        outcome = _ingest(client, header, file, display)
        display.finished(outcome)
        return outcome

    return for_each_file(client, files, jobs, ingest_one)


def reason_of(error: GroundwireError) -> str:
    """Return what is wrong with a file; which field of the request its content went into is left out."""
    if not isinstance(error, InvalidRequestError):
        return error.message
    return "; ".join(
        each.description if each.field in _CONTENT_FIELDS else f"{each.field}: {each.description}"
        for each in error.violations
    )


def _ingest(client: GroundwireClient, header: pb.UploadHeader, file: SourceFile, display: Display) -> FileOutcome:
    try:
        result = _send(client, header, file, display)
    except (UnavailableError, CallCancelledError):
        raise
    except GroundwireError as error:
        return FileOutcome(file.source_uri, "failed", error=f"{error.reason}: {reason_of(error)}")
    except OSError as error:
        return FileOutcome(file.source_uri, "failed", error=f"cannot read: {error.strerror}")
    return FileOutcome(
        file.source_uri,
        ingest_result_pb2.IngestOutcome.Name(result.outcome).removeprefix("INGEST_OUTCOME_").lower(),
        chunks=result.counts.chunk_count,
        embedded=result.counts.embedded_count,
        warnings=tuple(warning.message for warning in result.warnings),
        document_id=result.document.document_id,
    )


def _send(
    client: GroundwireClient, header: pb.UploadHeader, file: SourceFile, display: Display
) -> ingest_result_pb2.IngestResult:
    if file.path.stat().st_size <= UNARY_BYTES:
        said = {field.name: value for field, value in header.ListFields()}
        return client.ingest_document(content=file.path.read_bytes(), **said).result

    def on_progress(report: pb.UploadProgress) -> None:
        progress = report.progress
        stage = progress_pb2.ProgressStage.Name(progress.stage).removeprefix("PROGRESS_STAGE_").lower()
        display.stage(file.source_uri, stage, progress.done_count, progress.total_count)

    return client.upload_document(file.path, header, on_progress)
