"""The calls that read what is stored: message in, message out, blocking."""

from collections.abc import Iterator
from dataclasses import dataclass

from groundwire.api.retrieve.v1 import library_service_pb2 as pb
from groundwire.kernel.errors import ChunkNotFoundError
from groundwire.kernel.identifiers import parse_collection_name
from groundwire.retrieve.library import Library
from groundwire.retrieve.wire.library import (
    parse_chunk_query,
    parse_chunk_references,
    parse_document_query,
    parse_span_queries,
    to_chunk_outcome,
    to_span_outcome,
    to_stats_message,
    to_text_message,
)
from groundwire.rpc import request_context
from groundwire.rpc.messages import parse_reference, to_chunk_message, to_document_message
from groundwire.rpc.pagination import PageTokens, as_many_as_fit, page_size


@dataclass(frozen=True, slots=True)
class LibraryCalls:
    """Checks, reads and answers; the tenant and the budget are those of the current call."""

    library: Library
    tokens: PageTokens

    def get_document(self, request: pb.GetDocumentRequest) -> pb.GetDocumentResponse:
        """Return a document."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        document = self.library.document(tenant, collection, parse_reference(request.reference))
        return pb.GetDocumentResponse(
            document=to_document_message(document),
            chunk_ids=self.library.chunk_ids(tenant, document) if request.include_chunk_ids else (),
            text=self.library.whole_text(tenant, document) if request.include_text else "",
        )

    def list_documents(self, request: pb.ListDocumentsRequest) -> pb.ListDocumentsResponse:
        """Return a page of documents."""
        tenant = request_context.current().tenant
        query = parse_document_query(request, tenant)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        after = (str(position[0]), str(position[1])) if position else None
        page = self.library.list_documents(query, after, page_size(request.page_size))
        messages = zip(map(to_document_message, page.items), page.positions, strict=True)
        documents, token = self.tokens.fill(messages, page.next_position, tenant=tenant, request=request)
        return pb.ListDocumentsResponse(documents=documents, next_page_token=token)

    def document_text(self, request: pb.GetDocumentTextRequest) -> Iterator[pb.GetDocumentTextResponse]:
        """Return the parts of a text."""
        parts = self.library.text(
            request_context.current().tenant,
            parse_collection_name(request.collection),
            parse_reference(request.reference),
            request.generation,
            request.start,
            request.end if request.HasField("end") else None,
        )
        return (to_text_message(part) for part in parts)

    def get_chunk(self, request: pb.GetChunkRequest) -> pb.GetChunkResponse:
        """Return a chunk."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        (reference,) = parse_chunk_references([request.reference], "reference")
        (found,) = self.library.find_chunks(
            tenant, collection, [reference], include_embedding=request.include_embedding
        )
        if isinstance(found, ChunkNotFoundError):
            raise found
        return pb.GetChunkResponse(
            chunk=to_chunk_message(found.stored, found.vector), document=to_document_message(found.stored.document)
        )

    def batch_get_chunks(self, request: pb.BatchGetChunksRequest) -> pb.BatchGetChunksResponse:
        """Return several chunks, as many as fit."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        references = parse_chunk_references(request.references, "references")
        found = self.library.find_chunks(tenant, collection, references, include_embedding=request.include_embedding)
        return pb.BatchGetChunksResponse(outcomes=as_many_as_fit(map(to_chunk_outcome, found)))

    def read_spans(self, request: pb.ReadSpansRequest) -> pb.ReadSpansResponse:
        """Return what stands at several spans, as many as fit."""
        tenant, collection = request_context.current().tenant, parse_collection_name(request.collection)
        read = self.library.read_spans(tenant, collection, parse_span_queries(request))
        return pb.ReadSpansResponse(outcomes=as_many_as_fit(map(to_span_outcome, read)))

    def list_chunks(self, request: pb.ListChunksRequest) -> pb.ListChunksResponse:
        """Return a page of chunks."""
        tenant = request_context.current().tenant
        query = parse_chunk_query(request, tenant)
        position = self.tokens.read(request.page_token, tenant=tenant, request=request)
        page = self.library.list_chunks(query, int(position[0]) if position else None, page_size(request.page_size))
        found = (to_chunk_message(each.stored, each.vector) for each in page.items)
        messages = zip(found, page.positions, strict=True)
        chunks, token = self.tokens.fill(messages, page.next_position, tenant=tenant, request=request)
        return pb.ListChunksResponse(chunks=chunks, next_page_token=token)

    def get_schema(self, request: pb.GetSchemaRequest) -> pb.GetSchemaResponse:
        """Return one schema, or all."""
        from groundwire.retrieve.wire.schemas import schema_entries  # noqa: PLC0415 - see there

        return pb.GetSchemaResponse(schemas=schema_entries(request.document_type))

    def validate_metadata(self, request: pb.ValidateMetadataRequest) -> pb.ValidateMetadataResponse:
        """Check metadata, say everything that is wrong at once, and fill in defaults."""
        from groundwire.retrieve.wire.schemas import checked_metadata  # noqa: PLC0415 - see there

        return pb.ValidateMetadataResponse(metadata=checked_metadata(request.document_type, request.metadata))

    def list_stats(self, request: pb.ListStatsRequest) -> pb.ListStatsResponse:
        """Return the figures of one collection, or a page of those of all."""
        current, size = request_context.current(), page_size(request.page_size)
        position = self.tokens.read(request.page_token, tenant=current.tenant, request=request)
        if request.collection:
            names = [self.library.collections.get(current.tenant, parse_collection_name(request.collection)).name]
        else:
            after = str(position[0]) if position else ""
            names = [found.name for found in self.library.collections.page(current.tenant, after, size + 1)]
        figures = self.library.stats(current.tenant, names[:size], current.budget)
        entries = ((to_stats_message(each), (each.counted.collection.name,)) for each in figures)
        last = (names[size - 1],) if len(names) > size else None
        stats, token = self.tokens.fill(entries, last, tenant=current.tenant, request=request)
        return pb.ListStatsResponse(stats=stats, next_page_token=token)
