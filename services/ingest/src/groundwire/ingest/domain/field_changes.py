"""Changes of what callers say about documents and chunks."""

from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from groundwire.kernel.chunk import Chunk
from groundwire.kernel.document import MAX_METADATA_BYTES, DocumentFields
from groundwire.kernel.errors import InvalidRequestError
from groundwire.kernel.filters import Value

MAX_KEYS = 64
"""Keys of its own that a document or a chunk may have."""


@dataclass(frozen=True, slots=True)
class MetadataChange:
    """New values of keys, keys that go, and whether all go before that."""

    values: Mapping[str, Value] = field(default_factory=dict)
    removed: frozenset[str] = frozenset()
    clears: bool = False

    def __call__(self, before: Mapping[str, Value]) -> dict[str, Value]:
        """Return the keys as they are afterwards.

        Raises:
            InvalidRequestError: there would be too many, or too much in them.
        """
        kept = {} if self.clears else {key: value for key, value in before.items() if key not in self.removed}
        after = {**kept, **self.values}
        if len(after) > MAX_KEYS:
            raise InvalidRequestError.of(
                "set_metadata", f"would make {len(after)} keys, at most {MAX_KEYS} are allowed"
            )
        # Each request is small enough; many of them together must be, too, so that a document fits into a page.
        size = sum(len(key) + len(str(value).encode()) for key, value in after.items())
        if size > MAX_METADATA_BYTES:
            raise InvalidRequestError.of(
                "set_metadata", f"would make {size} bytes, at most {MAX_METADATA_BYTES} are allowed"
            )
        return after


@dataclass(frozen=True, slots=True)
class DocumentChange:
    """New values of a document's fields by their names in `DocumentFields`, without its metadata."""

    values: Mapping[str, Any]
    metadata: MetadataChange

    def __call__(self, before: DocumentFields) -> DocumentFields:
        """Return the fields as they are afterwards.

        Raises:
            InvalidRequestError: there would be too many metadata keys.
        """
        return replace(before, **self.values, metadata=self.metadata(before.metadata))


@dataclass(frozen=True, slots=True)
class ChunkChange:
    """New tags of a chunk itself, None for the ones it has, and what happens to its own keys."""

    tags: tuple[str, ...] | None
    metadata: MetadataChange

    def __call__(self, before: Chunk) -> Chunk:
        """Return the chunk as it is afterwards.

        Raises:
            InvalidRequestError: there would be too many metadata keys.
        """
        tags = before.tags if self.tags is None else self.tags
        return replace(before, tags=tags, metadata=self.metadata(before.metadata))
