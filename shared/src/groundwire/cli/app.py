"""The command tree; each command lives in a module of its own and imports what it needs when it runs."""

from collections import UserDict
from importlib import import_module
from typing import Any

import click


class _Commands(UserDict[str, Any]):
    """Commands by name, imported when they are looked up: a server needs one of them to start."""

    def __getitem__(self, name: str) -> click.Command:
        module, _, function = super().__getitem__(name).partition(".")
        command: click.Command = getattr(import_module(f"groundwire.cli.{module}"), function)
        return command


@click.group(
    commands=_Commands(
        serve="serve.serve",
        ingest="ingest.ingest",
        search="search.search",
        ask="ask.ask",
        verify="verify.verify",
        collections="collections.app",
        docs="docs.app",
        chunks="chunks.app",
        sessions="sessions.app",
        stats="stats.stats",
        schema="schema.schema",
        validate="validate.validate",
        fsck="fsck.fsck",
        reindex="build.reindex",
        reembed="build.reembed",
        operations="operations.app",
        logs="logs.logs",
        pipeline="pipeline.pipeline",
        health="health.health",
        config="config.app",
    ),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 120},
)
@click.version_option(package_name="groundwire", message="%(prog)s %(version)s")
def app() -> None:
    """Answers that can be checked: ingest, search and ask documents over gRPC."""
