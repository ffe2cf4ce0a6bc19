"""What long work returns."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from groundwire.ingest.domain.ingesting import Progress
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.store_findings import StoreFinding


@dataclass(frozen=True, slots=True)
class IndexBuilt:
    """What a new index holds: `vectors` of `identity`, of which `embedded` texts were embedded for it."""

    vectors: int
    embedded: int
    identity: EmbeddingIdentity


@dataclass(frozen=True, slots=True)
class Purged:
    """How many documents were deleted; where they were only counted, with the sources of the first ones."""

    documents: int
    sample: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class StoreReport:
    """What a check found in all; `checked` chunks were compared."""

    checked: int
    findings: int
    repaired: int


CheckEvent: TypeAlias = Progress | StoreFinding
CheckReport: TypeAlias = Callable[[CheckEvent], None]
"""Hears how far a check is, and what it finds."""
