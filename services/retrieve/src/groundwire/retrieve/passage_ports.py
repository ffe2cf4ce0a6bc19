"""What expanding needs from the catalog; `groundwire.catalog` fits these as it is."""

from collections.abc import Sequence
from contextlib import AbstractContextManager
from typing import Protocol

from groundwire.kernel.chunk_place import ChunkPlace
from groundwire.kernel.collection import Collection
from groundwire.kernel.hit import StoredChunk


class PassageReader(Protocol):
    """Reads one collection at one moment."""

    @property
    def collection(self) -> Collection:
        """Return the collection."""
        ...

    def find(self, reference: str | int) -> StoredChunk:
        """Return a chunk by its id or its number.

        Raises:
            ChunkNotFoundError: no live generation of the collection has it.
        """
        ...

    def places(self, document_id: str) -> Sequence[ChunkPlace]:
        """Return where all chunks of a document stand, by rising sequence number."""
        ...

    def chunks(self, document_id: str, first: int, last: int) -> Sequence[StoredChunk]:
        """Return the chunks `first` to `last` of a document, by sequence number."""
        ...

    def text(self, document_id: str, start: int, end: int) -> str:
        """Return the code points start..end of the live text of a document."""
        ...


class PassageOpener(Protocol):
    """Opens readers."""

    def open(self, tenant: str, collection: str) -> AbstractContextManager[PassageReader]:
        """Give a reader of one collection as it is now.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        ...
