"""The command tree. A command's module is imported when the command runs, and `groundwire --help` imports none."""

from collections import UserDict
from importlib import import_module
from typing import Any

import click

# Where each command is, as `module.function`, and the first sentence of its help.
_SUMMARIES = {
    "answers": ("answers.app", "List and show answers that are kept."),
    "ask": ("search.ask", "Answer a question from a collection, every sentence with a citation that has been checked."),
    "chat": ("sessions.chat", "Ask one question after the other in a session."),
    "backup": (
        "catalogs.backup",
        "Copy a catalog into a new folder, as it is at one moment; its servers may run and write.",
    ),
    "bench": ("load.bench", "Measure a server."),
    "chunks": ("docs.chunks_app", "List, show and change chunks."),
    "cite": ("citations.cite", "Write the citations of an answer as text, such as a list of references."),
    "collections": ("collections.app", "List, show, create, change and delete collections."),
    "consolidate": (
        "sessions.consolidate",
        "Derive memories from what the user said in a conversation; repeating it changes nothing.",
    ),
    "config": ("server.config", "Show the configuration."),
    "copy": (
        "catalogs.copy",
        "Copy a catalog, or a backup, into a new folder or an empty PostgreSQL database, all of it or nothing.",
    ),
    "docs": ("docs.app", "List, show, change, delete and restore documents."),
    "evaluate": ("evaluation.evaluate", "Measure how well searches find what labelled questions need."),
    "fsck": ("operations.fsck", "Check a running server's stores; exits with 1 if findings are left."),
    "ground": ("answers.ground", "Compare a text, whoever wrote it, with the sources: claim by claim."),
    "health": (
        "monitoring.health",
        "Print the state of each service and what fails behind the calls; exits with 1 unless all are serving.",
    ),
    "ingest": (
        "ingest.ingest",
        "Ingest files and folders; unchanged files cost nothing, so an interrupted run is simply repeated.",
    ),
    "keys": ("keys.app", "Make, list and revoke the API keys of a server, in its file."),
    "logs": ("monitoring.logs", "Show the queries that were asked, newest first."),
    "memory": ("memory.app", "Keep memories and other records: add, list, show, link, search, change and delete them."),
    "migrate": ("catalogs.migrate", "Bring the schema of a catalog to this version, as the start of a server does."),
    "operations": ("operations.app", "List, show and cancel long work."),
    "pipeline": (
        "monitoring.pipeline",
        "Show the figures of the server's searches since it started, or of a recent window.",
    ),
    "reembed": (
        "operations.reembed",
        "Embed a collection with the server's model and move over to it when complete.",
    ),
    "reindex": (
        "operations.reindex",
        "Build the indexes of a collection anew from the catalog; the old ones serve until the new ones are complete.",
    ),
    "restore": (
        "catalogs.restore",
        "Put a backup into an empty data folder or database, and check it; exits with 1 if findings are left.",
    ),
    "schema": ("schema.schema", "Show the schema of a kind of metadata; `--json` prints it as JSON Schema."),
    "search": ("search.search", "Show the chunks that match a text best, with their scores and places."),
    "serve": ("server.serve", "Run the services until SIGTERM or Ctrl-C."),
    "sessions": ("sessions.app", "List, show, end and delete sessions."),
    "stats": ("monitoring.stats", "Show the figures of what is live, counted in the catalog."),
    "validate": ("schema.validate", "Check metadata and show it with defaults filled in; nothing is stored."),
    "vault": ("vault.app", "Keep records as a folder of files: export, import, mirror and check it."),
    "verify": ("search.verify", "Compare each quote of an answer with the stored text, character for character."),
}


class _Commands(UserDict[str, Any]):
    """Commands by name, imported when they are looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module, _, function = super().__getitem__(name)[0].partition(".")
        command: click.Command = getattr(import_module(f"groundwire.cli.{module}"), function)
        return command


class _App(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """List the commands from their summaries, because importing them all would take a second."""
        with formatter.section("Commands"):
            room = formatter.width - 6 - max(map(len, _SUMMARIES))
            formatter.write_dl(
                [
                    (name, click.Command(name, help=summary).get_short_help_str(room))
                    for name, (_, summary) in sorted(_SUMMARIES.items())
                ]
            )


@click.group(
    cls=_App,
    commands=_Commands(_SUMMARIES),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 120},
)
@click.version_option(package_name="groundwire", message="%(prog)s %(version)s")
def app() -> None:
    """Answers that can be checked: ingest, search and ask documents over gRPC."""
