"""`groundwire ingest`: put files and folders into a collection."""

import json
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from groundwire.cli.options import AddressOption, CollectionOption, JsonOption, connect

DEFAULT_JOBS = 4


class ProfileChoice(StrEnum):
    """Profiles as the command line spells them."""

    DOCUMENTS = "documents"
    CONVERSATIONS = "conversations"
    MEMORY = "memory"
    WEB = "web"
    BOOK = "book"


def ingest(
    paths: Annotated[list[Path], typer.Argument(help="Files and folders.", metavar="PATH...")],
    collection: CollectionOption,
    profile: Annotated[
        ProfileChoice | None, typer.Option(help="Profile of a new collection; `documents` if not given.")
    ] = None,
    jobs: Annotated[int, typer.Option(min=1, max=32, help="Files in flight at a time.")] = DEFAULT_JOBS,
    address: AddressOption = "127.0.0.1:50051",
    as_json: JsonOption = False,
) -> None:
    """Ingest files and folders; unchanged files cost nothing, so an interrupted run is simply repeated.

    Exits with 1 if any file failed, naming each.
    """
    from groundwire.cli import ingest_report  # noqa: PLC0415 - rich costs time that --help should not pay
    from groundwire.cli.ingest_files import ensure_collection, ingest_files  # noqa: PLC0415 - gRPC does as well
    from groundwire.cli.source_files import find_source_files  # noqa: PLC0415 - the same

    files = find_source_files(paths)
    with connect(address) as client:
        ensure_collection(client, collection, profile.value if profile else None)
        with ingest_report.Display(len(files), quiet=as_json) as display:
            outcomes = ingest_files(client, collection, files, jobs, display)
    report = ingest_report.as_dict(outcomes)
    if as_json:
        typer.echo(json.dumps(report, ensure_ascii=False, indent=2))
    else:
        ingest_report.show(report)
    if report["totals"]["failed"]:
        raise typer.Exit(1)
