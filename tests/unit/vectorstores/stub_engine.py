"""An engine for tests of its process: it answers, waits, works and fails as it is told."""

import errno
import os
import resource
import time
from pathlib import Path


class Engine:
    """The requests."""

    def echo(self, value: bytes) -> bytes:
        """Return the value."""
        return value

    def echo_later(self, value: bytes, seconds: float) -> bytes:
        """Return the value after some time."""
        time.sleep(seconds)
        return value

    def work(self, count: int) -> int:
        """Hold the interpreter lock, as the libraries do: no other thread runs meanwhile."""
        return sum(range(count))  # one call of the library in C

    def upsert(self, path: str, size: int) -> None:
        """Append to a file."""
        with Path(path).open("ab") as file:
            file.write(bytes(size))

    def limit_files(self, size: int) -> None:
        """Let no file grow beyond a size."""
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    def fail_full(self) -> None:
        """Fail as on a full disk."""
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    def close_all(self) -> None:
        """Close nothing."""
