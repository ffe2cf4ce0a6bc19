"""Ingest documents: parse and chunk them, or take the caller's chunks; plan what an ingest would do."""

import hashlib
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from urllib.parse import urlsplit

from groundwire.catalog.catalog import Catalog
from groundwire.catalog.generations import GenerationDraft, refuse_stale_version
from groundwire.ingest.chunking.ready_chunks import (
    ReadyDocument,
    check_vectors,
    make_chunks,
    placed,
    rules_digest,
    unit_vectors,
)
from groundwire.ingest.embedding import new_texts
from groundwire.ingest.ingesting import (
    DuplicatePolicy,
    IngestOutcome,
    IngestRequest,
    IngestResult,
    Progress,
    Remarks,
    Report,
    Stage,
)
from groundwire.ingest.keyed_locks import KeyedLocks
from groundwire.ingest.parsing.parsed_document import Original, Parser, ParseRules
from groundwire.ingest.parsing.source_text import (
    READER_REVISIONS,
    SourceWarning,
    check_size,
    filled_from_source,
    following_source,
)
from groundwire.ingest.parsing.text_encoding import UTF_8
from groundwire.ingest.writing import GenerationWriter, Written
from groundwire.kernel.budget import Budget
from groundwire.kernel.chunk import Chunk
from groundwire.kernel.collection import PROFILES, ChunkingPolicy, Collection, CollectionSettings, ProfileName
from groundwire.kernel.document import Document, DocumentFields, DocumentFormat, file_name
from groundwire.kernel.errors import CollectionNotFoundError, DuplicateDocumentError, InvalidRequestError
from groundwire.kernel.exactly_once import Receipt
from groundwire.kernel.latencies import Step
from groundwire.kernel.records import SOURCE_PREFIX

# Bounds how long one read holds its connection.
_CHUNKS_PER_READ = 1000
_SCHEMES = frozenset({"http", "https"})


class PlannedChange(StrEnum):
    """What an ingest would do to a chunk."""

    ADDED = "ADDED"
    KEPT = "KEPT"
    REMOVED = "REMOVED"


@dataclass(frozen=True, slots=True)
class PlannedChunk:
    """A chunk, new or old, and what an ingest would do to it."""

    change: PlannedChange
    chunk: Chunk


@dataclass(frozen=True, slots=True)
class IngestPlan:
    """What an ingest would do, and to how many chunks.

    `current` is the document that is there now. `chunks` stand in the order of the text, removed ones last.
    `embedded` texts of `embedded_tokens` tokens would go through the model.
    """

    outcome: IngestOutcome
    current: Document | None
    chunks: Sequence[PlannedChunk]
    embedded: int = 0
    embedded_tokens: int = 0
    remarks: Remarks = field(default_factory=Remarks)

    def count(self, change: PlannedChange) -> int:
        return sum(planned.change is change for planned in self.chunks)


@dataclass(frozen=True, slots=True)
class _Preparation:
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
            return following_source(self.existing.fields, self.properties, properties)
        return filled_from_source(self.request.fields or DocumentFields(), properties)


@dataclass(frozen=True, slots=True)
class DocumentIngest:
    """Takes documents in, one at a time for each source and for each content.

    `max_bytes` is the server's bound of the size of a document. `after_write` gets the collection that was written to,
    also when that failed, and whether the write leaves work to housekeeping.
    """

    catalog: Catalog
    parser: Parser
    writer: GenerationWriter
    locks: KeyedLocks
    max_bytes: int
    after_write: Callable[[Collection, bool], None]

    def admit(
        self, request: IngestRequest, size_bytes: int | None, new_profile: ProfileName | None = None
    ) -> Collection:
        """Return the collection that takes the document; the size is None while it is not known.

        With `new_profile`, a collection that does not exist is one of this profile, which is not stored.

        Raises:
            EmbeddingMismatchError: its vectors are another model's.
            DocumentTooLargeError: the document is larger than collection or server allow.
            InvalidRequestError: the collection does not take this source, or its rules of chunking cannot be changed
                like this.
        """
        try:
            collection = self.catalog.collections.get(request.tenant, request.collection)
        except CollectionNotFoundError:
            if new_profile is None:
                raise
            collection = self._not_stored(request, new_profile)
        # The cheap checks come first, so that a large document is refused at once.
        self.writer.embedder.refuse_other_model(collection)
        check_source(request.source_uri, collection.settings)
        request.chunking.over(collection.settings.chunking, "chunking")
        if size_bytes is not None:
            check_size(size_bytes, self._limit(collection), request.content_field)
        return collection

    def admit_bytes(
        self, request: IngestRequest, original: Original, new_profile: ProfileName | None = None
    ) -> tuple[Collection, str]:
        """Return the collection that takes the document, and the SHA-256 of its bytes.

        Raises:
            InvalidRequestError: the bytes have another hash than was announced.
            GroundwireError: whatever `admit` raises.
        """
        collection = self.admit(request, original.size_bytes, new_profile)
        source_hash = original.sha256()
        if request.source_hash not in {None, source_hash}:
            raise InvalidRequestError.of("source_hash", f"does not match: the bytes have the SHA-256 {source_hash}")
        return collection, source_hash

    def ingest(
        self,
        request: IngestRequest,
        original: Original,
        budget: Budget,
        report: Report,
        receipt: Receipt[IngestResult] | None = None,
    ) -> IngestResult:
        """Ingest a document: nothing if it is unchanged, else a new generation of which only new texts are embedded.

        Raises:
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the document is refused; see its subclasses.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
            QuotaExceededError: the caller may not make the tenant store so much.
            DocumentChangedError: someone else changed the document meanwhile.
        """
        # Hashed before the locks, so that nobody waits while another's large file is read.
        collection, source_hash = self.admit_bytes(request, original)
        with self._locked(collection, request.source_uri, source_hash, budget):
            under_way, settled = self._examine(request, original, collection, source_hash)
            if settled is not None:
                return self._without_generation(request, settled)
            # Taking a document apart may cost seconds, which a tenant without room need not pay.
            self.catalog.documents.refuse_full_tenant(request.tenant, adds_document=under_way.existing is None)
            report(Progress(Stage.PARSING, 0, 1))
            with Step("ingest.parse"):
                draft, warnings = self._parse(under_way, budget)
            report(Progress(Stage.PARSING, 1, 1))
            report(Progress(Stage.CHUNKING, len(draft.chunks), len(draft.chunks)))
            return self._write(collection, draft, budget, report, receipt, warnings)

    def put_chunks(
        self, request: IngestRequest, ready: ReadyDocument, budget: Budget, receipt: Receipt[IngestResult] | None = None
    ) -> IngestResult:
        """Store a document whose chunks, and perhaps vectors, the caller has made; all of it or nothing.

        Raises:
            EmbeddingMismatchError: the collection, or the vectors, belong to another model.
            DimensionMismatchError: a vector has another length than the collection.
            InvalidRequestError: a chunk breaks a rule of the collection, or does not fit the text.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
            AlreadyExistsError: a chunk id belongs to another document.
            DocumentChangedError: someone else changed the document meanwhile.
        """
        # Checked twice: what can be refused without the text is refused before assembling the text, which takes time.
        collection = self.admit(request, None)
        check_vectors(ready, collection.identity)
        text, ranges = placed(ready, self._limit(collection))
        encoded = text.encode()
        self.admit(request, len(encoded))
        source_hash = request.source_hash or hashlib.sha256(encoded).hexdigest()
        with self._locked(collection, request.source_uri, source_hash, budget):
            existing, reused = self._stored_for(request, source_hash)
            stored = existing.fields if existing else DocumentFields()
            fields = stored if request.fields is None else request.fields
            fallback = fields.title or file_name(request.source_uri)
            count_tokens = self.writer.embedder.embedder.tokenizer.count
            chunks = make_chunks(ready.chunks, text, ranges, collection.settings.chunking, fallback, count_tokens)
            ids = [chunk.chunk_id for chunk in ready.chunks if chunk.chunk_id is not None] or None
            draft = GenerationDraft(
                document_id=existing.document_id if existing else request.document_id,
                source_uri=request.source_uri,
                format=request.format or DocumentFormat.TEXT,
                source_hash=source_hash,
                fields=fields,
                text=text,
                chunks=chunks,
                expected_generation=existing.generation if existing else 0,
                rules_digest=rules_digest(chunks, ids),
                chunk_ids=ids,
                source_version=request.source_version,
            )
            if reused is not None:
                return self._without_generation(request, IngestResult(reused, IngestOutcome.REUSED))
            if existing is not None and existing.source_hash == source_hash:
                before = (existing.rules_digest, existing.fields, existing.format)
                if before == (draft.rules_digest, draft.fields, draft.format):
                    return self._without_generation(request, IngestResult(existing, IngestOutcome.UNCHANGED))
            if ready.chunks[0].vector is not None:
                # Before the chunks: the cache keeps vectors without a chunk for an hour.
                hashes = [chunk.embedding_hash for chunk in draft.chunks]
                self.writer.embedder.cache.put(collection.identity.digest, hashes, unit_vectors(ready.chunks))
            return self._write(collection, draft, budget, lambda _: None, receipt, {})

    def plan(
        self, request: IngestRequest, original: Original, new_profile: ProfileName | None, budget: Budget
    ) -> IngestPlan:
        """Do what an ingest does before it writes, and embed nothing; for `new_profile` see `admit`.

        Raises:
            CollectionNotFoundError: there is no such collection, and no profile of a new one.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the document would be refused; see its subclasses.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
        """
        under_way, settled = self._examine(request, original, *self.admit_bytes(request, original, new_profile))
        if settled is not None:
            old = self._stored(request, settled.document)
            return IngestPlan(settled.outcome, settled.document, planned_chunks(old, old), remarks=settled.remarks)
        existing, embedder = under_way.existing, self.writer.embedder
        draft, warnings = self._parse(under_way, budget)
        new = draft.chunks
        stored = embedder.stored_times(under_way.collection, new)
        to_embed = new_texts(new, {name for name, made in stored.items() if made is not None})
        tokens = embedder.token_counts(new)
        return IngestPlan(
            outcome=IngestOutcome.REPLACED if existing else IngestOutcome.CREATED,
            current=existing,
            chunks=planned_chunks(self._stored(request, existing) if existing else [], new),
            embedded=len(to_embed),
            embedded_tokens=sum(tokens[row] for row in to_embed.values()),
            remarks=Remarks(_undersized_count(new), embedder.beyond_model(tokens), warnings),
        )

    def unchanged(self, request: IngestRequest) -> IngestResult | None:
        """Return the result if the hash that the caller gives shows that there is nothing to do, without the bytes.

        Raises:
            EmbeddingMismatchError: the collection belongs to another model.
        """
        collection = self.admit(request, None)
        existing = self.catalog.documents.find_by_source(request.tenant, request.collection, request.source_uri)
        # An alias has no document of its own: its bytes decide what becomes of it.
        if existing is None or existing.source_uri != request.source_uri or existing.source_hash != request.source_hash:
            return None
        # A later version has to be stored, even of the same bytes.
        if request.source_version not in {None, existing.source_version}:
            return None
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        is_same = request.document_id in {None, existing.document_id} and _same_rules(request, policy, existing)
        if is_same and request.fields is not None:
            is_same = filled_from_source(request.fields, self._properties(request, existing)) == existing.fields
        return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None

    @contextmanager
    def _locked(self, collection: Collection, source_uri: str, source_hash: str, budget: Budget) -> Iterator[None]:
        """Hold the locks of a source and of its bytes, always in this order."""
        with (
            self.locks.hold(("source", collection.uid, source_uri), budget),
            # Two new sources of equal bytes must not both find that the bytes are new.
            self.locks.hold(("bytes", collection.uid, source_hash), budget),
        ):
            yield

    def _not_stored(self, request: IngestRequest, profile: ProfileName) -> Collection:
        now = self.catalog.database.clock.now()
        return Collection(
            uid="",
            tenant=request.tenant,
            name=request.collection,
            engine_name="",
            profile=profile,
            identity=self.writer.embedder.embedder.identity,
            settings=PROFILES[profile],
            create_time=now,
            update_time=now,
        )

    def _limit(self, collection: Collection) -> int:
        """Return the most bytes that a document of the collection may have."""
        return min(self.max_bytes, collection.settings.limits.max_document_bytes or self.max_bytes)

    def _stored_for(self, request: IngestRequest, source_hash: str) -> tuple[Document | None, Document | None]:
        """Return the document that the request would replace, and the one that holds its bytes and gets its source.

        Raises:
            InvalidRequestError: the first has another id than the request gives.
            StaleSourceVersionError: it is of a later version.
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
        """
        documents, policy = self.catalog.documents, request.duplicate_policy
        existing = documents.find_by_source(request.tenant, request.collection, request.source_uri)
        if existing is not None and existing.source_uri != request.source_uri:
            if policy is DuplicatePolicy.REUSE and existing.source_hash == source_hash:
                return existing, existing
            existing = (
                None  # an alias that has bytes of its own, or is to be one no more, becomes a document of its own
            )
        if existing is not None:
            if request.document_id not in {None, existing.document_id}:
                raise InvalidRequestError.of("document_id", f"the source already has the id {existing.document_id!r}")
            refuse_stale_version(existing.document_id, request.source_version, existing.source_version)
            if existing.source_hash == source_hash:
                return existing, None
        twin = documents.find_by_hash(request.tenant, request.collection, source_hash)
        if twin is None or twin.source_uri == request.source_uri or policy is DuplicatePolicy.ALLOW:
            return existing, None
        if policy is DuplicatePolicy.REJECT:
            message = f"the same bytes are stored as {twin.source_uri!r}"
            raise DuplicateDocumentError(message, document_id=twin.document_id, source_uri=twin.source_uri)
        return existing, twin if existing is None else None  # a document equal to another one stays a document

    def _properties(self, request: IngestRequest, existing: Document) -> DocumentFields:
        return self.catalog.texts.properties(request.tenant, existing.document_id, existing.generation)

    def _examine(
        self, request: IngestRequest, original: Original, collection: Collection, source_hash: str
    ) -> tuple[_Preparation, IngestResult | None]:
        """Return what is known of the source, and the result if no generation has to be written.

        Of a reused document the source may be a new alias.
        """
        existing, reused = self._stored_for(request, source_hash)
        # What the source said last time: a field that still says so follows the source, another one the caller set.
        properties = DocumentFields() if existing is None else self._properties(request, existing)
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        under_way = _Preparation(request, original, collection, policy, source_hash, existing, properties)
        if reused is not None:
            return under_way, IngestResult(reused, IngestOutcome.REUSED, remarks=request.without_effect(reused))
        if existing is None or existing.source_hash != source_hash:
            return under_way, None
        is_same = existing.fields == under_way.fields(properties) and _same_rules(request, policy, existing)
        return under_way, IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None

    def _parse(self, under_way: _Preparation, budget: Budget) -> tuple[GenerationDraft, Mapping[SourceWarning, int]]:
        """Take the document apart; return what is to be written, and the warnings of the source."""
        request, existing = under_way.request, under_way.existing
        rules = ParseRules(
            format=request.format,
            policy=under_way.policy,
            title=under_way.fields(DocumentFields()).title,  # one that does not come from the source
            file_name=file_name(request.source_uri),
            field=request.content_field,
            decoded=request.decoded,
        )
        parsed = self.parser.parse(under_way.original, rules, budget)
        draft = GenerationDraft(
            document_id=existing.document_id if existing else request.document_id,
            source_uri=request.source_uri,
            format=parsed.format,
            source_hash=under_way.source_hash,
            fields=under_way.fields(parsed.properties),
            text=parsed.text,
            chunks=parsed.chunks,
            expected_generation=existing.generation if existing else 0,
            pages=parsed.pages,
            properties=parsed.properties,
            rules_digest=_reading_digest(under_way.policy, parsed.format),
            encoding=parsed.encoding,
            source_version=request.source_version,
        )
        return draft, parsed.warnings

    def _without_generation(self, request: IngestRequest, settled: IngestResult) -> IngestResult:
        """Do what is left to do where the content is stored already: note an alias, or a later version."""
        documents, document = self.catalog.documents, settled.document
        if settled.outcome is IngestOutcome.REUSED:
            # The source may be an alias of a document whose bytes it had before.
            holder = documents.find_by_source(request.tenant, request.collection, request.source_uri)
            moved_from = "" if holder is None or holder.document_id == document.document_id else holder.document_id
            documents.add_alias(
                request.tenant, request.collection, document.document_id, request.source_uri, moved_from
            )
            document = documents.get(request.tenant, request.collection, document.document_id)
            return IngestResult(document, IngestOutcome.REUSED, remarks=request.without_effect(document))
        if request.source_version is not None and request.source_version != document.source_version:
            document = documents.raise_source_version(document, request.tenant, request.source_version)
        return IngestResult(document, IngestOutcome.UNCHANGED)

    def _write(
        self,
        collection: Collection,
        draft: GenerationDraft,
        budget: Budget,
        report: Report,
        receipt: Receipt[IngestResult] | None,
        warnings: Mapping[SourceWarning, int],
    ) -> IngestResult:
        def publish(written: Written) -> IngestResult:
            (pending,), chunks = written.pending, written.chunks

            def result_of(document: Document) -> IngestResult:
                return IngestResult(
                    document=document,
                    outcome=IngestOutcome.REPLACED if pending.expected_generation else IngestOutcome.CREATED,
                    embedded=len(written.new_texts),
                    reused=len(chunks) - len(written.new_texts),
                    skipped=sum(not (chunk.indexed or chunk.upper) for chunk in chunks),
                    remarks=Remarks(_undersized_count(chunks), written.beyond_model, warnings),
                )

            of_document: Receipt[Document] | None = receipt and receipt.made_from(result_of)
            return result_of(self.catalog.documents.publish(pending, of_document, written.vectors))

        leaves_work = True  # a failure leaves points that nobody needs
        try:
            result = self.writer.write(collection, [draft], publish, budget, report)
            # Points of the previous generation, and chunks skipped as duplicates of one that may be gone by now.
            leaves_work = result.document.generation > 1 or result.skipped > 0
            return result
        finally:
            self.after_write(collection, leaves_work)

    def _stored(self, request: IngestRequest, document: Document) -> list[Chunk]:
        stored: list[Chunk] = []
        after = -1
        while True:
            page = self.catalog.chunks.page(
                request.tenant, request.collection, document.document_id, after, _CHUNKS_PER_READ
            )
            stored += [each.chunk for each in page]
            if len(page) < _CHUNKS_PER_READ:
                return stored
            after = page[-1].chunk.sequence_num


def planned_chunks(old: Sequence[Chunk], new: Sequence[Chunk]) -> list[PlannedChunk]:
    """Return all new chunks in order, then the old ones whose content is gone.

    A content is kept as often as it is in both; where it stands does not matter.
    """
    old_contents, new_contents = Counter(map(_content_of, old)), Counter(map(_content_of, new))
    planned = []
    for chunk in new:
        stays = old_contents[_content_of(chunk)] > 0
        old_contents[_content_of(chunk)] -= stays
        planned.append(PlannedChunk(PlannedChange.KEPT if stays else PlannedChange.ADDED, chunk))
    for chunk in old:
        stays = new_contents[_content_of(chunk)] > 0
        new_contents[_content_of(chunk)] -= stays
        if not stays:
            planned.append(PlannedChunk(PlannedChange.REMOVED, chunk))
    return planned


def _content_of(chunk: Chunk) -> str:
    """Return the hash that identifies a content; an upper chunk without one has that of its embedded text."""
    return chunk.content_hash if chunk.content else chunk.embedding_hash


def _same_rules(request: IngestRequest, policy: ChunkingPolicy, existing: Document) -> bool:
    # Of equal bytes that came as a file before, the encoding may have been another one than that of a text.
    same_encoding = not request.decoded or existing.encoding in {"", UTF_8}
    same_reading = existing.rules_digest == _reading_digest(policy, existing.format)
    return same_reading and request.format in {None, existing.format} and same_encoding


def _reading_digest(policy: ChunkingPolicy, source_format: DocumentFormat) -> str:
    """Return what identifies the rules of chunking and the reader, so that a new reader reads the same bytes again."""
    revision = READER_REVISIONS.get(source_format)
    return policy.digest if revision is None else f"{policy.digest}+{revision}"


def check_source(source_uri: str, settings: CollectionSettings) -> None:
    """Return if the source is allowed; it is stored as it was sent (requirement T18).

    Raises:
        InvalidRequestError: naming `source_uri`.
    """
    if source_uri.startswith(SOURCE_PREFIX):
        raise InvalidRequestError.of(
            "source_uri", f"must not begin with {SOURCE_PREFIX!r}, which is reserved for records"
        )
    if settings.limits.require_url and not is_url(source_uri):
        raise InvalidRequestError.of("source_uri", "must be an absolute http or https URL in this collection")
    prefixes = settings.approved_source_prefixes
    if prefixes and not source_uri.startswith(prefixes):
        raise InvalidRequestError.of("source_uri", "does not begin with an approved prefix of the collection")


def is_url(value: str) -> bool:
    """Tell whether a text is an absolute http or https URL with a host; nothing is opened."""
    if any(char.isspace() for char in value):
        return False
    try:
        parts = urlsplit(value)
        host, _ = parts.hostname, parts.port  # a bad port raises
    except ValueError:
        return False
    if parts.scheme not in _SCHEMES or host is None:
        return False
    labels = host.removesuffix(".").split(".")
    # With a colon it is an IPv6 address, which `urlsplit` has checked; else labels of letters and digits.
    return ":" in host or all(label and label.replace("-", "a").replace("_", "a").isalnum() for label in labels)


def _undersized_count(chunks: Sequence[Chunk]) -> int:
    """Return how many chunks are shorter than the minimum; none of a short text of one chunk, as nobody can help it."""
    searched = [chunk for chunk in chunks if not chunk.upper]
    return sum(chunk.undersized for chunk in searched) if len(searched) > 1 else 0
