"""`groundwire serve`: run the services."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from groundwire.cli.output import is_terminal, print_line


class Service(StrEnum):
    """What one process serves."""

    ALL = "all"
    INGEST = "ingest"
    RETRIEVE = "retrieve"
    ANSWER = "answer"


def serve(
    service: Annotated[Service, typer.Argument(help="Which services this process runs.")] = Service.ALL,
    listen: Annotated[str | None, typer.Option(help="HOST:PORT to listen on; port 0 picks a free one.")] = None,
    data: Annotated[Path | None, typer.Option(help="Folder for all data.")] = None,
    vectors: Annotated[
        str | None, typer.Option(help="Vector store: qdrant-edge:DIR, chroma:DIR, memory: or a server.")
    ] = None,
    catalog: Annotated[str | None, typer.Option(help="Catalog: sqlite:FILE.")] = None,
    embedder: Annotated[str | None, typer.Option(help="Embedder: sentence-transformers:NAME_OR_DIR.")] = None,
    generator: Annotated[str | None, typer.Option(help="Generator: extractive:.")] = None,
) -> None:
    """Run the services until SIGTERM or Ctrl-C.

    Prints "listening on HOST:PORT" once it can serve, and on a terminal what it waits for until then. Each option has
    a variable GROUNDWIRE_<OPTION>.
    """
    from groundwire.standalone.process import run  # noqa: PLC0415 - the server's libraries are heavy
    from groundwire.standalone.settings import load_settings  # noqa: PLC0415 - the same

    settings = load_settings(
        listen=listen, data=data, vectors=vectors, catalog=catalog, embedder=embedder, generator=generator
    )
    run(service.value, settings, _announce)


def _announce(what: str) -> None:
    if is_terminal(err=True):
        print_line((f"{what} …", "dim"), err=True)
