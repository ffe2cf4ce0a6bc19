"""What long work on a collection returns."""

from dataclasses import dataclass

from groundwire.kernel.embedder import EmbeddingIdentity


@dataclass(frozen=True, slots=True)
class IndexBuilt:
    """What a new index holds: `vectors` of `identity`, of which `embedded` texts were embedded for it."""

    vectors: int
    embedded: int
    identity: EmbeddingIdentity
