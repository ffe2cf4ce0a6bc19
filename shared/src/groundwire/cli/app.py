"""The command tree. A command's module is imported when the command runs, and `groundwire --help` imports none."""

import signal
from collections import UserDict
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Any

import click

# Where each command is, as `module.function`, and the first sentence of its help.
_SUMMARIES = {
    "answers": ("answers.app", "List and show stored answers."),
    "ask": ("search.ask", "Answer a question from a collection, with a verified citation for every sentence."),
    "chat": ("sessions.chat", "Ask questions one after another in a session."),
    "audit": ("monitoring.audit", "Show who changed what is stored, newest first."),
    "backup": (
        "catalogs.backup",
        "Copy a catalog into a new folder as a consistent snapshot; its servers may keep running and writing.",
    ),
    "bench": ("load.bench", "Measure a server."),
    "chunks": ("docs.chunks_app", "List, show and change chunks."),
    "cite": ("citations.cite", "Format the citations of an answer as text, such as a list of references."),
    "collections": ("collections.app", "List, show, create, change and delete collections."),
    "consolidate": (
        "sessions.consolidate",
        "Derive memories from what the user said in a conversation; repeating it changes nothing.",
    ),
    "config": ("server.config", "Show the configuration."),
    "copy": (
        "catalogs.copy",
        "Copy a catalog or a backup into a new folder or an empty PostgreSQL database, all or nothing.",
    ),
    "docs": ("docs.app", "List, show, change, delete and restore documents."),
    "evaluate": ("evaluation.evaluate", "Measure how well searches find the answers to labelled questions."),
    "fsck": ("operations.fsck", "Check the stores of a running server; exits with 1 if problems remain."),
    "ground": ("answers.ground", "Check a text against the sources, claim by claim, whoever wrote it."),
    "health": (
        "monitoring.health",
        "Print the state of each service and failing background work; exits with 1 unless all are serving.",
    ),
    "ingest": (
        "ingest.ingest",
        "Ingest files and folders; unchanged files cost nothing, so an interrupted run can simply be repeated.",
    ),
    "keys": ("keys.app", "Create, list and revoke API keys in the key file of a server."),
    "logs": ("monitoring.logs", "Show logged queries, newest first."),
    "mcp": ("mcp.mcp", "Let agents search, ask and remember over the Model Context Protocol."),
    "memory": ("memory.app", "Keep memories and other records: add, list, show, link, search, change and delete them."),
    "migrate": (
        "catalogs.migrate",
        "Migrate a catalog to the schema of this version, as a server does when it starts.",
    ),
    "operations": ("operations.app", "List, show and cancel long-running operations."),
    "pipeline": (
        "monitoring.pipeline",
        "Show search statistics since the server started, or for a recent window.",
    ),
    "reembed": (
        "operations.reembed",
        "Embed a collection again with the server's model and switch to it when complete.",
    ),
    "reindex": (
        "operations.reindex",
        "Rebuild the indexes of a collection from the catalog; the old ones serve until the new ones are complete.",
    ),
    "restore": (
        "catalogs.restore",
        "Restore a backup into an empty data folder or database and check it; exits with 1 if problems remain.",
    ),
    "schema": ("schema.schema", "Show the schema of a kind of metadata; `--json` prints it as JSON Schema."),
    "search": ("search.search", "Show the chunks that match a text best, with scores and locations."),
    "serve": ("server.serve", "Run the services until SIGTERM or Ctrl-C."),
    "sessions": ("sessions.app", "List, show, end and delete sessions."),
    "stats": ("monitoring.stats", "Show statistics of live documents and chunks, counted in the catalog."),
    "validate": ("schema.validate", "Check metadata and show it with defaults filled in; nothing is stored."),
    "vault": ("vault.app", "Keep records as a folder of files: export, import, mirror and check it."),
    "verify": ("search.verify", "Compare each quote of an answer with the stored text, character for character."),
}


@contextmanager
def uninterrupted() -> Iterator[None]:
    """Let Ctrl-C wait for the end of the block, in which modules are imported.

    The module of grpcio that is interrupted while it loads is loaded again, and aborts the process.
    """
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


class _Commands(UserDict[str, Any]):
    """Commands by name, imported when they are looked up."""

    def __getitem__(self, name: str) -> click.Command:
        module, _, function = super().__getitem__(name)[0].partition(".")
        with uninterrupted():
            command: click.Command = getattr(import_module(f"groundwire.cli.{module}"), function)
        return command


class _App(click.Group):
    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002 - as click calls it
        """List the commands from their summaries, because importing them all would take a second."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, summary) for name, (_, summary) in sorted(_SUMMARIES.items())])


@click.group(
    cls=_App,
    commands=_Commands(_SUMMARIES),
    context_settings={"help_option_names": ["-h", "--help"], "show_default": True, "max_content_width": 120},
)
@click.version_option(package_name="groundwire", message="%(prog)s %(version)s")
def app() -> None:
    """Answers that can be checked: ingest, search and ask documents over gRPC."""
