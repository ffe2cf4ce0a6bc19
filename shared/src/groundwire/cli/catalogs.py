"""`groundwire backup`, `restore`, `copy` and `migrate`: a whole catalog, handled from outside of its servers.

A backup holds the catalog, as a file whatever database it is in, and the signing key of tokens. Vectors are in the
catalog, and the vector store is rebuilt from it: a copy of both would be consistent only while nobody writes.
"""

import hashlib
import json
import re
import shutil
import signal
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Final

import click

from groundwire.api.ingest.v1 import maintenance_service_pb2 as pb
from groundwire.catalog.file_copy import copy_file
from groundwire.cli.checking_server import checking_server
from groundwire.cli.operations import check_store, show_report
from groundwire.cli.options import is_json, json_option
from groundwire.cli.output import counted, print_line, printed_as_json
from groundwire.cli.server import announce, server_packages
from groundwire.kernel.catalog_urls import below, file_of, is_on_server
from groundwire.kernel.errors import DataLossError, InvalidRequestError, PreconditionError
from groundwire.kernel.files import sync
from groundwire.kernel.identifiers import DEFAULT_TENANT
from groundwire.kernel.identity import Identity
from groundwire.rpc.key_file import create_key

_CATALOG: Final = "catalog.db"
_KEY: Final = "page-token.key"
_MANIFEST: Final = "manifest.json"
_FORMAT: Final = 1
_PART: Final = ".partial"
_INDEX_MISSING: Final = pb.STORE_FINDING_KIND_VECTOR_MISSING
_URL: Final = re.compile(r"^[a-z+]+:")

_data_option = click.option(
    "--data",
    type=click.Path(path_type=Path),
    default=Path("groundwire-data"),
    envvar="GROUNDWIRE_DATA",
    help="Data folder of the server.",
)
_catalog_option = click.option(
    "--catalog",
    default="sqlite:",
    envvar="GROUNDWIRE_CATALOG",
    help="Catalog of the server: sqlite:FILE or postgresql://USER@HOST/DATABASE.",
)


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), help="Folder to make.")
@_data_option
@_catalog_option
@json_option
def backup(folder: Path, data: Path, catalog: str) -> None:
    """Copy a catalog into a new folder as a consistent snapshot; its servers may keep running and writing."""
    source = _url(catalog, data)
    with _new_folder(folder) as part:
        # Before the copy: what is written while that is made may be missing from it.
        created = datetime.now(UTC).isoformat(timespec="seconds")
        if is_on_server(source):
            _copy(source, f"sqlite:{part / _CATALOG}")
        else:
            copy_file(file_of(source), part / _CATALOG)
        if (data / _KEY).exists():
            shutil.copyfile(data / _KEY, part / _KEY)
        files = {path.name: _described(path) for path in sorted(part.iterdir())}
        manifest = {"format": _FORMAT, "version": version("groundwire"), "create_time": created, "files": files}
        (part / _MANIFEST).write_text(json.dumps(manifest, indent=2) + "\n", encoding="utf-8")
    _show({"folder": str(folder), **manifest})


@click.command()
@click.argument("folder", type=click.Path(path_type=Path), help="Backup to restore.")
@_data_option
@_catalog_option
@click.option("--no-check", is_flag=True, help="Start no server on it to make its indexes and compare everything.")
@json_option
def restore(folder: Path, data: Path, catalog: str, no_check: bool) -> None:
    """Restore a backup into an empty data folder or database and check it; exits with 1 if problems remain."""
    try:
        manifest: dict[str, Any] = json.loads((folder / _MANIFEST).read_bytes())
        files, _ = dict(manifest["files"]), manifest["create_time"]
        is_known = manifest["format"] == _FORMAT and {_CATALOG} <= set(files) <= {_CATALOG, _KEY}
    except (OSError, ValueError, KeyError, TypeError) as error:
        message = f"{str(folder)!r} is not a complete backup: its {_MANIFEST} is missing or damaged"
        raise PreconditionError(message) from error
    if not is_known:
        raise PreconditionError(f"{str(folder)!r} is a backup of another version of groundwire")
    for name, described in files.items():
        path = folder / name
        if not path.is_file() or _described(path) != described:
            raise DataLossError(f"{name} of the backup {str(folder)!r} has changed since it was written")
    is_file = not is_on_server(catalog)
    if is_file and catalog != "sqlite:":
        raise InvalidRequestError.of("catalog", "a file is restored into the data folder: name that with --data")
    placed = [data / name for name in files if is_file or name != _CATALOG]
    if any(path.with_name(path.name + _PART).exists() for path in placed):
        advice = "an interrupted restore has left it incomplete: delete it, and restore again"
    elif placed and all(path.exists() for path in placed):
        # Not compared: a server that was started on it, as the check is, has changed them.
        advice = (
            "name a new folder. If an interrupted restore has filled this one, it is complete: start a server on it, "
            "and run `groundwire fsck --repair`"
        )
    else:
        advice = "name a new folder"
    _refuse_used(data, "data", advice)
    # Its owner alone: it holds texts, and the key that signs tokens.
    data.mkdir(mode=0o700, parents=True, exist_ok=True)
    for name in files:
        if name == _CATALOG and not is_file:
            _copy(f"sqlite:{folder / name}", catalog)
            continue
        # Under another name until it is whole, so that no interrupted restore looks complete.
        part = data / (name + _PART)
        shutil.copyfile(folder / name, part)
        part.chmod(0o600)
        sync(part)
        part.rename(data / name)
    sync(data)
    if no_check or not is_json():  # then what the check prints is the one JSON value of this command
        _show({"folder": str(data), **manifest})
    if not no_check:
        show_report(_checked(data, catalog))


@click.command()
@click.option("--from", "source", required=True, help="Data folder, backup, or postgresql://USER@HOST:PORT/DATABASE.")
@click.option("--to", "target", required=True, help="New folder, or postgresql://… of an empty database.")
@json_option
def copy(source: str, target: str) -> None:
    """Copy a catalog or a backup into a new folder or an empty PostgreSQL database, all or nothing.

    Vectors are in the catalog: a server that is started on the copy fills its vector store from it.
    """
    if _URL.match(target) and not is_on_server(target):
        raise InvalidRequestError.of("--to", f"{target!r} is neither a folder nor postgresql://…")
    given = source if is_on_server(source) else _url("sqlite:", Path(source))
    if is_on_server(target):
        copied = _copy(given, target)
    else:
        with _new_folder(Path(target)) as part:
            copied = _copy(given, f"sqlite:{part / _CATALOG}")
    if printed_as_json({"tables": copied}):
        return
    named = ", ".join(counted(copied[f"{each}s"], each) for each in ("document", "chunk"))
    print_line(f"copied {counted(sum(copied.values()), 'row')}: {named}")


@click.command()
@_data_option
@_catalog_option
@click.option("--check", is_flag=True, help="Change nothing, and exit with 1 if migrations are pending.")
@json_option
def migrate(data: Path, catalog: str, check: bool) -> None:
    """Migrate a catalog to the schema of this version, as a server does when it starts.

    What is on PostgreSQL may be in use meanwhile. A file must not be, unless you only `--check`.
    """
    with server_packages("migrate"):
        from groundwire.standalone.catalogs import migrate_catalog  # noqa: PLC0415 - may not be installed

        revisions = migrate_catalog(_url(catalog, data), only_check=check)
    done, pending = ([], revisions) if check else (revisions, [])
    if not printed_as_json({"migrated": done, "pending": pending}):
        names = ", ".join(revisions)
        print_line(f"{'pending' if check else 'migrated'}: {names}" if names else "nothing is pending")
    click.get_current_context().exit(1 if pending else 0)


def _copy(source: str, target: str) -> dict[str, int]:
    with server_packages("copy"):
        from groundwire.standalone.catalogs import copy_installation  # noqa: PLC0415 - may not be installed

        return copy_installation(source, target, announce)


def _url(catalog: str, data: Path) -> str:
    """Return the URL of the catalog that a server with these settings has.

    Raises:
        InvalidRequestError: the setting is of another form.
        PreconditionError: it is a file, and there is none.
    """
    url = below(data, catalog, _CATALOG, "catalog")
    if not is_on_server(url) and not (file := file_of(url)).is_file():
        raise PreconditionError(f"there is no {file.name} in {str(file.parent)!r}: name a data folder or a backup")
    return url


@contextmanager
def _new_folder(folder: Path) -> Iterator[Path]:
    """Give a folder to fill, which gets its name once it is complete and durable; what fails leaves nothing behind.

    A process that is killed leaves the folder under another name, and the next copy of that name removes it.

    Raises:
        InvalidRequestError: there is one of that name, which is not empty, or what would be removed is no copy.
    """
    _refuse_used(folder)
    folder = folder.resolve()  # `.` has no name
    part = folder.with_name(folder.name + _PART)
    if part.is_dir() and any(not each.name.startswith((_CATALOG, _KEY, _MANIFEST)) for each in part.iterdir()):
        raise InvalidRequestError.of("folder", f"{str(part)!r} is in the way and no interrupted backup: move it")
    shutil.rmtree(part, ignore_errors=True)
    part.mkdir(mode=0o700, parents=True)
    try:
        yield part
        for path in part.iterdir():
            path.chmod(0o600)
            sync(path)
        sync(part)
        part.rename(folder)  # in place of an empty one, too
    except BaseException:
        shutil.rmtree(part, ignore_errors=True)
        raise
    sync(folder.absolute().parent)


def _checked(data: Path, catalog: str) -> pb.StoreReport:
    """Repair and compare what was restored, of all tenants, with a server that is started for it.

    Where there are several tenants, each finding has that of its collection before the name.

    Raises:
        PreconditionError: no server starts on it.
    """
    with server_packages("restore"):
        from groundwire.standalone.catalogs import tenants_of  # noqa: PLC0415 - may not be installed

        tenants = tenants_of(_url(catalog, data)) or [DEFAULT_TENANT]
    total, context = pb.StoreReport(consistent=True), click.get_current_context()
    with _ending_orderly(), tempfile.TemporaryDirectory(prefix="groundwire-restore-") as folder:
        # A call sees one tenant, that of its credential.
        keys, token_file = Path(folder, "keys.yaml"), Path(folder, "token")
        secrets = {tenant: create_key(keys, Identity(tenant, "restore"))[1] for tenant in tenants}
        context.meta["groundwire.token_file"] = token_file
        with checking_server(data, catalog, keys) as context.meta["groundwire.address"]:
            for tenant, secret in secrets.items():
                token_file.write_text(secret, encoding="utf-8")
                report = check_store("", repair=True) or pb.StoreReport()
                # A backup has no index: that the check has made one is no finding.
                findings = [each for each in report.findings if not (each.repaired and each.kind == _INDEX_MISSING)]
                made = len(report.findings) - len(findings)
                for finding in findings if len(tenants) > 1 else ():
                    # What is wrong with the file, and each tenant is told, is in no collection.
                    finding.collection = finding.collection and f"{tenant}/{finding.collection}"
                total.consistent &= report.consistent
                total.checked_count += report.checked_count
                total.finding_count += report.finding_count - made
                total.repaired_count += report.repaired_count - made
                total.findings.extend(findings)
    return total


@contextmanager
def _ending_orderly() -> Iterator[None]:
    """Let SIGTERM, which `timeout` and job runners send, end this process as Ctrl-C does.

    Otherwise it would leave a server behind, which owns what was restored, and the keys of that.
    """
    before = signal.signal(signal.SIGTERM, lambda number, _: sys.exit(128 + number))
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, before)


def _refuse_used(folder: Path, field: str = "folder", advice: str = "name a new folder") -> None:
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise InvalidRequestError.of(field, f"{str(folder)!r} is not empty: {advice}")


def _described(path: Path) -> dict[str, Any]:
    with path.open("rb") as file:
        return {"bytes": path.stat().st_size, "sha256": hashlib.file_digest(file, "sha256").hexdigest()}


def _show(made: dict[str, Any]) -> None:
    if printed_as_json(made):
        return
    size = sum(each["bytes"] for each in made["files"].values())
    print_line(f"{made['folder']}: {size / 1e6:.1f} MB, as of {made['create_time']}")
