"""`groundwire ingest`: put files and folders into a collection."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from groundwire.cli.options import (
    AddressOption,
    CollectionOption,
    Interrupted,
    JsonOption,
    answers,
    check_consent,
    connect,
)
from groundwire.kernel.errors import UnavailableError

DEFAULT_JOBS = 8


class ProfileChoice(StrEnum):
    """Profiles as the command line spells them."""

    DOCUMENTS = "documents"
    CONVERSATIONS = "conversations"
    MEMORY = "memory"
    WEB = "web"
    BOOK = "book"


class ChunkerChoice(StrEnum):
    """Chunkers as the command line spells them."""

    STRUCTURE = "structure"
    SENTENCE = "sentence"
    HIERARCHY = "hierarchy"
    FIXED = "fixed"


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH...")],
    collection: CollectionOption,
    profile: Annotated[
        ProfileChoice | None, typer.Option(help="Profile of a new collection; `documents` if not given.")
    ] = None,
    chunker: Annotated[
        ChunkerChoice | None, typer.Option(help="How these files are cut, instead of the collection's way.")
    ] = None,
    target_size: Annotated[
        int | None, typer.Option(min=1, help="Size of a chunk to aim at, instead of the collection's.")
    ] = None,
    minimum_size: Annotated[
        int | None, typer.Option(min=1, help="Smallest size of a chunk, instead of the collection's.")
    ] = None,
    maximum_size: Annotated[
        int | None, typer.Option(min=1, help="Largest size of a chunk, instead of the collection's.")
    ] = None,
    overlap: Annotated[
        float | None, typer.Option(min=0.0, max=0.5, help="Share of a chunk that neighbours share, below 0.5.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=32, help="Files in flight at a time.")] = DEFAULT_JOBS,
    plan: Annotated[bool, typer.Option("--plan", help="Say what would be done, and do nothing.")] = False,
    delete_missing: Annotated[
        bool, typer.Option("--delete-missing", help="Delete documents of these folders whose files are gone.")
    ] = False,
    yes: Annotated[bool, typer.Option("--yes", "-y", help="Delete without asking.")] = False,
    follow_links: Annotated[
        bool, typer.Option("--follow-links", help="Follow links that lead out of the folders.")
    ] = False,
    verbose: Annotated[bool, typer.Option("--verbose", "-v", help="Name everything that is left out.")] = False,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Ingest files and folders; unchanged files cost nothing, so an interrupted run is simply repeated.

    Exits with 1 if any file failed, naming each, and when the deletion was not confirmed; with 130 if interrupted.
    """
    from groundwire.cli.chunking import ChunkingOverrides  # noqa: PLC0415 - protobuf costs time as well
    from groundwire.cli.ingest_files import StoppedRun  # noqa: PLC0415 - gRPC and rich cost time --help should not pay
    from groundwire.cli.ingest_run import IngestRun  # noqa: PLC0415 - the same
    from groundwire.cli.missing_files import check_roots  # noqa: PLC0415 - the same
    from groundwire.cli.source_files import find_source_files  # noqa: PLC0415 - the same

    if delete_missing and not plan:
        check_consent("--delete-missing", given=yes)
    found = find_source_files(paths, follow_links=follow_links)
    roots = check_roots(paths) if delete_missing else []
    rules = ChunkingOverrides(chunker and chunker.value, target_size, minimum_size, maximum_size, overlap)
    try:
        with connect(address) as client:
            run = IngestRun(client, collection, found, roots, rules.message(), jobs, as_json, yes, verbose)
            is_complete = run.plan() if plan else run.ingest(profile.value if profile else None)
    except StoppedRun as stopped:
        if isinstance(stopped.__cause__, KeyboardInterrupt):
            raise Interrupted(f"interrupted: {stopped}") from stopped
        why = str(stopped.__cause__) if answers(address) else f"no server answers at {address} any more"
        raise UnavailableError(f"{why}: {stopped}") from stopped
    if not is_complete:
        raise typer.Exit(1)
