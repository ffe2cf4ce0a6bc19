"""`groundwire backup` and `groundwire restore`: the catalog of a data folder, copied while its server runs.

A backup holds the catalog and the key of the tokens. Vectors are in the catalog, so that the indexes of the vector
store are made again from it: a copy of both would be consistent only while nobody writes.
"""

import hashlib
import json
import os
import re
import shutil
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from groundwire.cli.maintenance import fsck
from groundwire.cli.options import is_json, json_option
from groundwire.cli.output import print_line, printed_as_json
from groundwire.kernel.errors import DataLossError, InvalidRequestError, PreconditionError

_CATALOG: Final = "catalog.db"
_KEY: Final = "page-token.key"
_MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1
_PART: Final = ".partial"
_LISTENING: Final = "listening on "
# What makes a server reachable, or asks its callers for credentials, which this one's only caller has not.
_NOT_FOR_A_CHECK: Final = ("GROUNDWIRE_JW", "GROUNDWIRE_KEYS", "GROUNDWIRE_METRICS", "GROUNDWIRE_TLS", "OTEL_")
_SERVER: Final = re.compile(r"^[a-z+]+://")

_data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("groundwire-data"),
    envvar="GROUNDWIRE_DATA",
    help="Data folder of the server.",
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), help="Folder to make.")
@_data_option
@json_option
def backup(folder: Path, data: Path) -> None:
    """Copy the catalog of a data folder into a new folder, as it is at one moment; its server may run and write."""
    _refuse_servers()
    source = data / _CATALOG
    if not source.is_file():
        raise PreconditionError(f"there is no {_CATALOG} in {str(data)!r}: name the data folder with --data")
    _refuse_used(folder)
    # The name shows that a backup is complete.
    part = folder.with_name(folder.name + _PART)
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700, parents=True)
    _copy_catalog(source, part / _CATALOG)
    if (data / _KEY).exists():
        shutil.copyfile(data / _KEY, part / _KEY)
    files = {path.name: _described(path) for path in sorted(part.iterdir())}
    created = datetime.now(UTC).isoformat(timespec="seconds")
    manifest = {"format": _FORMAT, "version": version("groundwire"), "create_time": created, "files": files}
    (part / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    for path in part.iterdir():
        path.chmod(0o600)
        _sync(path)
    _sync(part)
    if folder.exists():
        folder.rmdir()
    part.rename(folder)
    _sync(folder.absolute().parent)
    _show({"folder": str(folder), **manifest})


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), help="Backup to restore.")
@_data_option
@click.option("--no-check", is_flag=True, help="Start no server on it to make its indexes and compare everything.")
@json_option
def restore(folder: Path, data: Path, no_check: bool) -> None:
    """Put a backup into an empty data folder, and check it; exits with 1 if findings are left."""
    _refuse_servers()
    manifest = _verified(folder)
    _refuse_used(data)
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in manifest["files"]:
        part = data / (name + _PART)
        shutil.copyfile(folder / name, part)
        part.chmod(0o600)
        _sync(part)
        part.rename(data / name)
    _sync(data)
    if no_check or not is_json():  # then what the check prints is the one JSON value of this command
        _show({"folder": str(data), **manifest})
    if not no_check:
        with _served(data) as address:
            context = click.get_current_context()
            context.meta["groundwire.address"] = address
            context.invoke(fsck, collection="", repair=True, no_wait=False)


def _copy_catalog(source: Path, target: Path) -> None:
    """Copy a database as it is at one moment, with what is only in its write-ahead log.

    Raises:
        DataLossError: it is damaged.
    """
    try:
        with closing(sqlite3.connect(source)) as reading, closing(sqlite3.connect(target)) as writing:
            # In one step: between two, a write would make it begin anew, and a busy server writes all the time.
            reading.backup(writing)
            (state,) = writing.execute("PRAGMA quick_check(1)").fetchone()
            writing.execute("PRAGMA journal_mode = DELETE")
    except sqlite3.DatabaseError as error:
        raise DataLossError(f"the catalog {str(source)!r} cannot be copied: {error}") from error
    if state != "ok":
        raise DataLossError(f"the catalog {str(source)!r} is damaged: {state}")


def _verified(folder: Path) -> dict[str, Any]:
    """Return the manifest of a backup whose files are as it says.

    Raises:
        PreconditionError: it is no backup, or one of a later version.
        DataLossError: a file is missing or has changed.
    """
    try:
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_bytes())
        files: dict[str, Any] = manifest["files"]
        is_known = manifest["format"] == _FORMAT and {_CATALOG} <= set(files) <= {_CATALOG, _KEY}
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise PreconditionError(f"{str(folder)!r} is no complete backup: it has no {_MANIFEST}") from error
    if not is_known:
        raise PreconditionError(f"{str(folder)!r} is a backup of another version of groundwire")
    for name, described in files.items():
        path = folder / name
        if not path.is_file() or _described(path) != described:
            raise DataLossError(f"{name} of the backup {str(folder)!r} is not as it was written")
    return manifest


@contextmanager
def _served(data: Path) -> Iterator[str]:
    """Run a server on a data folder, on the loopback interface alone, and give its address.

    Raises:
        PreconditionError: it does not start.
    """
    variables = {name: value for name, value in os.environ.items() if not name.startswith(_NOT_FOR_A_CHECK)}
    # A vector store server may hold the collections of what the backup is of: they have the same names.
    if _SERVER.search(variables.get("GROUNDWIRE_VECTORS", "")):
        variables["GROUNDWIRE_VECTORS"] = "memory:"
    command = [sys.executable, "-m", "groundwire.cli", "serve", "--listen", "127.0.0.1:0", "--data", str(data)]
    with (
        tempfile.TemporaryFile("w+", encoding="utf-8") as log,
        subprocess.Popen(command, stdout=subprocess.PIPE, stderr=log, env=variables, text=True) as server,  # noqa: S603 - our own command
    ):
        try:
            line = server.stdout.readline().strip() if server.stdout else ""
            if not line.startswith(_LISTENING):
                server.wait()
                log.seek(0)
                *_, reason = ["it says nothing", *log.read().splitlines()]
                raise PreconditionError(f"no server starts on what was restored: {reason}")
            yield line.removeprefix(_LISTENING)
        finally:
            server.terminate()


def _refuse_servers() -> None:
    """Raise PreconditionError where the catalog is no file of the data folder."""
    catalog = os.environ.get("GROUNDWIRE_CATALOG", "sqlite:")
    if catalog != "sqlite:":
        message = f"only a catalog in the data folder is copied, not {catalog.partition(':')[0]}: use its own tools"
        raise PreconditionError(message)


def _refuse_used(folder: Path) -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequestError.of("folder", f"{str(folder)!r} is not empty: name a new folder")


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _show(made: dict[str, Any]) -> None:
    if printed_as_json(made):
        return
    size = sum(each["bytes"] for each in made["files"].values())
    print_line(f"{made['folder']}: {size / 1e6:.1f} MB, as of {made['create_time']}")
