"""The lock that makes one process the owner of a catalog file."""

import errno
import fcntl
import os
from pathlib import Path

from groundwire.kernel.errors import StoreOwnedError


class OwnerLock:
    """An advisory lock on `<file>.lock`, held until `release()` or the end of the process.

    The lock file stays behind: removing it would let two processes lock two different files. It holds
    the id of the owner for the message of whoever comes second.
    """

    def __init__(self, path: Path) -> None:
        lock_path = path.with_name(path.name + ".lock")
        self._descriptor = os.open(lock_path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            owner = os.read(self._descriptor, 32).decode("ascii", "replace").strip() or "unknown"
            os.close(self._descriptor)
            if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                raise
            message = f"{path} is in use by process {owner}; one process owns a catalog file"
            raise StoreOwnedError(message, path=str(path), owner=owner) from None
        os.ftruncate(self._descriptor, 0)
        os.pwrite(self._descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Let another process own the file; idempotent."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
