"""Work out what ingesting a document comes to, up to the point where something is written."""

from dataclasses import dataclass
from urllib.parse import urlsplit

from groundwire.catalog.collections import Collections
from groundwire.catalog.documents import Documents
from groundwire.catalog.generations import GenerationDraft, refuse_stale_version
from groundwire.catalog.texts import Sources
from groundwire.ingest.ingesting import DuplicatePolicy, IngestOutcome, IngestRequest, IngestResult
from groundwire.ingest.parsing.parsed_document import Original, ParsedDocument, Parser, ParseRules
from groundwire.ingest.parsing.source_text import check_size, filled_from_source, following_source
from groundwire.kernel.budget import Budget
from groundwire.kernel.collection import ChunkingPolicy, Collection, CollectionSettings
from groundwire.kernel.document import Document, DocumentFields
from groundwire.kernel.embedder import EmbeddingIdentity
from groundwire.kernel.errors import DuplicateDocumentError, EmbeddingMismatchError, InvalidRequestError
from groundwire.kernel.records import SOURCE_PREFIX

_SCHEMES = frozenset({"http", "https"})


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


@dataclass(frozen=True, slots=True)
class DocumentPreparer:
    """The steps that an ingest and its plan share; none of them writes anything.

    `identity` is that of the server's embedder; a collection of another one is refused. `max_bytes` is the server's
    bound of the size of a document.
    """

    collections: Collections
    documents: Documents
    sources: Sources
    parser: Parser
    identity: EmbeddingIdentity
    max_bytes: int

    def admit(self, request: IngestRequest, size_bytes: int | None) -> Collection:
        """Return the collection that takes the document; the size is None while it is not known.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: its vectors are another model's.
            DocumentTooLargeError: the document is larger than collection or server allow.
            InvalidRequestError: the collection does not take this source, or its rules of chunking cannot be changed
                like this.
        """
        collection = self.collections.get(request.tenant, request.collection)
        # The cheap refusals come first: whoever sends a document of many megabytes hears of them at once.
        refuse_other_model(collection, self.identity)
        check_source(request.source_uri, collection.settings)
        request.chunking.over(collection.settings.chunking, "chunking")
        if size_bytes is not None:
            check_size(size_bytes, self.limit(collection), request.content_field)
        return collection

    def admit_bytes(self, request: IngestRequest, original: Original) -> tuple[Collection, str]:
        """Return the collection that takes the document, and the SHA-256 of its bytes.

        Raises:
            InvalidRequestError: the bytes have another hash than was announced.
            GroundwireError: whatever `admit` raises.
        """
        collection = self.admit(request, original.size_bytes)
        source_hash = original.sha256()
        if request.source_hash not in {None, source_hash}:
            raise InvalidRequestError.of("source_hash", f"the bytes have the SHA-256 {source_hash}")
        return collection, source_hash

    def limit(self, collection: Collection) -> int:
        """Return the most bytes that a document of the collection may have."""
        return min(self.max_bytes, collection.settings.limits.max_document_bytes or self.max_bytes)

    def of_source(self, request: IngestRequest) -> Document | None:
        """Return the document with the source of the request, or the one it is an alias of."""
        return self.documents.find_by_source(request.tenant, request.collection, request.source_uri)

    def existing(self, request: IngestRequest, source_hash: str) -> Document | None:
        """Return the document that the request would replace or leave as it is.

        Raises:
            InvalidRequestError: it has another id than the request gives.
            StaleSourceVersionError: it is of a later version.
        """
        existing = self.of_source(request)
        if existing is None:
            return None
        if existing.source_uri != request.source_uri:
            # An alias that has bytes of its own, or is to be one no more, becomes a document of its own.
            stays = request.duplicate_policy is DuplicatePolicy.REUSE and existing.source_hash == source_hash
            return existing if stays else None
        if request.document_id not in {None, existing.document_id}:
            raise InvalidRequestError.of("document_id", f"the source has the id {existing.document_id!r}")
        refuse_stale_version(existing.document_id, request.source_version, existing.source_version)
        return existing

    def twin(self, request: IngestRequest, existing: Document | None, source_hash: str) -> Document | None:
        """Return another document with the same bytes that stands for this one.

        Raises:
            DuplicateDocumentError: there is one and the policy is REJECT.
        """
        twin = self.documents.find_by_hash(request.tenant, request.collection, source_hash)
        if twin is None or twin.source_uri == request.source_uri or request.duplicate_policy is DuplicatePolicy.ALLOW:
            return None
        if request.duplicate_policy is DuplicatePolicy.REJECT:
            message = f"the same bytes are stored as {twin.source_uri!r}"
            raise DuplicateDocumentError(message, document_id=twin.document_id, source_uri=twin.source_uri)
        return twin if existing is None else None  # a document that became equal to another one stays a document

    def examine(
        self, request: IngestRequest, original: Original, collection: Collection, source_hash: str
    ) -> Preparation:
        """Look up what is known of the source.

        Raises:
            InvalidRequestError: it has another id than the request gives.
            StaleSourceVersionError: it is of a later version.
        """
        existing = self.existing(request, source_hash)
        # What the source said last time: a field that still says so follows the source, another one the caller set.
        properties = DocumentFields() if existing is None else self._properties(request, existing)
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        return Preparation(request, original, collection, policy, source_hash, existing, properties)

    def settled(self, under_way: Preparation) -> IngestResult | None:
        """Return the result if no generation has to be written; of a reused document the source may be a new alias.

        Raises:
            DuplicateDocumentError: the bytes are stored under another source and the policy is REJECT.
        """
        request, existing = under_way.request, under_way.existing
        if existing is None or existing.source_hash != under_way.source_hash:
            reused = self.twin(request, existing, under_way.source_hash)
        elif existing.source_uri != request.source_uri:
            reused = existing
        else:
            is_same = existing.fields == under_way.fields(under_way.properties)
            is_same = is_same and _same_rules(request, under_way.policy, existing)
            return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None
        if reused is None:
            return None
        return IngestResult(reused, IngestOutcome.REUSED, remarks=request.without_effect(reused))

    def unchanged(self, request: IngestRequest) -> IngestResult | None:
        """Return the result if the hash that the caller gives shows that there is nothing to do, without the bytes.

        Raises:
            CollectionNotFoundError: no such collection.
            EmbeddingMismatchError: the collection belongs to another model.
        """
        collection = self.admit(request, None)
        existing = self.of_source(request)
        if existing is None or existing.source_uri != request.source_uri or existing.source_hash != request.source_hash:
            return None
        if request.source_version not in {None, existing.source_version}:
            return None
        policy = request.chunking.over(collection.settings.chunking, "chunking")
        is_same = request.document_id in {None, existing.document_id} and _same_rules(request, policy, existing)
        if is_same and request.fields is not None:
            is_same = filled_from_source(request.fields, self._properties(request, existing)) == existing.fields
        return IngestResult(existing, IngestOutcome.UNCHANGED) if is_same else None

    def parse(self, under_way: Preparation, budget: Budget) -> ParsedDocument:
        """Take the document apart.

        Raises:
            InvalidRequestError: the document is refused; see its subclasses.
        """
        source_uri = under_way.request.source_uri
        rules = ParseRules(
            format=under_way.request.format,
            policy=under_way.policy,
            title=under_way.fields(DocumentFields()).title,  # one that does not come from the source
            file_name=source_uri.rstrip("/").rsplit("/", 1)[-1] or source_uri,
            field=under_way.request.content_field,
        )
        return self.parser.parse(under_way.original, rules, budget)

    def _properties(self, request: IngestRequest, existing: Document) -> DocumentFields:
        return self.sources.properties(request.tenant, existing.document_id, existing.generation)


def drafted(under_way: Preparation, parsed: ParsedDocument) -> GenerationDraft:
    existing = under_way.existing
    return GenerationDraft(
        document_id=existing.document_id if existing else under_way.request.document_id,
        source_uri=under_way.request.source_uri,
        format=parsed.format,
        source_hash=under_way.source_hash,
        fields=under_way.fields(parsed.properties),
        text=parsed.text,
        chunks=parsed.chunks,
        expected_generation=existing.generation if existing else 0,
        pages=parsed.pages,
        properties=parsed.properties,
        rules_digest=under_way.policy.digest,
        encoding=parsed.encoding,
        source_version=under_way.request.source_version,
    )


def refuse_other_model(collection: Collection, identity: EmbeddingIdentity) -> None:
    """Raise EmbeddingMismatchError when the vectors of a collection are another model's."""
    if collection.identity == identity:
        return
    expected, got = (f"{each.model_name}@{each.probe_digest[:12]}" for each in (collection.identity, identity))
    message = f"collection {collection.name!r} was embedded by {expected}, this server has {got}"
    raise EmbeddingMismatchError(message, expected=expected, got=got)


def _same_rules(request: IngestRequest, policy: ChunkingPolicy, existing: Document) -> bool:
    return existing.rules_digest == policy.digest and request.format in {None, existing.format}


def check_source(source_uri: str, settings: CollectionSettings) -> None:
    """Return if the source is allowed; it is kept as it was sent (requirement T18).

    Raises:
        InvalidRequestError: naming `source_uri`.
    """
    if source_uri.startswith(SOURCE_PREFIX):
        raise InvalidRequestError.of("source_uri", f"must not begin with {SOURCE_PREFIX!r}, as those of records do")
    if settings.limits.require_url and not is_url(source_uri):
        raise InvalidRequestError.of("source_uri", "must be an absolute http or https URL in this collection")
    prefixes = settings.approved_source_prefixes
    if prefixes and not source_uri.startswith(prefixes):
        raise InvalidRequestError.of("source_uri", "begins with none of the approved prefixes of the collection")


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
