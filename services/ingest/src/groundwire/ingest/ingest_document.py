"""Ingest one document: nothing if it is unchanged, else a new generation of which only changed chunks are embedded."""

from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass

from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft, Receipt
from groundwire.catalog.texts import Texts
from groundwire.ingest.domain.decoding import canonical_text, check_size
from groundwire.ingest.domain.document_fields import kept_fields, stated_fields
from groundwire.ingest.domain.format_detection import detect_format
from groundwire.ingest.domain.front_matter import MAX_BLOCK_CHARS, FrontMatter, read_front_matter
from groundwire.ingest.domain.ingesting import (
    DuplicatePolicy,
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Progress,
    Report,
    Stage,
)
from groundwire.ingest.domain.parsing import ParsedDocument, ParseRules
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.ports import Original, Parser
from groundwire.ingest.write_generation import WriteGeneration
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import Collection
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import DuplicateDocumentError, EmbeddingMismatchError, InvalidRequestError

_MAX_BYTES_PER_CHAR = 4
Remember = Callable[[IngestResult], Receipt] | None


@dataclass(frozen=True, slots=True)
class _Task:
    """A document under way: what was asked, where it goes, and what is known of it."""

    request: IngestRequest
    original: Original
    collection: Collection
    format: DocumentFormat
    source_hash: str
    existing: Document | None
    fields: DocumentFields


@dataclass(frozen=True, slots=True)
class IngestDocument:
    """Takes one document in.

    `identity` is that of the server's embedder; a collection of another one is refused. `max_bytes` bounds
    the size of a document. `after_write` is told which collection was written to, also when that failed.
    """

    collections: Collections
    documents: Documents
    texts: Texts
    parser: Parser
    write_generation: WriteGeneration
    locks: KeyedLocks
    identity: EmbeddingIdentity
    max_bytes: int
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
        collection = self.writable(request)
        check_size(original.size_bytes, self.max_bytes, request.content_field)
        source_hash = original.sha256()
        if request.source_hash not in {None, source_hash}:
            raise InvalidRequestError.of("source_hash", f"the bytes have the SHA-256 {source_hash}")
        with ExitStack() as held:
            held.enter_context(self.locks.hold(("source", collection.uid, request.source_uri), budget))
            # Two new sources of equal bytes must not both find that the bytes are new.
            held.enter_context(self.locks.hold(("bytes", collection.uid, source_hash), budget))
            task = self._task(request, original, collection, source_hash)
            return self._settled(task) or self._ingest(task, budget, report, remember)

    def writable(self, request: IngestRequest) -> Collection:
        """Return the collection if this server's model made its vectors.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: its vectors are another model's.
        """
        collection = self.collections.get(request.tenant, request.collection)
        if collection.identity != self.identity:
            expected, got = _name(collection.identity), _name(self.identity)
            message = f"collection {collection.name!r} was embedded by {expected}, this server has {got}"
            raise EmbeddingMismatchError(message, expected=expected, got=got)
        return collection

    def unchanged(self, request: IngestRequest) -> IngestResult | None:
        """Return the result if the hash that the caller gives shows that there is nothing to do, without the bytes.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
        """
        self.writable(request)
        existing = self._find(request)
        if existing is None or existing.source_uri != request.source_uri or existing.source_hash != request.source_hash:
            return None
        same_id = request.document_id in {None, existing.document_id}
        same_format = existing.format is detect_format(request.format, request.source_uri)
        same_fields = request.fields is None or request.fields == existing.fields
        is_same = same_id and same_format and same_fields
        return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None

    def _find(self, request: IngestRequest) -> Document | None:
        return self.documents.find_by_source(request.tenant, request.collection, request.source_uri)

    def _task(self, request: IngestRequest, original: Original, collection: Collection, source_hash: str) -> _Task:
        existing = self._find(request)
        if existing is not None and existing.source_uri != request.source_uri and existing.source_hash != source_hash:
            existing = None  # the alias got bytes of its own and becomes a document of its own
        if existing is not None and request.document_id not in {None, existing.document_id}:
            raise InvalidRequestError.of("document_id", f"the source has the id {existing.document_id!r}")
        document_format = detect_format(request.format, request.source_uri)
        return _Task(
            request=request,
            original=original,
            collection=collection,
            format=document_format,
            source_hash=source_hash,
            existing=existing,
            fields=self._fields(request, original, document_format, existing),
        )

    def _fields(
        self, request: IngestRequest, original: Original, document_format: DocumentFormat, existing: Document | None
    ) -> DocumentFields:
        now = _front_matter(original.head(MAX_BLOCK_CHARS * _MAX_BYTES_PER_CHAR), document_format)
        if request.fields is not None or existing is None:
            return stated_fields(request.fields or DocumentFields(), now)
        if existing.format is not DocumentFormat.MARKDOWN:
            return kept_fields(existing.fields, FrontMatter(), now)
        parts = self.texts.parts(
            request.tenant, request.collection, existing.document_id, existing.generation, MAX_BLOCK_CHARS
        )
        return kept_fields(existing.fields, read_front_matter(next(iter(parts)).text), now)

    def _settled(self, task: _Task) -> IngestResult | None:
        """Return the result if nothing has to be written but perhaps an alias."""
        request, existing = task.request, task.existing
        if existing is not None and existing.source_hash == task.source_hash:
            if existing.source_uri != request.source_uri:
                return IngestResult(existing, IngestOutcome.REUSED)
            is_same = existing.fields == task.fields and existing.format is task.format
            return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None
        twin = self.documents.find_by_hash(request.tenant, request.collection, task.source_hash)
        if twin is None or twin.source_uri == request.source_uri or request.duplicate_policy is DuplicatePolicy.ALLOW:
            return None
        if request.duplicate_policy is DuplicatePolicy.REJECT:
            message = f"the same bytes are stored as {twin.source_uri!r}"
            raise DuplicateDocumentError(message, document_id=twin.document_id, source_uri=twin.source_uri)
        if existing is not None:
            return None  # a document that became equal to another one stays a document
        self.documents.add_alias(request.tenant, request.collection, twin.document_id, request.source_uri)
        return IngestResult(twin, IngestOutcome.REUSED)

    def _ingest(self, task: _Task, budget: Budget, report: Report, remember: Remember) -> IngestResult:
        report(Progress(Stage.PARSING, 0, 1))
        parsed = self.parser.parse(task.original, self._rules(task), budget)
        report(Progress(Stage.PARSING, 1, 1))
        report(Progress(Stage.CHUNKING, len(parsed.chunks), len(parsed.chunks)))
        text = canonical_text(task.original.read())
        existing = task.existing
        draft = GenerationDraft(
            document_id=existing.document_id if existing else task.request.document_id,
            source_uri=task.request.source_uri,
            format=task.format,
            source_hash=task.source_hash,
            fields=task.fields,
            text=text,
            chunks=_chunks(text, parsed),
            expected_generation=existing.generation if existing else 0,
        )
        try:
            return self.write_generation(task.collection, draft, budget, report, remember)
        finally:
            self.after_write(task.collection)

    def _rules(self, task: _Task) -> ParseRules:
        return ParseRules(
            format=task.format,
            policy=task.collection.chunking,
            title=task.fields.title,
            file_name=task.request.source_uri.rstrip("/").rsplit("/", 1)[-1] or task.request.source_uri,
            field=task.request.content_field,
        )


def _front_matter(head: bytes, document_format: DocumentFormat) -> FrontMatter:
    if document_format is not DocumentFormat.MARKDOWN:
        return FrontMatter()
    return read_front_matter(head.decode("utf-8-sig", errors="ignore"))


def _chunks(text: str, parsed: ParsedDocument) -> Sequence[Chunk]:
    return [
        Chunk(
            sequence_num=number,
            span=chunk.span,
            content=text[chunk.span.start : chunk.span.end],
            token_count=chunk.token_count,
            chapter=chunk.place.chapter,
            section=chunk.place.section,
            hierarchy_path=chunk.place.path,
            level=chunk.place.level,
            overlap_prev_chars=chunk.overlap_prev_chars,
            overlap_next_chars=chunk.overlap_next_chars,
            undersized=chunk.undersized,
        )
        for number, chunk in enumerate(parsed.chunks)
    ]


def _name(identity: EmbeddingIdentity) -> str:
    return f"{identity.model_name}@{identity.probe_digest[:12]}"
