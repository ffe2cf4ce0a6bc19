"""The synchronous client."""

import threading
from collections.abc import Generator
from importlib.metadata import version
from pathlib import Path
from queue import SimpleQueue
from types import TracebackType
from typing import Self

import grpc

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.calls import SyncCaller, SyncTransport
from groundwire.client.contract import Contract
from groundwire.client.upload import UPLOAD_PATH, OnProgress, Upload
from groundwire.kernel.errors import DataLossError, GroundwireError
from groundwire.rpc.channels import channel_arguments
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import DeadlineTable


class GroundwireClient(Contract, SyncCaller):
    """Calls groundwire servers at one address; safe to share between threads; close it or use it in `with`.

    Calls that fail with UNAVAILABLE, or because the server is full, are repeated up to 3 times; mutating ones carry a
    request id, so that they take effect once.

    Args:
        address: HOST:PORT of a server that has the service of the call.
        timeout_s: time limit of every call instead of those of `groundwire.rpc.methods`.
        credentials: for TLS; without them the connection is plain.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        timeout_s: float | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        options = channel_arguments(f"groundwire-python/{version('groundwire')}")
        if credentials is None:
            self._channel = grpc.insecure_channel(address, options=options)
        else:
            self._channel = grpc.secure_channel(address, credentials, options=options)
        self._transport = SyncTransport(self._channel, timeout_s)
        self._closed = threading.Event()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Close the connection; running calls are cancelled, and an upload does not go on. May be called anywhere."""
        self._closed.set()
        self._channel.close()

    def upload_document(
        self, path: Path, header: pb.UploadHeader, on_progress: OnProgress | None = None
    ) -> ingest_result_pb2.IngestResult:
        """Ingest a file of any size.

        Goes on where it was after a broken connection. A file that the server has already is not sent.

        Args:
            path: the file; must not change meanwhile.
            header: collection, source_uri and options; size, hash and request id are filled in.
            on_progress: called with each report of the server.
        """
        upload = Upload(path, header, on_progress)
        upload.prepare()
        while upload.result is None:
            try:
                self._attempt(upload)
            except GroundwireError as error:
                pause_s = upload.pause_s(error)
                if pause_s is None or self._closed.wait(pause_s):
                    raise
        return upload.result

    def _attempt(self, upload: Upload) -> None:
        offsets: SimpleQueue[int | None] = SimpleQueue()
        method = self._channel.stream_stream(
            UPLOAD_PATH,
            request_serializer=pb.UploadDocumentRequest.SerializeToString,
            response_deserializer=pb.UploadDocumentResponse.FromString,
        )
        limit_s = self._transport.timeout_s or DeadlineTable().limit_s(UPLOAD_PATH)
        try:
            for response in method(_messages(upload, offsets), timeout=limit_s):
                offset = upload.take(response)
                if offset is not None:
                    offsets.put(offset)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        finally:
            offsets.put(None)
        if upload.result is None:
            raise DataLossError("the server ended the upload without a result", what="upload stream")


def _messages(upload: Upload, offsets: "SimpleQueue[int | None]") -> Generator[pb.UploadDocumentRequest, None, None]:
    """Yield the header and, once the server said from where, the parts; runs in a thread of the library."""
    yield upload.first_message()
    offset = offsets.get()
    if offset is None:
        return
    with upload.path.open("rb") as file:
        while (message := upload.next_part(file, offset)) is not None:
            yield message
            offset += len(message.part.data)
