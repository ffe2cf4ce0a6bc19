"""The asynchronous client."""

import asyncio
from collections.abc import AsyncGenerator
from importlib.metadata import version
from pathlib import Path
from types import TracebackType
from typing import Self

import grpc

from groundwire.api.ingest.v1 import ingest_result_pb2
from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.client.calls import AsyncCaller, AsyncTransport
from groundwire.client.contract import Contract
from groundwire.client.upload import UPLOAD_PATH, OnProgress, Upload
from groundwire.kernel.errors import DataLossError, GroundwireError
from groundwire.rpc.channels import channel_arguments
from groundwire.rpc.error_status import from_rpc_error
from groundwire.rpc.methods import DeadlineTable


class AsyncGroundwireClient(Contract, AsyncCaller):
    """`GroundwireClient` for asyncio: the same calls, awaited or iterated with `async for`.

    Make it on the running event loop, and close it or use it in `async with`.
    """

    def __init__(
        self,
        address: str = "127.0.0.1:50051",
        *,
        timeout_s: float | None = None,
        credentials: grpc.ChannelCredentials | None = None,
    ) -> None:
        options = channel_arguments(f"groundwire-python-asyncio/{version('groundwire')}")
        if credentials is None:
            self._channel = grpc.aio.insecure_channel(address, options=options)
        else:
            self._channel = grpc.aio.secure_channel(address, credentials, options=options)
        self._transport = AsyncTransport(self._channel, timeout_s)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connection; running calls are cancelled."""
        await self._channel.close()

    async def upload_document(
        self, path: Path, header: pb.UploadHeader, on_progress: OnProgress | None = None
    ) -> ingest_result_pb2.IngestResult:
        """Ingest a file of any size; see `GroundwireClient.upload_document`."""
        upload = Upload(path, header, on_progress)
        await asyncio.to_thread(upload.prepare)
        while upload.result is None:
            try:
                await self._attempt(upload)
            except GroundwireError as error:
                pause_s = upload.pause_s(error)
                if pause_s is None:
                    raise
                await asyncio.sleep(pause_s)
        return upload.result

    async def _attempt(self, upload: Upload) -> None:
        offsets: asyncio.Queue[int | None] = asyncio.Queue()
        method = self._channel.stream_stream(
            UPLOAD_PATH,
            request_serializer=pb.UploadDocumentRequest.SerializeToString,
            response_deserializer=pb.UploadDocumentResponse.FromString,
        )
        limit_s = self._transport.timeout_s or DeadlineTable().limit_s(UPLOAD_PATH)
        try:
            async for response in method(_messages(upload, offsets), timeout=limit_s):
                offset = upload.take(response)
                if offset is not None:
                    offsets.put_nowait(offset)
        except grpc.RpcError as error:
            raise from_rpc_error(error) from error
        finally:
            offsets.put_nowait(None)
        if upload.result is None:
            raise DataLossError("the server ended the upload without a result", what="upload stream")


async def _messages(
    upload: Upload, offsets: "asyncio.Queue[int | None]"
) -> AsyncGenerator[pb.UploadDocumentRequest, None]:
    """Yield the header and, once the server said from where, the parts."""
    yield upload.first_message()
    offset = await offsets.get()
    if offset is None:
        return
    file = await asyncio.to_thread(upload.path.open, "rb")
    try:
        while (message := await asyncio.to_thread(upload.next_part, file, offset)) is not None:
            yield message
            offset += len(message.part.data)
    finally:
        file.close()
