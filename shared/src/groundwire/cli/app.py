"""The command tree; each command lives in a module of its own and imports what it needs when it runs."""

from typing import Annotated

import typer

from groundwire.cli import (
    ask,
    build,
    chunks,
    collections,
    config,
    docs,
    fsck,
    health,
    ingest,
    logs,
    pipeline,
    schema,
    search,
    serve,
    stats,
    validate,
    verify,
)
from groundwire.cli.output import print_line

app = typer.Typer(
    name="groundwire",
    help="Answers that can be checked: ingest, search and ask documents over gRPC.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command("serve")(serve.serve)
app.command("ingest")(ingest.ingest)
app.command("search")(search.search)
app.command("ask")(ask.ask)
app.command("verify")(verify.verify)
app.add_typer(collections.app, name="collections")
app.add_typer(docs.app, name="docs")
app.add_typer(chunks.app, name="chunks")
app.command("stats")(stats.stats)
app.command("schema")(schema.schema)
app.command("validate")(validate.validate)
app.command("fsck")(fsck.fsck)
app.command("reindex")(build.reindex)
app.command("reembed")(build.reembed)
app.command("logs")(logs.logs)
app.command("pipeline")(pipeline.pipeline)
app.command("health")(health.health)
app.add_typer(config.app, name="config")


def _print_version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # noqa: PLC0415 - costs time that --help should not pay

        print_line(f"groundwire {version('groundwire')}")
        raise typer.Exit


@app.callback()
def main(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version.")
    ] = False,
) -> None:
    """Answers that can be checked: ingest, search and ask documents over gRPC."""
