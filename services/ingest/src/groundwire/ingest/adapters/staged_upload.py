"""What is on its way in: a file for each upload, kept until the document is ingested, and files without a name."""

import errno
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import SpooledTemporaryFile
from typing import BinaryIO, cast

from groundwire.ingest.ports import Original
from groundwire.kernel.errors import DataLossError, ExhaustedError, StoreUnavailableError

_FULL = {errno.ENOSPC, errno.EDQUOT}
_IN_MEMORY_BYTES = 1 << 20


class StagedFile:
    """A file that grows at its end; used by one thread at a time."""

    def __init__(self, path: Path, size_bytes: int) -> None:
        """Open the file and cut it to what is known to be on disk; a missing file begins empty.

        Raises:
            DataLossError: it is shorter than that.
        """
        self._path = path
        self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
        if self._file.seek(0, os.SEEK_END) < size_bytes:
            self._file.close()
            raise DataLossError("a staged file is shorter than it was", what="staged upload")
        self._file.truncate(size_bytes)
        self._file.seek(size_bytes)
        self.size_bytes = size_bytes

    def append(self, data: bytes | memoryview) -> None:
        """Add bytes; they are durable after the next `sync`."""
        with _translated_failures():
            self._file.write(data)
        self.size_bytes += len(data)

    def sync(self) -> None:
        """Return once all bytes so far, and the file's name, survive a power loss."""
        with _translated_failures():
            self._file.flush()
            os.fsync(self._file.fileno())
            folder = os.open(self._path.parent, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)

    def original(self) -> Original:
        """Return the document, valid while the file is there; call it after `sync`."""
        return Original(self.size_bytes, path=self._path)

    def close(self) -> None:
        """Let go of the file, which stays; idempotent."""
        self._file.close()


class ScratchFile:
    """A file without a name, which goes with the process; it is in memory while it is small."""

    def __init__(self, folder: Path) -> None:
        spooled = SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(folder))  # noqa: SIM115 - lives as long as this does
        self._file = cast("BinaryIO", spooled)

    def write(self, data: bytes) -> int:
        """Add bytes at the end."""
        with _translated_failures():
            return self._file.write(data)

    def reader(self) -> BinaryIO:
        """Return what reads it from the beginning; nothing is written any more."""
        with _translated_failures():
            self._file.seek(0)
        return self._file

    def close(self) -> None:
        """Drop it; idempotent."""
        self._file.close()


class StagingFolder:
    """The folder that holds the staged files of one process, named by upload id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, upload_id: str, size_bytes: int) -> StagedFile:
        """Open a file of which `size_bytes` are known to be on disk.

        Raises:
            DataLossError: it is shorter than that.
        """
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return StagedFile(self._folder / upload_id, size_bytes)

    def scratch(self) -> ScratchFile:
        """Return an empty file without a name."""
        self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return ScratchFile(self._folder)

    def remove(self, upload_id: str) -> None:
        """Remove a file; a missing one is ignored."""
        (self._folder / upload_id).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """Return the upload ids of all files."""
        return {path.name for path in self._folder.iterdir()} if self._folder.is_dir() else set()


@contextmanager
def _translated_failures() -> Iterator[None]:
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ExhaustedError("no space left for uploads") from error
        raise StoreUnavailableError("the staging folder failed", engine="staging") from error
