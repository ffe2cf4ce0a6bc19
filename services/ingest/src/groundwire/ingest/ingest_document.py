"""Ingest one document: nothing if it is unchanged, else a new generation of which only changed chunks are embedded."""

from collections.abc import Callable
from contextlib import ExitStack
from dataclasses import dataclass, replace

from groundwire.catalog.generations import GenerationDraft, Receipt
from groundwire.catalog.sources import Sources
from groundwire.ingest.admit_document import AdmitDocument
from groundwire.ingest.domain.document_fields import kept_fields, stated_fields
from groundwire.ingest.domain.ingesting import (
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Progress,
    Report,
    Stage,
)
from groundwire.ingest.domain.making_chunks import chunks_of
from groundwire.ingest.domain.parsing import ParseRules
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.known_sources import KnownSources
from groundwire.ingest.ports import Original, Parser
from groundwire.ingest.write_generation import WriteGeneration
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ChunkingPolicy, Collection
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.errors import InvalidRequestError

Remember = Callable[[IngestResult], Receipt] | None


@dataclass(frozen=True, slots=True)
class _Task:
    """A document under way: what was asked, where it goes, and what is known of it.

    `properties` is what the source of the existing document says about itself.
    """

    request: IngestRequest
    original: Original
    collection: Collection
    policy: ChunkingPolicy
    source_hash: str
    existing: Document | None
    properties: DocumentFields

    def fields(self, properties: DocumentFields) -> DocumentFields:
        """Return the fields of the document when its source says this about itself."""
        if self.request.fields is None and self.existing is not None:
            return kept_fields(self.existing.fields, self.properties, properties)
        return stated_fields(self.request.fields or DocumentFields(), properties)

    @property
    def title(self) -> str | None:
        """Return the title that does not come from the source."""
        return self.fields(DocumentFields()).title


@dataclass(frozen=True, slots=True)
class IngestDocument:
    """Takes one document in; `after_write` is told which collection was written to, also when that failed."""

    admit: AdmitDocument
    known: KnownSources
    sources: Sources
    parser: Parser
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
        collection = self.admit(request, original.size_bytes)
        source_hash = original.sha256()
        if request.source_hash not in {None, source_hash}:
            raise InvalidRequestError.of("source_hash", f"the bytes have the SHA-256 {source_hash}")
        with ExitStack() as held:
            held.enter_context(self.locks.hold(("source", collection.uid, request.source_uri), budget))
            # Two new sources of equal bytes must not both find that the bytes are new.
            held.enter_context(self.locks.hold(("bytes", collection.uid, source_hash), budget))
            task = self._task(request, original, collection, source_hash)
            return self._settled(task) or self._ingest(task, budget, report, remember)

    def unchanged(self, request: IngestRequest) -> IngestResult | None:
        """Return the result if the hash that the caller gives shows that there is nothing to do, without the bytes.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
        """
        collection = self.admit(request, None)
        existing = self.known.of_source(request)
        if existing is None or existing.source_uri != request.source_uri or existing.source_hash != request.source_hash:
            return None
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        same_id = request.document_id in {None, existing.document_id}
        is_same = same_id and _same_rules(request, policy, existing) and self._same_fields(request, existing)
        return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None

    def _same_fields(self, request: IngestRequest, existing: Document) -> bool:
        if request.fields is None:
            return True
        return stated_fields(request.fields, self._properties(request, existing)) == existing.fields

    def _properties(self, request: IngestRequest, existing: Document) -> DocumentFields:
        return self.sources.properties(request.tenant, existing.document_id, existing.generation)

    def _task(self, request: IngestRequest, original: Original, collection: Collection, source_hash: str) -> _Task:
        existing = self.known.existing(request, source_hash)
        properties = DocumentFields() if existing is None else self._properties(request, existing)
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        return _Task(request, original, collection, policy, source_hash, existing, properties)

    def _settled(self, task: _Task) -> IngestResult | None:
        """Return the result if nothing has to be written but perhaps an alias."""
        request, existing = task.request, task.existing
        if existing is not None and existing.source_hash == task.source_hash:
            if existing.source_uri != request.source_uri:
                return IngestResult(existing, IngestOutcome.REUSED)
            is_same = existing.fields == task.fields(task.properties) and _same_rules(request, task.policy, existing)
            return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None
        twin = self.known.twin(request, existing, task.source_hash)
        return None if twin is None else self.known.reuse(request, twin)

    def _ingest(self, task: _Task, budget: Budget, report: Report, remember: Remember) -> IngestResult:
        report(Progress(Stage.PARSING, 0, 1))
        parsed = self.parser.parse(task.original, self._rules(task), budget)
        report(Progress(Stage.PARSING, 1, 1))
        report(Progress(Stage.CHUNKING, len(parsed.chunks), len(parsed.chunks)))
        existing = task.existing
        draft = GenerationDraft(
            document_id=existing.document_id if existing else task.request.document_id,
            source_uri=task.request.source_uri,
            format=parsed.format,
            source_hash=task.source_hash,
            fields=task.fields(parsed.properties),
            text=parsed.text,
            chunks=chunks_of(parsed, task.policy.window_size),
            expected_generation=existing.generation if existing else 0,
            pages=parsed.pages,
            properties=parsed.properties,
            rules_digest=task.policy.digest,
        )
        receipt = None if remember is None else lambda result: remember(replace(result, warnings=parsed.warnings))
        try:
            result = self.write_generation(task.collection, draft, budget, report, receipt)
            return replace(result, warnings=parsed.warnings)
        finally:
            self.after_write(task.collection)

    def _rules(self, task: _Task) -> ParseRules:
        return ParseRules(
            format=task.request.format,
            policy=task.policy,
            title=task.title,
            file_name=task.request.source_uri.rstrip("/").rsplit("/", 1)[-1] or task.request.source_uri,
            field=task.request.content_field,
        )


def _same_rules(request: IngestRequest, policy: ChunkingPolicy, existing: Document) -> bool:
    return existing.rules_digest == policy.digest and request.format in {None, existing.format}
