"""The bytes of an upload on their way in, spooled to a file so that memory stays small."""

import tempfile
from pathlib import Path

from groundwire.ingest.ports import Original
from groundwire.kernel.errors import InvalidRequestError

MAX_PART_BYTES = 1 << 20


class StagedUpload:
    """Takes parts in order; used by one thread at a time."""

    def __init__(self, folder: Path, total_bytes: int) -> None:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        # It outlives this block: `discard` closes and removes it.
        self._file = tempfile.NamedTemporaryFile(dir=folder, prefix="upload-")  # noqa: SIM115 - see above
        self._total_bytes = total_bytes
        self.received_bytes = 0

    def take(self, offset: int, data: bytes) -> None:
        """Add a part; bytes that are here already are skipped.

        Raises:
            InvalidRequestError: the part is empty, too long, leaves a gap, or goes beyond the announced size.
        """
        if not 1 <= len(data) <= MAX_PART_BYTES:
            raise InvalidRequestError.of("part.data", f"must have 1 to {MAX_PART_BYTES} bytes")
        if offset > self.received_bytes:
            raise InvalidRequestError.of("part.offset", f"leaves a gap: {self.received_bytes} bytes are here")
        if offset + len(data) > self._total_bytes:
            raise InvalidRequestError.of("part.data", f"goes beyond the announced {self._total_bytes} bytes")
        fresh = memoryview(data)[self.received_bytes - offset :]
        self._file.write(fresh)
        self.received_bytes += len(fresh)

    def finish(self) -> Original:
        """Return the document; valid until `discard`.

        Raises:
            InvalidRequestError: bytes are missing.
        """
        if self.received_bytes != self._total_bytes:
            found = f"{self.received_bytes} of {self._total_bytes} announced bytes came"
            raise InvalidRequestError.of("header.total_bytes", found)
        self._file.flush()
        return Original(self._total_bytes, path=Path(self._file.name))

    def discard(self) -> None:
        """Remove the file; idempotent."""
        self._file.close()
