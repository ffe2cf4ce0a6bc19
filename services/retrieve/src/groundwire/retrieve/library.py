"""The LibraryService: reads stored data, figures of collections, the query log and the audit log.

The calls read the catalog; only the figures ask the engine, for the number of its vectors. Records in scopes that the
caller may not see count as missing. Violations raise InvalidRequestError, which names the field.
"""
# ruff: noqa: ARG002, N802 - names and signatures of the methods are the contract's

from collections.abc import AsyncIterator, Iterable, Iterator, Mapping, Sequence, Sized
from contextlib import aclosing
from dataclasses import dataclass
from datetime import datetime, timedelta
from operator import itemgetter
from typing import Any

from groundwire.api.common.v1 import search_mode_pb2
from groundwire.api.retrieve.v1 import audit_pb2, query_log_pb2, stats_pb2
from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.api.retrieve.v1 import library_service_pb2_grpc as pb_grpc
from groundwire.catalog.audit import AuditRow
from groundwire.catalog.catalog import Catalog
from groundwire.catalog.filters import is_in_scopes
from groundwire.catalog.query_log import QueryLogs
from groundwire.catalog.vectors import no_vector
from groundwire.kernel.chunk import StoredChunk
from groundwire.kernel.clock import Clock, from_epoch_ms
from groundwire.kernel.document import Document, DocumentReference
from groundwire.kernel.embedder import Vectors
from groundwire.kernel.errors import (
    ChunkNotFoundError,
    CollectionNotFoundError,
    DataLossError,
    DocumentNotFoundError,
    FieldViolation,
    InvalidRequestError,
    PreconditionError,
    collected,
    fields_below,
    refuse,
)
from groundwire.kernel.filter_parsing import resolve_filter
from groundwire.kernel.filters import MAX_PATTERN_CHARS, And, Comparator, Comparison, Filter, Like
from groundwire.kernel.identifiers import WITHOUT_CONTROLS, has_controls, parse_collection_name
from groundwire.kernel.identity import Identity
from groundwire.kernel.latencies import Latencies
from groundwire.kernel.query_log import LoggedQuery
from groundwire.kernel.spans import Span
from groundwire.kernel.vector_store import VectorStore
from groundwire.retrieve.query_log import LONGEST_WINDOW_S, Pipeline, QueryRecorder
from groundwire.retrieve.wire.requests import QUERY_TYPE_VALUES, parse_chunk_reference, parse_chunk_references
from groundwire.rpc import request_context
from groundwire.rpc.error_status import to_status
from groundwire.rpc.filter_messages import parse_filter_message
from groundwire.rpc.messages import (
    parse_reference,
    to_chunk_message,
    to_document_message,
    to_identity_message,
    to_span,
)
from groundwire.rpc.pagination import MAX_PAGE_SIZE, PageTokens, as_many_as_fit, page_size
from groundwire.rpc.value_messages import parse_timestamp, to_duration, to_timestamp
from groundwire.rpc.workers import Workers, in_worker
from groundwire.vectorstores.factory import engine_name

MAX_INLINE_TEXT_BYTES = 1 << 20
"""A longer text is streamed."""
PART_CHARS = 65_536
MAX_INLINE_CHUNK_IDS = 1000
"""The chunks of a document that has more are listed."""
MAX_SPAN_CHARS = 262_144
"""Most code points of one span, so that any one fits into a response."""
# Chunks of a batch that are in memory at a time, with their contents.
_CHUNKS_PER_SLICE = 50
# A collection may have any number of projects, and the response has to fit into a message.
_PROJECTS_SHOWN = 100


@dataclass(frozen=True)
class LibraryServicer(pb_grpc.LibraryServiceServicer):
    """Each call runs in one worker thread; `counting_since` is when the figures of the pipeline began."""

    catalog: Catalog
    vectors: VectorStore
    tokens: PageTokens
    logs: QueryLogs
    recorder: QueryRecorder
    pipeline: Pipeline
    counting_since: datetime
    clock: Clock
    workers: Workers

    # Documents and their texts

    @in_worker
    def GetDocument(self, request: pb.GetDocumentRequest) -> pb.GetDocumentResponse:
        document = self._document(request)
        tenant, name, document_id = request_context.current().tenant, document.collection, document.document_id
        response = pb.GetDocumentResponse(document=to_document_message(document))
        if request.include_chunk_ids:
            # One more than may be returned tells whether there are more.
            chunks = self.catalog.chunks.page(tenant, name, document_id, -1, MAX_INLINE_CHUNK_IDS + 1)
            if len(chunks) > MAX_INLINE_CHUNK_IDS:
                raise PreconditionError(f"the document has more than {MAX_INLINE_CHUNK_IDS} chunks: use ListChunks")
            response.chunk_ids.extend(stored.chunk_id for stored in chunks)
        if request.include_text:
            if document.total_bytes > MAX_INLINE_TEXT_BYTES:
                raise PreconditionError(
                    f"the text has {document.total_bytes} bytes, above {MAX_INLINE_TEXT_BYTES}: use GetDocumentText"
                )
            parts = self.catalog.texts.parts(tenant, name, document_id, document.generation, PART_CHARS)
            response.text = "".join(part.text for part in parts)
        return response

    async def GetDocumentText(
        self, request: pb.GetDocumentTextRequest, context: Any
    ) -> AsyncIterator[pb.GetDocumentTextResponse]:
        async with aclosing(
            self.workers.iterate(request_context.current().budget, lambda: self._text(request))
        ) as parts:
            async for part in parts:
                yield part

    def _text(self, request: pb.GetDocumentTextRequest) -> Iterator[pb.GetDocumentTextResponse]:
        """Iterate over the code points start..end of a generation in order, without gaps; 0 means the live one."""
        tenant, document = request_context.current().tenant, self._document(request)
        generation = request.generation or document.generation
        where = tenant, document.collection, document.document_id, generation, PART_CHARS
        if generation == document.generation:
            total = document.total_chars
        else:
            # A document has the figures of its live generation alone, so that others are read to be counted.
            try:
                total = sum(len(part.text) for part in self.catalog.texts.parts(*where))
            except DocumentNotFoundError as error:
                message = (
                    f"document {error.name!r} has no generation {generation}; its live one is {document.generation}"
                )
                raise DocumentNotFoundError(error.name, message) from error
        start, stop = request.start, request.end if request.HasField("end") else total
        if start < 0 or stop < 0:
            raise InvalidRequestError.of("start" if start < 0 else "end", "must not be negative")
        if stop > total:
            raise InvalidRequestError.of("end", f"the text has {total} characters")
        if start > stop:
            raise InvalidRequestError.of("start", f"must not be above {stop}")
        for part in self.catalog.texts.parts(*where):
            first, last = max(start, part.start), min(stop, part.start + len(part.text))
            if first < last:
                text = part.text[first - part.start : last - part.start]
                start_byte = part.start_byte + len(part.text[: first - part.start].encode())
                span = to_span(Span.of(text, first, start_byte))
                yield pb.GetDocumentTextResponse(text=text, span=span, generation=generation, total_chars=total)
            if part.start + len(part.text) >= stop:
                return

    @in_worker
    def ListDocuments(self, request: pb.ListDocumentsRequest) -> pb.ListDocumentsResponse:
        caller, collection = request_context.current().identity, parse_collection_name(request.collection)
        prefix, where = request.source_prefix, self._resolved(caller, collection, request)
        position, limit = self.tokens.begin(request)
        # Sources with the same prefix are adjacent in the order, and none of them comes before the prefix itself.
        begin = max((str(position[0]), str(position[1])), (prefix, "")) if position else (prefix, "")
        rows = self.catalog.documents.page(
            caller.tenant,
            collection,
            begin,
            limit,
            scopes=caller.scopes,
            where=where,
            include_hidden=request.include_deleted,
        )
        # Behind the last source with the prefix come others, and nothing with the prefix any more.
        found = [document for document in rows if document.source_uri.startswith(prefix)]
        documents, token = self.tokens.page(
            request, found, limit, to_document_message, lambda row: (row.source_uri, row.document_id)
        )
        return pb.ListDocumentsResponse(documents=documents, next_page_token=token)

    @in_worker
    def ReadSpans(self, request: pb.ReadSpansRequest) -> pb.ReadSpansResponse:
        """Return the texts of several spans, as many as fit."""
        collection = parse_collection_name(request.collection)
        _check_count(request.spans, "spans")
        spans, violations = list[tuple[DocumentReference, pb.SpanReference]](), list[FieldViolation]()
        for number, each in enumerate(request.spans):
            with collected(violations), fields_below(f"spans[{number}]", ("reference",)):
                spans.append((parse_reference(each.reference), each))
            if not (0 <= each.span.start < each.span.end and each.span.end - each.span.start <= MAX_SPAN_CHARS):
                rule = f"must begin at 0 or later and have 1 to {MAX_SPAN_CHARS} code points"
                violations.append(FieldViolation(f"spans[{number}].span", rule))
            if each.generation < 0:
                violations.append(FieldViolation(f"spans[{number}].generation", "must not be negative"))
        refuse(violations)
        outcomes = self.read_spans(request_context.current().identity, collection, spans)
        return pb.ReadSpansResponse(outcomes=as_many_as_fit(outcomes))

    def read_spans(
        self, caller: Identity, collection: str, spans: Iterable[tuple[DocumentReference, pb.SpanReference]]
    ) -> Iterator[pb.ReadSpansOutcome]:
        """Iterate over what stands at each span, in the order given, or why nothing does; reads it when it is its turn.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        # Raises if there is none; without this look every span would fail for itself, as if its document were missing.
        self.catalog.collections.get(caller.tenant, collection)
        known: dict[DocumentReference, Document] = {}
        texts = self.catalog.texts.spans(caller.tenant, collection)
        for reference, asked in spans:
            start, end = asked.span.start, asked.span.end
            try:
                if reference not in known:
                    known[reference] = self._seen(caller, collection, reference)
                document_id = known[reference].document_id
                generation = asked.generation or known[reference].generation
                part = texts.at(document_id, generation, start, end)
                if part is None:
                    raise InvalidRequestError.of("span", f"{start}..{end} is not within the text")
                span = Span.of(part.text, start, part.start_byte)
                # Zeros are bytes that the caller does not know.
                if (asked.span.start_byte, asked.span.end_byte) not in {(0, 0), (span.start_byte, span.end_byte)}:
                    raise InvalidRequestError.of("span", f"its bytes are {span.start_byte}..{span.end_byte}")
                found = pb.SpanText(
                    text=part.text,
                    span=to_span(span),
                    document_id=document_id,
                    generation=generation,
                    page_numbers=texts.pages_at(document_id, generation, start, end),
                )
                yield pb.ReadSpansOutcome(found=found)
            except (DocumentNotFoundError, InvalidRequestError, DataLossError) as error:
                yield pb.ReadSpansOutcome(error=to_status(error))

    @in_worker
    def LocateSources(self, request: pb.LocateSourcesRequest) -> pb.LocateSourcesResponse:
        """Return where documents and chunks are; each is found or missing independently."""
        if not request.document_ids and not request.chunks:
            raise InvalidRequestError.of("document_ids", "must not be empty, unless chunks are given")
        for given, field in ((request.document_ids, "document_ids"), (request.chunks, "chunks")):
            if given:
                _check_count(given, field)
        caller, references = request_context.current().identity, parse_chunk_references(request.chunks, "chunks")
        live, purged = self.catalog.documents.locate(caller.tenant, request.document_ids, caller.scopes)
        response = pb.LocateSourcesResponse()
        for document_id in request.document_ids:
            collection, generation = live.get(document_id, ("", 0))
            response.documents.add(
                document_id=document_id,
                collection=collection,
                live_generation=generation,
                purged=document_id in purged,
            )
        for at in range(0, len(references), _CHUNKS_PER_SLICE):
            part = references[at : at + _CHUNKS_PER_SLICE]
            found = _by_reference(self.catalog.chunks.find(caller.tenant, part), caller)
            for reference in part:
                location, stored = response.chunks.add(), found.get(reference)
                if stored is not None:  # else it stays empty
                    location.chunk_id, location.chunk_number = stored.chunk_id, stored.chunk_number
                    location.collection, location.document_id = stored.document.collection, stored.document.document_id
                    location.generation = stored.generation
                    location.span.CopyFrom(to_span(stored.chunk.span))
        return response

    def _document(self, request: pb.GetDocumentRequest | pb.GetDocumentTextRequest | pb.ListChunksRequest) -> Document:
        """Return the document with the id of a request, or with its source or alias.

        Raises:
            CollectionNotFoundError: no such collection.
            DocumentNotFoundError: the collection has no such document.
        """
        caller, collection = request_context.current().identity, parse_collection_name(request.collection)
        reference = parse_reference(request.reference)
        self.catalog.collections.get(caller.tenant, collection)
        return self._seen(caller, collection, reference)

    def _seen(self, caller: Identity, collection: str, reference: DocumentReference) -> Document:
        document = self.catalog.documents.find(caller.tenant, collection, reference)
        if not is_in_scopes(document, caller.scopes):
            raise DocumentNotFoundError(reference.document_id or reference.source_uri)
        return document

    def _resolved(
        self, caller: Identity, collection: str, request: pb.ListDocumentsRequest | pb.ListChunksRequest
    ) -> Filter | None:
        """Return the filter of a request with the names that are stored.

        Raises:
            InvalidFilterError: it does not fit the collection's fields.
        """
        if not request.HasField("filter"):
            return None
        where = parse_filter_message(request.filter)
        return resolve_filter(where, self.catalog.chunks.fields(caller.tenant, collection, caller.scopes), "filter")

    # Chunks

    @in_worker
    def GetChunk(self, request: pb.GetChunkRequest) -> pb.GetChunkResponse:
        collection = parse_collection_name(request.collection)
        reference = parse_chunk_reference(request.reference)
        ((stored, vector),) = self._chunks(collection, [reference], include_embedding=request.include_embedding)
        if stored is None:
            raise ChunkNotFoundError(str(reference))
        return pb.GetChunkResponse(
            chunk=to_chunk_message(stored, vector), document=to_document_message(stored.document)
        )

    @in_worker
    def BatchGetChunks(self, request: pb.BatchGetChunksRequest) -> pb.BatchGetChunksResponse:
        """Return several chunks, as many as fit."""
        collection = parse_collection_name(request.collection)
        _check_count(request.references, "references")
        references = parse_chunk_references(request.references, "references")
        found = self._chunks(collection, references, include_embedding=request.include_embedding)
        outcomes = (
            pb.BatchGetChunksOutcome(error=to_status(ChunkNotFoundError(str(reference))))
            if stored is None
            else pb.BatchGetChunksOutcome(chunk=to_chunk_message(stored, vector))
            for reference, (stored, vector) in zip(references, found, strict=True)
        )
        return pb.BatchGetChunksResponse(outcomes=as_many_as_fit(outcomes))

    def _chunks(
        self, collection: str, references: Sequence[str | int], *, include_embedding: bool
    ) -> Iterator[tuple[StoredChunk | None, Vectors | None]]:
        """Iterate over the chunks with these ids or numbers, in the order given, None for none; reads some at a time.

        Raises:
            CollectionNotFoundError: no such collection.
        """
        caller = request_context.current().identity
        self.catalog.collections.get(caller.tenant, collection)
        for at in range(0, len(references), _CHUNKS_PER_SLICE):
            part = references[at : at + _CHUNKS_PER_SLICE]
            vectors: Mapping[str, Vectors] | None = None
            if include_embedding:
                chunks, vectors = self.catalog.chunks.find_with_vectors(caller.tenant, collection, part)
            else:
                chunks = self.catalog.chunks.find(caller.tenant, part)
            found = _by_reference((each for each in chunks if each.document.collection == collection), caller)
            for reference in part:
                stored = found.get(reference)
                yield stored, None if stored is None else _vector_of(stored, vectors)

    @in_worker
    def ListChunks(self, request: pb.ListChunksRequest) -> pb.ListChunksResponse:
        """Return a page of chunks: of a document in the order of its text, else by chunk number."""
        caller, collection = request_context.current().identity, parse_collection_name(request.collection)
        position = self.tokens.read(request.page_token, tenant=caller.tenant, request=request)
        size, clauses, document_id = page_size(request.page_size), list[Filter](), ""
        if request.HasField("reference"):
            # One that is missing is an error of the listing of its chunks, not of a filter.
            document_id = self._document(request).document_id
        # In the order of the text only where nothing else narrows the listing: filters are answered by chunk number.
        in_document = bool(document_id) and not request.chunk_id_prefix and not request.HasField("filter")
        if not in_document:
            where = self._resolved(caller, collection, request)
            clauses += [] if where is None else [where]
            clauses += [Comparison("document_id", Comparator.EQ, document_id)] if document_id else []
            if request.chunk_id_prefix:
                if len(request.chunk_id_prefix) > MAX_PATTERN_CHARS:
                    raise InvalidRequestError.of("chunk_id_prefix", f"must be at most {MAX_PATTERN_CHARS} characters")
                # Ids may contain `_`, which is no wildcard here.
                prefix = request.chunk_id_prefix.replace("\\", r"\\").replace("%", r"\%").replace("_", r"\_")
                clauses.append(Like("chunk_id", prefix + "%"))
        listed = self.catalog.chunks.listed(
            caller.tenant,
            collection,
            scopes=caller.scopes,
            document_id=document_id,
            where=None if in_document else And(tuple(clauses)),
            # Before the first: sequence numbers count from 0, chunk numbers from 1.
            after=int(position[0]) if position else (-1 if in_document else 0),
            limit=size,
            include_vectors=request.include_embedding,
        )
        vectors = listed.vectors if request.include_embedding else None
        places = [(each.chunk.sequence_num if in_document else each.chunk_number,) for each in listed.chunks]
        messages = (to_chunk_message(stored, _vector_of(stored, vectors)) for stored in listed.chunks)
        following = None if listed.is_last else places[-1]
        entries = zip(messages, places, strict=True)
        chunks, token = self.tokens.fill(entries, following, tenant=caller.tenant, request=request)
        return pb.ListChunksResponse(chunks=chunks, next_page_token=token)

    # Collections

    @in_worker
    def DescribeCollection(self, request: pb.DescribeCollectionRequest) -> pb.DescribeCollectionResponse:
        name = parse_collection_name(request.collection)
        collection = self.catalog.collections.get(request_context.current().tenant, name)
        return pb.DescribeCollectionResponse(
            collection=collection.name,
            profile=collection.profile.value,
            max_query_chars=collection.settings.limits.max_query_chars,
            embedding=to_identity_message(collection.identity),
        )

    @in_worker
    def GetSchema(self, request: pb.GetSchemaRequest) -> pb.GetSchemaResponse:
        from groundwire.retrieve.wire.schemas import schema_entries  # noqa: PLC0415 - see there

        return pb.GetSchemaResponse(schemas=schema_entries(request.document_type))

    @in_worker
    def ValidateMetadata(self, request: pb.ValidateMetadataRequest) -> pb.ValidateMetadataResponse:
        """Check metadata, say everything that is wrong at once, and fill in defaults."""
        from groundwire.retrieve.wire.schemas import checked_metadata  # noqa: PLC0415 - see there

        return pb.ValidateMetadataResponse(metadata=checked_metadata(request.document_type, request.metadata))

    @in_worker
    def ListStats(self, request: pb.ListStatsRequest) -> pb.ListStatsResponse:
        """Return the figures of one collection, or a page of those of all."""
        tenant = request_context.current().tenant
        position, limit = self.tokens.begin(request)
        if request.collection:
            names = [self.catalog.collections.get(tenant, parse_collection_name(request.collection)).name]
        else:
            after = str(position[0]) if position else ""
            names = [found.name for found in self.catalog.collections.page(tenant, after, limit)]
        stats, token = self.tokens.page(request, names, limit, self._stats, lambda name: (name,))
        return pb.ListStatsResponse(stats=stats, next_page_token=token)

    def _stats(self, name: str) -> stats_pb2.CollectionStats | None:
        """Return the figures of a collection, None if it has been deleted since."""
        current = request_context.current()
        current.budget.check()
        try:
            counted = self.catalog.collections.statistics(current.tenant, name)
        except CollectionNotFoundError:
            return None
        try:
            # The engine's own number, which may lag behind the catalog for a moment.
            vectors = self.vectors.count(counted.collection.engine_name, current.budget)
        except CollectionNotFoundError:  # nothing was ingested yet
            vectors = 0
        # A collection may have any number of projects: those with most documents, of equal ones the first by name.
        projects = sorted(counted.by_project.items(), key=lambda each: (-each[1], each[0]))
        return stats_pb2.CollectionStats(
            collection=counted.collection.name,
            document_count=counted.documents,
            chunk_count=counted.chunks,
            total_chars=counted.total_chars,
            by_format=_counts(counted.by_format),
            by_project=_counts(dict(projects[:_PROJECTS_SHOWN])),
            by_record_type=_counts(counted.by_record_type),
            project_count=sum(1 for project in counted.by_project if project),
            by_embedding_model=_counts(counted.by_model),
            embedding=to_identity_message(counted.collection.identity),
            vector_count=vectors,
            overlap_share=counted.overlap_share,
            average_vectors_per_document=vectors / counted.documents if counted.documents else 0.0,
        )

    # What became of searches

    @in_worker
    def ListQueryLogs(self, request: pb.ListQueryLogsRequest) -> pb.ListQueryLogsResponse:
        """Return a page of queries logged in a period, newest first."""
        tenant, collection = request_context.current().tenant, _collection(request.collection)
        start, end = _period(request)
        position, limit = self.tokens.begin(request)
        if collection is not None:
            self.catalog.collections.get(tenant, collection)
        after = (int(position[0]), int(position[1])) if position else None
        self.recorder.flush()  # what this process recorded before the call is in the list
        rows = self.logs.page(tenant, collection=collection, start=start, end=end, after=after, limit=limit)
        logs, token = self.tokens.page(request, rows, limit, lambda row: _to_log_message(row[0]), itemgetter(1))
        return pb.ListQueryLogsResponse(logs=logs, next_page_token=token)

    @in_worker
    def ListAuditEntries(self, request: pb.ListAuditEntriesRequest) -> pb.ListAuditEntriesResponse:
        """Return a page of the changes in a period, newest first."""
        given = (("resource", request.resource), ("subject", request.subject))
        refuse(FieldViolation(field, WITHOUT_CONTROLS) for field, value in given if has_controls(value))
        start, end = _period(request)
        position, limit = self.tokens.begin(request)
        rows = self.catalog.audit.page(
            request_context.current().tenant,
            resource=request.resource,
            subject=request.subject,
            start=start,
            end=end,
            before_id=int(position[0]) if position else None,
            limit=limit,
        )
        entries, token = self.tokens.page(request, rows, limit, _to_audit_message, lambda row: (row.id,))
        return pb.ListAuditEntriesResponse(entries=entries, next_page_token=token)

    @in_worker
    def GetPipelineStats(self, request: pb.GetPipelineStatsRequest) -> pb.GetPipelineStatsResponse:
        tenant, collection, window_s = request_context.current().tenant, _collection(request.collection), None
        since = self.counting_since
        if request.HasField("window"):
            window_s = request.window.seconds + request.window.nanos / 1e9
            if not 0 < window_s <= LONGEST_WINDOW_S:
                raise InvalidRequestError.of("window", "must be above zero and at most an hour")
            since = max(since, self.clock.now() - timedelta(seconds=window_s))
        if collection is not None:
            self.catalog.collections.get(tenant, collection)
        figures = self.pipeline.read(tenant, collection, window_s)
        return pb.GetPipelineStatsResponse(
            request_count=figures.requests,
            error_count=figures.errors,
            empty_count=figures.empties,
            rejected_count=figures.rejected,
            average_relevance=min(1.0, figures.average_relevance),
            total_latency=_latency(figures.total),
            embedding_latency=_latency(figures.embedding),
            search_latency=_latency(figures.search),
            engine_latency=_latency(figures.engine),
            start_time=to_timestamp(since),
            vector_engine=engine_name(self.vectors),
        )


def _period(
    request: pb.ListQueryLogsRequest | pb.ListAuditEntriesRequest,
) -> tuple[datetime | None, datetime | None]:
    """Return the first moment that a list asks for, and that after its last, None for no bound.

    Raises:
        InvalidRequestError: they are no times, or the second is before the first.
    """
    start = parse_timestamp(request.start_time, "start_time") if request.HasField("start_time") else None
    end = parse_timestamp(request.end_time, "end_time") if request.HasField("end_time") else None
    if start is not None and end is not None and end < start:
        raise InvalidRequestError.of("end_time", "must not be before start_time")
    return start, end


def _to_audit_message(row: AuditRow) -> audit_pb2.AuditEntry:
    return audit_pb2.AuditEntry(
        entry_id=row.id,
        change_time=to_timestamp(from_epoch_ms(row.time)),
        action=row.action,
        resource=row.resource,
        subject=row.subject,
        request_id=row.request_id,
        snapshot=row.position,
        previous_hash=row.previous_hash,
        hash=row.hash,
    )


def _check_count(entries: Sized, field: str) -> None:
    if not 1 <= len(entries) <= MAX_PAGE_SIZE:
        raise InvalidRequestError.of(field, f"must be 1 to {MAX_PAGE_SIZE}")


def _collection(name: str) -> str | None:
    return parse_collection_name(name) if name else None


def _by_reference(chunks: Iterable[StoredChunk], caller: Identity) -> dict[str | int, StoredChunk]:
    """Return those of the chunks that the caller sees, by id and by number."""
    seen = (stored for stored in chunks if is_in_scopes(stored.document, caller.scopes))
    return {reference: stored for stored in seen for reference in (stored.chunk_id, stored.chunk_number)}


def _vector_of(stored: StoredChunk, vectors: Mapping[str, Vectors] | None) -> Vectors | None:
    """Return the vector of a chunk, None where vectors were not asked for."""
    if vectors is None:
        return None
    if stored.chunk.embedding_hash not in vectors:
        raise no_vector(f"vector of {stored.chunk_id}")
    return vectors[stored.chunk.embedding_hash]


def _counts(counts: Mapping[str, int]) -> list[stats_pb2.KeyCount]:
    return [stats_pb2.KeyCount(key=key, count=counts[key]) for key in sorted(counts)]


def _to_log_message(entry: LoggedQuery) -> query_log_pb2.QueryLog:
    mode = entry.mode.name if entry.mode else "UNSPECIFIED"
    return query_log_pb2.QueryLog(
        log_id=entry.log_id,
        query=entry.query,
        query_type=QUERY_TYPE_VALUES[entry.query_type] if entry.query_type else search_mode_pb2.QUERY_TYPE_UNSPECIFIED,
        result_count=entry.result_count,
        average_relevance=entry.average_relevance,
        processing_time=to_duration(entry.processing_s),
        log_time=to_timestamp(entry.log_time),
        user_agent=entry.user_agent,
        collection=entry.collection,
        mode=search_mode_pb2.SearchMode.Value(f"SEARCH_MODE_{mode}"),
        error_reason=entry.error_reason,
    )


def _latency(latencies: Latencies) -> query_log_pb2.LatencySummary:
    return query_log_pb2.LatencySummary(
        count=latencies.count,
        mean=to_duration(latencies.mean_s),
        p50=to_duration(latencies.quantile_s(0.5)),
        p95=to_duration(latencies.quantile_s(0.95)),
        p99=to_duration(latencies.quantile_s(0.99)),
        maximum=to_duration(latencies.maximum_s),
    )
