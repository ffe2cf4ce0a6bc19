"""The files of a collection: one folder for each copy of it, and a small file that names the serving one.

    <store>/<collection>/CURRENT      {"copy": "copy-1f0c…", "dimensions": 384, "metric": "cosine"}
    <store>/<collection>/copy-1f0c…/  a shard of qdrant-edge

CURRENT is replaced by rename, so a kill at any moment leaves the old or the new copy. Whatever CURRENT does
not name is a leftover of a killed build and is removed when the store opens (LevelDB's scheme).
"""

import json
import os
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from groundwire.kernel.errors import StoreMismatchError

_CURRENT = "CURRENT"
_METRIC = "cosine"


@dataclass(frozen=True, slots=True)
class Current:
    """What the file CURRENT says."""

    copy: str
    dimensions: int
    metric: str = _METRIC


def new_copy(collection: Path) -> Path:
    """Name a folder for another copy of a collection; nothing is made yet but the collection's folder."""
    collection.mkdir(exist_ok=True)
    return collection / f"copy-{uuid.uuid4().hex[:12]}"


def publish(collection: Path, copy: Path, dimensions: int) -> None:
    """Make a copy the serving one; atomic and synced to disk."""
    staged = collection / f"{_CURRENT}.new"
    with staged.open("w", encoding="utf-8") as file:
        json.dump(asdict(Current(copy.name, dimensions)), file)
        file.flush()
        os.fsync(file.fileno())
    staged.replace(collection / _CURRENT)
    _sync(collection)


def sync_files(copy: Path) -> None:
    """Sync every file of a copy to disk; some seconds for its 200 files on a busy disk."""
    for path in copy.rglob("*"):
        _sync(path)


def unpublish(collection: Path) -> None:
    """Make a collection gone for every later opener; its files stay."""
    (collection / _CURRENT).unlink(missing_ok=True)
    _sync(collection)


def remove(path: Path) -> None:
    """Remove a file or folder with all that is in it, or nothing."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def sweep(store: Path) -> Iterator[tuple[Path, Current]]:
    """Remove leftovers and yield the collections; call with the store's lock held and no engine running.

    Raises:
        StoreMismatchError: a collection has another metric than cosine.
    """
    for collection in sorted(path for path in store.iterdir() if path.is_dir()):
        current = _read_current(collection)
        if current is None:
            remove(collection)
            continue
        for leftover in collection.iterdir():
            if leftover.name not in {_CURRENT, current.copy}:
                remove(leftover)
        yield collection, current


def _read_current(collection: Path) -> Current | None:
    try:
        current = Current(**json.loads((collection / _CURRENT).read_text(encoding="utf-8")))
    except FileNotFoundError:
        return None
    if current.metric != _METRIC:
        message = f"collection {collection.name} was made with metric {current.metric}, not {_METRIC}"
        raise StoreMismatchError(message, setting="metric", expected=_METRIC, got=current.metric)
    return current


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
