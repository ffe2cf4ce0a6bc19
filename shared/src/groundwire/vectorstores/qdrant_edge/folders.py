"""The files of a collection: one folder for each copy of it, and a small file that names the serving one.

    <store>/<collection>/CURRENT             {"copy": "copy-1f0c…", "dimensions": 384, "metric": "cosine", …}
    <store>/<collection>/copy-1f0c…/         a shard of qdrant-edge
    <store>/<collection>/copy-1f0c….seal     what its files looked like when it was closed; missing while it is open

CURRENT is replaced by rename, so a kill or a power cut at any moment leaves the old or the new copy. Whatever CURRENT
does not name is a leftover of a killed build and is removed when the store opens (LevelDB's scheme). A collection
whose CURRENT says nothing that can be used is gone: it is made again from the catalog.
"""

import json
import shutil
import uuid
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from pathlib import Path

from groundwire.kernel.durable_files import replace_file, sync
from groundwire.kernel.errors import StoreMismatchError

_CURRENT = "CURRENT"
_COPY = "copy-"
_METRIC = "cosine"


@dataclass(frozen=True, slots=True)
class Current:
    """What the file CURRENT says; `is_complete` is false for a copy that is still being filled from the catalog."""

    copy: str
    dimensions: int
    metric: str = _METRIC
    is_complete: bool = True


def new_copy(collection: Path) -> Path:
    """Name a folder for another copy of a collection; nothing is made yet but the collection's folder."""
    collection.mkdir(exist_ok=True)
    return collection / f"{_COPY}{uuid.uuid4().hex[:12]}"


def seal_of(copy: Path) -> Path:
    return copy.with_name(f"{copy.name}.seal")


def publish(copy: Path, dimensions: int, *, is_complete: bool = True) -> None:
    """Make a copy, which is on disk, the serving one of its collection; atomic, and on disk on return."""
    current = Current(copy.name, dimensions, is_complete=is_complete)
    replace_file(copy.parent / _CURRENT, json.dumps(asdict(current)))
    sync(copy.parent.parent)


def unpublish(collection: Path) -> None:
    """Make a collection gone for every later opener; its files stay."""
    (collection / _CURRENT).unlink(missing_ok=True)
    sync(collection)


def remove(path: Path) -> None:
    """Remove a file or folder with all that is in it, or nothing."""
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        path.unlink(missing_ok=True)


def remove_copy(copy: Path) -> None:
    """Remove a copy and its seal."""
    remove(copy)
    remove(seal_of(copy))


def sweep(store: Path) -> Iterator[tuple[Path, Current]]:
    """Remove leftovers and yield the collections; call with the store's lock held and no engine running.

    Folders that hold anything else than copies are not ours and stay.

    Raises:
        StoreMismatchError: a collection has another metric than cosine.
    """
    for collection in sorted(path for path in store.iterdir() if path.is_dir()):
        if not all(entry.name.startswith((_CURRENT, _COPY)) for entry in collection.iterdir()):
            continue
        current = _read_current(collection)
        if current is None:
            remove(collection)
            continue
        used = {_CURRENT, current.copy, seal_of(collection / current.copy).name}
        for leftover in collection.iterdir():
            if leftover.name not in used:
                remove(leftover)
        yield collection, current


def _read_current(collection: Path) -> Current | None:
    """Return what CURRENT says, or None when it cannot be used: missing, garbled, or naming a copy that is gone."""
    try:
        stored = json.loads((collection / _CURRENT).read_text(encoding="utf-8"))
        current = Current(
            copy=str(stored["copy"]),
            dimensions=int(stored["dimensions"]),
            metric=str(stored["metric"]),
            is_complete=bool(stored["is_complete"]),
        )
    except (OSError, ValueError, TypeError, KeyError):
        return None
    if not (current.copy.startswith(_COPY) and (collection / current.copy).is_dir()):
        return None
    if current.metric != _METRIC:
        message = f"collection {collection.name} was made with metric {current.metric}, not {_METRIC}"
        raise StoreMismatchError(message, setting="metric", expected=_METRIC, got=current.metric)
    return current
