"""Finds, when a memory is written, those of its scope that seem to contradict it, and links them as suggestions."""

from collections.abc import Sequence
from dataclasses import dataclass

import structlog

from groundwire.catalog.records import Records
from groundwire.ingest.embedding import ChunkEmbedder
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection
from groundwire.kernel.contradictions import contradiction
from groundwire.kernel.errors import GroundwireError, UnsupportedFilterError
from groundwire.kernel.filters import And, Comparator, Comparison
from groundwire.kernel.records import MEMORY
from groundwire.kernel.vector_store import VectorStore

_NEIGHBOURS = 20
_NEIGHBOURS_OF_ALL = 200
"""Asked for where the engine cannot look among the memories of the scope alone."""

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class ContradictionFinder:
    """Compares a memory with its nearest neighbours: the engine finds what is about the same, rules what opposes it."""

    records: Records
    embedder: ChunkEmbedder
    vectors: VectorStore

    def suggest(self, collection: Collection, record_ids: Sequence[str], budget: Budget) -> None:
        """Link each of the memories, live ones, to those that it seems to contradict; links of an earlier text go.

        A failure is logged and not raised: the memories are written.
        """
        if not record_ids:
            return
        try:
            written = self.records.find(collection.tenant, collection.name, record_ids)
            vectors = self.embedder.cache.get(
                collection.identity.digest, [each.embedding_hash for each in written.values()]
            )
            suggested: dict[str, list[str]] = {}
            for record_id, record in written.items():
                vector = vectors.get(record.embedding_hash)
                if vector is None:
                    continue
                scope = record.metadata["scope"]
                of_scope = And(
                    (Comparison("record_type", Comparator.EQ, MEMORY), Comparison("scope", Comparator.EQ, scope))
                )
                try:
                    points = self.vectors.search(collection.engine_name, vector, _NEIGHBOURS, budget, where=of_scope)
                except UnsupportedFilterError:
                    points = self.vectors.search(collection.engine_name, vector, _NEIGHBOURS_OF_ALL, budget)
                numbers = [point.number for point in points]
                near = self.records.at_numbers(collection.tenant, collection.name, numbers)
                suggested[record_id] = [
                    other.record_id
                    for other in near
                    if other.record_id != record_id
                    and (other.metadata["type"], other.metadata["scope"]) == (MEMORY, scope)
                    and contradiction(record.text, other.text) is not None
                ]
            self.records.suggest_contradictions(collection.tenant, collection.name, suggested)
        except GroundwireError as error:
            _log.warning("memories are not compared with others", collection=collection.name, error=str(error))
