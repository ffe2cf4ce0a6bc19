"""Uploads: their bytes on disk, so that a broken connection or a crash loses none that were acknowledged."""

import errno
import fcntl
import os
import re
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import SpooledTemporaryFile

from groundwire.catalog.uploads import StoredUpload, UploadNotFoundError, Uploads
from groundwire.ingest.parsing.parsed_document import Original
from groundwire.kernel.errors import (
    ConflictError,
    DataLossError,
    ExhaustedError,
    InvalidRequestError,
    StoreUnavailableError,
    UnavailableError,
)
from groundwire.kernel.files import sync

MAX_PART_BYTES = 1 << 20
# What a client has to send again after a crash is bounded by both; each sync costs milliseconds.
SYNC_EVERY_BYTES = 4 << 20
SYNC_EVERY_S = 1.0
_UPLOAD_ID = re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_FULL = {errno.ENOSPC, errno.EDQUOT}
# Most documents are smaller, and need no file.
_IN_MEMORY_BYTES = 1 << 20


class StagedFile:
    """A file that grows at its end; used by one thread at a time."""

    def __init__(self, path: Path, durable_bytes: Callable[[], int], *, grows: bool) -> None:
        """Open the file and cut it to what is known to be on disk; a missing file begins empty.

        Args:
            path: of the file.
            durable_bytes: asked once nobody else can write to the file any more.
            grows: whether it is written to.

        Raises:
            DataLossError: it is shorter than that.
            UnavailableError: it `grows` in another stream, perhaps at another replica that has the same folder.
            StoreUnavailableError, ExhaustedError: the folder fails, or cannot lock files, or is full.
        """
        self._path = path
        with translated_failures():
            self._file = os.fdopen(os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600), "r+b")
        with ExitStack() as after_failure, translated_failures():
            after_failure.enter_context(self._file)
            try:
                if grows:
                    fcntl.flock(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                raise UnavailableError("another stream is sending the same upload") from None
            # Asked under the lock: until then, another stream may still add bytes.
            size_bytes = durable_bytes()
            if self._file.seek(0, os.SEEK_END) < size_bytes:
                raise DataLossError("a staged file is shorter than it was", what="staged upload")
            # Bytes after these were never flushed, so they may be damaged.
            self._file.truncate(size_bytes)
            self.size_bytes = self._file.seek(size_bytes)
            after_failure.pop_all()

    def append(self, data: bytes | memoryview) -> None:
        """Add bytes; they are durable after the next `sync`."""
        with translated_failures():
            self._file.write(data)
        self.size_bytes += len(data)

    def sync(self) -> None:
        """Return once all bytes so far, and the file's name, survive a power loss."""
        with translated_failures():
            self._file.flush()
            os.fsync(self._file.fileno())
            sync(self._path.parent)

    def original(self) -> Original:
        """Return the document, valid while the file is there; call it after `sync`."""
        return Original(self.size_bytes, path=self._path)

    def close(self) -> None:
        """Close the file, which stays on disk; idempotent."""
        if not self._file.closed:
            # Closing alone leaves the lock to a child that was forked just now, until it runs its own program.
            with self._file, translated_failures():
                fcntl.flock(self._file, fcntl.LOCK_UN)


class StagingFolder:
    """The folder that holds the staged files of one process, or of replicas that share it, named by upload id."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def open(self, upload_id: str, durable_bytes: Callable[[], int], *, grows: bool) -> StagedFile:
        """Open a file, see `StagedFile`; one that `grows` is opened once at a time."""
        return StagedFile(self._made() / upload_id, durable_bytes, grows=grows)

    def scratch(self) -> "SpooledTemporaryFile[bytes]":
        """Return an unnamed file that disappears with the process; kept in memory while it is small."""
        return SpooledTemporaryFile(_IN_MEMORY_BYTES, dir=str(self._made()))

    def _made(self) -> Path:
        with translated_failures():
            self._folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return self._folder

    def holds(self, upload_id: str) -> bool:
        return (self._folder / upload_id).is_file()

    def remove(self, upload_id: str) -> None:
        """Remove a file; a missing one is ignored.

        Raises:
            StoreUnavailableError: the folder fails.
        """
        with translated_failures():
            (self._folder / upload_id).unlink(missing_ok=True)

    def names(self) -> set[str]:
        """Return the ids of uploads that have a file.

        Other files are not ours to remove: the setting may name a folder that is used for something else.
        """
        found = self._folder.iterdir() if self._folder.is_dir() else ()
        return {path.name for path in found if _UPLOAD_ID.fullmatch(path.name)}


@contextmanager
def translated_failures() -> Iterator[None]:
    """Raise ExhaustedError or StoreUnavailableError where the folder fails."""
    try:
        yield
    except OSError as error:
        if error.errno in _FULL:
            raise ExhaustedError("no space left for uploads", what="disk") from error
        raise StoreUnavailableError("the staging folder failed", engine="staging") from error


class IncomingUpload:
    """One upload and the one stream that brings its bytes; its methods wait for one another.

    After `close` all of them raise ConflictError: a thread whose caller left must not touch what another stream took
    over.
    """

    def __init__(self, tenant: str, stored: StoredUpload, uploads: Uploads, staged: StagedFile) -> None:
        self.stored = stored
        self._tenant = tenant
        self._uploads = uploads
        self._staged = staged
        # Reentrant, because taking a part and completing the upload may both sync.
        self._lock = threading.RLock()
        self._closed = False
        self.durable_bytes = stored.durable_bytes
        """On disk and in the books."""
        self._synced_at = time.monotonic()

    def take(self, offset: int, data: bytes) -> bool:
        """Add a part; bytes that are here already are skipped. Return whether more became durable.

        Raises:
            InvalidRequestError: the part is empty or too long, begins before the document, leaves a gap, or exceeds the
                announced size.
        """
        with self._lock:
            self._check_open()
            received, total = self._staged.size_bytes, self.stored.total_bytes
            if not 1 <= len(data) <= MAX_PART_BYTES:
                raise InvalidRequestError.of("part.data", f"must have 1 to {MAX_PART_BYTES} bytes")
            if offset < 0:
                raise InvalidRequestError.of("part.offset", "must not be negative")
            if offset > received:
                raise InvalidRequestError.of("part.offset", f"leaves a gap: {received} bytes have arrived")
            if offset + len(data) > total:
                raise InvalidRequestError.of("part.data", f"exceeds the announced {total} bytes")
            self._staged.append(memoryview(data)[received - offset :])
            # Each flush costs milliseconds, and after a crash a client has to send again what was not flushed.
            is_last = self._staged.size_bytes == total
            is_much = self._staged.size_bytes - self.durable_bytes >= SYNC_EVERY_BYTES
            is_due = is_last or is_much or time.monotonic() - self._synced_at >= SYNC_EVERY_S
            return is_due and self.sync()

    def sync(self) -> bool:
        """Make everything durable that came in; return whether that was more than before."""
        with self._lock:
            self._check_open()
            self._synced_at = time.monotonic()
            if self._staged.size_bytes <= self.durable_bytes:
                return False
            # The bytes before the row that counts them: a row that counts too many would lose the rest of an upload.
            self._staged.sync()
            self._uploads.advance(self._tenant, self.stored.upload_id, self._staged.size_bytes)
            self.durable_bytes = self._staged.size_bytes
            return True

    @contextmanager
    def complete(self) -> Iterator[Original]:
        """Give the whole document; the upload cannot be closed meanwhile.

        Raises:
            InvalidRequestError: bytes are missing.
        """
        with self._lock:
            self._check_open()
            if self._staged.size_bytes != self.stored.total_bytes:
                found = f"{self._staged.size_bytes} of {self.stored.total_bytes} announced bytes came"
                raise InvalidRequestError.of("header.total_bytes", found)
            self.sync()
            original = self._staged.original()
            self._uploads.advance(self._tenant, self.stored.upload_id, self.durable_bytes, original.sha256())
            yield original

    def close(self) -> None:
        """Close and keep what has arrived for another stream; idempotent."""
        with self._lock:
            if not self._closed:
                try:
                    self.sync()
                finally:
                    self._closed = True
                    self._staged.close()

    def _check_open(self) -> None:
        if self._closed:
            raise ConflictError("the upload was taken over by another stream", upload_id=self.stored.upload_id)


@dataclass(frozen=True, slots=True)
class UploadReceiver:
    """Begins uploads and takes them up again; a tenant has at most `quota_bytes` on their way in.

    `streams` are the uploads that have a stream right now, by tenant and id, with the bytes that it announced.
    """

    uploads: Uploads
    staging: StagingFolder
    quota_bytes: int
    streams: dict[tuple[str, str], int] = field(default_factory=dict)

    @contextmanager
    def announced(self, tenant: str, upload_id: str, total_bytes: int) -> Iterator[None]:
        """While a stream is open, count all bytes it has announced, not only those that have arrived."""
        self.streams[tenant, upload_id] = total_bytes
        try:
            yield
        finally:
            del self.streams[tenant, upload_id]

    def begin(self, tenant: str, upload_id: str, header: bytes, total_bytes: int) -> None:
        """Note a new upload.

        `header` is as it came, without an id.

        Raises:
            ExhaustedError: the tenant has too many bytes on their way in.
        """
        # A copy, because streams open and end meanwhile; copying is atomic for other threads.
        streams = {key[1]: size for key, size in list(self.streams.items()) if key[0] == tenant and key[1] != upload_id}
        staged = self.uploads.staged_bytes(tenant, frozenset(streams)) + sum(streams.values())
        if staged + total_bytes > self.quota_bytes:
            message = f"{staged} bytes of unfinished uploads are staged; finish them or wait until they expire"
            raise ExhaustedError(message, limit_bytes=self.quota_bytes, staged_bytes=staged)
        self.uploads.add(tenant, upload_id, header, total_bytes)

    def open(self, tenant: str, upload_id: str) -> IncomingUpload:
        """Return the upload, ready for the part behind its durable bytes.

        Raises:
            UploadNotFoundError: there is none, or its bytes are gone, or at a replica that stages elsewhere.
            UnavailableError: another stream brings it.
        """
        stored = self.uploads.get(tenant, upload_id)

        def durable_bytes() -> int:
            # Read again: until it let go of the file, another replica may have brought more than was known before.
            nonlocal stored
            stored = self.uploads.get(tenant, upload_id)
            return stored.durable_bytes

        # One that is whole is read while the stream that brought it may still be open.
        grows = stored.durable_bytes < stored.total_bytes
        try:
            staged = self.staging.open(upload_id, durable_bytes, grows=grows)
        except DataLossError:
            self.forget(tenant, upload_id)
            raise UploadNotFoundError(upload_id) from None
        return IncomingUpload(tenant, stored, self.uploads, staged)

    def keep(self, tenant: str, upload_id: str, content: bytes) -> None:
        """Take in a document that came as a whole, durably, for an operation of the same id.

        Raises:
            ExhaustedError: the tenant has too many bytes on their way in, or the disk is full.
        """
        # Without a header: no client goes on with it, only the operation reads it.
        self.begin(tenant, upload_id, b"", len(content))
        incoming = self.open(tenant, upload_id)
        # Stored like an upload, so that the sweeper finds what a crash leaves, and the operation finds complete bytes.
        try:
            with closing(incoming):
                for start in range(0, len(content), MAX_PART_BYTES):
                    incoming.take(start, content[start : start + MAX_PART_BYTES])
                with incoming.complete():
                    pass
        except BaseException:
            self.forget(tenant, upload_id)
            raise

    @contextmanager
    def kept(self, tenant: str, upload_id: str) -> Iterator[Original]:
        """Give a document that is here as a whole.

        Raises:
            UploadNotFoundError: its bytes are gone.
        """
        with closing(self.open(tenant, upload_id)) as incoming, incoming.complete() as original:
            yield original

    def finish(self, tenant: str, upload_id: str) -> None:
        """Drop the bytes of an ingested upload; its entry stays for a day, for a repeated header."""
        self.staging.remove(upload_id)
        self.uploads.drop_bytes(tenant, upload_id)

    def forget(self, tenant: str, upload_id: str) -> None:
        """Drop an upload that can never be ingested."""
        self.staging.remove(upload_id)
        self.uploads.forget(tenant, upload_id)

    def sweep(self) -> int:
        """Drop uploads that received nothing for a day, and orphaned files; return the number of uploads."""
        names = self.staging.names()  # before the rows: a row is written before its file
        forgotten = self.uploads.sweep()
        for name in names - self.uploads.ids():
            self.staging.remove(name)
        return forgotten
