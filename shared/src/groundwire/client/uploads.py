"""Uploads of files and chunks: streams that resume after a broken connection, and batches."""

import hashlib
import random
import uuid
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from concurrent.futures import Future
from contextlib import aclosing
from functools import partial
from pathlib import Path
from typing import BinaryIO, Final, TypeAlias

from groundwire.api.common.v1 import document_pb2
from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.contract import Contract
from groundwire.client.results import IngestResult
from groundwire.client.transport import Transport
from groundwire.kernel.errors import (
    AlreadyExistsError,
    ConflictError,
    DataLossError,
    GroundwireError,
    InternalError,
    InvalidRequestError,
    NotFoundError,
    OverloadedError,
    UnavailableError,
)
from groundwire.rpc.error_status import from_status

OnProgress: TypeAlias = Callable[[pb.UploadProgress], None]

UNARY_BYTES: Final = 1024 * 1024
"""Larger files are uploaded as a stream, which resumes after a broken connection."""
# A batch of this size is sent; with its last document it stays below the 4 MiB that servers take.
_BATCH_BYTES: Final = 2 * 1024 * 1024
# As many as one call takes.
_BATCH_DOCUMENTS: Final = 100
UPLOAD_PATH: Final = "/groundwire.api.ingest.v1.IngestService/UploadDocument"
PUT_CHUNKS_PATH: Final = "/groundwire.api.ingest.v1.IngestService/PutChunks"
_PART_BYTES: Final = 1024 * 1024
# A character takes up to four bytes of UTF-8, so that a run always fits into a part.
_RUN_CHARS: Final = _PART_BYTES // 4
# Attempts in a row that bring the upload no further; with the pauses between them a server may take 15 s to return.
_MAX_ATTEMPTS: Final = 7
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
        self.final: pb.UploadDocumentResponse | None = None
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
        if event in {"result", "operation"}:
            self.final = response
        return None

    def pause_s(self, error: GroundwireError) -> float | None:
        """Return how long to wait before the next attempt, or None if there should be none."""
        if self._attempts >= _MAX_ATTEMPTS:
            return None
        if isinstance(error, NotFoundError) and error.name == self._header.upload_id != "":
            self._header.upload_id = ""  # the server forgot what it had; begin again
            self._durable_bytes = 0
            return 0.0
        return _back_off_s(error, self._attempts) if _is_broken_connection(error) else None

    def _note_durable(self, durable_bytes: int) -> None:
        if durable_bytes > self._durable_bytes:
            self._durable_bytes = durable_bytes
            self._attempts = 1  # this one got further, so the others before it do not count


async def upload(
    transport: Transport, path: Path, header: pb.UploadHeader, on_progress: OnProgress | None
) -> pb.UploadDocumentResponse:
    """Send a file and return the last response, which has the result, or the operation that ingests it.

    Resumes after a broken connection, unless the client is closed.
    """
    state = Upload(path, header, on_progress)
    await transport.off_loop(state.prepare)  # reads the whole file once, for its hash
    while state.final is None:
        try:
            await _attempt(transport, state)
            if state.final is None:
                raise DataLossError("the server ended the upload without a result", what="upload stream")
        except GroundwireError as error:
            pause_s = state.pause_s(error)
            if pause_s is None or not await transport.pause(pause_s):
                raise
    return state.final


async def _attempt(transport: Transport, state: Upload) -> None:
    """Make one attempt of an upload: send its header, learn from where, and send the parts while it reports."""
    accepted: Future[int | None] = Future()

    async def messages() -> AsyncGenerator[pb.UploadDocumentRequest, None]:
        yield state.first_message()
        offset = await transport.outcome_of(accepted)
        if offset is None:
            return
        # A slow disk must not block an event loop.
        file = await transport.off_loop(lambda: state.path.open("rb"))
        with file:
            while (message := await transport.off_loop(partial(state.next_part, file, offset))) is not None:
                yield message
                offset += len(message.part.data)

    responses = transport.exchange(UPLOAD_PATH, messages(), pb.UploadDocumentResponse)
    # A report may raise while parts are still being sent.
    async with aclosing(responses):
        try:
            async for response in responses:
                offset = state.take(response)
                if offset is not None and not accepted.done():
                    accepted.set_result(offset)
        finally:
            if not accepted.done():
                accepted.set_result(None)  # or the sender would wait forever


async def put_chunks(
    transport: Transport,
    header: pb.PutChunksHeader,
    chunks: Sequence[pb.ReadyChunk],
    text: str,
    timeout_s: float | None,
) -> ingest_result_pb2.IngestResult:
    """Store a document with its chunks; all of them are sent again after a broken connection or from a full server."""
    sent = pb.PutChunksHeader()
    sent.CopyFrom(header)
    if not sent.HasField("chunk_count"):  # a number that the caller expects is compared by the server
        sent.chunk_count = len(chunks)
    # One id for all attempts: a repetition gets the first answer instead of storing the document twice.
    sent.request_id = sent.request_id or str(uuid.uuid4())
    attempts = 0
    while True:
        attempts += 1
        try:
            messages = _put_chunks_messages(sent, chunks, text)
            responses = transport.exchange(PUT_CHUNKS_PATH, messages, pb.PutChunksResponse, timeout_s)
            (response,) = [each async for each in responses]
        except GroundwireError as error:
            may_repeat = isinstance(error, OverloadedError) or _is_broken_connection(error)
            if not may_repeat or attempts == _MAX_ATTEMPTS or not await transport.pause(_back_off_s(error, attempts)):
                raise
        else:
            return response.result


async def _put_chunks_messages(
    header: pb.PutChunksHeader, chunks: Sequence[pb.ReadyChunk], text: str
) -> AsyncGenerator[pb.PutChunksRequest, None]:
    """Yield the header, the text and the chunks, in messages of about a mebibyte."""
    yield pb.PutChunksRequest(header=header)
    for start in range(0, len(text), _RUN_CHARS):
        yield pb.PutChunksRequest(part=pb.PutChunksPart(text=text[start : start + _RUN_CHARS]))
    first, size_bytes = 0, 0
    for number, chunk in enumerate(chunks):
        size_bytes += chunk.ByteSize()
        if size_bytes > _PART_BYTES and number > first:
            yield pb.PutChunksRequest(part=pb.PutChunksPart(chunks=chunks[first:number]))
            first, size_bytes = number, chunk.ByteSize()
    yield pb.PutChunksRequest(part=pb.PutChunksPart(chunks=chunks[first:]))


def _back_off_s(error: GroundwireError, attempts: int) -> float:
    """Return how many seconds to wait after so many attempts."""
    own_s = min(_LONGEST_PAUSE_S, _FIRST_PAUSE_S * 2.0 ** (attempts - 1))
    return max(error.retry_after_s or 0.0, own_s) * random.uniform(0.75, 1.25)  # noqa: S311 - spreads clients out


def _is_broken_connection(error: GroundwireError) -> bool:
    return isinstance(error, UnavailableError) or (isinstance(error, InternalError) and error.message == _LOST_STATUS)


# Many files


async def ingest_files(
    transport: Transport,
    collection: str,
    files: Iterable[tuple[str, Path]],
    fields: document_pb2.DocumentFields | None,
) -> list[IngestResult | GroundwireError]:
    """Return the result or the error of each file, in order; files come with their sources."""
    outcomes: list[IngestResult | GroundwireError] = []
    batch = pb.BatchIngestDocumentsRequest(collection=collection)
    for source, path in files:
        try:
            is_large = (await transport.off_loop(path.stat)).st_size > UNARY_BYTES
            content = b"" if is_large else await transport.off_loop(path.read_bytes)
        except OSError as error:
            # The batch first, so that outcomes stay in the order of the files.
            outcomes += [*await _send_batch(transport, batch), _unreadable(path, error)]
            continue
        if is_large:
            header = pb.UploadHeader(collection=collection, source_uri=source, fields=fields)
            outcomes += [*await _send_batch(transport, batch), await _upload_one_of_many(transport, path, header)]
            continue
        batch.requests.add(source_uri=source, content=content, fields=fields)
        if batch.ByteSize() >= _BATCH_BYTES or len(batch.requests) == _BATCH_DOCUMENTS:
            outcomes += await _send_batch(transport, batch)
    return outcomes + await _send_batch(transport, batch)


async def _upload_one_of_many(
    transport: Transport, path: Path, header: pb.UploadHeader
) -> IngestResult | GroundwireError:
    try:
        return IngestResult.of((await upload(transport, path, header, None)).result)
    except OSError as error:
        return _unreadable(path, error)
    except (InvalidRequestError, AlreadyExistsError, ConflictError) as error:  # of this document alone
        return error


def _unreadable(path: Path, error: OSError) -> InvalidRequestError:
    return InvalidRequestError.of("files", f"{path} cannot be read: {error.strerror or error}")


async def _send_batch(
    transport: Transport, batch: pb.BatchIngestDocumentsRequest
) -> list[IngestResult | GroundwireError]:
    """Send the batch, unless it is empty, and empty it."""
    if not batch.requests:
        return []
    response = await transport.send(Contract.batch_ingest_documents, batch)
    batch.ClearField("requests")
    return [
        from_status(outcome.error) if outcome.HasField("error") else IngestResult.of(outcome.result)
        for outcome in response.outcomes
    ]
