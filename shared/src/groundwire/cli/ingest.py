"""`groundwire ingest`: put files and folders into a collection."""

from dataclasses import replace
from pathlib import Path

import click

from groundwire.cli.assignments import set_option
from groundwire.cli.options import (
    Interrupted,
    address_option,
    answers,
    check_consent,
    collection_option,
    connect,
    json_option,
)
from groundwire.kernel.errors import UnavailableError

DEFAULT_JOBS = 8
PROFILES = ("documents", "conversations", "memory", "web", "book")


@click.command()
@click.argument("sources", type=click.Path(), nargs=-1, required=True, metavar="PATH...", help="Files and folders.")
@collection_option
@click.option("--profile", type=click.Choice(PROFILES), help="Profile of a new collection; `documents` if not given.")
@click.option(
    "--chunker",
    type=click.Choice(["structure", "sentence", "hierarchy", "fixed"]),
    help="How these files are cut, instead of the collection's way.",
)
@click.option(
    "--target-size", type=click.IntRange(min=1), help="Size of a chunk to aim at, instead of the collection's."
)
@click.option(
    "--minimum-size", type=click.IntRange(min=1), help="Smallest size of a chunk, instead of the collection's."
)
@click.option(
    "--maximum-size", type=click.IntRange(min=1), help="Largest size of a chunk, instead of the collection's."
)
@click.option(
    "--overlap", type=click.FloatRange(min=0.0, max=0.5), help="Share of a chunk that neighbours share, below 0.5."
)
@set_option
@click.option(
    "--metadata",
    type=click.Path(path_type=Path),
    help="JSON or YAML file with fields of all files, and of single ones.",
)
@click.option(
    "--include", metavar="GLOB", multiple=True, help="Only files or folders of this name; may be given several times."
)
@click.option(
    "--exclude", metavar="GLOB", multiple=True, help="No files or folders of this name; may be given several times."
)
@click.option(
    "--source-version", type=int, help="Version of all these files; one below that of a stored document is refused."
)
@click.option("--jobs", type=click.IntRange(min=1, max=32), default=DEFAULT_JOBS, help="Files in flight at a time.")
@click.option("--plan", is_flag=True, help="Say what would be done, and do nothing.")
@click.option("--delete-missing", is_flag=True, help="Delete documents of these folders whose files are gone.")
@click.option("--yes", "-y", is_flag=True, help="Delete without asking.")
@click.option("--follow-links", is_flag=True, help="Follow links that lead out of the folders.")
@click.option("--verbose", "-v", is_flag=True, help="Name everything that is left out.")
@address_option
@json_option
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
    source_version: int | None,
    jobs: int,
    plan: bool,
    delete_missing: bool,
    yes: bool,
    follow_links: bool,
    verbose: bool,
    address: str,
    as_json: bool,
) -> None:
    """Ingest files and folders; unchanged files cost nothing, so an interrupted run is simply repeated.

    Exits with 1 if any file failed, naming each, and when the deletion was not confirmed; with 130 if interrupted.
    """
    from groundwire.cli.file_options import ChunkingOverrides, read_file_options  # noqa: PLC0415 - protobuf costs time
    from groundwire.cli.ingest_files import StoppedRun  # noqa: PLC0415 - gRPC costs time --help should not pay
    from groundwire.cli.ingest_run import IngestRun  # noqa: PLC0415 - the same
    from groundwire.cli.missing_files import check_roots  # noqa: PLC0415 - the same
    from groundwire.cli.output import print_line  # noqa: PLC0415 - the same
    from groundwire.cli.source_files import Selection, check_sources, find_source_files  # noqa: PLC0415 - the same

    if delete_missing and not plan:
        check_consent("--delete-missing", given=yes)
    paths = check_sources(sources)
    found = Selection(include, exclude).of(find_source_files(paths, follow_links=follow_links))
    roots = check_roots(paths) if delete_missing else []
    rules = ChunkingOverrides(chunker, target_size, minimum_size, maximum_size, overlap)
    options = replace(read_file_options(rules.message(), metadata, assignments), source_version=source_version)
    for source in options.unused({file.source_uri for file in found.files}):
        print_line(("warning", "yellow"), f" {metadata} names {source}, which is not among the files", err=True)
    try:
        with connect(address) as client:
            run = IngestRun(client, collection, found, roots, options, jobs, as_json, yes, verbose)
            is_complete = run.plan() if plan else run.ingest(profile)
    except StoppedRun as stopped:
        if isinstance(stopped.__cause__, KeyboardInterrupt):
            raise Interrupted(f"interrupted: {stopped}") from stopped
        why = str(stopped.__cause__) if answers(address) else f"no server answers at {address} any more"
        raise UnavailableError(f"{why}: {stopped}") from stopped
    if not is_complete:
        raise click.exceptions.Exit(1)
