"""The command tree; each command lives in a module of its own and imports what it needs when it runs."""

import click

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
    operations,
    pipeline,
    schema,
    search,
    serve,
    sessions,
    stats,
    validate,
    verify,
)


@click.group(context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 120})
@click.version_option(package_name="groundwire", message="%(prog)s %(version)s")
def app() -> None:
    """Answers that can be checked: ingest, search and ask documents over gRPC."""


for command in (
    serve.serve,
    ingest.ingest,
    search.search,
    ask.ask,
    verify.verify,
    collections.app,
    docs.app,
    chunks.app,
    sessions.app,
    stats.stats,
    schema.schema,
    validate.validate,
    fsck.fsck,
    build.reindex,
    build.reembed,
    operations.app,
    logs.logs,
    pipeline.pipeline,
    health.health,
    config.app,
):
    app.add_command(command)
