"""The folder of an embedded engine: one owner at a time, one format, and files that are whole after a power cut."""

import errno
import fcntl
import os
import re
import time
from pathlib import Path

from groundwire.kernel.durable_files import replace_file, sync
from groundwire.kernel.errors import StoreMismatchError, StoreOwnedError
from groundwire.vectorstores.stored_fields import LAYOUT

_LOCK_FILE = "LOCK"
_RETRY_S = 0.02


class OwnerLock:
    """An advisory lock on `<folder>/LOCK`, held until `release()` or the end of the owner and its helpers.

    The file holds the process id of the owner. Processes that were handed `descriptor` keep the
    folder locked after the owner has died, until they have noticed and ended; an opener waits for
    that as long as the process named in the file is gone.
    """

    def __init__(self, folder: Path, wait_s: float = 10.0) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.descriptor = os.open(folder / _LOCK_FILE, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            _lock(self.descriptor, folder, time.monotonic() + wait_s)
        except BaseException:
            os.close(self.descriptor)
            raise
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process own the folder; idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1


def _lock(descriptor: int, folder: Path, deadline: float) -> None:
    while not _try_lock(descriptor):
        owner = os.pread(descriptor, 32, 0).decode("ascii", "replace").strip()
        if _is_alive(owner) or time.monotonic() > deadline:
            message = f"{folder} is in use by process {owner or 'unknown'}; one process owns a folder of vectors"
            raise StoreOwnedError(message, path=str(folder), owner=owner or "unknown")
        time.sleep(_RETRY_S)


def _try_lock(descriptor: int) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
            raise
        return False
    return True


def _is_alive(owner: str) -> bool:
    """Tell whether a process id is that of a running process; text that is no id is not."""
    try:
        os.kill(int(owner), 0)
    except PermissionError:
        return True  # it runs, as another user
    except (ValueError, OverflowError, ProcessLookupError):
        return False
    return True


_FORMAT_FILE = "FORMAT"
_FORMAT = re.compile(r"[a-z-]+ [0-9]+")


def claim_folder(folder: Path, engine: str) -> None:
    """Mark a folder as the engine's, or return if it already is; call with the owner lock held.

    A file that a power cut or anything else left empty or garbled is written anew: the engine finds out which
    collections it can open, and the others are made again from the catalog.

    Raises:
        StoreMismatchError: another engine or another layout wrote it; metadata: setting, expected, got.
    """
    marker = folder / _FORMAT_FILE
    expected = f"{engine} {LAYOUT}"
    got = marker.read_text(encoding="ascii", errors="replace").strip() if marker.exists() else ""
    if got == expected:
        return
    if _FORMAT.fullmatch(got):
        message = (
            f"{folder} was written as {got!r}, not {expected!r}; use another folder and rebuild it from the catalog"
        )
        raise StoreMismatchError(message, setting="format", expected=expected, got=got)
    replace_file(marker, f"{expected}\n")


def sync_tree(folder: Path) -> None:
    """Return once a folder with all that is in it is on disk; a few seconds for 300 files on a busy disk."""
    for path in folder.rglob("*"):
        sync(path)
    sync(folder)
