"""Files that survive a power cut whole, and files that only one process may use at a time."""

import errno
import fcntl
import os
import time
from pathlib import Path

from groundwire.kernel.errors import StoreOwnedError


def replace_file(path: Path, content: str) -> None:
    """Write a file so that readers find the old or the new content, also after a power cut.

    Returns once the new content is on disk. One writer at a time: the draft is called `<name>.new`, and one that a
    killed process left is removed. A symbolic link at either name is replaced, never written through.
    """
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)
    with draft.open("x", encoding="utf-8", newline="") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    # The new name is on disk only when the folder is.
    sync(path.parent)


def sync(path: Path) -> None:
    """Return once a file's content, or a folder's list of entries, is on disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


_RETRY_S = 0.02


class OwnerLock:
    """An advisory lock on a file, held until `release()` or the end of the owner and its helpers.

    The file holds the process id of the owner. It stays behind: removing it would let two processes lock two different
    files. Processes that were handed `descriptor` hold the lock after the owner has died, until they have noticed and
    ended; the next owner waits up to `wait_s` seconds for that if the process named in the file is gone.

    Args:
        owned: the file or folder that one process owns.
        lock_file: beside or in it, in a folder that exists.
        what: what `owned` is, for the error of a second process.
        wait_s: for the helpers of a dead owner.

    Raises:
        StoreOwnedError: another process holds it.
    """

    def __init__(self, owned: Path, lock_file: Path, what: str, *, wait_s: float = 0.0) -> None:
        self.descriptor = os.open(lock_file, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            other = self._take(time.monotonic() + wait_s)
        except BaseException:
            os.close(self.descriptor)
            raise
        if other is not None:
            os.close(self.descriptor)
            message = f"{owned} is in use by process {other}; one process owns {what}: stop it, or name another"
            raise StoreOwnedError(message, path=str(owned), owner=other)
        os.ftruncate(self.descriptor, 0)
        os.pwrite(self.descriptor, f"{os.getpid()}\n".encode(), 0)

    def release(self) -> None:
        """Release the lock; idempotent."""
        if self.descriptor >= 0:
            os.close(self.descriptor)
            self.descriptor = -1

    def _take(self, ends_at: float) -> str | None:
        """Take the lock; return its holder instead, None if we hold it."""
        while True:
            try:
                fcntl.flock(self.descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError as error:
                if error.errno not in {errno.EWOULDBLOCK, errno.EACCES}:
                    raise
            else:
                return None
            # A process that has just been killed holds its lock for a moment more, which is worth waiting for.
            owner = os.pread(self.descriptor, 32, 0).decode("ascii", "replace").strip() or "unknown"
            try:
                os.kill(int(owner), 0)
            except (ValueError, OverflowError, ProcessLookupError):
                is_alive = False
            except PermissionError:
                is_alive = True  # it runs, as another user
            else:
                is_alive = True
            if is_alive or time.monotonic() >= ends_at:
                return owner
            time.sleep(_RETRY_S)
