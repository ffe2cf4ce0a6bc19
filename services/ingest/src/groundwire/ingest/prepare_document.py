"""Work out what ingesting a document comes to, up to the point where something is written."""

from collections.abc import Mapping
from dataclasses import dataclass

from groundwire.catalog.generations import GenerationDraft
from groundwire.catalog.texts import Sources
from groundwire.ingest.admit_document import AdmitDocument
from groundwire.ingest.domain.ingesting import IngestOutcome, IngestRequest, IngestResult
from groundwire.ingest.known_sources import KnownSources
from groundwire.ingest.parsing.parsed_document import ParsedDocument, ParseRules, chunks_of
from groundwire.ingest.parsing.source_properties import filled_from_source, following_source
from groundwire.ingest.parsing.source_text import SourceWarning
from groundwire.ingest.ports import Original, Parser
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ChunkingPolicy, Collection
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.errors import InvalidRequestError


@dataclass(frozen=True, slots=True)
class Preparation:
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

    @property
    def rules(self) -> ParseRules:
        """Return how the document is to be taken apart."""
        source_uri = self.request.source_uri
        return ParseRules(
            format=self.request.format,
            policy=self.policy,
            title=self.fields(DocumentFields()).title,  # one that does not come from the source
            file_name=source_uri.rstrip("/").rsplit("/", 1)[-1] or source_uri,
            field=self.request.content_field,
        )


@dataclass(frozen=True, slots=True)
class Prepared:
    """A generation to be written, and how often the source gave reason to each warning."""

    draft: GenerationDraft
    warnings: Mapping[SourceWarning, int]


@dataclass(frozen=True, slots=True)
class PrepareDocument:
    """The steps that an ingest and its plan share; none of them writes anything."""

    admit: AdmitDocument
    known: KnownSources
    sources: Sources
    parser: Parser

    def admitted(self, request: IngestRequest, original: Original) -> tuple[Collection, str]:
        """Return the collection that takes the document, and the SHA-256 of its bytes.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
            InvalidRequestError: the collection does not take the document, or the bytes have another hash than was
                announced.
        """
        collection = self.admit(request, original.size_bytes)
        source_hash = original.sha256()
        if request.source_hash not in {None, source_hash}:
            raise InvalidRequestError.of("source_hash", f"the bytes have the SHA-256 {source_hash}")
        return collection, source_hash

    def examine(
        self, request: IngestRequest, original: Original, collection: Collection, source_hash: str
    ) -> Preparation:
        """Look up what is known of the source.

        Raises:
            InvalidRequestError: it has another id than the request wants.
        """
        existing = self.known.existing(request, source_hash)
        properties = DocumentFields() if existing is None else self._properties(request, existing)
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        return Preparation(request, original, collection, policy, source_hash, existing, properties)

    def settled(self, under_way: Preparation) -> IngestResult | None:
        """Return the result if no generation has to be written; of a reused document the source may be a new alias.

        Raises:
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
        """
        request, existing = under_way.request, under_way.existing
        if existing is not None and existing.source_hash == under_way.source_hash:
            if existing.source_uri != request.source_uri:
                return _reused(request, existing)
            is_same = existing.fields == under_way.fields(under_way.properties)
            is_same = is_same and _same_rules(request, under_way.policy, existing)
            return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None
        twin = self.known.twin(request, existing, under_way.source_hash)
        return None if twin is None else _reused(request, twin)

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
        if request.source_version not in {None, existing.source_version}:
            return None
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        same_id = request.document_id in {None, existing.document_id}
        is_same = same_id and _same_rules(request, policy, existing) and self._same_fields(request, existing)
        return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None

    def parsed(self, under_way: Preparation, budget: Budget) -> ParsedDocument:
        """Take the document apart.

        Raises:
            InvalidRequestError: the document is refused; see its subclasses.
        """
        return self.parser.parse(under_way.original, under_way.rules, budget)

    @staticmethod
    def drafted(under_way: Preparation, parsed: ParsedDocument) -> Prepared:
        """Return the generation that is to be written."""
        existing = under_way.existing
        draft = GenerationDraft(
            document_id=existing.document_id if existing else under_way.request.document_id,
            source_uri=under_way.request.source_uri,
            format=parsed.format,
            source_hash=under_way.source_hash,
            fields=under_way.fields(parsed.properties),
            text=parsed.text,
            chunks=chunks_of(parsed, under_way.policy.window_size),
            expected_generation=existing.generation if existing else 0,
            pages=parsed.pages,
            properties=parsed.properties,
            rules_digest=under_way.policy.digest,
            encoding=parsed.encoding,
            source_version=under_way.request.source_version,
        )
        return Prepared(draft, parsed.warnings)

    def _same_fields(self, request: IngestRequest, existing: Document) -> bool:
        if request.fields is None:
            return True
        return filled_from_source(request.fields, self._properties(request, existing)) == existing.fields

    def _properties(self, request: IngestRequest, existing: Document) -> DocumentFields:
        return self.sources.properties(request.tenant, existing.document_id, existing.generation)


def _reused(request: IngestRequest, document: Document) -> IngestResult:
    return IngestResult(document, IngestOutcome.REUSED, ignored=request.without_effect(document))


def _same_rules(request: IngestRequest, policy: ChunkingPolicy, existing: Document) -> bool:
    return existing.rules_digest == policy.digest and request.format in {None, existing.format}
