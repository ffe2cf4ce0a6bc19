"""From results to what sets of documents are scored by."""

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from math import log2

from groundwire.api.common.v1.chunk_pb2 import Chunk


def documents_of(chunks: Sequence[Chunk]) -> list[str]:
    """Return the source names of the documents of chunks, each at its best place."""
    return list(dict.fromkeys(chunk.source_uri for chunk in chunks))


def ndcg(found: Sequence[str], relevant: AbstractSet[str], depth: int) -> float:
    """Return the normalised discounted cumulative gain of the first `depth` names, in [0, 1]; relevance is 0 or 1."""
    gain = sum(1.0 / log2(place + 2) for place, name in enumerate(found[:depth]) if name in relevant)
    best = sum(1.0 / log2(place + 2) for place in range(min(depth, len(relevant))))
    return gain / best if best else 0.0
