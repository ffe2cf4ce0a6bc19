"""Ingest one document: nothing if it is unchanged, else a new generation of which only changed chunks are embedded."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace
from typing import TypeAlias

from groundwire.catalog.idempotency import Receipt
from groundwire.ingest.domain.ingesting import (
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Progress,
    Report,
    Stage,
)
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.ports import Original
from groundwire.ingest.prepare_document import Preparation, PrepareDocument
from groundwire.ingest.write_generation import WriteGeneration
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import Collection

Remember: TypeAlias = Callable[[IngestResult], Receipt] | None


@dataclass(frozen=True, slots=True)
class IngestDocument:
    """Takes one document in; `after_write` is told which collection was written to, also when that failed."""

    prepare: PrepareDocument
    write_generation: WriteGeneration
    locks: KeyedLocks
    after_write: Callable[[Collection], None]

    def __call__(
        self, request: IngestRequest, original: Original, budget: Budget, report: Report, remember: Remember = None
    ) -> IngestResult:
        """Return what was done; `remember` makes the receipt of a call with a request id.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the document is refused; see its subclasses.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
            DocumentChangedError: someone else changed the document meanwhile.
        """
        collection, source_hash = self.prepare.admitted(request, original)
        with ExitStack() as held:
            held.enter_context(self.locks.hold(("source", collection.uid, request.source_uri), budget))
            # Two new sources of equal bytes must not both find that the bytes are new.
            held.enter_context(self.locks.hold(("bytes", collection.uid, source_hash), budget))
            under_way = self.prepare.examine(request, original, collection, source_hash)
            settled = self.prepare.settled(under_way)
            if settled is None:
                return self._ingest(under_way, budget, report, remember)
            if settled.outcome is IngestOutcome.REUSED:
                return self.prepare.known.reuse(request, settled.document)
            return self.prepare.known.unchanged(request, settled.document)

    def _ingest(self, under_way: Preparation, budget: Budget, report: Report, remember: Remember) -> IngestResult:
        report(Progress(Stage.PARSING, 0, 1))
        parsed = self.prepare.parsed(under_way, budget)
        report(Progress(Stage.PARSING, 1, 1))
        report(Progress(Stage.CHUNKING, len(parsed.chunks), len(parsed.chunks)))
        prepared = self.prepare.drafted(under_way, parsed)

        def complete(result: IngestResult) -> IngestResult:
            return replace(result, warnings=prepared.warnings)

        receipt = None if remember is None else lambda result: remember(complete(result))
        try:
            return complete(self.write_generation(under_way.collection, prepared.draft, budget, report, receipt))
        finally:
            self.after_write(under_way.collection)
