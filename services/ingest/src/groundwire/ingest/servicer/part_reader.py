"""Reads the messages of an upload with an eye on the clock and on the claim."""

import asyncio
from collections.abc import AsyncIterator
from typing import Any

from groundwire.api.ingest.v1 import ingest_service_pb2 as pb
from groundwire.kernel.errors import ConflictError, InvalidRequestError


class PartReader:
    """The parts of one upload, in the order they come.

    A read that lasts longer than its limit goes on behind the scenes, because cancelling it would lose the message.
    """

    def __init__(self, messages: AsyncIterator[pb.UploadDocumentRequest], lost: asyncio.Event) -> None:
        self._messages = messages
        self._lost = asyncio.ensure_future(lost.wait())
        self._coming: asyncio.Future[pb.UploadDocumentRequest | None] | None = None

    async def next(self, limit_s: float) -> pb.UploadPart | None:
        """Return the next part, or None at the end.

        Raises:
            TimeoutError: none came within the limit; call again.
            ConflictError: a newer stream took the upload over.
            InvalidRequestError: the message is no part.
        """
        if self._coming is None:
            self._coming = asyncio.ensure_future(anext(self._messages, None))
        waiting: set[asyncio.Future[Any]] = {self._coming, self._lost}
        done, _ = await asyncio.wait(waiting, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
        if self._lost in done:
            raise ConflictError("the upload was taken over by a newer stream")
        if self._coming not in done:
            raise TimeoutError
        message, self._coming = self._coming.result(), None
        if message is None:
            return None
        if message.WhichOneof("message") != "part":
            raise InvalidRequestError.of("message", "must be a part after the header")
        return message.part

    async def close(self) -> None:
        """Stop reading."""
        for task in (self._lost, self._coming):
            if task is not None:
                task.cancel()
                await asyncio.gather(task, return_exceptions=True)
