"""Clean the stores up after a deletion, look whether anything is left, and say so in its receipt."""

import uuid
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import structlog

from groundwire.catalog.deletion_traces import DeletionTraces, Leftovers
from groundwire.catalog.generations import Receipt
from groundwire.catalog.ledger import Ledger
from groundwire.ingest.apply_outbox import ApplyOutbox
from groundwire.ingest.domain.deletions import Deletion, StoreDeletion
from groundwire.kernel.budget import Budget
from groundwire.kernel.clock import Clock
from groundwire.kernel.collection import Collection
from groundwire.kernel.errors import CollectionNotFoundError, GroundwireError
from groundwire.kernel.vector_store import Scrubbable, VectorStore

_POINTS_PER_SEARCH = 1000

_log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class DeletedParts:
    """What a transaction removed, and what it left to do."""

    documents: int
    texts: int
    embeddings: int
    messages: int
    traces: DeletionTraces
    tasks: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class CompleteDeletion:
    """Makes receipts of deletions: hidden at first, complete once every store is known to be clean."""

    apply: ApplyOutbox
    leftovers: Leftovers
    vectors: VectorStore
    ledger: Ledger
    clock: Clock

    def begin(self, parts: DeletedParts, deletion_id: str) -> Deletion:
        """Return the receipt as of the transaction: the engine has not been told yet."""
        traces = parts.traces
        rows = parts.documents + len(traces.numbers) if traces.permanent else 0
        stores = (
            StoreDeletion("catalog", rows),
            StoreDeletion("full_text", traces.indexed),
            StoreDeletion("vectors", traces.indexed, left=traces.indexed),
            StoreDeletion("texts", parts.texts),
            StoreDeletion("embedding_cache", parts.embeddings),
            StoreDeletion("sessions", parts.messages),
        )
        now = self.clock.now()
        return Deletion(deletion_id, traces.permanent, parts.documents, len(traces.numbers), stores, now)

    def __call__(
        self,
        tenant: str,
        collection: Collection,
        parts: DeletedParts,
        hidden: Deletion,
        budget: Budget,
        remember: Callable[[Deletion], Receipt] | None,
    ) -> Deletion:
        """Return the receipt after the engine has been told, everything has been searched and no file holds the texts.

        A failure is not the call's: what was deleted is invisible, and the sweeper goes on cleaning up.
        """
        if not self.apply.finish(parts.tasks, budget):
            return hidden
        try:
            left = self.leftovers.count(parts.traces)
            if parts.traces.permanent and not self.leftovers.scrub(budget):
                return hidden  # a reader of an earlier state keeps the deleted text in the log
            store = self.vectors if parts.traces.permanent else None
            if isinstance(store, Scrubbable) and not store.scrub(collection.engine_name, budget):
                return hidden
            left["vectors"] = self._points_left(collection, parts.traces.numbers, budget)
        except GroundwireError as error:
            _log.warning("a deletion could not be checked", collection=collection.name, error=error.message)
            return hidden
        deletion = hidden.searched(left, self.clock.now())
        if remember is not None:
            self.ledger.revise(tenant, remember(deletion))
        return deletion

    def _points_left(self, collection: Collection, numbers: Sequence[int], budget: Budget) -> int:
        anywhere = np.zeros(collection.identity.dimensions, dtype=np.float32)
        anywhere[0] = 1.0
        left = 0
        for start in range(0, len(numbers), _POINTS_PER_SEARCH):
            budget.check()
            within = numbers[start : start + _POINTS_PER_SEARCH]
            try:
                found = self.vectors.search(collection.engine_name, anywhere, len(within), budget, within=within)
            except CollectionNotFoundError:
                return 0
            left += len(found)
        return left


def new_deletion_id() -> str:
    """Make the id of a receipt."""
    return str(uuid.uuid4())
