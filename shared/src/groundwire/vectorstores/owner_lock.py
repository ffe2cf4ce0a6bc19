"""The lock that makes one process the owner of a folder of vectors."""

import errno
import fcntl
import os
import time
from pathlib import Path

from groundwire.kernel.errors import StoreOwnedError

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
