"""What choosing sections needs from the catalog; `groundwire.catalog` fits these as it is."""

from collections.abc import Sequence
from typing import Protocol

from groundwire.kernel.collection import Collection
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.outline import Section


class Outline(Protocol):
    """Chapters and sections with a vector for each."""

    @property
    def sections(self) -> Sequence[Section]:
        """Return chapters, each before its sections."""
        ...

    @property
    def vectors(self) -> Vectors:
        """Return float32 of shape (sections, dimensions); zeros where there is no vector."""
        ...


class OutlineReader(Protocol):
    """Reads outlines."""

    def read(self, tenant: str, name: str) -> tuple[Collection, Outline]:
        """Return a collection and the outline of what is live in it.

        Raises:
            CollectionNotFoundError: the tenant has no such collection.
        """
        ...
