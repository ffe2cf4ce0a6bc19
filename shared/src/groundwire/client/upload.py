"""What an upload sends and how it goes on after a broken connection; shared by both clients."""

import hashlib
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from groundwire.api.ingest.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.errors import GroundwireError, InternalError, UnavailableError

UPLOAD_PATH: Final = "/groundwire.api.ingest.v1.IngestService/UploadDocument"
OnProgress: TypeAlias = Callable[[pb.UploadProgress], None]

_PART_BYTES: Final = 1024 * 1024
_MAX_ATTEMPTS: Final = 4
_DEFAULT_DELAY_S: Final = 0.5
# What grpc.aio says instead of the server's status when the stream ended while a message was being written.
_LOST_STATUS: Final = "Internal error from Core"


class Upload:
    """State of one upload across its attempts.

    Each attempt sends `first_message()`, waits for the response that makes `offset` known, and only then sends parts
    from there, so that a document that the server has already costs no transfer.
    """

    def __init__(self, path: Path, header: pb.UploadHeader, on_progress: OnProgress | None) -> None:
        self.path = path
        self.result: document_pb2.IngestResult | None = None
        self._header = pb.UploadHeader()
        self._header.CopyFrom(header)
        self._on_progress = on_progress
        self._attempts = 0

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
            return response.accepted.durable_offset
        if event == "progress" and self._on_progress is not None:
            self._on_progress(response.progress)
        if event == "result":
            self.result = response.result
        return None

    def pause_s(self, error: GroundwireError) -> float | None:
        """Return how long to wait before the next attempt, or None if there should be none."""
        if not _is_broken_connection(error) or self._attempts >= _MAX_ATTEMPTS:
            return None
        return error.retry_after_s or _DEFAULT_DELAY_S


def _is_broken_connection(error: GroundwireError) -> bool:
    return isinstance(error, UnavailableError) or (isinstance(error, InternalError) and error.message == _LOST_STATUS)
