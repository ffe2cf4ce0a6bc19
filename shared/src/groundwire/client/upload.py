"""An upload: what it sends, and how it goes on after a broken connection."""

import hashlib
import random
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.transport import Transport
from groundwire.kernel.errors import DataLossError, GroundwireError, InternalError, NotFoundError, UnavailableError

OnProgress: TypeAlias = Callable[[pb.UploadProgress], None]

_PART_BYTES: Final = 1024 * 1024
_MAX_ATTEMPTS: Final = 7
"""Attempts in a row that bring the upload no further; with the pauses between them a server may take 15 s to return."""
_FIRST_PAUSE_S: Final = 0.25
_LONGEST_PAUSE_S: Final = 8.0
# What grpc.aio says instead of the server's status when the stream ended while a message was being written.
_LOST_STATUS: Final = "Internal error from Core"


class Upload:
    """State of one upload across its attempts.

    Each attempt sends `first_message()`, waits for the response that makes `offset` known, and only then sends parts
    from there, so that a document that the server has already costs no transfer.
    """

    def __init__(self, path: Path, header: pb.UploadHeader, on_progress: OnProgress | None) -> None:
        self.path = path
        self.result: ingest_result_pb2.IngestResult | None = None
        self._header = pb.UploadHeader()
        self._header.CopyFrom(header)
        self._on_progress = on_progress
        self._attempts = 0
        self._durable_bytes = 0

    def prepare(self) -> None:
        """Fill in size, hash and request id; reads the whole file once."""
        header = self._header
        header.total_bytes = header.total_bytes or self.path.stat().st_size
        header.request_id = header.request_id or str(uuid.uuid4())
        if not header.source_hash:
            with self.path.open("rb") as file:
                header.source_hash = hashlib.file_digest(file, "sha256").hexdigest()

    def first_message(self) -> pb.UploadDocumentRequest:
        """Begin an attempt: return its header."""
        self._attempts += 1
        return pb.UploadDocumentRequest(header=self._header)

    def next_part(self, file: BinaryIO, offset: int) -> pb.UploadDocumentRequest | None:
        """Read the part that starts at `offset`, or return None at the end of the file."""
        file.seek(offset)
        data = file.read(_PART_BYTES)
        return pb.UploadDocumentRequest(part=pb.UploadPart(offset=offset, data=data)) if data else None

    def take(self, response: pb.UploadDocumentResponse) -> int | None:
        """Note a response; return the offset to send from if this is the one that says it."""
        event = response.WhichOneof("event")
        if event == "accepted":
            self._header.upload_id = response.accepted.upload_id
            self._note_durable(response.accepted.durable_offset)
            return response.accepted.durable_offset
        if event == "progress":
            self._note_durable(response.progress.durable_offset)
            if self._on_progress is not None:
                self._on_progress(response.progress)
        if event == "result":
            self.result = response.result
        return None

    def pause_s(self, error: GroundwireError) -> float | None:
        """Return how long to wait before the next attempt, or None if there should be none."""
        if self._attempts >= _MAX_ATTEMPTS:
            return None
        if isinstance(error, NotFoundError) and error.name == self._header.upload_id != "":
            self._header.upload_id = ""  # the server forgot what it had; begin again
            self._durable_bytes = 0
            return 0.0
        if not _is_broken_connection(error):
            return None
        pause_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (self._attempts - 1))
        return max(error.retry_after_s or 0.0, pause_s) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads clients out

    def _note_durable(self, durable_bytes: int) -> None:
        if durable_bytes > self._durable_bytes:
            self._durable_bytes = durable_bytes
            self._attempts = 1  # this one got further, so the others before it do not count


async def upload(
    transport: Transport, path: Path, header: pb.UploadHeader, on_progress: OnProgress | None
) -> ingest_result_pb2.IngestResult:
    """Ingest a file; goes on where it was after a broken connection, unless the client is closed."""
    state = Upload(path, header, on_progress)
    await transport.off_loop(state.prepare)
    while state.result is None:
        try:
            await transport.exchange(state)
            if state.result is None:
                raise DataLossError("the server ended the upload without a result", what="upload stream")
        except GroundwireError as error:
            pause_s = state.pause_s(error)
            if pause_s is None or not await transport.pause(pause_s):
                raise
    return state.result


def _is_broken_connection(error: GroundwireError) -> bool:
    return isinstance(error, UnavailableError) or (isinstance(error, InternalError) and error.message == _LOST_STATUS)
