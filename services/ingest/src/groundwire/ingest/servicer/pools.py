"""The threads of the calls, apart by what they may have to wait for."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeVar

from groundwire.rpc import request_context
from groundwire.rpc.workers import Workers

RequestT = TypeVar("RequestT")
ResponseT = TypeVar("ResponseT")

LARGE_BYTES = 1 << 20
_CHANGES = 32
_SMALL_PER_WRITER = 4


@dataclass(frozen=True, slots=True)
class Pools:
    """Reads wait for the catalog alone, changes for the lock of a document, documents for a parser and the model.

    Threads of documents wait more than they work: how many write at a time is bounded elsewhere. A document above
    LARGE_BYTES has threads of its own, so that few are in memory at once and none keeps small ones out.
    """

    reads: Workers
    changes: Workers
    small_documents: Workers
    large_documents: Workers

    @classmethod
    def beside(cls, reads: Workers, writers: int) -> "Pools":
        """Make the other pools where so many documents are written at a time."""
        return cls(
            reads,
            Workers(_CHANGES, "change"),
            Workers(writers * _SMALL_PER_WRITER, "ingest"),
            Workers(writers, "ingest-large"),
        )

    async def read(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        """Run a call that reads, within the budget of the current call."""
        return await self.reads.run(request_context.current().budget, call, request)

    async def change(self, call: Callable[[RequestT], ResponseT], request: RequestT) -> ResponseT:
        """Run a call that changes something, within the budget of the current call."""
        return await self.changes.run(request_context.current().budget, call, request)

    def of_document(self, size_bytes: int) -> Workers:
        """Return the threads for a document or request of this size."""
        return self.large_documents if size_bytes > LARGE_BYTES else self.small_documents

    def close(self) -> None:
        """End the threads but those of the reads, which belong to whoever made them."""
        for workers in (self.changes, self.small_documents, self.large_documents):
            workers.close()
