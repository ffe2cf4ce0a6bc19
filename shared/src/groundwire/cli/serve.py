"""`groundwire serve`: run the services."""

import gc
from pathlib import Path

import click

from groundwire.cli.options import server_packages
from groundwire.cli.output import is_terminal, print_line


@click.command()
@click.argument(
    "service",
    type=click.Choice(["all", "ingest", "retrieve", "answer"]),
    default="all",
    help="Which services this process runs.",
)
@click.option("--listen", help="HOST:PORT to listen on; port 0 picks a free one.")
@click.option("--data", type=click.Path(path_type=Path), help="Folder for all data.")
@click.option("--vectors", help="Vector store: qdrant-edge:DIR, chroma:DIR, memory: or a server.")
@click.option("--catalog", help="Catalog: sqlite:FILE.")
@click.option("--embedder", help="Embedder: sentence-transformers:NAME_OR_DIR.")
@click.option("--generator", help="Generator: extractive:.")
def serve(
    service: str,
    listen: str | None,
    data: Path | None,
    vectors: str | None,
    catalog: str | None,
    embedder: str | None,
    generator: str | None,
) -> None:
    """Run the services until SIGTERM or Ctrl-C.

    Prints "listening on HOST:PORT" once it can serve, and on a terminal what it waits for until then. Each option has
    a variable GROUNDWIRE_<OPTION>.
    """
    # Nothing that is made until the process serves is garbage; `run` enables it then.
    gc.disable()
    with server_packages("serve"):
        from groundwire.standalone.process import run  # noqa: PLC0415 - the server's libraries are heavy
        from groundwire.standalone.settings import load_settings  # noqa: PLC0415 - the same

        settings = load_settings(
            listen=listen, data=data, vectors=vectors, catalog=catalog, embedder=embedder, generator=generator
        )
        run(service, settings, _announce)


def _announce(what: str) -> None:
    if is_terminal(err=True):
        print_line((f"{what} …", "dim"), err=True)
