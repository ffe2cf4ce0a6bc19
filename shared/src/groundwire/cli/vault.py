"""`groundwire vault`: records as a folder of files, and back."""

import logging
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from groundwire.cli.connection import connect
from groundwire.cli.memory import ensure_collection
from groundwire.cli.options import Interrupted, collection_option, json_option, server_options
from groundwire.cli.output import counted, print_line, printed_as_json
from groundwire.kernel.errors import MissingExtraError, UnavailableError

if TYPE_CHECKING:
    from groundwire.vault import ChunkStore
    from groundwire.vault.transfer import ExportReport

app = click.Group("vault", help="Keep records as a folder of files: export, import, mirror and check it.")
folder_argument = click.argument(
    "folder", metavar="DIR", type=click.Path(file_okay=False, path_type=Path), help="Folder of the vault."
)


def _existing_vault(_context: click.Context, _parameter: click.Parameter, folder: Path) -> Path:
    if not any((folder / name).is_dir() for name in ("chunks", "archive")):
        raise click.BadParameter(f"{str(folder)!r} is not a vault: it has neither a folder `chunks` nor one `archive`")
    return folder


existing_folder_argument = click.argument(
    "folder",
    metavar="DIR",
    type=click.Path(exists=True, file_okay=False, path_type=Path),
    callback=_existing_vault,
    help="Folder of the vault.",
)
verbose_option = click.option("--verbose", "-v", is_flag=True, help="Also print an audit record for every file.")


class _Lines(logging.Handler):
    """Prints warnings and audit records, in which file names and ids of others stand."""

    def emit(self, record: logging.LogRecord) -> None:
        print_line(record.getMessage(), err=True)


def _store_type() -> "type[ChunkStore]":
    try:
        from groundwire.vault import ChunkStore  # noqa: PLC0415 - may not be installed
    except ModuleNotFoundError as error:
        message = "`groundwire vault` needs one more package: pip install 'groundwire[vault]'"
        raise MissingExtraError(message, extra="vault") from error
    return ChunkStore


@contextmanager
def _opened(folder: Path, *, verbose: bool = False) -> Iterator["ChunkStore"]:
    """Open a vault for the time of a command.

    Raises:
        MissingExtraError: pydantic is not installed.
    """
    store_type = _store_type()
    log, lines = logging.getLogger("groundwire.vault"), _Lines()
    log.addHandler(lines)
    log.setLevel(logging.INFO if verbose else logging.WARNING)
    try:
        yield store_type(folder)
    finally:
        log.removeHandler(lines)


@app.command("export")
@folder_argument
@collection_option
@verbose_option
@server_options
def export_vault(folder: Path, collection: str, verbose: bool) -> None:
    """Make a folder hold the records of a collection, one file each, deleted ones in its archive.

    An export that was interrupted is simply repeated; files that hold the same already are not touched.
    """
    _store_type()  # a missing package is reported even without a server
    with connect() as client:
        client.get_collection(collection=collection)  # a name that is mistyped leaves no folder
        with _opened(folder, verbose=verbose) as store:
            from groundwire.vault.transfer import export_records  # noqa: PLC0415 - may not be installed

            report = export_records(client, collection, store)
    _show_export(report)


def _show_export(report: "ExportReport") -> None:
    if not printed_as_json(asdict(report)):
        print_line(f"{counted(report.written, 'file')} written, {report.removed} removed, {report.unchanged} unchanged")


@app.command("mirror")
@folder_argument
@collection_option
@click.option(
    "--interval", "interval_s", type=click.FloatRange(min=0.1), default=10.0, help="Seconds between two exports."
)
@verbose_option
@server_options
def mirror_vault(folder: Path, collection: str, interval_s: float, verbose: bool) -> None:
    """Export again and again, until Ctrl-C; files of records that are gone for good are removed."""
    _store_type()  # a missing package is reported even without a server
    with connect() as client:
        # A name that is mistyped leaves no folder; a server that is not up yet is waited for below.
        with suppress(UnavailableError):
            client.get_collection(collection=collection)
        with _opened(folder, verbose=verbose) as store:
            from groundwire.vault.transfer import ExportReport, mirror_records  # noqa: PLC0415 - may not be installed

            def show(report: Any) -> bool:
                if not isinstance(report, ExportReport):
                    print_line(f"{report.message}; trying again", err=True)
                elif report.written or report.removed:
                    _show_export(report)
                return True

            try:
                mirror_records(client, collection, store, interval_s=interval_s, on_round=show)
            except KeyboardInterrupt:
                raise Interrupted("stopped; the folder is whole, and another run goes on from it") from None


@app.command("import")
@existing_folder_argument
@collection_option
@verbose_option
@server_options
def import_vault(folder: Path, collection: str, verbose: bool) -> None:
    """Store the files of a folder as records, over those of the same ids; exits with 1 if any failed, naming each.

    A collection that is not there is made. Deleted ones of the archive can be restored afterwards. An import that was
    interrupted is simply repeated.
    """
    with _opened(folder, verbose=verbose) as store, connect() as client:
        from groundwire.vault.transfer import import_records  # noqa: PLC0415 - may not be installed

        ensure_collection(client, collection)
        corrupt = store.check().corrupt
        report = import_records(client, collection, store)
    failed = {**report.failed, **corrupt}
    if not printed_as_json({**asdict(report), "failed": failed}):
        stored = f"{counted(report.stored, 'record')} stored, {report.unchanged} unchanged"
        print_line(f"{stored}, {report.archived} of them deleted; {counted(report.linked, 'link')}")
        for name, reason in failed.items():
            print_line(f"failed {name}: {reason}", err=True)
    if failed:
        raise click.exceptions.Exit(1)


@app.command("check")
@existing_folder_argument
@click.option("--repair", is_flag=True, help="Rewrite wrong and missing indexes.")
@json_option
def check_vault(folder: Path, repair: bool) -> None:
    """Read every file of a folder and compare its indexes with them; exits with 1 if anything stays wrong."""
    with _opened(folder) as store:
        report = store.check(repair=repair)
    if not printed_as_json({"consistent": report.consistent, **asdict(report)}):
        for name in report.wrong_indexes:
            print_line(f"{'repaired' if repair else 'wrong'} index/{name}")
        for name, reason in report.corrupt.items():
            print_line(f"corrupt {name}: {reason}")
        print_line(f"{counted(report.chunk_count, 'memory file')}, {report.archived_count} in the archive")
    if not report.consistent:
        raise click.exceptions.Exit(1)
